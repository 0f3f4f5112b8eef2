package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What stands against namespaces and Landlock is told by the setting that does,
// and nothing else is blamed.
func TestFixes(t *testing.T) {
	const unknown = "no setting of this kernel"
	sysctls := map[string]string{
		"proc/sys/kernel/unprivileged_userns_clone": "1\n", "proc/sys/user/max_user_namespaces": "96188\n",
		"proc/sys/user/max_pid_namespaces": "96188\n", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0\n",
		"proc/1/cgroup": "0::/init.scope\n", "sys/kernel/security/lsm": "capability,landlock,yama",
	}
	for _, c := range []struct {
		what, file, text string
		uid, abi         int
		want             string // of namespaces, or after "landlock:" of Landlock
	}{
		{what: "nothing", abi: 7, uid: 1000, want: unknown},
		{what: "debian", file: "proc/sys/kernel/unprivileged_userns_clone", text: "0\n", uid: 1000, want: "sysctl -w kernel.unprivileged_userns_clone=1 "},
		{what: "debian, root", file: "proc/sys/kernel/unprivileged_userns_clone", text: "0\n", want: unknown},
		{what: "a limit", file: "proc/sys/user/max_user_namespaces", text: "0\n", want: "sysctl -w user.max_user_namespaces=10000 "},
		{what: "another limit", file: "proc/sys/user/max_pid_namespaces", text: "0\n", uid: 1000, want: "sysctl -w user.max_pid_namespaces=10000 "},
		{what: "ubuntu", file: "proc/sys/kernel/apparmor_restrict_unprivileged_userns", text: "1\n", uid: 1000, want: `profile hermes-exec "/opt/hermes-exec" flags=(unconfined) { userns, }`},
		{what: "ubuntu, root", file: "proc/sys/kernel/apparmor_restrict_unprivileged_userns", text: "1\n", want: unknown},
		{what: "docker", file: ".dockerenv", want: "--security-opt seccomp=unconfined"},
		{what: "podman", file: "run/.containerenv", want: "--security-opt seccomp=unconfined"},
		{what: "kubernetes", file: "proc/1/cgroup", text: "0::/kubepods.slice/x\n", want: "this is a container"},
		{what: "landlock", abi: 7, want: "landlock:"},
		{what: "landlock, switched off", file: "sys/kernel/security/lsm", text: "capability,yama,apparmor\n", want: "landlock:boot with lsm=landlock,capability,yama,apparmor on"},
		{what: "landlock, old", abi: 3, want: "landlock:Landlock ABI 3: a kernel of 6.12"},
		{what: "landlock, not built", want: "landlock:a kernel of 6.12 or newer, built with CONFIG_SECURITY_LANDLOCK"},
	} {
		m := machine{root: t.TempDir(), uid: c.uid, program: "/opt/hermes-exec", landlock: c.abi}
		for name, text := range sysctls {
			if name == c.file {
				continue
			}
			write(t, filepath.Join(m.root, name), text)
		}
		if c.file != "" {
			write(t, filepath.Join(m.root, c.file), c.text)
		}
		got := m.namespaceFix()
		want, landlock := strings.CutPrefix(c.want, "landlock:")
		if landlock {
			got = m.landlockFix()
		}
		if !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "; and ") {
			t.Errorf("%s: %q, want %q", c.what, got, want)
		}
	}
}

// Two things that stand against them are both told.
func TestFixesAreAllTold(t *testing.T) {
	m := machine{root: t.TempDir(), uid: 1000, program: "/opt/hermes-exec"}
	write(t, filepath.Join(m.root, "proc/sys/kernel/unprivileged_userns_clone"), "0\n")
	write(t, filepath.Join(m.root, ".dockerenv"), "")
	if got := m.namespaceFix(); !strings.Contains(got, "userns_clone=1") || !strings.Contains(got, "; and this is a container") {
		t.Error(got)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
