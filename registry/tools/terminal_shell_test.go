//go:build unix

package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

// A command may end in any way: what it did to the directory and the exported
// variables holds for the next one.
func TestTerminalStatePersists(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		before := b.dir // what each command finds: the directory and $N
		for i, row := range []struct {
			end  string // how the command ends
			code int
		}{
			{"true", 0}, {"exit 3", 3}, {"set -e; false; echo no", 1}, {"(exit 7)", 7}, {"f() { exit 9; }; f", 9}, {"set -u; exit 4", 4},
			{"trap 'true' EXIT", 0}, {"trap 'true' EXIT; false", 1}, {"exec >/dev/null", 0}, {"exec 1>&-", 0}, {"exec 2>&-", 0}, {"exec >/dev/null 2>&1 </dev/null; exit 5", 5},
			{"set -x", 0}, {"set -v", 0}, {"set -f", 0}, {"IFS=x", 0}, {"PATH=/nowhere", 0}, {"exec 8>&-", 0}, {"exec 8>/dev/null; exit 2", 2}, {"exec 8>log", 0}, {"exec 9>log", 0},
			{"cat <<E", 0}, {"unset HOME", 0}, {"set -a; Z=1", 0}, {"alias ls=true; umask 777", 0}, {"printf x", 0}, {"set -- a b c", 0},
		} {
			sub := filepath.Join(b.dir, "d"+strconv.Itoa(i))
			got := b.sh(fmt.Sprintf("pwd; echo \"$N\"; PATH=%s; mkdir %s; cd %s; export N=%d; umask 77\n%s", os.Getenv("PATH"), sub, sub, i, row.end))
			if got.ExitCode != row.code || !strings.HasPrefix(got.Output, before) || strings.Contains(got.Output, "hx-") {
				t.Errorf("%s: %s\nwant %q first", row.end, show(got), before)
			}
			before = sub + "\n" + strconv.Itoa(i)
		}
		b.want(`pwd; echo "$N"`, before, 0)
	})
}

// What cannot tell its state, or ends badly, leaves the next command as it was.
func TestTerminalStateUnchanged(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		b.want("export A=1; cd /usr", "", 0)
		for _, command := range []string{
			"cd /tmp; export A=2; exec true",
			"cd /tmp; export A=2; kill -9 $$",
			"cd /tmp; export A=2; trap 'true' EXIT; exit 4",
			"cd /tmp; export A=2; sleep 60",
			"(cd /tmp; export A=2)",
			"cd /tmp | export A=2",
			"if", // a syntax error
		} {
			b.call(registry.Model, map[string]any{"command": command, "timeout": 1})
			b.want(`pwd; echo "$A"`, "/usr\n1", 0)
		}
	})
}

func TestTerminalSyntaxErrors(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		for _, command := range []string{"if", "echo 'open", `echo "open`, "echo $(", "ls )", "; ls", "(", "}", "fi", "echo `", "case x in", "a() {"} {
			got := b.sh(command)
			if got.ExitCode == 0 || got.Output == "" || got.Error != nil {
				t.Errorf("%q: %s", command, show(got))
			}
			if strings.Contains(got.Output, "hx-") || strings.Contains(got.Output, "_hx_") {
				t.Errorf("%q shows what is not its own: %q", command, got.Output)
			}
		}
		// What stands before the error has run, as in any shell.
		b.want("cd /usr\ntrue", "", 0)
		b.sh("cd /tmp\n)")
		b.want("pwd", "/tmp", 0)
		b.want("# only a comment", "", 0)
	})
}

func TestTerminalLineNumbersAndParameters(t *testing.T) {
	b := newTerminalBox(t, Config{})
	b.want("true\nnosuch", "bash: line 2: nosuch: command not found", 127)
	b.want(`echo "$# $0 [$*]"`, "0 bash []", 0)
	b.useSh()
	b.want(`echo "$# [$*]"`, "0 []", 0)
}

