package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// paths are where the rules point, below dir.
func paths(t *testing.T, dir string, rules []Rule) []string {
	t.Helper()
	var list []string
	for _, r := range rules {
		rel, err := filepath.Rel(dir, r.Path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rel)
	}
	return list
}

func TestEnumerate(t *testing.T) {
	dir := tree(t, "home/.ssh/id", "home/.config/gh/token", "home/.config/other", "home/work/a", "home/notes", "etc/passwd",
		"home/new\nline*?[/x")
	for link, to := range map[string]string{
		"home/link": ".ssh", "house": "home", "secret": "home/.ssh", "dangling": "home/work/later", "loop": "loop", "up": "home/work/../.ssh",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	const odd = "home/new\nline*?["
	for _, c := range []struct {
		name, allow, deny, want string // separated by spaces
	}{
		{"nothing denied", "home etc", "", "home|etc"},
		{"nothing allowed", "", "home", ""},
		{"denied elsewhere", "home", "etc", "home"},
		{"a name that only begins alike", "home", "home/.ss", "home/.config|home/.ssh|" + odd + "|home/notes|home/work"},
		{"one entry", "home", "home/.ssh", "home/.config|" + odd + "|home/notes|home/work"},
		{"two deep", "home", "home/.ssh home/.config/gh", "home/.config/other|" + odd + "|home/notes|home/work"},
		{"a file", "home", "home/notes home/.ssh/id", "home/.config|" + odd + "|home/work"},
		{"what is not there", "home", "home/.aws", "home/.config|home/.ssh|" + odd + "|home/notes|home/work"},
		{"nor where it would be", "home", "home/work/x/y/z", "home/.config|home/.ssh|" + odd + "|home/notes|home/work/a"},
		{"below a file", "home", "home/notes/x", "home/.config|home/.ssh|" + odd + "|home/notes|home/work"},
		{"the tree itself", "home etc", "home", "etc"},
		{"above the tree", "home/.ssh etc", "home", "etc"},
		{"allowed twice", "home home/work", "home/.ssh", "home/.config|" + odd + "|home/notes|home/work|home/work"},
		{"allowed by a link", "house", "home/.ssh", "home/.config|" + odd + "|home/notes|home/work"},
		{"denied by a link", "home", "secret", "home/.config|" + odd + "|home/notes|home/work"},
		{"denied through a link", "home", "house/.ssh", "home/.config|" + odd + "|home/notes|home/work"},
		{"denied by a link that goes up", "home", "up", "home/.config|" + odd + "|home/notes|home/work"},
		{"denied by a link to nothing yet", "home/work", "dangling", "home/work/a"},
		{"not clean", "home/./work/..", "home//.ssh/", "home/.config|" + odd + "|home/notes|home/work"},
		{"allowed and missing", "gone home/work", "", "home/work"},
		{"literal, no pattern", "home", "home/*", "home/.config|home/.ssh|" + odd + "|home/notes|home/work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := func(names string) (list []string) {
				for _, name := range strings.Fields(names) {
					list = append(list, dir+"/"+name)
				}
				return list
			}
			rules, err := Enumerate(in(c.allow), in(c.deny))
			if got := strings.Join(paths(t, dir, rules), "|"); err != nil || got != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}

	if rules, err := Enumerate([]string{dir}, []string{"/"}); err != nil || rules != nil {
		t.Errorf("all denied: %v %v", rules, err)
	}
	for _, c := range [][2][]string{{{"home"}, nil}, {{dir}, {"home"}}, {{dir}, {""}}, {{""}, nil}, {{dir}, {dir + "/loop"}}, {{dir + "/loop/x"}, nil}} {
		if rules, err := Enumerate(c[0], c[1]); err == nil || rules != nil {
			t.Errorf("%q but %q: %v %v", c[0], c[1], rules, err)
		}
	}
}

func TestEnumerateIsBounded(t *testing.T) {
	dir := tree(t, "few/a/x", "few/b/x")
	for i := range maxRules + 1 {
		if err := os.Mkdir(filepath.Join(dir, "few/b", fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if rules, err := Enumerate([]string{dir}, []string{dir + "/few/b/x"}); !errors.Is(err, ErrTooMany) || rules != nil {
		t.Errorf("%d rules, %v", len(rules), err)
	}
	for i := range 100 {
		if err := os.Symlink("x", filepath.Join(dir, "few/b/link"+fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if rules, err := Enumerate([]string{dir}, []string{dir + "/few/b/x"}); !errors.Is(err, ErrTooMany) || rules != nil {
		t.Errorf("a longer directory: %d rules, %v", len(rules), err)
	}
	if rules, err := Enumerate([]string{dir}, []string{dir + "/few/a/x"}); err != nil || !slices.Equal(paths(t, dir, rules), []string{"few/b"}) {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

func TestAllButWhatIsDenied(t *testing.T) {
	need(t, 2)
	dir := tree(t, "home/.ssh/id", "home/work/a", "home/work/b")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Symlink("../.ssh/id", in("home/work/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(in("home/.ssh/id"), in("home/work/hard")); err != nil {
		t.Fatal(err)
	}
	denied := []string{in("home/.ssh"), in("home/.aws")}
	check(t, plan{Trees: []string{dir}, Deny: denied, Access: Write}, []expectation{
		{attempt{"read", in("home/work/a"), ""}, 0},
		{attempt{"create", in("home/work/new"), ""}, 0},
		{attempt{"read", in("home/work/new"), ""}, 0},
		{attempt{"list", in("home/work"), ""}, 0},
		{attempt{"read", in("home/work/../.ssh/id"), ""}, syscall.EACCES},
		{attempt{"read", in("home/.ssh/id"), ""}, syscall.EACCES},
		{attempt{"read", in("home/work/link"), ""}, syscall.EACCES},
		{attempt{"list", in("home/.ssh"), ""}, syscall.EACCES},
		{attempt{"write", in("home/.ssh/id"), ""}, syscall.EACCES},
		{attempt{"create", in("home/.ssh/new"), ""}, syscall.EACCES},
		{attempt{"rename", in("home/.ssh"), in("home/work/ssh")}, syscall.EACCES},
		{attempt{"link", in("home/work/id"), in("home/.ssh/id")}, syscall.EXDEV},
		{attempt{"mkdir", in("home/.aws"), ""}, syscall.EACCES},
		// What the package comment says cannot be had.
		{attempt{"list", in("home"), ""}, syscall.EACCES},
		{attempt{"create", in("home/new"), ""}, syscall.EACCES},
		{attempt{"read", in("home/work/hard"), ""}, 0},
	})
	check(t, plan{Trees: []string{dir}, Deny: denied, Access: Read, Allow: []grant{{dir, List}}}, []expectation{
		{attempt{"list", in("home"), ""}, 0},
		{attempt{"list", in("home/.ssh"), ""}, 0}, // the names, and no more
		{attempt{"read", in("home/.ssh/id"), ""}, syscall.EACCES},
		{attempt{"write", in("home/work/a"), ""}, syscall.EACCES},
	})
	check(t, plan{Trees: []string{dir}, Access: Read}, []expectation{{attempt{"read", in("home/.ssh/id"), ""}, 0}})
}

// TestWhatWasReplacedIsNotAllowed swaps entries between Enumerate and Add, as a
// process beside could.
func TestWhatWasReplacedIsNotAllowed(t *testing.T) {
	need(t, 1)
	dir := tree(t, "deny/id", "kept", "swapped", "linked", "gone")
	in := func(name string) string { return filepath.Join(dir, name) }
	list, err := Enumerate([]string{dir}, []string{in("deny")})
	if err != nil || len(list) != 4 {
		t.Fatalf("%v %v", list, err)
	}
	for _, step := range []error{
		os.Rename(in("swapped"), in("away")), os.Link(in("deny/id"), in("swapped")),
		os.Remove(in("linked")), os.Symlink("deny", in("linked")), os.Remove(in("gone")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	for _, r := range list {
		if err := rules.Add(r, Read); err != nil {
			t.Errorf("%s: %v", r.Path, err)
		}
	}
	p := plan{Inherit: true, Attempts: []attempt{{"read", in("kept"), ""}, {"read", in("swapped"), ""}, {"read", in("linked/id"), ""}}}
	cmd := child(t, p)
	cmd.ExtraFiles = []*os.File{duplicate(t, rules)}
	if got := answers(t, p, cmd); !slices.Equal(got, []syscall.Errno{0, syscall.EACCES, syscall.EACCES}) {
		t.Errorf("%v", got)
	}
}

// TestTheWholeMachineButOnePlace is what the lower rung asks for.
func TestTheWholeMachineButOnePlace(t *testing.T) {
	need(t, 1)
	dir := tree(t, "secret/id", "open")
	in := func(name string) string { return filepath.Join(dir, name) }
	check(t, plan{Trees: []string{"/"}, Deny: []string{in("secret")}, Access: Read, Allow: []grant{{"/dev/null", Write}}}, []expectation{
		{attempt{"read", in("open"), ""}, 0},
		{attempt{"run", "/bin/true", ""}, 0},
		{attempt{"list", "/usr", ""}, 0},
		{attempt{"read", in("secret/id"), ""}, syscall.EACCES},
		{attempt{"create", in("new"), ""}, syscall.EACCES},
		{attempt{"read", "/proc/self/root" + in("secret/id"), ""}, syscall.EACCES},
	})
}

func BenchmarkEnumerate(b *testing.B) {
	home, err := os.UserHomeDir()
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		rules, err := Enumerate([]string{"/"}, []string{home + "/.ssh", home + "/.config/gh", home + "/.aws"})
		if err != nil {
			b.Fatal(err)
		}
		set, err := New(Options{})
		if err != nil {
			b.Skip(err)
		}
		for _, r := range rules {
			if err := set.Add(r, Read); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(rules)), "rules")
		if err := set.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
