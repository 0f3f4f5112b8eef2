package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func testPlaces(t testing.TB) places {
	return places{home: "/home/u", state: []string{"/home/u/.hermes", "/tmp/state"}, real: func(name string) string {
		if name == "/srv/link" {
			return "/proc"
		}
		if name == "/srv/run.sock" {
			return "/run/docker.sock"
		}
		return name
	}}
}

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]volume{
		"/srv/data:/data":            {Source: "/srv/data", Target: "/data"},
		"/srv/data:/data:ro":         {Source: "/srv/data", Target: "/data", ReadOnly: true},
		"/srv/data/:/data:rw,cached": {Source: "/srv/data", Target: "/data"},
		"~/data:/data":               {Source: "/home/u/data", Target: "/data"},
		"cache:/var/cache/x":         {Source: "cache", Target: "/var/cache/x", Named: true},
		"/srv/data:/workspace/data":  {Source: "/srv/data", Target: "/workspace/data"},
		"/srv/data:/run/data":        {Source: "/srv/data", Target: "/run/data"},
	} {
		if got, err := parseVolume(text, testPlaces(t)); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"/srv":                       "want /host/dir",
		"":                           "want /host/dir",
		"a:b:c:d":                    "want /host/dir",
		"C:\\x:/x":                   "", // a drive is no volume's name
		"/:/host":                    "too much",
		"/etc:/e":                    "too much",
		"/home:/h":                   "",
		"/home/u:/h":                 "home directory",
		"~:/h":                       "home directory",
		"/proc:/p":                   "machine's own",
		"/proc/1/root:/p":            "machine's own",
		"/sys/fs/cgroup:/p":          "machine's own",
		"/dev/kvm:/p":                "machine's own",
		"/var/lib/docker/volumes:/v": "machine's own",
		"/var/run/docker.sock:/s":    "whole machine",
		"/run/docker.sock:/s:ro":     "whole machine",
		"/run/user/1/docker.sock:/s": "whole machine",
		"/srv/run.sock:/s":           "whole machine",
		"/srv/link:/p":               "machine's own",
		"/run:/r":                    "too much",
		"/run/containerd/x:/r":       "more rights",
		"/home/u/.hermes:/h":         "engine's own state",
		"/home/u/.hermes/sub:/h":     "engine's own state",
		"/tmp:/t/..":                 "not a clean",
		"/srv:relative":              "not a clean",
		"/srv:/":                     "container's root",
		"/srv:/proc/x":               "container's own",
		"/srv:/.hermes-exec/bin":     "container's own",
		"/srv:/tmp":                  "container's own",
		"/srv:/x:Z":                  "labels",
		"/srv:/x:shared":             "no option",
		"/srv:/x:ro,nonsense":        "no option",
		"../up:/x":                   "neither",
		"-v:/x":                      "neither",
		"hermes-exec-guest-abc:/x":   "neither",
		"/srv\x00:/x\x00":            "",
	} {
		got, err := parseVolume(text, testPlaces(t))
		if !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %+v, %v, want %q", text, got, err, why)
		}
	}
}

func FuzzParseVolume(f *testing.F) {
	for _, seed := range []string{"/srv:/x", "name:/x:ro", "~/x:/y", "/proc/../srv:/x", "//:/x", "/var/run/../run/docker.sock:/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseVolume(text, testPlaces(t))
		if err != nil {
			return
		}
		if v.Target == "/" || filepath.Clean(v.Target) != v.Target || !strings.HasPrefix(v.Target, "/") || strings.ContainsAny(v.Target, "\x00\n") {
			t.Errorf("%q: target %q", text, v.Target)
		}
		if v.Named {
			return
		}
		for _, never := range []string{"/", "/proc", "/sys", "/dev", "/home/u", "/run"} {
			if v.Source == never || strings.HasPrefix(v.Source, never+"/") && never != "/" && never != "/home/u" && never != "/run" {
				t.Errorf("%q: source %q", text, v.Source)
			}
		}
		if strings.HasSuffix(v.Source, "docker.sock") && filepath.Base(v.Source) == "docker.sock" {
			t.Errorf("%q: source %q", text, v.Source)
		}
	})
}

