package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An attack is a class of what hostile scripts, or what surrounds them, try. It
// has the number it is spoken of by.
type attack struct {
	number int
	what   string
	probes string                            // of selftest, by their ids
	tests  string                            // that exist elsewhere: package.TestName, or a file here
	own    func(t *testing.T, binary string) // in attack_cases_linux_test.go
	// kept says why the probes hold in an open session too, "" where one of
	// them must show that the attack works there.
	kept string
	// root says that without a policy only root can do it.
	root bool
	out  string // why it is not tested, or not all of it
}

const (
	everywhere = "the engine keeps it, confined or not"
	hostLists  = "there are no host lists: the network is off, or the host's"
	approvals  = "nobody is asked: what would need an approval is refused, see 84"
)

// attacks are all of them. Numbers that are missing were never given.
var attacks = []attack{
	{number: 1, what: "namespaces of its own, to mount over what is denied",
		probes: "unshare-user unshare-mount unshare-user-mount unshare-pid unshare-net clone-user clone-mount clone3-user"},
	{number: 3, root: true, what: "calls that change mounts and enter namespaces",
		probes: "setns-net setns-mount setns-init open-tree mount mount-bind umount mount-setattr move-mount fsopen fspick pivot-root chroot",
		tests:  "testdata/work_processes.txtar"},
	{number: 4, what: "processes of others in /proc", probes: "share-pid see-processes cmdline-outside"},
	{number: 5, what: "trace and write the memory of process 1 and others",
		probes: "ptrace-outside ptrace-child memory-read-init memory-write-init memory-read-parent memory-write-parent memory-read-outside memory-write-outside",
		tests:  "testdata/attack_supervisor.txtar"},
	{number: 6, root: true, what: "open memory and environments through /proc",
		probes: "memory-init memory-parent memory-outside environ-engine environ-parent environ-outside fds-outside fds-parent"},
	{number: 8, what: "capabilities that are left", probes: "caps-effective caps-permitted caps-bounding caps-inheritable caps-ambient new-privileges tool-terminal"},
	{number: 9, what: "setuid programs, found and made", probes: "setuid-programs setuid-root setgid-root setgroups new-privileges uid-is-root", own: attackSetID},
	{number: 10, what: "foreign system call tables", probes: "foreign-i386 foreign-x32 personality", tests: "guest/seccomp.TestForeignTablesKill"},
	{number: 11, what: "io_uring", probes: "io-uring seccomp"},
	{number: 14, what: "fork bomb", own: attackForkBomb, tests: "backends/local/cgroup.TestKillEndsAForkBomb"},
	{number: 15, what: "double fork, setsid, deaf to signals", probes: "left-behind left-by-timeout", kept: everywhere,
		tests: "testdata/both/limit_timeout.txtar"},
	{number: 16, what: "a timeout that ends the client alone",
		tests: "backends/docker.TestLawsWorkspace backends/docker.TestKilledEngine backends/ssh.TestLawsGuest backends/ssh.TestLawsPlain backends/ssh.TestKilledEngine"},
	{number: 17, what: "the engine is killed", tests: "integration.TestSoakKilledAtAnyInstant backends/local.TestEngineKilledAnytime"},
	{number: 19, what: "a storm of orphans", tests: "guest.TestReap"},
	{number: 20, what: "stopped past the deadline", probes: "outlive-timeout left-by-timeout", kept: everywhere, own: attackStopped},
	{number: 22, what: "inherited descriptors", probes: "inherited-files inherited-terminal", kept: everywhere, own: attackInherited},
	{number: 25, what: "core dumps", probes: "core-limit core-dump", own: attackCore},

	{number: 26, what: "read secrets",
		probes: "read-ssh read-aws read-gh read-hermes-env read-by-symlink read-by-dotdot read-by-proc-self-root read-by-proc-cwd tool-read-secret"},
	{number: 27, what: "write outside the workspace",
		probes: "write-root write-etc write-usr write-var write-system-files outside-write outside-create outside-mkdir outside-unlink outside-rename outside-truncate outside-chmod tool-write-outside"},
	{number: 28, what: "write through links", probes: "outside-symlink outside-hardlink"},
	{number: 29, what: "a link in place of what is allowed or guarded", own: attackLinks,
		tests: "sandbox/guards.TestALinkInTheWayRefuses guest/landlock.TestWhatWasReplacedIsNotAllowed guest/files.TestFiles sandbox/sshbox.TestFiles"},
	{number: 32, what: "make a guarded place that is missing",
		probes: "guard-git-hooks guard-envrc guard-vscode guard-vscode-new guard-idea guard-claude guard-cursor guard-workflows guard-git-move guard-vscode-move workspace-residue"},
	{number: 33, what: "git's pointers and configuration",
		probes: "guard-git-config guard-git-commondir guard-git-config-worktree guard-git-modules guard-git-worktrees report-nested-repository report-new-submodule report-new-worktree"},
	{number: 34, what: "what a project runs later", probes: "report-venv report-node-bin report-tests report-makefile"},
	{number: 35, what: "the PATH and what shells run", probes: "write-path write-shell-rc write-home write-programs"},
	{number: 37, what: "strange names in policies", tests: "sandbox/policy.TestMistakes sandbox/policy.FuzzParse sandbox/policy.TestFileAsksTooMuch"},
	{number: 39, what: "a denied program under another name", probes: "read-by-copied-program read-by-loader memfd-exec"},
	{number: 40, root: true, what: "devices, pipes and sockets in the workspace", probes: "mknod-char mknod-block", own: attackSpecialFiles},
	{number: 42, what: "a pipe in place of a file", probes: "rpc-fifo", kept: everywhere,
		tests: "registry/tools.TestReadFileDevices guest/files.TestFiles sandbox/sshbox.TestFiles sandbox/guards.TestScanOfLinksPipesAndSetuid"},
	{number: 44, what: "hostile archives: none is read from a box, what it lists and sends is bounded",
		tests: "sandbox/sshbox.TestFilesHostileAnswers sandbox/sshbox.TestFilesHostileContent guest/serve.TestSFTPBounds"},
	{number: 45, what: "hostile names of uploads", tests: "sandbox/sshbox.TestFiles backends/ssh.TestUpload"},
	{number: 46, what: "a full disk", own: attackFullDisk},
	{number: 49, what: "another session's files", probes: "other-session tmp-private vartmp-private shm-private run-private", own: attackOtherSession},
	{number: 50, what: "its own policy, stub and log", probes: "write-config write-engine write-interpreter", own: attackOwnRules},
	{number: 51, what: "overlay marks before a commit", probes: "mknod-char outside-xattr", own: attackSpecialFiles,
		out: "nothing is committed from an overlay: only that the marks cannot be made"},
	{number: 52, what: "a workspace that holds too much", own: attackWorkspace, tests: "sandbox/policy.TestWorkDirIsRefused"},

	{number: 53, what: "direct connections", probes: "net-tcp-loopback net-udp-loopback net-internet net-addresses net-ping net-namespace net-interfaces"},
	{number: 54, what: "names", probes: "net-dns net-nameserver", out: "with the network off; " + hostLists},
	{number: 56, what: "over-matching of host names", out: hostLists},
	{number: 57, what: "allowed names of private addresses", out: hostLists},
	{number: 59, what: "metadata services", probes: "net-metadata", out: "with the network off: on the host's network they are what they are there"},
	{number: 61, what: "other protocols through a proxy", out: hostLists},
	{number: 62, what: "smuggled requests", out: hostLists},
	{number: 64, what: "a broad permission against a narrow denial", tests: "sandbox.TestAccess", out: "of files; " + hostLists},
	{number: 65, what: "an empty list that allows all", tests: "engine.TestFault53AnEmptyGrantIsEmpty", out: "of tools; " + hostLists},
	{number: 66, what: "a proxy that dies", out: hostLists},
	{number: 67, what: "sockets of services", probes: "unix-outside unix-others unix-docker unix-dbus unix-agents unix-display unix-systemd"},
	{number: 69, what: "sockets of other families",
		probes: "socket-vsock socket-packet socket-raw socket-alg socket-bluetooth socket-audit socket-netfilter socket-key socket-xdp socket-tipc socket-can",
		tests:  "guest/seccomp.TestSockets"},
	{number: 70, what: "abstract sockets of the host", probes: "unix-abstract"},
	{number: 71, what: "servers of the engine's own", probes: "net-tcp-loopback", out: "with the network off; the engine opens no port"},
	{number: 72, what: "servers of the script's own", own: attackListen},
	{number: 73, what: "IPv6 beside IPv4", probes: "net-internet6 net-tcp-loopback6"},
	{number: 74, what: "privileged containers", tests: "backends/docker.TestRefusals backends/docker.TestRefuseArgs backends/docker.TestParseVolume backends/docker.TestHardening"},
	{number: 75, what: "tokens in containers", tests: "backends/docker.TestHardening backends/docker.TestParseVolume"},

	{number: 76, what: "calls without the run's token", probes: "rpc-no-token rpc-wrong-token rpc-near-token", kept: everywhere,
		tests: "rpc.TestUnauthorized rpc.TestForeignUID engine.TestCallsAfterTheEndAreRefused"},
	{number: 78, what: "calls of what was not granted", probes: "rpc-ungranted rpc-variants", kept: everywhere, tests: "engine.TestFault05NoSpellingPassesTheGate"},
	{number: 79, what: "more calls than allowed", tests: "rpc.TestExactCapUnder64Clients engine.TestCapIsExactUnderManyThreads"},
	{number: 81, what: "huge results", tests: "rpc.TestResultAtTheLimit rpc.TestBigFramesAreBounded registry/tools.TestReadFileHuge"},
	{number: 82, what: "many calls behind one approval", out: approvals},
	{number: 83, what: "approvals in threads", out: approvals},
	{number: 84, what: "nobody to approve", tests: "registry/tools.TestFault45NobodyToAskIsNoPermission engine/approval.TestForbidden"},
	{number: 87, what: "code in the environment", probes: "env-injection", kept: everywhere, own: attackInjection, tests: "testdata/env_leak.txtar envfilter.TestNeverPass",
		out: "PYTHONPATH passes, as the user's own: what it names runs inside the box"},
	{number: 88, what: "secrets in environments and command lines", probes: "env-bait env-block env-names env-command-line", kept: everywhere,
		tests: "engine.TestFaultS2ParentHasNoSecrets output.FuzzRedact"},
	{number: 89, what: "output that is code to who reads it", probes: "rpc-frame", kept: everywhere, tests: "rpc.TestHostileLines rpc.FuzzParseRequest"},
	{number: 91, what: "tools that cannot be reached", own: attackLostSocket},

	{number: 92, what: "endless output", tests: "testdata/both/soak_output.txtar output.TestWindowFlat testdata/both/limit_output.txtar"},
	{number: 93, what: "output that is no text", tests: "testdata/both/attack_output.txtar output.TestStripANSI output.FuzzWindow"},
	{number: 94, what: "a timeout that loses the output", tests: "testdata/both/limit_timeout.txtar"},
	{number: 96, what: "a timeout above the cap", own: attackTimeout, tests: "registry/tools.TestTerminalRefusesBeforeAnythingStarts"},
	{number: 97, what: "confinement that is not to be had", tests: "integration.TestLadder testdata/policy_refused.txtar"},
	{number: 98, what: "clauses a backend cannot keep", tests: "integration.TestLadder engine.TestPolicyThatCannotBeKeptIsRefused backends/local.TestRefusals"},
}

