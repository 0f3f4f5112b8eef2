package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// pipes are the standard streams of a guest.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// startGuest starts this program as a serving guest on pipes or, with a socket,
// as one that dials.
func startGuest(t *testing.T, dial bool) (*sshbox.Link, *exec.Cmd) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "guest", "serve")
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "MY_API_KEY=secret"}
	cmd.Stderr = os.Stderr
	var stream io.ReadWriteCloser
	if dial {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cmd.Args = append(cmd.Args, "--dial", l.Addr().String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if stream, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	} else {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stream = pipes{out, in}
	}
	client, err := sshbox.Handshake(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	link := sshbox.New(client, sshbox.Config{})
	t.Cleanup(func() {
		link.Close()
		late := time.AfterFunc(time.Minute, func() { t.Error("the guest stays"); cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	})
	return link, cmd
}

// workDir is a directory that is an ordinary user's.
func workDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func inBox(t *testing.T, box sandbox.Sandbox, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit.Code
}

// TestGuestServes: a box elsewhere has the policy of that place, its
// environment, and files that are no more open than a script's.
func TestGuestServes(t *testing.T) {
	for _, dial := range []bool{false, true} {
		link, cmd := startGuest(t, dial)
		dir := workDir(t)
		box, err := link.Open(t.Context(), sshwire.BoxRequest{WorkDir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Profile: sandbox.Profile{Name: "workspace", DenyRead: []string{"hidden"}}})
		if err != nil {
			t.Fatal(err)
		}
		info := box.Info()
		if info.Rung != sandbox.RungNamespaces || info.WorkDir != dir || info.Backend != "ssh" || info.UID != -1 ||
			!slices.Contains(info.Env, "LANG=C.UTF-8") || !slices.ContainsFunc(info.Env, func(v string) bool { return strings.HasPrefix(v, "XDG_CACHE_HOME=") }) {
			t.Errorf("%+v", info)
		}
		for script, ok := range map[string]bool{
			"echo x >file && test -w .":                    true,
			"echo x >/etc/file":                            false,
			"echo x >.git/hooks/pre-commit":                false,
			"test -x " + info.Guest:                        true,
			`test -z "$MY_API_KEY"`:                        true,
			"test $$ -lt 10":                               true, // in a numbering of its own
			"grep -l MY_API_KEY /proc/[0-9]*/environ":      false,
			"kill -9 " + strconv.Itoa(cmd.Process.Pid):     false,
			"ls /proc/" + strconv.Itoa(cmd.Process.Pid):    false,
			"dd if=/proc/1/mem of=/dev/null bs=1 count=10": false,
		} {
			if out, code := inBox(t, box, script); (code == 0) != ok {
				t.Errorf("%q: exit %d, %s", script, code, out)
			}
		}
		f, err := box.Files().Open(t.Context(), dir+"/file")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); string(text) != "x\n" {
			t.Errorf("%q, %v", text, err)
		}
		f.Close()
		if _, err := box.Files().Create(t.Context(), "/etc/file", sandbox.CreateOptions{}); err == nil {
			t.Error("files may do what a script may not")
		}
		if err := box.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestGuestPolicies: a policy file comes along, and what is wrong with it says
// so; nothing is made of a refusal.
func TestGuestPolicies(t *testing.T) {
	link, _ := startGuest(t, false)
	dir := workDir(t)
	file := []byte("extends: workspace\nnetwork: off\n")
	box, err := link.Open(t.Context(), sshwire.BoxRequest{WorkDir: dir, Profile: sandbox.Profile{Name: "/far/away.yaml", File: file}})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := inBox(t, box, "cat /proc/net/dev | grep -v lo: | wc -l"); code != 0 || strings.TrimSpace(out) != "2" {
		t.Errorf("%d, %q", code, out)
	}
	box.Close(t.Context())
	for what, r := range map[string]sshwire.BoxRequest{
		"names":      {WorkDir: dir, Profile: sandbox.Profile{Name: "nonsense"}},
		"file":       {WorkDir: dir, Profile: sandbox.Profile{Name: "/far/away.yaml", File: []byte("reed: [/]\n")}},
		"home":       {Profile: sandbox.Profile{Name: "workspace"}},
		"no profile": {WorkDir: dir},
	} {
		if _, err := link.Open(t.Context(), r); !errors.Is(err, sandbox.ErrPolicy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	box, err = link.Open(t.Context(), sshwire.BoxRequest{Profile: sandbox.Profile{Name: "sealed"}})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := inBox(t, box, "pwd; echo x >file"); code != 0 && !strings.Contains(out, "nowhere") {
		t.Errorf("%d, %q", code, out)
	}
	box.Close(t.Context())
}

// TestGuestContained: where a container keeps the policy, what cannot be had is
// left to it, in so many words.
func TestGuestContained(t *testing.T) {
	link, _ := startGuest(t, true)
	box, err := link.Open(t.Context(), sshwire.BoxRequest{WorkDir: "/usr", Contained: true, Env: []string{"PATH=/usr/bin:/bin"},
		Profile: sandbox.Profile{Name: "workspace"}, Resources: sandbox.Resources{Memory: 1 << 40}})
	if err != nil { // which is everybody's: refused, were it not for the container
		t.Fatal(err)
	}
	if out, code := inBox(t, box, "pwd"); code != 0 || out != "/usr\n" {
		t.Errorf("%d, %q", code, out)
	}
	found := false
	for _, c := range box.Info().Enforcement {
		found = found || c.State == sandbox.Unsupported && strings.Contains(c.Why, "left to the container")
	}
	if !found || box.Info().Rung != "" {
		t.Errorf("%+v", box.Info())
	}
	box.Close(t.Context())
	box, err = link.Open(t.Context(), sshwire.BoxRequest{WorkDir: workDir(t), Contained: true, Profile: sandbox.Profile{Name: "workspace"}})
	if err != nil {
		t.Fatal(err)
	}
	if box.Info().Rung != sandbox.RungNamespaces {
		t.Errorf("what could be had was not taken: %+v", box.Info())
	}
	box.Close(t.Context())
}

// TestGuestEnds: when the engine is gone everything goes, kept and deaf ones
// too; and when the guest is killed, its engine is told.
func TestGuestEnds(t *testing.T) {
	for _, kill := range []bool{false, true} {
		link, cmd := startGuest(t, true)
		box, err := link.Open(t.Context(), sshwire.BoxRequest{WorkDir: workDir(t), Env: []string{"PATH=/usr/bin:/bin"}, Profile: sandbox.Profile{Name: "workspace"}})
		if err != nil {
			t.Fatal(err)
		}
		l, path, err := box.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = l
		r, w := io.Pipe()
		p, err := box.Start(context.Background(), sandbox.Cmd{
			Args: []string{"/bin/sh", "-c", `trap "" TERM HUP; setsid sleep 98765 & echo ready; exec sleep 98765`, path}, Stdout: w, Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, r)
		if kill {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		} else {
			link.Close()
		}
		select {
		case <-p.Exited():
		case <-time.After(30 * time.Second):
			t.Fatal("nobody was told")
		}
		if _, err := p.Wait(); !errors.Is(err, sandbox.ErrLost) && !errors.Is(err, sandbox.ErrClosed) {
			t.Error(err)
		}
		for stop := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			out, _ := exec.Command("pgrep", "-f", "sleep 98765").Output()
			if len(out) == 0 {
				break
			}
			if time.Now().After(stop) {
				t.Errorf("left: %s", out)
				break
			}
		}
	}
}
