package policy

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// commandWorld has a repository with a configuration and some files.
func commandWorld(t *testing.T, config string) *world {
	w := newWorld(t)
	w.bareRepository("home/work/.git", config)
	for _, name := range []string{"README", "vclean", "tools/there", "y.sh", "my tools/run", "mod/__init__.py", "js/index.js", "tools/js.mjs"} {
		w.file("home/work/"+name, "")
	}
	return w
}

// What a command runs is closed, also what is missing and what has no ending.
func TestProgramsOfCommands(t *testing.T) {
	for config, c := range map[string]struct{ closed, open string }{
		"[filter \"x\"] clean = python3 tools/clean.py":                                          {"tools/clean.py", "README tools/x clean"},
		"[filter \"x\"] clean = python3 -W ignore -u clean NEWS":                                 {"clean", "NEWS ignore"},
		"[filter \"x\"] smudge = sh vclean":                                                      {"vclean", "README sh"},
		"[filter \"x\"] smudge = nice -n 5 sh -ex vclean %f":                                     {"vclean", "README"},
		"[filter \"x\"] smudge = runner vclean --from=README":                                    {"vclean README", "runner"},
		"[filter \"x\"] smudge = sh -c 'cd src && tools/gone x'":                                 {"tools/gone", "README src"},
		"[filter \"x\"] smudge = sh -c lint":                                                     {"", "lint README"},
		"[filter \"x\"] clean = python3 -m strip --x":                                            {"", "strip.py strip/__main__.py README"},
		"[filter \"x\"] clean = python3 -m mod":                                                  {"mod/__main__.py mod/__init__.py", "mod.py mod/x"},
		"[filter \"x\"] clean = sed -e s/a/b/g -e y/a/b/":                                        {"", "s/a/b/g y/a/b"},
		"[filter \"x\"] clean = git-lfs clean -- %f":                                             {"", "clean git-lfs"},
		"[diff \"x\"] textconv = env A=1 tools/gone":                                             {"tools/gone", "README A"},
		"[merge \"x\"] driver = \"\\\"my tools/run\\\" %A %B\"":                                  {"my tools/run", "my README"},
		"[gpg] program = my tools/run":                                                           {"my tools/run", "README"},
		"[diff \"x\"] command = $(git rev-parse --show-toplevel)/tools/gone":                     {"tools/gone", "README"},
		"[diff \"x\"] command = \"\\\"$GIT_DIR/../tools/gone\\\"\"":                              {"tools/gone", "README"},
		"[diff \"x\"] command = ${TOP}/tools/there":                                              {"tools/there", "README"},
		"[core] sshCommand = $HOME/work/tools/gone":                                              {"tools/gone", "HOME/work/tools/gone"},
		"[alias] a = !git log --format=x origin/main -- README && git push origin HEAD":          {"", "README origin/main origin"},
		"[alias] a = !git branch --set-upstream-to=origin/main":                                  {"", "origin/main"},
		"[alias] a = \"!f() { tools/gone \\\"$@\\\"; }; f\"":                                     {"tools/gone", "README"},
		"[alias] a = !black y.sh README":                                                         {"", "y.sh README"},
		"[core] editor = python3 mod":                                                            {"", "README"},
		"[core] askpass = node tools/js":                                                         {"tools/js.mjs", "README"},
		"[core] pager = node js":                                                                 {"js/index.js", "README"},
		"[branch \"x\"] remote = ext::tools/gone %S":                                             {"tools/gone", "README"},
		"[alias] a = !bash vclean README":                                                        {"vclean", "README"},
		"[alias] a = \"!tools/gone; sh y.sh README\"":                                            {"tools/gone y.sh", "README"},
		"[alias] a = \"!if test -n \\\"$1\\\"; then for f in y.sh; do tools/gone $f; done; fi\"": {"tools/gone", "README then"},
		"[alias] a = \"!x=$(tools/gone) || ! tools/recent\"":                                     {"tools/gone tools/recent", "README"},
		"[core] editor = ${EDITOR:-tools/gone} -w":                                               {"tools/gone", "README"},
		"[core] editor = \"sh <<EOF\\ntools/gone\\nEOF\"":                                        {"tools/gone", "README"},
		"[core] editor = sh tools/two\\\\ words.sh":                                              {"", "tools/two README"},
		"[core] editor = (tools/gone":                                                            {"tools/gone", "README"},
		"[alias] a = !cd tools && ./gone README":                                                 {"tools/gone", "README"},
		"[alias] a = !(cd \"$(git rev-parse --show-toplevel)/tools\" && sh gone.sh); make":       {"tools/gone.sh", "README tools/make"},
		"[core] pager = \"cd tools; cd -- deep; ./gone\"":                                        {"tools/deep/gone", "README"},
		"[core] pager = \"cd tools; less more.txt\"":                                             {"", "tools/more.txt tools/less README"},
		"[alias] a = rebase -i --exec tools/gone origin/main":                                    {"tools/gone", "README origin/main"},
		"[alias] a = rebase --exec=tools/gone":                                                   {"tools/gone", "README"},
		"[alias] a = -C sub/gone -c core.pager=tools/gone -c Core.hooksPath=hk log -x README":    {"tools/gone hk/x", "README sub/gone log"},
		"[alias] a = -c alias.b=!tools/gone b":                                                   {"tools/gone", "README"},
		"[alias] a = clean -x tools/there src/x":                                                 {"", "tools/there src/x"},
		"[alias] a = bisect run tools/gone README":                                               {"tools/gone", "README run"},
		"[alias] a = submodule foreach --recursive 'sh y.sh'":                                    {"y.sh", "README"},
		"[alias] a = difftool -x \\\"'tools/gone' -a\\\"":                                        {"tools/gone", "README"},
		"[alias] a = log --format='%C(auto)%h $(x' origin/main -- python tools/there":            {"", "README origin/main tools/there"},
		"[alias] a = !git rebase -x tools/gone origin/main && git -c core.editor=tools/ed add":   {"tools/gone tools/ed", "README origin/main"},
		"[alias] a = !timeout 5m tools/gone README && sudo -u bob tools/two":                     {"tools/gone tools/two", "README bob"},
		"[alias] a = !git ls-files -z | xargs -0 -n 1 tools/gone README src/x":                   {"tools/gone", "README src/x"},
		"[alias] a = !sh -c tools/gone src/x":                                                    {"tools/gone", "README src/x"},
		"[alias] a = !python3 -c src/x src/y":                                                    {"", "README src/x src/y"},
		"[alias] a = !find . -name node_modules -prune -o -name node modules":                    {"", "node_modules modules README"},
		"[alias] a = !poetry run python y.sh README":                                             {"y.sh", "README"},
		"[filter \"x\"] clean = runner . source gone":                                            {"", "gone source README"},
		"[alias] a = !node -p \\\"require('./y.sh').x[(\\\"":                                     {"", "y.sh"},
		"[gc] recentObjectsHook = tools/recent":                                                  {"tools/recent", "README"},
		"[remote \"x\"] url = ext::tools/gone %S":                                                {"tools/gone", "README"},
		"[url \"ext::tools/gone %S\"] insteadOf = x:":                                            {"tools/gone", "README"},
		"[some \"x\"] new-command = tools/gone":                                                  {"tools/gone", "README"},
		"[remote \"x\"] url = tools/gone":                                                        {"", "tools/gone"},
	} {
		t.Run(config, func(t *testing.T) {
			w := commandWorld(t, strings.Replace(config, "] ", "]\n", 1)+"\n")
			p := w.make(Workspace)
			for _, list := range []struct{ names, want string }{{c.closed, "r-"}, {c.open, "rw"}} {
				names := strings.Fields(list.names)
				if strings.HasPrefix(list.names, "my tools/run") {
					names = []string{"my tools/run"}
				}
				for _, name := range names {
					w.expect(p, map[string]string{"home/work/" + name: list.want})
				}
			}
		})
	}
}

