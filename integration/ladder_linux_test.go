package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// variant is the program built so that it does not see what its tag names. A
// ready-made one is beside HERMES_EXEC_BIN.
func variant(t *testing.T, tag string) string {
	t.Helper()
	if bin := os.Getenv("HERMES_EXEC_BIN"); bin != "" {
		if _, err := os.Stat(bin + "-" + tag); err == nil {
			return bin + "-" + tag
		}
	}
	bin := filepath.Join(t.TempDir(), "hermes-exec")
	if out, err := exec.Command("go", "build", "-tags", tag, "-o", bin, "../cmd/hermes-exec").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// TestLadder runs the program as on machines that have less: what cannot be
// kept there is refused or reported, and never only left out.
func TestLadder(t *testing.T) {
	t.Parallel()
	t.Run("without namespaces", func(t *testing.T) {
		bin := variant(t, "nouserns")
		t.Run("doctor", func(t *testing.T) { ladderDoctor(t, bin) })
		t.Run("run", func(t *testing.T) { ladderRuns(t, bin) })
		t.Run("attacks", func(t *testing.T) { ladderAttacks(t, bin) })
		t.Run("kills", func(t *testing.T) {
			g := newGround(t, bin)
			g.give()
			for _, m := range moments() {
				what := kill(g, "workspace", m)
				for g.again(what) {
					what = kill(g, "workspace", m)
				}
				if what != "" {
					t.Errorf("%s: %s", m.name, what)
				}
			}
			if next := g.do("run", "-q", "-c", "pass"); next.exit != 0 || len(leftInTemp(g.tmp)) > 0 {
				t.Errorf("the next start: %d %s, leaves %q", next.exit, next.stderr, leftInTemp(g.tmp))
			}
		})
	})
	t.Run("without Landlock", func(t *testing.T) { // namespaces alone keep what a profile asks
		bin := variant(t, "nowall")
		g := newGround(t, bin)
		g.give()
		if o := g.do("doctor"); o.exit != 0 || !strings.Contains(o.stdout, "without Landlock, the second wall") {
			t.Errorf("doctor: %d\n%s", o.exit, o.stdout)
		}
		for _, policy := range []string{"workspace", "sealed"} {
			all, clauses := besiege(t, bin, policy)
			for _, p := range all {
				if p.Verdict == "broken" && (!strings.HasPrefix(p.ID, "unix-abstract") || clauses[p.Clause] != "partial") {
					t.Errorf("%s: %s is broken, and %s is %q: %s", policy, p.ID, p.Clause, clauses[p.Clause], p.Detail)
				}
			}
		}
		if o := g.run("workspace", "print('ran')"); o.Output != "ran\n" || o.Rung != "namespaces" || o.Enforcement["network"] != "partial" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("with nothing", func(t *testing.T) {
		g := newGround(t, variant(t, "nolandlock"))
		if o := g.do("doctor"); o.exit != 1 || !strings.Contains(o.stdout, "only the policy open can be kept") || !strings.Contains(o.stdout, "fix:") {
			t.Errorf("doctor: %d\n%s", o.exit, o.stdout)
		}
		for _, policy := range []string{"workspace", "sealed", g.write("p.yaml", "extends: workspace\nbest_effort: [guards, processes, resources, kill]\n")} {
			o := g.do("--policy", policy, "run", "--json", "-c", "open('ran', 'w')")
			if o.exit != 126 || !strings.Contains(o.stdout, "neither namespaces nor Landlock") {
				t.Errorf("%s: %d %s", policy, o.exit, o.stdout)
			}
		}
		if _, err := os.Stat(filepath.Join(g.work, "ran")); err == nil {
			t.Error("a refused script ran")
		}
		if o := g.run("open", "print('ran')"); o.Output != "ran\n" || o.Rung != "" {
			t.Errorf("open: %+v", o)
		}
	})
}

func ladderDoctor(t *testing.T, bin string) {
	g := newGround(t, bin)
	g.give()
	o := g.do("doctor", "--json")
	var report []struct {
		Title    string
		Findings []struct{ Severity, Subject, Detail, Fix string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || o.exit != 0 {
		t.Fatalf("%v, exit code %d\n%s%s", err, o.exit, o.stdout, o.stderr)
	}
	want := map[string]string{"confinement": "rung landlock", "guards": "unsupported", "processes": "partial", "files": "partial by Landlock"}
	for _, section := range report {
		if section.Title != "Backend local" {
			continue
		}
		for _, f := range section.Findings {
			if !strings.Contains(f.Detail, want[f.Subject]) {
				t.Errorf("%+v, want %q", f, want[f.Subject])
			}
			if f.Subject == "confinement" && (f.Severity != "warning" || f.Fix == "") {
				t.Errorf("%+v: want a warning and its fix", f)
			}
			delete(want, f.Subject)
		}
	}
	if len(want) > 0 {
		t.Errorf("doctor does not tell %v\n%s", want, o.stdout)
	}
}

func ladderRuns(t *testing.T, bin string) {
	g := newGround(t, bin)
	if os.Getuid() == 0 { // who is never root in there
		if o := g.do("run", "-q", "-c", "print('ran')"); o.exit != 126 || !strings.Contains(o.stderr, "belongs to root") {
			t.Errorf("in a directory of root's: %d %s%s", o.exit, o.stdout, o.stderr)
		}
		g.give()
	}
	g.write("file", "text")
	o := g.run("workspace", "from hermes_tools import read_file; print(read_file('file')['content']); open('made', 'w').close()")
	o.want(t, "success", "text")
	if o.Rung != "landlock" || o.Enforcement["guards"] != "unsupported" || o.Enforcement["processes"] != "partial" || o.Enforcement["files"] != "partial" {
		t.Errorf("rung %q, %v", o.Rung, o.Enforcement)
	}
	// What a profile does not leave open is refused, unless a file does.
	sealed := g.do("--policy", "sealed", "run", "-q", "-c", "print('ran')")
	if sealed.exit != 126 || sealed.stdout != "" || !strings.Contains(sealed.stderr, "cannot be kept without namespaces: files, processes") {
		t.Errorf("sealed: %d %s%s", sealed.exit, sealed.stdout, sealed.stderr)
	}
	strict := g.write("strict.yaml", "read: [/]\nwrite: [.]\nnetwork: host\n")
	if o := g.do("--policy", strict, "run", "-q", "-c", "print('ran')"); o.exit != 126 || !strings.Contains(o.stderr, "cannot be kept without namespaces") {
		t.Errorf("a file that leaves nothing open: %d %s%s", o.exit, o.stdout, o.stderr)
	}
	lax := g.write("lax.yaml", "extends: sealed\nbest_effort: [files, processes, resources]\n")
	o = g.run(lax, "import socket\ntry:\n    socket.socket()\nexcept OSError as e:\n    print('no network')")
	o.want(t, "success", "no network")
	if o.Rung != "landlock" || o.Enforcement["network"] != "enforced" {
		t.Errorf("rung %q, %v", o.Rung, o.Enforcement)
	}
}

// ladderAttacks: what is said to be enforced holds, and what is broken is said
// not to be.
func ladderAttacks(t *testing.T, bin string) {
	all, clauses := besiege(t, bin, "workspace")
	for _, p := range all {
		if p.Verdict != "broken" {
			continue
		}
		if state := clauses[p.Clause]; state != "partial" && state != "unsupported" {
			t.Errorf("%s is broken, and %s is said to be %q: %s", p.ID, p.Clause, state, p.Detail)
		}
	}
	for id := range strings.FieldsSeq(`read-ssh read-aws read-gh read-hermes-env read-by-symlink read-by-dotdot read-by-proc-self-root read-by-copied-program
		write-etc write-usr write-home write-shell-rc write-programs outside-write outside-unlink outside-rename outside-create outside-symlink
		outside-hardlink unix-abstract socket-raw socket-packet socket-vsock signal-outside signal-engine memory-outside ptrace-outside environ-engine
		open-disks caps-effective caps-permitted new-privileges uid-is-root seccomp unshare-user clone-user mount open-tree io-uring bpf keyctl userfaultfd
		memfd-exec core-limit left-behind outlive-timeout left-by-timeout env-bait inherited-files rpc-wrong-token rpc-ungranted tool-read-secret
		tool-write-outside tool-terminal`) {
		if all[id].Verdict != "held" {
			t.Errorf("%s: %+v, want it held", id, all[id])
		}
	}
}
