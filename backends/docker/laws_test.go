package docker

import (
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func laws(t *testing.T, spec sandbox.Spec, skip map[string]string, change func(*Config)) {
	w := docker(t)
	skip = maps.Clone(skip)
	if skip == nil {
		skip = map[string]string{}
	}
	skip["every clause of a policy is enforced or refused"] = "policies are made from profiles, in the box: see TestProfiles"
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(t testing.TB) sandbox.Backend {
			c := w.config(t)
			if change != nil {
				change(&c)
			}
			b := New(c)
			t.Cleanup(func() { w.remember(b) })
			return b
		},
		Spec: spec,
		Skip: skip,
	})
}

// ownedDir is a directory of an ordinary user.
func ownedDir(t testing.TB) string {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLawsOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("the other two do")
	}
	laws(t, profile("open"), nil, nil)
}

func TestLawsWorkspace(t *testing.T) {
	spec := profile("workspace")
	spec.WorkDir = ownedDir(t)
	laws(t, spec, nil, nil)
}

// TestLawsFar is an engine that does not see this machine's files.
func TestLawsFar(t *testing.T) {
	skip := map[string]string{}
	for _, law := range sandboxtest.Laws() {
		if testing.Short() && !regexp.MustCompile("argument|MiB|descendant|terminal|kept|socket|file|closes").MatchString(law) {
			skip[law] = "-short: what differs is how the guest came and how it is reached"
		}
	}
	laws(t, profile("workspace"), skip, func(c *Config) { c.far = true })
}
