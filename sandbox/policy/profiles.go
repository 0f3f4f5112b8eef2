package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// sealed is the profile of that name: the system and the interpreter.
func (b *builder) sealed() {
	p := &b.policy
	for _, place := range b.system() {
		p.Read = append(p.Read, b.links.both(place)...)
	}
	p.Read = append(p.Read, b.pythons...)
	p.Network = sandbox.NetworkOff
	p.BestEffort = append(p.BestEffort, sealedBestEffort()...)
	b.privateTemp()
}

// workspace is the profile of that name: all but the secret places, and the
// work dir to write.
func (b *builder) workspace() {
	p := &b.policy
	p.Read = append(p.Read, "/")
	p.Read = append(p.Read, b.resolverFiles()...)
	for _, place := range slices.Concat(b.homes, b.pythons) {
		if hiddenBy(place) != "" { // which / does not bring in
			p.Read = append(p.Read, place)
		}
	}
	p.Write = append(p.Write, b.workdir)
	p.Network = sandbox.NetworkHost
	p.BestEffort = append(p.BestEffort, workspaceBestEffort()...)
	p.Private = append(p.Private, b.private)
	if dir := getenv(b.c.Environ, "XDG_CACHE_HOME"); b.c.CacheDir == "" && filepath.IsAbs(dir) && b.inWork(dir) {
		b.note("XDG_CACHE_HOME is %s, which a script of some work dir may write: private caches are in %s", dir, b.caches)
	}
	// One place for all caches. What a script puts there is met again only by
	// scripts of the same work dir, never by the user's own tools. Modules of Go
	// stay where they are, to be read: they are checked against go.sum.
	b.env = append(b.env,
		"XDG_CACHE_HOME="+b.private,
		"GOCACHE="+filepath.Join(b.private, "go-build"),
		"PIP_CACHE_DIR="+filepath.Join(b.private, "pip"),
		"npm_config_cache="+filepath.Join(b.private, "npm"),
		"YARN_GLOBAL_FOLDER="+filepath.Join(b.private, "yarn"),
		"BUN_INSTALL_CACHE_DIR="+filepath.Join(b.private, "bun"),
		"MPLCONFIGDIR="+filepath.Join(b.private, "matplotlib"),
	)
	if getenv(b.c.Environ, "XDG_RUNTIME_DIR") != "" {
		b.env = append(b.env, "XDG_RUNTIME_DIR=") // below /run, of which a box has its own
	}
	// Browsers are kept in the cache but installed: to be read where they are.
	if dir := filepath.Join(b.c.Home, ".cache", "ms-playwright"); b.links.exists(dir) {
		b.env = append(b.env, "PLAYWRIGHT_BROWSERS_PATH="+dir)
	}
	if !b.open["git"] && !b.links.exists(filepath.Join(b.workdir, ".git", "HEAD")) {
		// go takes the reservation of .git for a repository and fails to ask it.
		b.env = append(b.env, "GOFLAGS=-buildvcs=false")
	}
	b.privateTemp()
}

// privateTemp keeps a TMPDIR of the user's, which the box cannot write, out.
func (b *builder) privateTemp() {
	if dir := getenv(b.c.Environ, "TMPDIR"); dir != "" && dir != "/tmp" {
		b.env = append(b.env, "TMPDIR=/tmp")
	}
}

// cacheDir is where the caches of all work dirs are: below XDG_CACHE_HOME, but for
// one that could be in a work dir, this one or another's. What a script may write,
// move away or replace by a link must not decide what the next one may write.
func (b *builder) cacheDir() string {
	dir := b.c.CacheDir
	if dir == "" {
		if dir = getenv(b.c.Environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) && b.inWork(dir) {
			dir = ""
		}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(b.c.Home, ".cache")
	}
	return filepath.Join(b.links.real(dir), "hermes-exec")
}

// inWork tells whether a directory, or a link on the way there, is in one that
// a script may be given as a whole.
func (b *builder) inWork(dir string) bool {
	given := func(place string) bool {
		for place != "/" {
			if place = filepath.Dir(place); b.belongs(place) == nil {
				return true
			}
		}
		return false
	}
	real := b.links.real(dir)
	in := sandbox.Covers(b.workdir, real) || given(real)
	b.links.walk(dir, func(s step) { in = in || given(s.name) })
	return in
}

// privateDir is where the caches of this work dir are: one directory each, so
// that one project's scripts cannot prepare what another's will use.
func (b *builder) privateDir() string {
	sum := sha256.Sum256([]byte(b.workdir))
	return filepath.Join(b.caches, hex.EncodeToString(sum[:8]))
}

// system lists what programs of the system need to run, as far as it exists.
func (b *builder) system() (places []string) {
	add := func(place string) {
		if b.links.exists(place) {
			places = append(places, place)
		}
	}
	for _, place := range strings.Fields(systemTrees) {
		add(place)
	}
	for _, name := range strings.Fields(systemConfig) {
		add("/etc/" + name)
	}
	// Software that was unpacked below /opt, if the user runs programs of it.
	for _, dir := range filepath.SplitList(getenv(b.c.Environ, "PATH")) {
		if rest, ok := strings.CutPrefix(filepath.Clean(dir), "/opt/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			add("/opt/" + name)
		}
	}
	return places
}

// systemTrees hold programs, libraries and their data.
const systemTrees = `/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store /run/current-system
 /sys/devices/system /var/cache/fontconfig /var/lib/ca-certificates /home/linuxbrew/.linuxbrew`

// systemConfig are the entries of /etc that programs need and that hold no
// secret. Left out, besides keys and passwords: what may carry a token in a URL
// (pip.conf, npmrc, environment, profile, apt), and what identifies the machine
// or its network (machine-id, fstab, resolv.conf).
const systemConfig = `alternatives bash.bashrc ca-certificates ca-certificates.conf crypto-policies debian_version
 ethertypes fonts gai.conf group host.conf hostname hosts inputrc java-8-openjdk java-11-openjdk java-17-openjdk
 java-21-openjdk java-25-openjdk ld.so.cache ld.so.conf ld.so.conf.d ld.so.preload locale.alias locale.conf localtime
 lsb-release magic magic.mime mailcap manpath.config mime.types nanorc networks nsswitch.conf os-release passwd perl pki
 protocols python python2.7 python3 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 R
 redhat-release alpine-release arch-release system-release rpc services shells ssl static terminfo texmf timezone vulkan
 xdg`

// resolverFiles is what name resolution needs of /run, of which a box has its
// own: /etc/resolv.conf often is a link there.
func (b *builder) resolverFiles() (places []string) {
	for _, name := range []string{"/etc/resolv.conf", "/run/current-system", "/run/opengl-driver"} {
		if real := b.links.real(name); b.links.exists(name) && sandbox.Covers("/run", real) {
			places = append(places, real)
		}
	}
	return places
}

// getenv is the last value a variable has in an environment.
func getenv(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
