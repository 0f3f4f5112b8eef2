package docker

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// Laws take a container each, and what they wait for is the docker engine. They
// cannot run side by side in one process, where each looks for what the others
// have open, so some processes of this test program share them.
const (
	shards    = 3
	shardMark = "HERMES_EXEC_TEST_SHARD" // which of them this process is
	guestMark = "HERMES_EXEC_TEST_GUEST" // the guest program that is built already
)

func isShard() bool { return os.Getenv(shardMark) != "" }

func laws(t *testing.T, spec sandbox.Spec, left func(law string) string, change func(*Config)) {
	t.Parallel()
	w := docker(t)
	newConfig := func(t testing.TB) Config {
		c := w.config(t)
		if change != nil {
			change(&c)
		}
		return c
	}
	if !isShard() {
		create(t, backend(t, newConfig(t)), spec) // what is uploaded once stays for all
		share(t, w)
		return
	}
	// What is opened or found out once has been, before something is counted.
	first := backend(t, newConfig(t))
	create(t, first, spec).Close(t.Context())
	seen := first.daemon.shared
	first.Close()
	skip := map[string]string{}
	for i, law := range sandboxtest.Laws() {
		if left != nil {
			if why := left(law); why != "" {
				skip[law] = why
			}
		}
		if fmt.Sprint(i%shards) != os.Getenv(shardMark) {
			skip[law] = "another process tests it"
		}
	}
	skip["every clause of a policy is enforced or refused"] = "policies are made from profiles, in the box: see TestProfiles"
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(t testing.TB) sandbox.Backend {
			c := newConfig(t)
			c.probed = &seen // the same daemon each time
			b := New(c)
			t.Cleanup(func() { w.remember(b) })
			return b
		},
		Spec: spec,
		Skip: skip,
	})
}

// share runs the test that calls in processes of their own.
func share(t *testing.T, w *world) {
	var all sync.WaitGroup
	for i := range shards {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", fmt.Sprintf("-test.short=%t", testing.Short()))
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", shardMark, i), guestMark+"="+w.guest, "HERMES_EXEC_TEST_DOCKER_HOST="+w.host,
				"HERMES_EXEC_TEST_DOCKER_IMAGE="+w.images["python"], "HERMES_EXEC_TEST_DOCKER_IMAGE_SH="+w.images["sh"], "HERMES_EXEC_TEST_DOCKER_IMAGE_NONE="+w.images["none"])
			out, err := cmd.CombinedOutput()
			kept := regexp.MustCompile("(?m)^ *(=== .*|--- SKIP.*|run\\.go:.*)\n").ReplaceAllString(string(out), "")
			if err != nil || !strings.Contains(kept, "--- PASS: "+t.Name()+" (") {
				t.Errorf("process %d: %v\n%s", i, err, out)
				return
			}
			t.Log("\n" + kept)
		})
	}
	all.Wait()
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
	laws(t, spec, nil, quiet)
}

// TestLawsFar is an engine that does not see this machine's files.
func TestLawsFar(t *testing.T) {
	differs := regexp.MustCompile("argument|MiB|descendant|terminal|kept|socket|file|closes")
	laws(t, profile("workspace"), func(law string) string {
		if testing.Short() && !differs.MatchString(law) {
			return "-short: what differs is how the guest came and how it is reached"
		}
		return ""
	}, func(c *Config) { c.far = true; quiet(c) })
}

// quiet takes the network away: no law asks for one, and it takes the engine's
// time.
func quiet(c *Config) { c.Network = "off" }