func TestEndlessCommandsAreRefused(t *testing.T) {
	w := commandWorld(t, "[filter \"x\"]\nclean = "+strings.Repeat("x ", maxWords+1)+"tools/gone\n")
	w.refused(Workspace, "filter.x.clean is too long", "open_guards: [git]")
	w = commandWorld(t, "[filter \"x\"]\nclean = \""+strings.Repeat("(", maxCommand+1)+"\"\n")
	w.refused(Workspace, "filter.x.clean is too long", "open_guards: [git]")
	many := "[filter \"x\"]\n"
	for i := range maxCommands/1000 + 1 {
		many += fmt.Sprintf("clean = %d %s\n", i, strings.Repeat("(", 1000))
	}
	w = commandWorld(t, many)
	w.refused(Workspace, "too many commands", "open_guards: [git]")
	w = commandWorld(t, strings.Repeat("[filter \"x\"]\nclean = sh vclean\n", maxCommands/20)) // the same again
	w.expect(w.make(Workspace), map[string]string{"home/work/vclean": "r-"})
}

// Every one of the list counts, wherever it stands in it.
func TestSettingsThatRun(t *testing.T) {
	for name := range strings.FieldsSeq(gitRunsOne) {
		section, last, _ := strings.Cut(name, ".")
		if s := (setting{"", section + ".Some thing." + last, "x"}); !s.isCommand() {
			t.Errorf("%s is no command", name)
		}
	}
}