func TestRefuseArgs(t *testing.T) {
	for arg, why := range map[string]string{
		"--privileged": "whole machine", "--cap-add=SYS_ADMIN": "no capabilities", "--security-opt=seccomp=unconfined": "weaken",
		"--pid=host": "no namespace", "--network=host": "the policy", "--device=/dev/kvm": "no devices", "-v/:/host": "docker_volumes",
		"-v": "docker_volumes", "--mount=type=bind": "docker_volumes", "-eA=1": "docker_env", "--dns=1.1.1.1": "not passed on", "word": "not passed on",
	} {
		if err := refuseArgs([]string{arg}); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", arg, err, why)
		}
	}
	if err := refuseArgs(nil); err != nil {
		t.Error(err)
	}
}

func TestUserOf(t *testing.T) {
	owner, root, engine := numbered(1000, 1000), numbered(0, 0), numbered(1000, 1000)
	plain := image{}
	own := image{User: "app", own: numbered(55, 66)}
	work := posture{WorkDir: "/w"}
	for _, c := range []struct {
		what  string
		image image
		p     posture
		f     facts
		owner *user
		host  bool
		want  string
	}{
		{"the work directory's owner", plain, work, facts{}, &owner, false, "1000:1000"},
		{"whatever the image says", own, work, facts{}, &owner, false, "1000:1000"},
		{"root's directory", plain, work, facts{}, &root, false, "0:0"},
		{"a rootless engine shows its user as root", plain, work, facts{rootless: true}, &owner, false, "0:0"},
		{"nobody's box", plain, posture{}, facts{}, nil, false, "1900000000:1900000000"},
		{"few numbers", plain, posture{}, facts{remapped: true}, nil, false, "65534:65534"},
		{"the image's user", own, posture{}, facts{}, nil, false, "55:66"},
		{"the image's user, open", own, posture{Open: true}, facts{}, nil, false, "55:66"},
		{"the image's root, open", plain, posture{Open: true}, facts{}, nil, false, ""},
		{"as configured", plain, posture{}, facts{}, nil, true, "1000:1000"},
		{"as configured by root", plain, posture{}, facts{}, &root, true, "1900000000:1900000000"},
	} {
		engine := engine
		if c.p.WorkDir == "" && c.owner != nil {
			engine = *c.owner
		}
		if got := userOf(c.image, c.p, c.f, c.owner, &engine, c.host); got.Text != c.want {
			t.Errorf("%s: %q, want %q", c.what, got.Text, c.want)
		}
	}
}

func TestFindUser(t *testing.T) {
	const accounts = "root:x:0:0:root:/root:/bin/sh\napp:x:101:102::/app:/bin/sh\nbroken:x:abc:1\n\nshort:x\n"
	const groups = "root:x:0:\nstaff:x:50:app\n"
	for spec, want := range map[string]string{"app": "101:102", "101": "101:102", "app:staff": "101:50", "app:7": "101:7", "4711": "4711:0", "4711:8": "4711:8"} {
		name, group, _ := strings.Cut(spec, ":")
		if got, err := findUser(name, group, accounts, groups); err != nil || got.Text != want {
			t.Errorf("%q: %+v, %v, want %s", spec, got, err, want)
		}
	}
	for _, spec := range []string{"nobody", "broken", "-1", "app:none", "app:-1", "99999999999"} {
		name, group, _ := strings.Cut(spec, ":")
		if got, err := findUser(name, group, accounts, groups); err == nil {
			t.Errorf("%q: %+v", spec, got)
		}
	}
	for spec, want := range map[string]bool{"": true, "root": true, "0": true, "0:5": true, "root:root": true, "00": true, "app": false, "1000": false} {
		if isRoot(spec) != want {
			t.Errorf("%q: %v", spec, !want)
		}
	}
}

