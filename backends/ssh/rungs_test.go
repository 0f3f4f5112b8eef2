//go:build linux

package ssh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// soon waits for an end state. On a machine that stood still meanwhile the time
// alone says nothing: there is a least number of looks, too.
func soon(within time.Duration, done func() bool) bool {
	stop := time.Now().Add(within)
	for looks := 0; looks < int(within/(50*time.Millisecond)) || time.Now().Before(stop); time.Sleep(5 * time.Millisecond) {
		if looks++; done() {
			return true
		}
	}
	return done()
}

// The guest is uploaded once, under its hash, and nobody else may enter the
// directory. What is there under the right name is right: it gets it only after
// its hash was compared.
func TestUpload(t *testing.T) {
	c := at(t, "hermes-test")
	guests := filepath.Join(home(t), ".cache/hermes-exec/guests")
	if err := os.RemoveAll(guests); err != nil {
		t.Fatal(err)
	}
	made := box(t, backend(t, c))
	entries, err := os.ReadDir(guests)
	if err != nil || len(entries) != 1 || len(entries[0].Name()) != 64 {
		t.Fatalf("%v, %v", entries, err)
	}
	where := filepath.Join(guests, entries[0].Name())
	if made.Info().Guest != where {
		t.Errorf("Info.Guest is %q, want %q", made.Info().Guest, where)
	}
	// The directory keeps others out; a box of root's, which is another user,
	// may run the program.
	program := fs.FileMode(0o700)
	if os.Getuid() == 0 {
		program = 0o755
	}
	for name, want := range map[string]fs.FileMode{guests: 0o700, where: program} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, st.Mode(), err, want)
		}
	}
	first, err := os.Stat(where)
	if err != nil {
		t.Fatal(err)
	}
	box(t, backend(t, c))
	if again, err := os.Stat(where); err != nil || !os.SameFile(first, again) {
		t.Errorf("it was uploaded again: %v", err)
	}
	// A program whose hash differs from what was sent is not run.
	wrong := filepath.Join(t.TempDir(), "sum")
	if err := os.WriteFile(wrong, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Guest = func(string, string) (string, error) { return wrong, nil }
	made = box(t, backend(t, c))
	if made.Info().Guest != "" {
		t.Errorf("something that is no guest became one: %+v", made.Info())
	}
}

// Where no guest can be, a plain sshd must do: it keeps policy open, and says
// of every other which clauses it cannot keep, and why there is no guest.
func TestPlainRefuses(t *testing.T) {
	c := at(t, "hermes-test")
	c.Guest = func(goos, goarch string) (string, error) {
		if goos != runtime.GOOS || goarch != runtime.GOARCH {
			t.Errorf("the host is %s/%s", goos, goarch)
		}
		return "", errors.New("none was built")
	}
	b := backend(t, c)
	for _, p := range []sandbox.Profile{{}, {Name: "sealed"}, {Name: "workspace"}, {Name: "mine.yaml", File: []byte("extends: open\n")}, {Name: "open", DenyRead: []string{"x"}}} {
		_, err := b.Create(t.Context(), sandbox.Spec{Profile: p})
		if !errors.Is(err, sandbox.ErrPolicy) {
			t.Errorf("%q: %v, want ErrPolicy", p.Name, err)
			continue
		}
		for _, want := range []string{"files", "policy open", "none was built"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v does not say %q", p.Name, err, want)
			}
		}
	}
	if _, err := b.Create(t.Context(), sandbox.Spec{Profile: sandbox.Profile{Name: "open"}, Resources: sandbox.Resources{Memory: 1 << 30}}); !errors.Is(err, sandbox.ErrPolicy) {
		t.Errorf("a limit: %v, want ErrPolicy", err)
	}
	made, err := b.Create(t.Context(), sandbox.Spec{Profile: sandbox.Profile{Name: "open"}, WorkDir: "~"})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close(t.Context())
	info := made.Info()
	if info.Guest != "" || info.Rung != "" || info.WorkDir != home(t) || info.Home == "" || len(info.Env) == 0 {
		t.Errorf("%+v", info)
	}
	findings := b.Check(t.Context())
	if last := findings[len(findings)-1]; last.Severity != sandbox.Warning || !strings.Contains(last.Detail, "none was built") || last.Fix == "" {
		t.Errorf("%+v", findings)
	}
}

