package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// rootsDir is a directory of root's with files in it, where others than root
// cannot read.
func rootsDir(t *testing.T, files ...string) string {
	if os.Getuid() != 0 {
		t.Skip("it takes root")
	}
	dir := t.TempDir()
	for _, name := range append(files, "closed") {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func uidOf(t *testing.T, name string) uint32 {
	t.Helper()
	st, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Uid
}

// mountsBelow are the places below a directory that something is mounted on.
func mountsBelow(t testing.TB, dir string) (points []string) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); sandbox.Covers(dir, f[4]) {
			points = append(points, f[4])
		}
	}
	return points
}

// TestRootsDirectory: who works in a directory of root's is not root, and yet
// reads and writes what is root's there.
func TestRootsDirectory(t *testing.T) {
	t.Parallel()
	w := docker(t)
	dir, volume, other := rootsDir(t, ".git/HEAD", ".git/config", "secrets/key"), rootsDir(t), rootsDir(t)
	if err := os.WriteFile(filepath.Join(dir, "strange"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "strange"), 4711, 4711); err != nil {
		t.Fatal(err)
	}
	c := w.config(t)
	c.Volumes = []string{volume + ":/volume", other + ":/other:ro"}
	b := backend(t, c)
	spec := profile("workspace")
	spec.WorkDir, spec.Profile.DenyRead = dir, []string{"./secrets"}
	box := create(t, b, spec)
	who := fmt.Sprint(boxID)
	if got := sh(t, box, "id -u; id -g; stat -c %u closed /volume/closed; cat closed /volume/closed /other/closed"); got !=
		strings.Join([]string{who, who, who, who, "closed", "closed", "closed"}, "\n") {
		t.Errorf("inside: %q", got)
	}
	sh(t, box, "echo more >>closed; mkdir -p new/dir; echo x >new/dir/file; echo x >/volume/file")
	for _, name := range []string{filepath.Join(dir, "new"), filepath.Join(dir, "new/dir/file"), filepath.Join(volume, "file"), filepath.Join(dir, "closed")} {
		if uid := uidOf(t, name); uid != 0 {
			t.Errorf("%s is user %d's", name, uid)
		}
	}
	for _, script := range []string{
		"echo x >>.git/config", "echo x >.git/hooks/pre-commit", "mv .git g", "echo x >.envrc", "rmdir .envrc", "cat secrets/key",
		"cat strange", "echo x >>strange", "chown 0 closed", "chmod u+s closed", "echo x >/other/file", "rm /other/closed",
	} {
		if r := run(t, box, "sh", "-c", script); r.exit.Code == 0 {
			t.Errorf("%q was done: %q", script, r.stdout)
		}
	}
	i := slices.IndexFunc(box.Info().Enforcement, func(c sandbox.Clause) bool { return c.Clause == sandbox.ClauseFiles })
	if m := box.Info().Enforcement[i].Mechanism; !strings.Contains(m, who) {
		t.Errorf("enforcement: %q", m)
	}
	if left := mountsBelow(t, c.StateDir); len(left) > 0 {
		t.Errorf("mounted while the box runs: %q", left)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.StateDir, shownDir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "closed")); err != nil || string(text) != "closed\nmore\n" {
		t.Errorf("the work directory afterwards: %q, %v", text, err)
	}
}

// TestUnseenMounts: where the docker engine does not see the mounts of this
// process, a container of root's directory is root's, and has its files.
func TestUnseenMounts(t *testing.T) {
	t.Parallel()
	w := docker(t)
	dir := rootsDir(t)
	for want, flags := range map[string]uintptr{numbered(boxID, boxID).Text: 0, "0:0": syscall.CLONE_NEWNS} {
		cmd := exec.Command(os.Args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
		_, lease := w.engineAs(t, cmd, w.config(t).StateDir, dir, "")
		list := w.of(t, lease)
		if len(list) == 0 {
			t.Fatal("there is no container")
		}
		c, err := w.api(t).ContainerInspect(t.Context(), list[0].ID, client.ContainerInspectOptions{})
		if err != nil || c.Container.Config.User != want {
			t.Errorf("with flags %#x: user %q, %v, want %q", flags, c.Container.Config.User, err, want)
		}
	}
}

// TestSweepShown: what an engine that was killed had mounted is unmounted, and
// nothing that was below is touched.
func TestSweepShown(t *testing.T) {
	t.Parallel()
	w := docker(t)
	dir := rootsDir(t, "below/file")
	c := w.config(t)
	b := backend(t, c)
	dead, err := takeLease(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	var maps idMaps
	defer maps.close()
	at, err := maps.show(filepath.Join(dead.shown(), newName()), numbered(boxID, boxID), []string{dir, filepath.Join(dir, "closed")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dead.hideAll() })
	if uid := uidOf(t, filepath.Join(at[dir], "closed")); uid != boxID || len(mountsBelow(t, c.StateDir)) != 2 {
		t.Fatalf("nothing is shown: user %d", uid)
	}
	if _, err := b.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(t, c.StateDir); len(got) != 2 {
		t.Fatalf("a living engine lost %q", got)
	}
	dead.drop()
	if _, err := b.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(t, c.StateDir); len(got) != 0 {
		t.Errorf("still mounted: %q", got)
	}
	if _, err := os.Lstat(dead.shown()); !os.IsNotExist(err) {
		t.Errorf("the dead engine's places stayed: %v", err)
	}
	for _, name := range []string{"below/file", "closed"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name+"\n" {
			t.Errorf("%s was touched: %q, %v", name, text, err)
		}
	}
}