// TestBody: every container has what makes it one, whatever is asked.
func TestBody(t *testing.T) {
	for name, o := range map[string]*order{
		"open":   {Posture: posture{Open: true, Network: true}},
		"sealed": {Posture: posture{Sealed: true}, User: numbered(5, 6), Home: true},
		"work": {Posture: posture{Network: true, WorkDir: "/w"}, User: numbered(5, 6), Res: sandbox.Resources{PIDs: 10, Memory: 1 << 20, CPU: 1.5},
			at: map[string]string{"/w": "/shown/0"}, Shown: []string{"/w"},
			guards:  []guard{{"/w/.git", guardPin}, {"/w/.git/hooks", guardReadOnly}, {"/w/key", guardHideFile}, {"/w/dir", guardHideDir}},
			Volumes: []volume{{Source: "v", Named: true, Target: "/v"}, {Source: "/s", Target: "/s", ReadOnly: true}}},
		"far": {Far: true, Posture: posture{Network: true}},
	} {
		body := o.body("n", "/link", "/hidden", map[string]string{labelOwner: "me"})
		h, c := body.HostConfig, body.Config
		if !slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) > 0 || h.Privileged || !h.AutoRemove || len(h.Devices) > 0 ||
			h.PidMode != "" || h.IpcMode != "private" || h.CgroupnsMode != "private" || h.UTSMode != "" || h.UsernsMode != "" || h.NetworkMode == "host" || len(h.Binds) > 0 {
			t.Errorf("%s: %+v", name, h)
		}
		if !slices.Contains(h.SecurityOpt, "no-new-privileges") || !strings.HasPrefix(h.SecurityOpt[1], "seccomp={") {
			t.Errorf("%s: %q", name, h.SecurityOpt)
		}
		if h.ReadonlyRootfs != o.Posture.Sealed || (h.NetworkMode == "none") == o.Posture.Network || h.LogConfig.Type != "none" || *h.PidsLimit == 0 {
			t.Errorf("%s: %+v", name, h)
		}
		if c.Healthcheck.Test[0] != "NONE" || c.OpenStdin != o.Far || slices.Contains(c.Entrypoint, "--dial") == o.Far || len(c.Env) > 1 {
			t.Errorf("%s: %+v", name, c)
		}
		if name != "work" {
			continue
		}
		got := map[string]mount.Mount{}
		for _, m := range h.Mounts {
			got[m.Target] = m
		}
		for target, readOnly := range map[string]bool{workInside: false, "/workspace/.git": false, "/workspace/.git/hooks": true, "/workspace/key": true, linkInside: true, "/v": false, "/s": true} {
			if m, ok := got[target]; !ok || m.ReadOnly != readOnly {
				t.Errorf("%s: %+v", target, m)
			}
		}
		for target, source := range map[string]string{workInside: "/shown/0", "/workspace/.git": "/shown/0/.git", "/workspace/.git/hooks": "/shown/0/.git/hooks", "/s": "/s"} {
			if got[target].Source != source {
				t.Errorf("%s is of %s", target, got[target].Source)
			}
		}
		if got["/workspace/key"].Source != "/hidden" || h.Tmpfs["/workspace/dir"] == "" || h.Tmpfs[workInside] != "" {
			t.Errorf("%+v %v", got, h.Tmpfs)
		}
		if *h.PidsLimit != 10+ownPIDs || h.Memory != 1<<20 || h.MemorySwap != 1<<20 || h.NanoCPUs != 1500000000 {
			t.Errorf("%+v", h.Resources)
		}
	}
}

