package policy

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// A hint says what a policy file accepts, and what then gives the place.
func TestHintsCanBeFollowed(t *testing.T) {
	w := newWorld(t)
	w.file("data/file", "")
	w.dir("data/dir")
	w.dir("home/other")
	w.file("mine.yaml", "extends: workspace\n")
	const nothing = "only --policy open gives it"
	for _, c := range []struct {
		policy, name string
		want         string // the tree to write, or how the hint ends
	}{
		{Workspace, "home/other", "home/other"},
		{Workspace, "home/other/new", "home/other"},
		{Workspace, "home/other/a/b/new", "home/other"},
		{Workspace, "home/file", "home/file"}, // made as a directory
		{Workspace, "home/new/a", "home/new"}, // made first
		{Workspace, "home", nothing},
		{"mine.yaml", "home/other/new", "home/other"},
		{Workspace, "/", nothing}, {"mine.yaml", "/", nothing}, {Workspace, "/etc/hosts", nothing}, {Workspace, "/usr", nothing}, {Workspace, "/etc", nothing},
		{Workspace, "/sys/kernel/x", nothing},
		{Workspace, "/proc/1/environ", nothing}, {Workspace, "/tmp", nothing}, {Sealed, "/run", nothing}, {Sealed, "/var/tmp", nothing},
		{Sealed, "home/work", "home/work"}, {Sealed, "home/work/a", "home/work"}, {Sealed, "data/file", "data"}, {Sealed, "data/new/x", "data/new"},
		{Sealed, "/srv/x", "/srv/x"}, {Sealed, "/var/log", "only --policy open gives: /var belongs to the whole system"},
	} {
		name, policy := c.name, c.policy
		if !strings.HasPrefix(name, "/") {
			name = w.at(name)
		}
		if IsFile(policy) {
			policy = w.at(policy)
		}
		hint := w.make(policy).Explain(name).Hint
		if strings.HasPrefix(c.want, "only") {
			if !strings.Contains(hint, c.want) || strings.Contains(hint, "write: [") {
				t.Errorf("%s: %s: %s", c.policy, name, hint)
			}
			continue
		}
		want := c.want
		if !strings.HasPrefix(want, "/") {
			want = w.at(want)
		}
		if !strings.Contains(hint, "write: ["+want+"]") {
			t.Errorf("%s: %s: %s, want write: [%s]", c.policy, name, hint, want)
			continue
		}
		if strings.HasPrefix(want, w.root) {
			if strings.Contains(hint, "first, then") || c.policy == Sealed {
				w.dir(strings.TrimPrefix(want, w.root))
			}
			w.file("followed.yaml", "extends: workspace\nwrite: ["+want+"]\n")
			if e := w.make(w.at("followed.yaml")).Explain(name); !e.Write {
				t.Errorf("%s: %s was followed: %+v", name, hint, e)
			}
		}
	}
	// What can be read of what sealed hides.
	for _, m := range regexp.MustCompile(`read: \[(.*?)\]`).FindAllStringSubmatch(w.make(Sealed).Explain(w.at("data/file")).Hint, -1) {
		w.file("followed.yaml", "extends: sealed\nread: ["+m[1]+"]\n")
		w.expect(w.make(w.at("followed.yaml")), map[string]string{"data/file": "r-"})
	}
}

// Of what is hidden from a script its hint does not tell whether it is there.
func TestHintsTellNothingOfWhatIsHidden(t *testing.T) {
	w := newWorld(t)
	w.dir("data/dir/x")
	p := w.make(Sealed)
	there, missing := p.Explain(w.at("data/dir/x/y")).Hint, p.Explain(w.at("data/DIR/x/y")).Hint
	if there != strings.ReplaceAll(missing, "DIR", "dir") {
		t.Errorf("%s\n%s", there, missing)
	}
}

func TestFileNamesWhatNoBoxCanHave(t *testing.T) {
	w := newWorld(t)
	w.file("data/file", "")
	w.file("home/file", "")
	for _, c := range []struct{ yaml, want string }{
		{"read: [/tmp]", "p.yaml:2: read: /tmp: the box has its own /tmp"}, {"read: [/run]", "its own /run"}, {"read: [/dev]", "its own /dev"},
		{"read: [/var/tmp]", "its own /var/tmp"}, {"read: [/proc]", "its own /proc"}, {"read: [/proc/1/environ]", "its own /proc"},
		{"write: [" + w.at("data/file") + "]", "p.yaml:2: write: " + w.at("data/file") + " is not a directory; name the one it is in: write: [" + w.at("data") + "]"},
		{"write: [" + w.at("home/file") + "]", "is not a directory, and its own cannot be given either: " + w.at("home") + " is a home directory"},
		{"write: [" + w.at("none") + "]", "no such file or directory; make the directory first"},
	} {
		for _, base := range []string{Sealed, Workspace} {
			w.file("p.yaml", "extends: "+base+"\n"+c.yaml+"\n")
			if _, err := Make(w.at("p.yaml"), w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.yaml, err)
			}
		}
	}
}
