package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLadderInAContainer runs the program in a container as docker makes it by
// default, where no namespaces are to be had: an ordinary user gets the weaker
// rung by name, what that cannot keep is refused, and root gets nothing that
// would take root's rights.
func TestLadderInAContainer(t *testing.T) {
	t.Parallel()
	facts := bringUp(t, "docker")
	if facts == nil {
		t.Skip("there is no docker here")
	}
	bin := filepath.Join(t.TempDir(), "hermes-exec")
	if err := place(binary(t), bin); err != nil {
		t.Fatal(err)
	}
	inside := func(user, script string) (string, int) {
		t.Helper()
		cmd := exec.Command("docker", "-H", facts["HERMES_EXEC_TEST_DOCKER_HOST"], "run", "--rm", "-u", user, "-v", bin+":/hermes-exec:ro",
			"-e", "HOME=/tmp", "-w", "/tmp", facts["HERMES_EXEC_TEST_DOCKER_IMAGE"], "sh", "-c", "mkdir w; cd w; "+script)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	const run = `/hermes-exec run -q --json -c "open('made', 'w'); print(6 * 7)"`
	for _, c := range []struct {
		user, script string
		exit         int
		want         []string
	}{
		{"1001:1001", run, 0, []string{`"output":"42\n"`, `"rung":"landlock"`, `"processes":"partial"`, `"guards":"unsupported"`}},
		{"1001:1001", "/hermes-exec --policy sealed run -q -c 'print(1)'", 126, []string{"cannot be kept without namespaces: files, processes"}},
		{"1001:1001", "/hermes-exec doctor", 0, []string{"rung landlock", "fix: this is a container"}},
		{"0:0", run, 126, []string{"belongs to root"}},
		{"0:0", "chown 1001 . && " + run, 0, []string{`"output":"42\n"`, `"rung":"landlock"`}},
	} {
		out, exit := inside(c.user, c.script)
		if exit != c.exit {
			t.Errorf("%s: %s: exit code %d, want %d\n%s", c.user, c.script, exit, c.exit, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %s: no %q in\n%s", c.user, c.script, want, out)
			}
		}
	}
}