func TestSeccompProfile(t *testing.T) {
	var p struct {
		DefaultAction string
		Syscalls      []struct {
			Names  []string
			Action string
			Args   []any
		}
	}
	if err := json.Unmarshal([]byte(seccompProfile()), &p); err != nil || p.DefaultAction != "SCMP_ACT_ERRNO" {
		t.Fatal(err, p.DefaultAction)
	}
	allowed := map[string]bool{} // without a condition
	for _, s := range p.Syscalls {
		for _, name := range s.Names {
			allowed[name] = allowed[name] || s.Action == "SCMP_ACT_ALLOW" && len(s.Args) == 0
		}
	}
	for _, name := range []string{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp", "openat2", "execve", "pidfd_open", "prctl"} {
		if !allowed[name] {
			t.Errorf("%s is refused", name)
		}
	}
	for _, name := range strings.Fields("mount umount2 unshare setns clone clone3 ptrace process_vm_readv bpf keyctl add_key io_uring_setup userfaultfd perf_event_open socket " +
		"open_by_handle_at init_module kexec_load chroot pivot_root reboot swapon fsopen move_mount open_tree modify_ldt socketcall personality") {
		if allowed[name] {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestFindEndpoint(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		full := filepath.Join(home, ".docker", name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get := func(configured string, env ...string) (string, error) {
		e, err := findEndpoint(configured, home, env)
		return e.host, err
	}
	if host, err := get(""); err != nil || host != "" {
		t.Errorf("nothing configured: %q, %v", host, err)
	}
	write("config.json", `{"currentContext": "far", "auths": {}}`)
	if _, err := get(""); err == nil || !strings.Contains(err.Error(), `no docker context "far"`) {
		t.Errorf("a context that is not there: %v", err)
	}
	const farID = "512eea46ceb3921dff4363c7069d89d4964d1d9fccaa0f411851a7aa60a5c868" // the SHA-256 of the name
	write("contexts/meta/"+farID+"/meta.json", `{"Name": "far", "Endpoints": {"docker": {"Host": "ssh://me@far", "SkipTLSVerify": false}}}`)
	for _, c := range []struct {
		configured string
		env        []string
		want       string
	}{
		{"", nil, "ssh://me@far"},
		{"", []string{"DOCKER_HOST=tcp://a:1"}, "tcp://a:1"},
		{"unix:///x", []string{"DOCKER_HOST=tcp://a:1"}, "unix:///x"},
		{"", []string{"DOCKER_CONTEXT=default"}, ""},
	} {
		if host, err := get(c.configured, c.env...); err != nil || host != c.want {
			t.Errorf("%+v: %q, %v", c, host, err)
		}
	}
	for _, bad := range []string{"ftp://x", "ssh://", "ssh://-oProxyCommand=x", "ssh://-l@h", "ssh://u:secret@h", "://", "x"} {
		if host, err := get(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %v", bad, host, err)
		}
	}
	write("config.json", `{`)
	if _, err := get(""); err == nil {
		t.Error("a broken config.json is overlooked")
	}
}

func frame(kind byte, text string) []byte {
	head := [8]byte{0: kind}
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head[:], text...)
}

func attachedTo(data []byte) (*attached, *tail) {
	ours, theirs := net.Pipe()
	theirs.Close()
	var stderr tail
	return attach(client.HijackedResponse{Conn: ours, Reader: bufio.NewReader(bytes.NewReader(data))}, &stderr), &stderr
}

func TestFrames(t *testing.T) {
	data := slices.Concat(frame(1, "one "), frame(2, "error"), frame(1, ""), frame(1, "two"), frame(2, "!"))
	a, stderr := attachedTo(data)
	got, err := io.ReadAll(a)
	if err != nil || string(got) != "one two" || stderr.String() != "error!" {
		t.Errorf("%q, %v, %q", got, err, stderr)
	}
	for what, data := range map[string][]byte{"a strange kind": frame(9, "x"), "cut in its head": {1, 0, 0}, "cut in stderr": frame(2, "long")[:10]} {
		a, _ := attachedTo(data)
		if _, err := io.ReadAll(a); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	// A length that is a lie takes no memory.
	a, _ = attachedTo(append([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "little"...))
	if got, _ := io.ReadAll(a); string(got) != "little" {
		t.Errorf("%q", got)
	}
}

func TestEnforcement(t *testing.T) {
	inner := sandbox.Enforcement{
		{Clause: sandbox.ClauseFiles, State: sandbox.Partial, Mechanism: "Landlock", Why: "w"},
		{Clause: sandbox.ClauseSyscalls, State: sandbox.Enforced, Mechanism: "inner seccomp"},
	}
	good := facts{seccomp: true, memory: true, cpu: true, pids: true}
	state := func(e sandbox.Enforcement, name sandbox.ClauseName) sandbox.Clause {
		for _, c := range e {
			if c.Clause == name {
				return c
			}
		}
		return sandbox.Clause{}
	}
	e, err := enforcement(inner, &order{Posture: posture{Sealed: true}}, good)
	if err != nil || len(e) != len(clauses) {
		t.Fatal(e, err)
	}
	if c := state(e, sandbox.ClauseFiles); c.State != sandbox.Enforced || !strings.Contains(c.Mechanism, "Landlock") || !strings.Contains(c.Mechanism, "read-only") {
		t.Errorf("%+v", c)
	}
	// An engine without seccomp is made up for by the guest, and refused without.
	none := facts{memory: true, cpu: true, pids: true}
	if e, err = enforcement(inner, &order{}, none); err != nil || state(e, sandbox.ClauseSyscalls).State != sandbox.Enforced {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err = enforcement(nil, &order{}, none); !errors.Is(err, sandbox.ErrPolicy) {
		t.Errorf("nobody refuses system calls: %v", err)
	}
	best := &order{Posture: posture{Best: []sandbox.ClauseName{sandbox.ClauseSyscalls}}}
	if e, err = enforcement(nil, best, none); err != nil || state(e, sandbox.ClauseSyscalls).State != sandbox.Partial {
		t.Errorf("%+v, %v", e, err)
	}
	work := posture{WorkDir: "/w"}
	e, err = enforcement(nil, &order{Posture: work, Shown: []string{"/w"}, User: numbered(5, 5)}, good)
	if c := state(e, sandbox.ClauseFiles); err != nil || !strings.Contains(c.Mechanism, "shown as user 5") {
		t.Errorf("%+v, %v", c, err)
	}
	e, err = enforcement(nil, &order{Posture: work, asRoot: "no such mounts", cgroup: "no such namespace"}, good)
	if c := state(e, sandbox.ClauseSyscalls); err != nil || !strings.Contains(c.Mechanism, "uid 0 (no such mounts)") {
		t.Errorf("%+v, %v", c, err)
	}
	if c := state(e, sandbox.ClauseProcesses); !strings.Contains(c.Mechanism, "no such namespace") || strings.Contains(c.Mechanism, "and cgroup") {
		t.Errorf("%+v", c)
	}
	// What was not found neither the container guards nor the guest.
	large := &order{Posture: posture{WorkDir: "/w", Unsearched: []string{"/w is too large"}}}
	guarded := sandbox.Enforcement{{Clause: sandbox.ClauseGuards, State: sandbox.Enforced, Mechanism: "mounts"}}
	if _, err = enforcement(guarded, large, good); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "/w is too large") {
		t.Errorf("guards that are required: %v", err)
	}
	large.Posture.Best = []sandbox.ClauseName{sandbox.ClauseGuards}
	e, err = enforcement(guarded, large, good)
	if c := state(e, sandbox.ClauseGuards); err != nil || c.State != sandbox.Partial || c.Why != "/w is too large" {
		t.Errorf("%+v, %v", c, err)
	}
	e, err = enforcement(nil, &order{Res: sandbox.Resources{Disk: 1 << 20}}, good)
	if c := state(e, sandbox.ClauseResources); err != nil || c.State != sandbox.Partial || !strings.Contains(c.Why, "disk") {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLeases(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are none")
	}
	state := filepath.Join(t.TempDir(), "state")
	one, err := takeLease(state)
	if err != nil {
		t.Fatal(err)
	}
	two, err := takeLease(state)
	if err != nil {
		t.Fatal(err)
	}
	if one.owner != two.owner || one.id == two.id || len(leases(state)) != 2 {
		t.Errorf("%+v %+v %v", one, two, leases(state))
	}
	if deadLease(state, one.owner, one.id) != nil {
		t.Error("a lease that is held was taken over")
	}
	one.lock.Close() // as by a death
	dead := deadLease(state, one.owner, one.id)
	if dead == nil {
		t.Fatal("a dead lease was not taken over")
	}
	if deadLease(state, one.owner, one.id) != nil {
		t.Error("it was taken over twice")
	}
	if err := dead.release(); err != nil {
		t.Error(err)
	}
	if gone := deadLease(state, one.owner, one.id); gone == nil {
		t.Error("one that is gone is somebody's")
	} else if err := gone.release(); err != nil {
		t.Error(err)
	}
	if deadLease(state, one.owner, "../../../etc") != nil {
		t.Error("a path is no name")
	}
	if err := two.release(); err != nil || len(leases(state)) != 0 {
		t.Error(err, leases(state))
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := takeLease(state); err == nil {
		t.Error("a state directory that everybody can write is taken")
	}
}
