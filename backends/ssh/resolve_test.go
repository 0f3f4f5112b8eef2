//go:build linux

package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// say is what a test looks at of a target.
func say(t target) string {
	s := fmt.Sprintf("%s@%s", t.user, t.addr())
	for _, j := range t.jumps {
		s += " via " + fmt.Sprintf("%s@%s", j.user, j.addr())
	}
	return s
}

func TestResolve(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	write := func(name, text string) string {
		t.Helper()
		full := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return full
	}
	more := write("conf/more", "Host included\n\tHostName inc.example\n\tPort 2200\n")
	config := write(".ssh/config", `
Include `+more+`
Host box
	HostName box.%h.example
	User deploy
	Port 2222
	IdentityFile ~/.ssh/box_%r
	IdentityFile "~/.ssh/other key"
	IdentitiesOnly yes
	UserKnownHostsFile ~/.ssh/known_box "~/.ssh/known two"
	HostKeyAlias the-box
Host far
	ProxyJump gate
Host gate
	HostName gate.example
	User keeper
	ProxyJump outer.example:2022,me@mid.example
Host circle
	ProxyJump circle
Host command
	ProxyCommand nc %h %p
Host badport
	Port none
Host noagent
	IdentityAgent none
Host *
	User everyone
`)
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Host: "box"}, "deploy@box.box.example:2222"},
		{Config{Host: "box", User: "flag", Port: 7}, "flag@box.box.example:7"},
		{Config{Host: "who@box:9"}, "who@box.box.example:9"},
		{Config{Host: "included"}, "everyone@inc.example:2200"},
		{Config{Host: "192.0.2.1"}, "everyone@192.0.2.1:22"},
		{Config{Host: "[2001:db8::1]:23"}, "everyone@[2001:db8::1]:23"},
		{Config{Host: "far"}, "everyone@far:22 via everyone@outer.example:2022 via me@mid.example:22 via keeper@gate.example:22"},
		{Config{Host: "box", ConfigFile: "none", User: "u"}, "u@box:22"},
	} {
		if c.config.ConfigFile == "" {
			c.config.ConfigFile = config
		}
		got, err := resolve(c.config)
		if err != nil || say(got) != c.want {
			t.Errorf("%+v: %s, %v, want %s", c.config, say(got), err, c.want)
		}
	}
	for host, want := range map[string]string{"circle": "circle", "command": "use ProxyJump", "badport": "Port", "": "no host"} {
		if _, err := resolve(Config{Host: host, ConfigFile: config}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", host, err, want)
		}
	}
	if _, err := resolve(Config{Host: "box", ConfigFile: filepath.Join(home, "missing")}); err == nil {
		t.Error("a configuration that is named and missing was no error")
	}
	bad := write("bad", "Match exec \"rm -rf /\"\n\tUser x\n")
	if _, err := resolve(Config{Host: "box", ConfigFile: bad}); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("Match exec: %v", err)
	}

	box, err := resolve(Config{Host: "box", ConfigFile: config})
	if err != nil {
		t.Fatal(err)
	}
	ssh := filepath.Join(home, ".ssh") + "/"
	if !slices.Equal(box.keys, []string{ssh + "box_deploy", ssh + "other key"}) || !box.identitiesOnly || !box.keysNamed {
		t.Errorf("keys %q, only %v", box.keys, box.identitiesOnly)
	}
	if !slices.Equal(box.knownHosts, []string{ssh + "known_box", ssh + "known two"}) || box.name() != "the-box" || box.agent != "/run/agent" {
		t.Errorf("known hosts %q as %s, agent %s", box.knownHosts, box.name(), box.agent)
	}
	one, err := resolve(Config{Host: "box", ConfigFile: config, Key: "~/mine", KnownHosts: "/known here", Agent: "none"})
	if err != nil || !slices.Equal(one.keys, []string{home + "/mine"}) || !slices.Equal(one.knownHosts, []string{"/known here"}) || one.agent != "" {
		t.Errorf("%+v, %v", one, err)
	}
	if other, err := resolve(Config{Host: "noagent", ConfigFile: config}); err != nil || other.agent != "" || other.keysNamed || len(other.keys) != 3 {
		t.Errorf("%+v, %v", other, err)
	}
}