// An existing link or directory that a word happens to name closes nothing.
func TestWordsThatAreNoPrograms(t *testing.T) {
	w := commandWorld(t, "[filter \"x\"]\nclean = tool cache src\n")
	w.link("home/work/cache", "/var/cache")
	w.file("home/work/src/x", "")
	w.expect(w.make(Workspace), map[string]string{"home/work/src/y": "rw", "home/work/README": "rw"})
}

func FuzzShellWords(f *testing.F) {
	for _, text := range []string{"python3 -m x", "sh -c 'a \"b $(c `d`)\"'", "${a", "$(", "a=b\\", "'", "+o x", "-", "$(($((", "--x=$y/z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, _ := shellWords(text)
		for _, w := range words {
			if w.text == "" {
				t.Error("an empty word")
			}
		}
	})
}

// What the user's environment sets holds as what files say.
func TestSettingsOfTheEnvironment(t *testing.T) {
	for what, c := range map[string]struct {
		environ []string
		closed  string
	}{
		"counted":     {[]string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=x", "GIT_CONFIG_KEY_1=Core.HooksPath", "GIT_CONFIG_VALUE_1=tools/hk"}, "tools/hk/pre-commit"},
		"included":    {[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=include.path", "GIT_CONFIG_VALUE_0=~/more"}, "included/x"},
		"parameters":  {[]string{`GIT_CONFIG_PARAMETERS='a.b'= 'core.hooksPath'='to'\''ols/hk'`}, "to'ols/hk/x"},
		"parameters1": {[]string{`GIT_CONFIG_PARAMETERS='filter.X y.clean=sh vclean'  'a.b'`}, "vclean"},
		"an editor":   {[]string{"GIT_EDITOR=tools/edit"}, "tools/edit"},
		"templates":   {[]string{"GIT_TEMPLATE_DIR=template"}, "template/hooks/x"},
	} {
		t.Run(what, func(t *testing.T) {
			w := commandWorld(t, "")
			w.file("home/more", "[core] hooksPath = included\n")
			w.c.Environ = append(w.c.Environ, c.environ...)
			w.expect(w.make(Workspace), map[string]string{"home/work/" + c.closed: "r-", "home/work/README": "rw"})
		})
	}
	for _, environ := range []string{
		"GIT_CONFIG_COUNT=x", "GIT_CONFIG_COUNT=-1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_COUNT=1000000000", "GIT_CONFIG_PARAMETERS=core.hooksPath=hk",
		"GIT_CONFIG_PARAMETERS='a.b=c", "GIT_CONFIG_PARAMETERS='a.b=c''d'", "GIT_CONFIG_PARAMETERS='a.b'=c", "GIT_CONFIG_PARAMETERS='a.b'='c'x", "GIT_CONFIG_PARAMETERS='ab'",
	} {
		w := commandWorld(t, "")
		name, _, _ := strings.Cut(environ, "=")
		w.c.Environ = append(w.c.Environ, environ)
		w.refused(Workspace, strings.TrimSuffix(name, "_COUNT"), "open_guards: [git]")
		w.c.Open = []string{"git"}
		w.make(Workspace)
	}
}

// What git makes of its own variable is what is made of it here.
func TestParametersAreReadAsByGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	for _, value := range []string{
		`'a.b=c'`, `'A.X.B'='c d'`, ` 'a.b'='c'`, `'a.b'='it'\''s'` + "\t\n" + `'a.c'='!'\!''`, `'a.b'='' 'c.d'='e'`, `'a.b' 'c.d'='e=f'`, `'a.b=c=d'`,
		`a.b=c`, `'a.b`, `'a.b'='c`, `'a.b'c`, `'a.b''c'`, `'a.b'=c`, `'ab'`, `'a.b'='c'd`, `'a.b'\x'='c'`, "'a.b'='c\nd'",
	} {
		cmd := exec.Command("git", "config", "-z", "--list")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=/nonexistent", "GIT_CONFIG_PARAMETERS=" + value}
		out, gitErr := cmd.Output()
		b := builder{c: Context{Environ: []string{"GIT_CONFIG_PARAMETERS=" + value}}}
		list, err := b.quotedSettings()
		if (err != nil) != (gitErr != nil) {
			t.Errorf("%q: %v, git says %v", value, err, gitErr)
		}
		got := ""
		for _, s := range list {
			got += s.name + "\n" + s.value + "\x00"
		}
		if want := strings.ReplaceAll(string(out), "a.b\x00", "a.b\n\x00"); err == nil && got != want {
			t.Errorf("%q: got %q, git reads %q", value, got, want)
		}
	}
}