func TestTerminalExportsAreExact(t *testing.T) {
	values := []string{"", " ", "a b", "line\nbreak\n", "'", `"`, `\`, "`id`", "$HOME", "${x}", "\t\r\x1b[0m\x01\x7f", "ünï 漢字 🎈", "-n", "x=y", "*", "!",
		"a'b\"c\\d$e`f", "\xff\xfe", "declare -x Z=\"1\"\n", "#", "~", "a\\\nb", "\n", "(a b)", strings.Repeat("x", 50_000)}
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		for i, value := range values {
			file := filepath.Join(b.dir, "value")
			if err := os.WriteFile(file, []byte(value+"."), 0o600); err != nil {
				t.Fatal(err)
			}
			name := "V" + strconv.Itoa(i)
			if got := b.sh(fmt.Sprintf("%s=$(cat value); export %s=\"${%s%%?}\"", name, name, name)); got.ExitCode != 0 || got.Note != "" {
				t.Fatalf("%q: %s", value, show(got))
			}
			// A second command in between: kept, not only passed on.
			b.sh("true")
			b.sh(fmt.Sprintf(`printf %%s "$%s" > got`, name))
			if got, _ := os.ReadFile(filepath.Join(b.dir, "got")); string(got) != value {
				t.Errorf("%q came back as %q", value, got)
			}
		}
	})
}

func TestTerminalExportsKinds(t *testing.T) {
	b := newTerminalBox(t, Config{ModelEnv: []string{"PATH=" + os.Getenv("PATH"), "GIVEN=1", "BASH_ENV=/nowhere/evil", "odd.name=kept"}})
	b.want("unset GIVEN; export -n NOT; LOCAL=1; readonly RO=2; export RO; export BARE; declare -ax ARR=(1 '2 3'); declare -ix INT=7; declare -xl LOW=ABC; f() { :; }; export -f f; set -o posix; export PX=\"a'b\"", "", 0)
	b.want(`echo "${GIVEN-unset} ${LOCAL-unset} $RO ${BARE-unset} ${ARR-unset} $INT $LOW ${BASH_ENV-unset} $PX"; RO=3; echo "$RO"; type f`,
		"unset unset 2 unset unset 7 abc unset a'b\n3\nbash: line 1: type: f: not found", 1)
	b.want("env | grep -c odd.name=kept", "1", 0)
	// What would make the next shell run something else first is not kept.
	b.want("export BASH_ENV=/tmp/x ENV=/tmp/x SHELLOPTS _hx_c=1 SHLVL=9; unset PWD", "", 0)
	got := b.sh("env")
	for _, name := range []string{"BASH_ENV=", "ENV=", "SHELLOPTS=", "_hx", "BASH_FUNC"} {
		if strings.Contains("\n"+got.Output, "\n"+name) {
			t.Errorf("%s was kept:\n%s", name, got.Output)
		}
	}
	// A PATH without anything in it must not take the terminal away.
	b.want("export PATH=", "", 0)
	b.want("echo still here", "still here", 0)
}

func TestTerminalExportsAreBounded(t *testing.T) {
	b := newTerminalBox(t, Config{})
	b.want("export SMALL=1", "", 0)
	for _, command := range []string{
		"export BIG=$(head -c 100000 /dev/zero | tr '\\0' x)",
		"for i in 1 2 3 4; do export BIG$i=$(head -c 90000 /dev/zero | tr '\\0' x); done",
		"x=$(head -c 100000 /dev/zero | tr '\\0' x); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do export BIG$i=$x; done",
	} {
		if got := b.sh(command + "; cd /usr"); got.ExitCode != 0 || !strings.Contains(got.Note, "not kept") {
			t.Errorf("%s: %s", command, show(got))
		}
		b.want(`pwd; echo "$SMALL ${BIG-no} ${BIG1-no}"; cd /tmp`, "/usr\n1 no no", 0)
	}
}

// The exports of one environment are not shown to the other: a model's may
// hold secrets that scripts are not given.
func TestTerminalExportsPerEnvironment(t *testing.T) {
	b := newTerminalBox(t, Config{})
	run := func(kind registry.CallerKind, command string) string {
		return strings.TrimSpace(b.call(kind, map[string]any{"command": command}).Output)
	}
	run(registry.Model, "export TOKEN=secret; cd /usr")
	if got := run(registry.Script, `echo "$KIND ${TOKEN-none}"; pwd; export S=1`); got != "script none\n/usr" {
		t.Errorf("script: %q", got)
	}
	if got := run(registry.MCP, `echo "$KIND $TOKEN ${S-none}"`); got != "model secret none" {
		t.Errorf("mcp: %q", got)
	}
	if got := run(registry.Script, `echo "$S"`); got != "1" {
		t.Errorf("script: %q", got)
	}
}

