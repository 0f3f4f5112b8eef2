package policy

import (
	"fmt"
	"testing"
)

// What is denied by a name that a script could lead elsewhere would be open to
// the next session.
func TestDeniedBehindReplaceableLinks(t *testing.T) {
	link := func(name, target string) func(*world) { return func(w *world) { w.link(name, target) } }
	file := func(text string) func(*world) {
		return func(w *world) { w.file("p.yaml", "extends: workspace\n"+text+"\n") }
	}
	for what, c := range map[string]struct {
		before  []func(*world)
		because []string // places and what to write
	}{
		"a file":                    {[]func(*world){link("home/work/.env", "config/env"), file("deny_read: [./.env]")}, []string{"home/work/.env", "home/work/config/env"}},
		"a file elsewhere":          {[]func(*world){link("home/work/.env", "../shared/.env"), file("deny_read: [./.env]")}, []string{"home/work/.env", "home/shared/.env"}},
		"a directory":               {[]func(*world){link("home/work/conf", "real"), file("deny_read: [./conf/key]")}, []string{"home/work/conf", "home/work/real/key"}},
		"links outside to inside":   {[]func(*world){link("home/.aws", "work/aws"), link("home/work/aws", "aws-work")}, []string{"home/work/aws", "home/work/aws-work"}},
		"in a secret directory":     {[]func(*world){link("home/.aws/credentials", "../work/a"), link("home/work/a", "b"), func(w *world) { w.file("home/work/b", "key") }}, []string{"home/work/a", "home/work/b"}},
		"and back":                  {[]func(*world){link("home/.aws", "work/sub/../../vault"), func(w *world) { w.dir("home/work/sub") }}, []string{"home/work/sub", "home/vault"}},
		"another writable tree":     {[]func(*world){link("out/l", "x"), link("home/.aws", "../out/l"), func(w *world) { file("write: [" + w.at("out") + "]")(w) }}, []string{"out/l", "out/x"}},
		"denied behind such a link": {[]func(*world){link("home/work/l", "d"), link("home/work/d/env", "../e"), file("deny_read: [./l, ./d/env]")}, []string{"home/work/l"}},
		"what is read-only":         {[]func(*world){link("home/work/conf", "real"), file("deny_write: [./conf/app.yml]")}, []string{"home/work/conf", "home/work/real/app.yml"}},
		"workflows":                 {[]func(*world){link("home/work/.github", "gh")}, []string{"home/work/.github", "home/work/gh/workflows", "open_guards: [workflows]"}},
		"workflows elsewhere":       {[]func(*world){link("home/work/.github", "../gh")}, []string{"home/work/.github", "home/gh/workflows"}},
		"a program of git's":        {[]func(*world){func(w *world) { w.bareRepository("home/work/.git", "[core]\nhooksPath = tools/../hk\n") }}, []string{"home/work/tools", "home/work/hk"}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			for _, do := range c.before {
				do(w)
			}
			name := Workspace
			if exists(w.at("p.yaml")) {
				name = w.at("p.yaml")
			}
			for i, because := range c.because {
				if i < 2 {
					c.because[i] = w.at(because)
				}
			}
			w.refused(name, c.because...)
		})
	}
}

// What a script cannot replace, or what it would gain nothing by, is no reason.
func TestDeniedBehindOtherLinks(t *testing.T) {
	w := newWorld(t)
	w.link("home/work/link", "real") // nobody denies it
	w.link("home/work/node_modules/.bin/x", "../x/x")
	w.file("home/work/real/key", "key")
	w.link("home/work/.env", "../shared/.env")
	w.link("home/.ssh", "vault/ssh")
	w.link("home/.aws", "work/aws") // a repository of dotfiles
	w.file("home/work/aws-work", "key")
	w.file("home/work/aws/config", "")
	w.link("home/work/aws/credentials", "../aws-work") // in what is hidden
	w.link("home/work/.vscode/tasks.json", "../tasks.json")
	w.link("toWork", "home/work")
	w.c.WorkDir = w.at("toWork")
	w.file("p.yaml", fmt.Sprintf("extends: workspace\ndeny_read: [./.env, %s, %s]\ndeny_write: [./.vscode/tasks.json]\n", w.at("home/shared"), w.at("toWork/real/key")))
	w.expect(w.make(w.at("p.yaml")), map[string]string{
		"home/shared/.env": "--", "home/work/.env": "--", "home/work/real/key": "--", "home/work/aws-work": "--", "home/work/aws/config": "--",
		"home/vault/ssh/id": "--", "home/work/real/x": "rw", "home/work/tasks.json": "r-",
	})
	w.make(Sealed)
	w.file("q.yaml", "extends: sealed\nwrite: [.]\ndeny_read: [./.env]\n")
	w.make(w.at("q.yaml")) // shared cannot be read anyway
	w.file("q.yaml", "extends: workspace\ndeny_read: [./.env]\n")
	w.refused(w.at("q.yaml"), w.at("home/work/.env"), "deny_read: ["+w.at("home/shared/.env")+"]")

	w.link("home/work/.github", "gh")
	w.c.Open = []string{"workflows"}
	w.make(w.at("p.yaml"))
}