// Work directories are the host's.
func TestWorkDir(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		c := at(t, "hermes-test")
		if !guest {
			c.Guest = nil
		}
		b := backend(t, c)
		if err := os.MkdirAll(filepath.Join(home(t), "a dir's"), 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for dir, want := range map[string]string{"": home(t), "~": home(t), "~/a dir's": filepath.Join(home(t), "a dir's"), "/": "/"} {
			spec := openSpec()
			spec.WorkDir = dir
			made, err := written{b}.Create(t.Context(), spec)
			if err != nil {
				t.Errorf("%q: %v", dir, err)
				continue
			}
			if got := output(t, made, "pwd"); made.Info().WorkDir != want || got != want+"\n" {
				t.Errorf("%q is %q, and commands start in %q", dir, made.Info().WorkDir, got)
			}
			if err := made.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for dir, want := range map[string]error{"/no/such/dir": fs.ErrNotExist, file: nil, "relative": nil} {
			spec := openSpec()
			spec.WorkDir = dir
			if _, err := (written{b}).Create(t.Context(), spec); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", dir, err, want)
			}
		}
	})
}

// A host without python, with a handful of tools, works all but for python.
func TestBare(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		c := at(t, "hermes-test-bare")
		if !guest {
			c.Guest = nil
		}
		b := backend(t, c)
		spec := openSpec()
		spec.Env = nil // what the host has is the question
		made, err := written{b}.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close(context.Background())
		if (made.Info().Guest != "") != guest {
			t.Errorf("%+v, %+v", made.Info(), b.Check(t.Context()))
		}
		p, err := made.Start(t.Context(), sandbox.Cmd{Args: []string{"python3"}, Env: made.Info().Env})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, %v, want fs.ErrNotExist with %q", p, err, made.Info().Env)
		}
		if got := output(t, made, "echo works"); got != "works\n" {
			t.Errorf("%q", got)
		}
		said := false
		for _, f := range b.Check(t.Context()) {
			said = said || f.Severity == sandbox.Warning && strings.Contains(f.Detail, "no python3") && f.Fix != ""
		}
		if !said {
			t.Errorf("%+v", b.Check(t.Context()))
		}
	})
}

// A home that is mounted noexec: the guest goes elsewhere, and /tmp too: it
// goes nowhere, which is said.
func TestNoexec(t *testing.T) {
	dir := filepath.Join(server(t), "noexec")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "size=64m"); err != nil {
		t.Skipf("a noexec home needs a mount: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	elsewhere := fmt.Sprintf("/var/tmp/hermes-exec-%d", os.Getuid())
	_, err := os.Stat(elsewhere)
	wasThere := err == nil
	made := box(t, backend(t, at(t, "hermes-test-noexec")))
	if got := made.Info().Guest; !strings.HasPrefix(got, elsewhere+"/guests/") {
		t.Errorf("the guest is at %q", got)
	}
	if got := output(t, made, "echo works"); got != "works\n" {
		t.Errorf("%q", got)
	}
	if err := made.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !wasThere {
		if err := os.RemoveAll(elsewhere); err != nil {
			t.Error(err)
		}
	}
}

// An sshd that forwards no sockets: the guest needs none of its. A plain one
// says that it cannot, and leaves no directory.
func TestNoForwarding(t *testing.T) {
	guest := box(t, backend(t, at(t, "hermes-test-noforward")))
	l, _, err := guest.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	plain := box(t, backend(t, plainly(t, "hermes-test-noforward")))
	if _, _, err := plain.Listen(t.Context()); !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), "AllowStreamLocalForwarding") {
		t.Errorf("%v, want ErrUnsupported", err)
	}
	if left := output(t, plain, `ls "$1"`, plain.Info().ScratchDir+"/.keeper"); strings.Contains(left, "s1") {
		t.Errorf("left: %s", left)
	}
}

// Without an sftp subsystem a guest's files work, and a plain sshd's say why
// they do not.
func TestNoSFTP(t *testing.T) {
	guest := box(t, backend(t, at(t, "hermes-test-nosftp")))
	if _, err := guest.Files().Stat(t.Context(), "/"); err != nil {
		t.Error(err)
	}
	plain := box(t, backend(t, plainly(t, "hermes-test-nosftp")))
	if _, err := plain.Files().Stat(t.Context(), "/"); !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), "sftp") {
		t.Errorf("%v, want ErrUnsupported", err)
	}
	if got := output(t, plain, "echo works"); got != "works\n" {
		t.Errorf("%q", got)
	}
}

// sshd takes 10 sessions on a connection; commands that stay are not bounded by
// that, nor do they keep others from running.
func TestManyStay(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		c := at(t, "hermes-test")
		if !guest {
			c.Guest = nil
		}
		made := box(t, backend(t, c))
		ctx, cancel := context.WithCancel(t.Context())
		var stay []sandbox.Process
		for range 24 {
			p, err := made.Start(ctx, sandbox.Cmd{Args: []string{"sleep", "1000"}})
			if err != nil {
				t.Fatal(err)
			}
			stay = append(stay, p)
		}
		if got := output(t, made, "echo works"); got != "works\n" {
			t.Errorf("%q", got)
		}
		cancel()
		for _, p := range stay {
			if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGTERM {
				t.Errorf("%+v, %v", exit, err)
			}
		}
	})
}