// TestAttacks makes every attack, on the policies that are to withstand it and,
// to show that it is one, without a policy.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const numbers = `1 3 4 5 6 8 9 10 11 14 15 16 17 19 20 22 25 26 27 28 29 32 33 34 35 37 39 40 42 44 45 46 49 50 51 52
		53 54 56 57 59 61 62 64 65 66 67 69 70 71 72 73 74 75 76 78 79 81 82 83 84 87 88 89 91 92 93 94 96 97 98`
	bin := binary(t)
	cards := map[string]map[string]verdict{}
	var mu sync.Mutex
	t.Run("siege", func(t *testing.T) {
		for _, policy := range []string{"workspace", "sealed", "open"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				card, _ := besiege(t, bin, policy)
				mu.Lock()
				defer mu.Unlock()
				cards[policy] = card
			})
		}
	})
	for text := range strings.FieldsSeq(numbers) {
		number, _ := strconv.Atoi(text)
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.number == number })
		if i < 0 {
			t.Errorf("attack %d has no test", number)
			continue
		}
		a := attacks[i]
		t.Run(text, func(t *testing.T) {
			if a.probes == "" && a.tests == "" && a.own == nil && a.out == "" {
				t.Errorf("%s: there is no test", a.what)
			}
			a.judge(t, cards)
			for name := range strings.FieldsSeq(a.tests) {
				exists(t, name)
			}
			if a.own != nil {
				a.own(t, bin)
			}
		})
	}
}

// verdict is what a selftest says of one probe.
type verdict struct {
	ID      string `json:"id"`
	Clause  string `json:"clause"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
}

