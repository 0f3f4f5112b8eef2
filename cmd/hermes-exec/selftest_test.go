package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestMain(m *testing.M) {
	guest.Main()
	if code, ok := guestCommand(os.Args[1:], os.Stderr); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "selftest" { // the witness
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// home makes a home directory with secrets in it.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".hermes/.env", ".bashrc"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("KEY=secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HERMES_HOME", filepath.Join(dir, ".hermes"))
	for _, name := range secretNames() {
		t.Setenv(name, "") // restored in the end
	}
	return dir
}

func byID(probes []attack) map[string]attack {
	all := map[string]attack{}
	for _, p := range probes {
		all[p.ID] = p
	}
	return all
}

// The probes must see what there is to see: in an open session nothing the
// operating system would have to prevent may be reported as held.
func TestSelftestOfAnOpenSessionFindsItOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the probes are for Linux")
	}
	dir := home(t)
	var out, errOut bytes.Buffer
	code := command([]string{"--policy", "open", "selftest", "--json"}, strings.NewReader(""), &out, &errOut)
	if code != exitFailed {
		t.Fatalf("exit code %d, want %d\n%s", code, exitFailed, errOut.String())
	}
	var card scorecard
	if err := json.Unmarshal(out.Bytes(), &card); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(card.Probes) < 50 || card.Held+card.Broken+card.NA != len(card.Probes) || card.Policy != "open" {
		t.Errorf("%d probes: %d held, %d broken, %d not applicable, policy %q", len(card.Probes), card.Held, card.Broken, card.NA, card.Policy)
	}
	if all := byID(card.Probes); len(all) != len(card.Probes) {
		t.Errorf("%d probes have %d names", len(card.Probes), len(all))
	}
	for _, p := range card.Probes {
		if p.What == "" || p.Detail == "" || !slices.Contains(clauseOrder(), p.Clause) {
			t.Errorf("incomplete: %+v", p)
		}
		if strings.Contains(p.Detail, "the probe itself") {
			t.Errorf("%s: %s", p.ID, p.Detail)
		}
		switch p.Clause {
		case sandbox.ClauseKill, clauseEnvironment, clauseRPC:
			if p.Verdict == broken {
				t.Errorf("%s is broken: %s", p.ID, p.Detail)
			}
		default:
			if p.Verdict == held {
				t.Errorf("%s is said to hold in an open session: %s", p.ID, p.Detail)
			}
		}
	}
	all := byID(card.Probes)
	for _, id := range []string{
		"read-ssh", "read-aws", "read-gh", "read-hermes-env", "read-by-symlink", "read-by-dotdot", "read-by-proc-self-root", "read-by-copied-program",
		"write-home", "write-config", "write-shell-rc", "outside-write", "outside-unlink", "outside-rename", "outside-create", "outside-symlink",
		"tmp-private", "guard-git-hooks", "guard-envrc", "guard-git-move", "other-session", "workspace-residue", "share-mnt",
		"net-tcp-loopback", "net-udp-loopback", "net-namespace", "unix-outside", "unix-abstract", "share-pid", "see-processes", "signal-outside",
		"pidfd-outside", "cmdline-outside", "new-privileges", "seccomp",
	} {
		if all[id].Verdict != broken {
			t.Errorf("%s: %+v, want it broken", id, all[id])
		}
	}
	if left := changes(map[string]string{}, tree(filepath.Join(dir, ".cache"))); len(left) > 1 {
		t.Errorf("left in the cache: %v", left)
	}
}

// And in a box they must see what it keeps. Bubblewrap is one that is not ours.
func TestSelftestProbesHoldInBubblewrap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the probes are for Linux")
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil || exec.Command(bwrap, "--ro-bind", "/", "/", "--unshare-all", "true").Run() != nil {
		t.Skip("bubblewrap does not work here")
	}
	dir := home(t)
	a := &app{stdin: strings.NewReader(""), stdout: os.Stdout, stderr: os.Stderr}
	a.flags.policy, a.flags.logLevel, a.flags.logFormat, a.flags.given = "open", "error", "text", func(string) bool { return false }
	defer a.close()
	s, err := a.newSiege(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	script := filepath.Join(s.bait.workspace, "script.py")
	if err := os.WriteFile(script, []byte(s.script()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.before = tree(s.bait.workspace)
	python, err := filepath.EvalSymlinks("/usr/bin/python3")
	if err != nil {
		t.Skip(err)
	}
	ws := s.bait.workspace
	args := []string{"--ro-bind", "/", "/", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/run", "--dev", "/dev", "--proc", "/proc",
		"--bind", ws, ws, "--ro-bind", dir, dir,
		"--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--clearenv", "--new-session", "--chdir", ws}
	for _, name := range []string{".ssh", ".aws", ".config/gh"} {
		args = append(args, "--tmpfs", filepath.Join(dir, name))
	}
	args = append(args, "--ro-bind", "/dev/null", filepath.Join(dir, ".hermes/.env"))
	for _, name := range []string{".git/hooks", ".git/config", ".vscode"} {
		args = append(args, "--ro-bind", filepath.Join(ws, name), filepath.Join(ws, name))
	}
	args = append(args, python, script, "attack", s.bait.nonce)
	cmd := exec.Command(bwrap, args...)
	cmd.Stderr, cmd.Env = os.Stderr, []string{"PATH=/usr/bin:/bin"} // its process 1 keeps it
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		var p attack
		if json.Unmarshal(line, &p) == nil && p.ID != "" {
			s.found = append(s.found, p)
		}
	}
	s.contradict()
	for _, p := range s.found {
		t.Logf("%-6s %-25s %s", p.Verdict, p.ID, p.Detail)
	}
	all := byID(s.found)
	for _, id := range []string{
		"read-ssh", "read-aws", "read-gh", "read-hermes-env", "read-by-symlink", "read-by-dotdot", "read-by-proc-self-root", "read-by-proc-cwd",
		"read-by-proc-1-root", "read-by-outside-root", "read-by-copied-program", "write-interpreter", "write-etc", "write-usr", "write-home", "write-config", "write-shell-rc",
		"write-system-files", "write-programs", "outside-write", "outside-truncate", "outside-unlink", "outside-rename", "outside-chmod", "outside-create",
		"outside-symlink", "outside-hardlink", "tmp-private", "guard-git-hooks", "guard-git-config", "guard-vscode", "guard-vscode-new", "share-mnt",
		"net-tcp-loopback", "net-udp-loopback", "net-internet", "net-namespace", "net-interfaces", "unix-abstract", "socket-raw",
		"share-pid", "share-ipc", "see-processes", "signal-outside", "signal-engine", "pidfd-outside", "environ-outside", "cmdline-outside",
		"memory-outside", "memory-read-outside", "ptrace-outside", "caps-effective", "caps-permitted", "caps-bounding", "new-privileges",
		"mount", "umount", "pivot-root", "chroot", "fsopen", "open-tree", "syslog", "env-bait", "env-block",
	} {
		if all[id].Verdict != held {
			t.Errorf("%s: %+v, want it held", id, all[id])
		}
	}
	for _, id := range []string{"seccomp", "guard-git-commondir", "guard-envrc", "guard-idea", "io-uring", "keyctl"} { // what these arguments leave open
		if all[id].Verdict != broken && all[id].Detail != "ENOSYS" {
			t.Errorf("%s: %+v, want it broken", id, all[id])
		}
	}
}