// The reference writes every exported variable to a world-readable file.
func TestTerminalStateTouchesNoFile(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		const secret = "needle-5bd2c7"
		keepDescriptors(t)
		// The command itself sees neither the value in any argument list, nor
		// a descriptor that is not its own.
		b.want("export HIDDEN="+secret[:6]+"'"+secret[6:]+"'", "", 0)
		b.want(`tr '\0' ' ' < /proc/$$/cmdline | grep -c "$HIDDEN"`, "0", 1)
		b.want("ls /proc/self/fd | wc -l", "4", 0) // 0 1 2 and the directory
		b.want("exec 8>log 9>&8; cd /usr", "", 0)
		err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), secret) {
				t.Errorf("%s holds the value (%v)", path, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if scratch, _ := os.ReadDir(b.session.box.Info().ScratchDir); len(scratch) > 0 {
			t.Errorf("left in scratch: %v", scratch)
		}
	})
}

// keepDescriptors keeps what this process inherited from the commands.
func keepDescriptors(t *testing.T) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// The reference keeps one snapshot file: who ends last undoes the others.
func TestTerminalConcurrentCommandsKeepEachOthersChanges(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		b.want("export OLD=1 GONE=1", "", 0)
		var wg sync.WaitGroup
		wg.Go(func() { // starts first, ends last
			b.sh("touch started; while ! [ -e go ]; do sleep 0.02; done; export SLOW=1")
		})
		waitFor(t, func() bool { _, err := os.Stat(filepath.Join(b.dir, "started")); return err == nil })
		b.want("export X=1 OLD=2; unset GONE; cd /usr", "", 0)
		if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		b.want(`pwd; echo "$X $OLD $SLOW ${GONE-gone}"`, "/usr\n1 2 1 gone", 0)
	})
}

// The reference fails once with 126 after the directory was deleted.
func TestTerminalDeletedDirectory(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		b.want("mkdir -p a/b/c; cd a/b/c", "", 0)
		if err := os.RemoveAll(filepath.Join(b.dir, "a", "b")); err != nil {
			t.Fatal(err)
		}
		got := b.sh("pwd")
		if want := filepath.Join(b.dir, "a"); got.Output != want || got.ExitCode != 0 || !strings.Contains(got.Note, "is gone") {
			t.Errorf("%s", show(got))
		}
		b.want("pwd", filepath.Join(b.dir, "a"), 0)
		b.want("mkdir x; cd x; rmdir ../x", "", 0)
		b.want("pwd", filepath.Join(b.dir, "a"), 0)
	})
}

// A command longer than an argument may be comes another way, with the same
// meaning.
func TestTerminalLongCommands(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		for _, size := range []int{maxInArgs, maxInArgs + 1, 200_000, maxCommand} {
			command := "cd /usr; export L=" + strconv.Itoa(size) + "; cat; echo \"$# ok\"; "
			command += ": '" + strings.Repeat("x", size-len(command)-len(": ''\nexit 3")) + "'\nexit 3"
			if len(command) != size {
				t.Fatal(len(command))
			}
			b.want(command, "0 ok", 3)
			b.want(`pwd; echo "$L"; cd /`, "/usr\n"+strconv.Itoa(size), 0)
		}
	})
}

func TestTerminalManyAtOnce(t *testing.T) {
	b := newTerminalBox(t, Config{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			b.want(fmt.Sprintf("export M%d=%d; echo %d", i, i, i), strconv.Itoa(i), 0)
		})
	}
	wg.Wait()
	got := strings.Fields(b.sh("env | grep ^M | sort | wc -l").Output)
	if !slices.Equal(got, []string{"16"}) {
		t.Errorf("%v of 16 kept", got)
	}
}

func TestTerminalUserEndsTrapsAndDebuggers(t *testing.T) {
	b := newTerminalBox(t, Config{})
	b.want("trap 'echo bye; echo err >&2' EXIT; echo hi", "hi\nbye\nerr", 0)
	b.want("trap 'echo bye' EXIT; exit 4", "bye", 4)
	b.want("set -E; trap 'echo failed' ERR; false; cd /usr", "failed", 0)
	b.want("pwd", "/usr", 0)
	got := b.sh("trap ': dbg' DEBUG; set -T; cd /tmp")
	if got.Output != "" {
		t.Errorf("%q", got.Output)
	}
	b.want("pwd", "/tmp", 0)
	b.want("export A=1; exit() { :; }; pwd() { echo /evil; }; printf() { :; }; cd /usr", "", 0)
	b.want(`pwd; echo "$A"`, "/usr\n1", 0)
}