// processes returns the ids of those whose arguments or environment hold a text.
func processes(text string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		for _, name := range []string{"cmdline", "environ"} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.Contains(content, []byte(text)) {
				found = append(found, filepath.Base(dir)+" "+name)
			}
		}
	}
	return found
}

// While commands run, no argument list of any process holds a variable's value
// or what is typed; that is what another user could read. Their environment is
// theirs alone.
func TestSecretsStay(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		c := at(t, "hermes-test")
		if !guest {
			c.Guest = nil
		}
		secret := fmt.Sprintf("hunter2-%d-%v", os.Getpid(), guest)
		spec := openSpec()
		spec.Env = append(spec.Env, "BOX_TOKEN=box-"+secret)
		made, err := written{backend(t, c)}.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
		stop := make(chan struct{})
		seen := make(chan string, 1)
		go func() {
			defer close(seen)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, found := range processes(secret) {
					if strings.HasSuffix(found, "cmdline") {
						seen <- found
						return
					}
				}
			}
		}()
		for n := range 15 {
			cmd := sandbox.Cmd{
				Args: []string{"/bin/sh", "-c", `test "$TOKEN" = "$(cat)"`}, Env: []string{"PATH=/usr/bin:/bin", "TOKEN=" + secret},
				Stdin: strings.NewReader(secret),
			}
			if n%5 == 4 {
				cmd.Env, cmd.Args = nil, []string{"/bin/sh", "-c", `test -n "$BOX_TOKEN"`}
			}
			if n%5 == 3 && (guest || os.Getuid() == 0) { // an ordinary user's sshd has none
				cmd.PTY, cmd.Args = &sandbox.Winsize{Rows: 24, Cols: 80}, []string{"/bin/sh", "-c", `test -n "$TOKEN"`}
			}
			p, err := made.Start(t.Context(), cmd)
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(); err != nil || exit.Code != 0 {
				t.Errorf("%d: %+v, %v", n, exit, err)
			}
		}
		close(stop)
		if where := <-seen; where != "" {
			t.Errorf("the secret was seen in %s", where)
		}
	})
}

// engine is a program that will be killed: it makes a box, a socket and a
// command, says so, and waits.
func engine() {
	c := ssh.Config{Host: os.Args[2], ConfigFile: os.Args[3], Agent: "none"}
	if os.Args[4] == "guest" {
		c.Guest = self
	}
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	made, err := written{ssh.New(c)}.Create(ctx, openSpec())
	fail(err)
	_, socket, err := made.Listen(ctx)
	fail(err)
	out := &waitFor{text: "up", seen: make(chan struct{})}
	_, err = made.Start(ctx, sandbox.Cmd{Args: []string{"python3", "-c", `
import os, signal, sys, time
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    time.sleep(1000)
print("up", flush=True)
time.sleep(1000)
`, os.Args[5]}, Stdout: out})
	fail(err)
	<-out.seen
	fail(json.NewEncoder(os.Stdout).Encode([]string{made.Info().ScratchDir, socket}))
	select {}
}

// An engine that is killed leaves nothing on the host: no process, no socket,
// no file; within 5 s.
func TestKilledEngine(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		at(t, "hermes-test")
		rung := map[bool]string{true: "guest", false: "plain"}[guest]
		mark := fmt.Sprintf("killed-engine-%s-%d", rung, os.Getpid())
		cmd := exec.Command(os.Args[0], "engine", "hermes-test", throwAway.config, rung, mark)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var left []string
		err = json.NewDecoder(out).Decode(&left)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if !soon(5*time.Second, func() bool {
			for _, name := range left {
				if _, err := os.Lstat(name); err == nil {
					return false
				}
			}
			return len(processes(mark)) == 0
		}) {
			t.Errorf("left: %q, processes %q", left, processes(mark))
		}
	})
}

// A network that is lost without a word: what ran ends within the lease.
func TestLostNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	rungs(t, func(t *testing.T, guest bool) {
		t.Parallel()
		p := newLine(t, "hermes-test", 0)
		b := backend(t, p.by(t, guest))
		made := box(t, b)
		mark := fmt.Sprintf("lost-network-%v-%d", guest, os.Getpid())
		process, err := made.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "while :; do sleep 1; done", mark}})
		if err != nil {
			t.Fatal(err)
		}
		p.hush()
		if !soon(45*time.Second, func() bool { return len(processes(mark)) == 0 }) {
			t.Errorf("%q lives on", processes(mark))
		}
		p.cut()
		_, _ = process.Wait()
	})
}
