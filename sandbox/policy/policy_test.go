package policy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// world is a home and a work dir made for one test.
type world struct {
	t    *testing.T
	root string
	c    Context
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root}
	w.c = Context{
		Home: w.at("home"), HermesHome: w.at("home/.hermes"), WorkDir: w.dir("home/work"),
		Environ: []string{"PATH=/usr/bin:/bin"},
	}
	return w
}

func (w *world) at(name string) string { return filepath.Join(w.root, name) }

func (w *world) dir(name string) string {
	w.t.Helper()
	if err := os.MkdirAll(w.at(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.at(name)
}

func (w *world) file(name, text string) string {
	w.t.Helper()
	w.dir(filepath.Dir(name))
	if err := os.WriteFile(w.at(name), []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.at(name)
}

func (w *world) link(name, target string) {
	w.t.Helper()
	w.dir(filepath.Dir(name))
	if err := os.Symlink(target, w.at(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) make(name string) Plan {
	w.t.Helper()
	p, err := Make(name, w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// expect compares accesses, written "rw", "r-" or "--", of paths in the world.
func (w *world) expect(p Plan, want map[string]string) {
	w.t.Helper()
	for name, access := range want {
		if !filepath.IsAbs(name) {
			name = w.at(name)
		}
		e, got := p.Explain(name), []byte("--")
		if e.Read {
			got[0] = 'r'
		}
		if e.Write {
			got[1] = 'w'
		}
		if string(got) != access {
			w.t.Errorf("%s: got %s by %s and %s, want %s", name, got, e.ReadRule, e.WriteRule, access)
		}
	}
}

func TestSealed(t *testing.T) {
	w := newWorld(t)
	w.file("home/work/.env", "KEY=1")
	w.file("home/notes", "x")
	p := w.make(Sealed)
	w.expect(p, map[string]string{
		"/usr/bin/env": "r-", "/bin/sh": "r-", "/usr/lib": "r-", "/etc/passwd": "r-", "/etc/ssl/certs": "r-",
		"home": "--", "home/notes": "--", "home/work": "--", "home/work/.env": "--", "home/.ssh/id": "--",
		"/etc/shadow": "--", "/etc/ssl/private/key.pem": "--", "/etc/machine-id": "--", "/root": "--", "/home": "--", "/var/log": "--",
	})
	if len(p.Policy.Write)+len(p.Policy.Private) > 0 || p.Policy.Network != sandbox.NetworkOff {
		t.Errorf("sealed writes %v, %v, network %q", p.Policy.Write, p.Policy.Private, p.Policy.Network)
	}
	if want := []sandbox.ClauseName{sandbox.ClauseResources}; !slices.Equal(p.Policy.BestEffort, want) {
		t.Errorf("best effort: got %v, want %v", p.Policy.BestEffort, want)
	}
}

func TestWorkspace(t *testing.T) {
	w := newWorld(t)
	w.file("home/work/.env", "KEY=1")
	w.dir("home/work/.git/hooks")
	w.file("home/work/.git/HEAD", "ref: refs/heads/main")
	w.dir("home/work/part/.git") // empty: no repository, but a place for one
	w.c.Environ = append(w.c.Environ, "TMPDIR=/var/x", "DOCKER_HOST=unix:///opt/docker.sock", "SSH_AUTH_SOCK="+w.at("agent"), "XDG_CACHE_HOME="+w.at("caches"))
	p := w.make(Workspace)
	w.expect(p, map[string]string{
		"/usr/bin/env": "r-", "/etc/passwd": "r-", "/opt/docker.sock": "--", "/run/docker.sock": "--",
		"home/notes": "r-", "home/.bashrc": "r-", "home/.config": "r-", "home/other": "r-", "agent": "--",
		"home/.ssh/id": "--", "home/.aws/credentials": "--", "home/.gnupg": "--", "home/.kube/config": "--", "home/.docker/config.json": "--",
		"home/.azure": "--", "home/.config/gh/hosts.yml": "--", "home/.config/gcloud/x": "--", "home/.mozilla/firefox/p/cookies.sqlite": "--",
		"home/.config/google-chrome/Default/Cookies": "--", "home/.config/BraveSoftware/x": "--", "home/.config/1Password": "--",
		"home/.config/keepassxc": "--", "home/.config/Bitwarden CLI/data.json": "--", "home/.local/share/keyrings/login.keyring": "--",
		"home/.password-store/x.gpg": "--", "home/.netrc": "--", "home/.pgpass": "--", "home/.git-credentials": "--", "home/.npmrc": "--",
		"home/.pypirc": "--", "home/.cargo/credentials.toml": "--", "home/.cargo/bin/cargo": "r-", "home/.terraform.d/credentials.tfrc.json": "--",
		"home/.config/rclone/rclone.conf": "--", "home/.config/op": "--", "home/.bash_history": "--", "home/.psql_history": "--",
		"home/.hermes": "--", "home/.hermes/.env": "--", "home/.hermes/state.db": "--", "/etc/shadow": "--",
		"home/work": "rw", "home/work/a": "rw", "home/work/.env": "rw", "home/work/sub/.env": "rw", "home/work/.npmrc": "rw",
		"home/work/part/.git": "r-", "home/work/part/.git/HEAD": "r-",
		"home/work/.git": "rw", "home/work/.git/HEAD": "rw", "home/work/.git/objects/x": "rw", "home/work/.git/index": "rw",
		"home/work/.git/hooks/pre-commit": "r-", "home/work/.git/config": "r-", "home/work/.git/config.worktree": "r-", "home/work/.git/commondir": "r-",
		"home/work/.envrc": "r-", "home/work/.vscode/tasks.json": "r-", "home/work/.idea/x": "r-", "home/work/.claude/settings.json": "r-",
		"home/work/.cursor/x": "r-", "home/work/.github/workflows/x.yml": "r-", "home/work/.github/CODEOWNERS": "rw", "home/work/.mcp.json": "r-",
		"home/work/.bashrc":  "rw", // does not exist: not reserved
		"caches/hermes-exec": "--", "home/work2": "r-",
	})
	if len(p.Policy.Private) != 1 || !strings.HasPrefix(p.Policy.Private[0], w.at("caches/hermes-exec/")) {
		t.Errorf("private directories: %v", p.Policy.Private)
	}
	env := strings.Join(p.Env, "\n")
	for _, want := range []string{"XDG_CACHE_HOME=" + p.Policy.Private[0], "GOCACHE=" + p.Policy.Private[0] + "/go-build", "PIP_CACHE_DIR=", "npm_config_cache=", "TMPDIR=/tmp"} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is missing in %s", want, env)
		}
	}
	if strings.Contains(env, "GOMODCACHE") {
		t.Error("modules would have to be fetched again")
	}
	if p.Policy.Network != sandbox.NetworkHost || !slices.Equal(p.Policy.BestEffort, []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseResources}) {
		t.Errorf("got %+v", p.Policy)
	}
	other := w.c
	other.WorkDir = w.dir("home/work2")
	if q, _, err := Resolve(Workspace, other); err != nil || slices.Equal(q.Private, p.Policy.Private) {
		t.Errorf("two work dirs share their caches: %v, %v", q.Private, err)
	}
}

func TestOpen(t *testing.T) {
	p, env, err := Resolve(Open, Context{})
	if err != nil || !p.Unconfined || p.Name != Open || env != nil {
		t.Errorf("got %+v, %v, %v", p, env, err)
	}
	if _, _, err := Resolve(Open, Context{DenyRead: []string{"/x"}}); !errors.Is(err, sandbox.ErrPolicy) {
		t.Errorf("open cannot keep deny_read, got %v", err)
	}
}

// What a link leads to is denied with the link, and where it stands too.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	w.link("home/.ssh", "vault/ssh")
	w.file("home/vault/ssh/id", "key")
	w.file("home/dotfiles/aws/credentials", "key")
	w.file("home/dotfiles/readme", "x")
	w.link("home/.aws/credentials", "../dotfiles/aws/credentials")
	w.file("home/dotfiles/keys/deep", "key")
	w.link("home/.aws/work/old/deep", "../../../dotfiles/keys/deep")
	w.link("home/.netrc", "dotfiles/netrc") // leads to nothing yet
	w.dir("home/work/ide")
	w.link("home/work/.vscode", "ide")
	w.link("home/work/.envrc", "made/later")
	w.link("home/work/up", "../..")
	w.link("home/work/.idea", "up/home/work/ideas") // .. means another directory behind a link
	w.link("alias", "home")
	w.c.WorkDir = w.at("alias/work")
	p := w.make(Workspace)
	w.expect(p, map[string]string{
		"home/.ssh": "--", "home/vault/ssh/id": "--", "home/vault": "r-",
		"home/.aws/credentials": "--", "home/dotfiles/aws/credentials": "--", "home/dotfiles/readme": "r-", "home/dotfiles/netrc": "--", "home/dotfiles/keys/deep": "--",
		"home/work/ide/tasks.json": "r-", "home/work/.vscode/x": "r-", "home/work/made/later": "r-", "home/work/made": "rw", "home/work/ideas/x": "r-",
		"alias/work/x": "rw", "alias/.ssh/id": "--",
	})
	for _, name := range []string{"home/work/.vscode", "home/work/.envrc", "home/work/.idea"} {
		if !slices.Contains(p.Policy.DenyWrite, w.at(name)) {
			t.Errorf("the link %s itself is not held", name)
		}
	}
	if !slices.Equal(p.Policy.Write, []string{w.at("home/work")}) {
		t.Errorf("the work dir's own name counts: %v", p.Policy.Write)
	}
}

func TestWorkDirIsRefused(t *testing.T) {
	w := newWorld(t)
	w.dir("home/.hermes")
	w.link("toHome", "home")
	w.link("toRoot", "/")
	w.dir("state/engine/run")
	w.file("file", "")
	w.dir("other")
	w.c.StateDirs = []string{w.at("state/engine")}
	w.c.Homes = []string{w.dir("accounts/other")}
	for _, c := range []struct{ dir, want string }{
		{"/", "belongs to the whole system"}, {"/tmp", "belongs to the whole system"}, {"/var/tmp", "belongs"}, {"/home", "belongs"},
		{"/usr", "belongs"}, {"/etc", "belongs"}, {"/proc/self", "is the kernel's"}, {"/sys/kernel", "is the kernel's"}, {"/bin", "/usr"},
		{w.at("home"), "is a home directory"}, {w.root, "contains the home directory"}, {w.at("toHome"), "is a home directory"},
		{w.at("toRoot"), "belongs"}, {w.at("toRoot/tmp"), "belongs"}, {w.at("accounts"), "contains the home directory"}, {w.at("accounts/other"), "is a home"},
		{w.at("state"), "contains the engine's own state"}, {w.at("state/engine"), "contains the engine's own state"},
		{w.at("home/.hermes"), "contains the engine's own state"}, {w.at("missing"), "no such file"}, {w.at("file"), "is not a directory"},
		{"relative", "not an absolute path"}, {"", "not an absolute path"},
	} {
		for _, name := range []string{Sealed, Workspace} {
			w.c.WorkDir = c.dir
			_, _, err := Resolve(name, w.c)
			if !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s in %q: got %v, want …%s…", name, c.dir, err, c.want)
			}
		}
	}
	for _, dir := range []string{"other", "state/engine/run", "home/work", "home/work/../work", "toHome/work"} {
		w.c.WorkDir = w.at(dir)
		w.make(Workspace)
	}
	for _, state := range []string{"state", "./state"} { // relative to what?
		c := w.c
		c.WorkDir, c.HermesHome = w.at("other"), state
		if _, _, err := Resolve(Workspace, c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "is not an absolute path") {
			t.Errorf("state in %q: got %v", state, err)
		}
	}
	w.c.WorkDir, w.c.Home = w.at("other"), ""
	if _, _, err := Resolve(Workspace, w.c); !errors.Is(err, sandbox.ErrPolicy) {
		t.Errorf("without a home nothing is known to be secret, got %v", err)
	}
}

// Caches are never where a script can replace the way to them.
func TestCachesAreNotInTheWorkDir(t *testing.T) {
	w := newWorld(t)
	usual := w.at("home/.cache/hermes-exec/")
	w.link("home/work/link", w.dir("else"))
	w.link("toWork", w.at("home/work"))
	w.link("home/other/link", w.dir("mine"))
	w.link("home/toOther", "other")
	for cache, want := range map[string]string{
		"home/work/c": usual, "home/work": usual, "home/work/link": usual, "toWork/c": usual, "mine": w.at("mine/hermes-exec/"), "home": w.at("home/hermes-exec/"),
		"home/other/.cache": usual, "home/other/link": usual, "home/toOther/link": usual, "home/.hermes/caches": w.at("home/.hermes/caches/hermes-exec/"),
	} {
		w.c.Environ = []string{"PATH=/usr/bin", "XDG_CACHE_HOME=" + w.at(cache)}
		if got := w.make(Workspace).Policy.Private; len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("XDG_CACHE_HOME=%s: %q, want %s", cache, got, want)
		}
	}
	w.c.Environ = nil
	w.dir("home/.cache/hermes-exec/x")
	for _, dir := range []string{"home/.cache", "home/.cache/hermes-exec"} {
		w.c.WorkDir = w.at(dir)
		if _, _, err := Resolve(Workspace, w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "engine's own state") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

// A work dir in a hidden place is a contradiction; deny does not give way.
func TestWorkDirInAHiddenPlace(t *testing.T) {
	w := newWorld(t)
	w.c.WorkDir = w.dir("home/.ssh/scripts")
	if _, _, err := Resolve(Workspace, w.c); err == nil || !strings.Contains(err.Error(), "open_guards: [ssh]") {
		t.Errorf("got %v", err)
	}
	w.c.Open = []string{"ssh"}
	w.expect(w.make(Workspace), map[string]string{"home/.ssh/scripts/a": "rw", "home/.ssh/id": "r-", "home/.aws": "--"})
}

// What a run needs of $HERMES_HOME stays readable, all beside it is hidden.
func TestHermesHome(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".env", "auth.json", "sessions/1", "agent/venv/bin/python", "agent/secret", "home/.ssh/id", "home/.gitconfig", "work/a/x", "work/b"} {
		w.file("home/.hermes/"+name, "x")
	}
	w.file("home/.hermes/agent/venv/pyvenv.cfg", "")
	w.c.WorkDir = w.at("home/.hermes/work/a")
	w.c.Homes = []string{w.at("home/.hermes/home")}
	w.c.Environ = append(w.c.Environ, "VIRTUAL_ENV="+w.at("home/.hermes/agent/venv"))
	want := map[string]string{
		"home/.hermes/.env": "--", "home/.hermes/auth.json": "--", "home/.hermes/auth.lock": "--", "home/.hermes/sessions/1": "--",
		"home/.hermes/agent/secret": "--", "home/.hermes/agent/venv/bin/python": "r-", "home/.hermes/work/a/x": "rw", "home/.hermes/work/b": "--",
		"home/.hermes/home/.ssh/id": "--", "home/.hermes/home/.gitconfig": "r-",
	}
	w.expect(w.make(Workspace), want)
	w.c.Open = []string{"hermes"}
	for _, name := range []string{"home/.hermes/sessions/1", "home/.hermes/agent/secret", "home/.hermes/work/b"} {
		want[name] = "r-"
	}
	w.expect(w.make(Workspace), want) // the keys stay closed
}

func TestDenyReadOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.c.DenyRead = []string{".env", "~/private", "/srv/data", "./sub/key"}
	p := w.make(Workspace)
	w.expect(p, map[string]string{"home/work/.env": "--", "home/private/x": "--", "/srv/data": "--", "home/work/sub/key": "--", "home/work/sub": "rw"})
	if e := p.Explain(w.at("home/work/.env")); e.Guard != "" || !strings.Contains(e.Hint, "code_execution") {
		t.Errorf("got %+v", e)
	}
	for _, bad := range []string{"*.env", "../x", "a\x00b", "", "a\nb", "~bob/x", "a/../../b", strings.Repeat("x", 5000)} {
		w.c.DenyRead = []string{bad}
		if _, _, err := Resolve(Workspace, w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.HasPrefix(err.Error(), "code_execution.deny_read: ") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestOpenGuards(t *testing.T) {
	w := newWorld(t)
	w.dir("home/work/.git")
	w.file("home/work/.bashrc", "")
	closed := w.make(Workspace)
	for _, g := range Guards() {
		if g.Fixed {
			w.c.Open = []string{g.Name}
			if _, _, err := Resolve(Workspace, w.c); !errors.Is(err, sandbox.ErrPolicy) {
				t.Errorf("%s was opened: %v", g.Name, err)
			}
			continue
		}
		w.c.Open = []string{g.Name}
		p := w.make(Workspace)
		for _, rule := range p.guards {
			if rule == g.Name {
				t.Errorf("%s is open and still has rules", g.Name)
				break
			}
		}
		if len(p.guards) >= len(closed.guards) {
			t.Errorf("opening %s removed nothing", g.Name)
		}
	}
	w.c.Open = []string{"sssh"}
	if _, _, err := Resolve(Workspace, w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), `no guard "sssh"`) {
		t.Errorf("got %v", err)
	}
}

func TestUnknownName(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "seald", "SEALED", "workspace ", "policy"} {
		if _, _, err := Resolve(name, w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "want sealed, workspace, open") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func BenchmarkWorkspace(b *testing.B) {
	c := Context{Home: b.TempDir(), WorkDir: b.TempDir(), Environ: os.Environ()}
	for b.Loop() {
		if _, _, err := Resolve(Workspace, c); err != nil {
			b.Fatal(err)
		}
	}
}