// besiege runs selftest in a home that has secrets, and returns what it says of
// its probes and of the session's clauses.
func besiege(t *testing.T, bin, policy string) (probes map[string]verdict, clauses map[string]string) {
	t.Helper()
	g := newGround(t, bin)
	for _, name := range []string{".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".bashrc", ".hermes/.env", ".hermes/config.yaml"} {
		g.write(filepath.Join(g.home, name), "# secret\n")
	}
	if err := os.Chmod(filepath.Join(g.home, ".hermes/.env"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := g.do("--policy", policy, "selftest", "--json")
	var card struct {
		Probes      []verdict `json:"probes"`
		Enforcement []struct {
			Clause, State string
		} `json:"enforcement"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &card); err != nil {
		t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
	}
	probes, clauses = map[string]verdict{}, map[string]string{}
	for _, p := range card.Probes {
		probes[p.ID] = p
	}
	for _, c := range card.Enforcement {
		clauses[c.Clause] = c.State
	}
	return probes, clauses
}

// judge looks at the attack's probes: none is broken where a policy is to
// withstand it, one at least could be judged there, and one is broken where
// there is none.
func (a attack) judge(t *testing.T, cards map[string]map[string]verdict) {
	ids := strings.Fields(a.probes)
	if len(ids) == 0 {
		return
	}
	held, open := false, false
	for _, id := range ids {
		for _, policy := range []string{"workspace", "sealed"} {
			p, ok := cards[policy][id]
			if !ok || p.Verdict != "held" && p.Verdict != "na" {
				t.Errorf("%s: %s under %s: %+v", a.what, id, policy, p)
			}
			if p.Verdict == "na" && strings.Contains(p.Detail, "the policy gives") && policy == "sealed" {
				t.Errorf("%s: %s under sealed: %s", a.what, id, p.Detail)
			}
			held = held || p.Verdict == "held"
		}
		twin := cards["open"][id]
		open = open || twin.Verdict == "broken"
		if a.kept != "" && twin.Verdict != "held" {
			t.Errorf("%s: %s without a policy: %+v", a.what, id, twin)
		}
	}
	if !held {
		t.Errorf("%s: none of %s could be judged", a.what, a.probes)
	}
	if a.kept == "" && !open && (os.Getuid() == 0 || !a.root) {
		t.Errorf("%s: none of %s works where nothing confines", a.what, a.probes)
	}
}

// exists fails unless there is such a test.
func exists(t *testing.T, name string) {
	if strings.HasPrefix(name, "testdata/") {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
		return
	}
	pkg, fn, _ := strings.Cut(name, ".")
	sources, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + fn + `\(`)
	for _, source := range sources {
		if text, err := os.ReadFile(source); err == nil && declared.Match(text) {
			return
		}
	}
	t.Errorf("there is no test %s", name)
}
