package tools

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// rules say which resolved paths the tools leave alone. Paths are compared
// folded, so that no spelling a case-insensitive or normalising file system
// takes for the same name slips through; that they then also cover ~/.SSH
// where it is another directory harms nobody.
type rules struct {
	noRead    []string // trees
	noWrite   []string
	exempt    []string // trees inside those that stay open to both
	readable  []string // trees inside those that stay open to reading
	config    []string // the engine's configuration
	writeRoot string
}

// Beneath a home directory. A tree covers the file of that name too.
var (
	secretPlaces = [...]string{
		".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud", ".config/op",
		".netrc", ".pgpass", ".git-credentials", ".password-store", ".vault-token", ".local/share/keyrings",
		".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/keepassxc",
		"Library/Keychains", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
	}
	unwritablePlaces = [...]string{".npmrc", ".pypirc"}

	systemPlaces = [...]string{"/etc", "/boot", "/usr/lib/systemd", "/lib/systemd", "/private/etc", "/private/var"}
	// macOS keeps temporary directories there.
	systemExempt = [...]string{"/private/var/folders", "/private/var/tmp"}
	secretFiles  = [...]string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/security/opasswd"}
	devicePlaces = [...]string{"/dev", "/proc", "/sys"}
	sockets      = [...]string{"docker.sock", "containerd.sock", "podman.sock"}
)

// rulesFor resolves the places once: a home or a ~/.ssh that is a link is as
// secret where it leads.
func rulesFor(box sandbox.Sandbox, cfg Config) rules {
	var r rules
	if box == nil {
		return r
	}
	add := func(to *[]string, p string) {
		if p == "" || !filepath.IsAbs(p) && !path.IsAbs(p) {
			return
		}
		*to = append(*to, fold(filepath.ToSlash(filepath.Clean(p))))
		if real, err := box.Files().Resolve(context.Background(), p); err == nil {
			if real := fold(filepath.ToSlash(real)); real != (*to)[len(*to)-1] {
				*to = append(*to, real)
			}
		}
	}
	info := box.Info()
	homes := []string{info.Home}
	if cfg.Home != info.Home {
		homes = append(homes, cfg.Home)
	}
	for _, home := range homes {
		if home == "" {
			continue
		}
		for _, p := range secretPlaces {
			add(&r.noRead, home+"/"+p)
			add(&r.noWrite, home+"/"+p)
		}
		for _, p := range unwritablePlaces {
			add(&r.noWrite, home+"/"+p)
		}
	}
	for _, p := range secretFiles {
		add(&r.noRead, p)
	}
	if h := cfg.HermesHome; h != "" {
		// A profile lives in <root>/profiles/<name>: the root is the engine's too.
		if up := filepath.Dir(h); filepath.Base(up) == "profiles" {
			add(&r.noRead, filepath.Dir(up))
			add(&r.noWrite, filepath.Dir(up))
			add(&r.readable, filepath.Join(filepath.Dir(up), "skills"))
		}
		add(&r.noRead, h)
		add(&r.noWrite, h)
		add(&r.config, filepath.Join(h, "config.yaml"))
		add(&r.readable, filepath.Join(h, "skills"))
	}
	add(&r.exempt, info.ScratchDir)
	if cfg.WriteRoot != "" {
		var root []string
		add(&root, cfg.WriteRoot)
		r.writeRoot = "/\x00" // a root that names nothing confines to nothing
		if len(root) > 0 {
			r.writeRoot = root[len(root)-1]
		}
	}
	return r
}

// device reports the places whose files are not files. /dev/shm is memory that
// processes share by ordinary files.
func (rules) device(p string) bool {
	f := fold(p)
	return underAny(f, devicePlaces[:]) && !(under(f, "/dev/shm") && f != "/dev/shm")
}

// secret reports what is not for reading.
func (r rules) secret(p string) bool {
	f := fold(p)
	if secretName(path.Base(f)) || isSocket(f) || isHostKey(f) {
		return true
	}
	if !underAny(f, r.noRead) || underAny(f, r.exempt) {
		return false
	}
	return !underAny(f, r.readable) || strings.Contains(f+"/", "/.hub/")
}

// protected reports credentials and the engine's own files, for writing.
func (r rules) protected(p string) bool {
	f := fold(p)
	return underAny(f, r.noWrite) && !underAny(f, r.exempt)
}

// system reports what belongs to the system or configures the engine.
func (r rules) system(p string) bool {
	f := fold(p)
	return isSocket(f) || underAny(f, r.config) || underAny(f, systemPlaces[:]) && !underAny(f, systemExempt[:])
}

func (r rules) inWriteRoot(p string) bool { return r.writeRoot == "" || under(fold(p), r.writeRoot) }

func isSocket(folded string) bool {
	base := path.Base(folded)
	for _, s := range sockets {
		if base == s {
			return true
		}
	}
	return false
}

// isHostKey reports the private keys of this machine's ssh server.
func isHostKey(folded string) bool {
	return under(folded, "/etc/ssh") && strings.HasPrefix(path.Base(folded), "ssh_host_") && !strings.HasSuffix(folded, ".pub")
}

// secretName reports the files projects keep their secrets in, wherever they
// are; the samples of them that are checked in are none.
func secretName(base string) bool {
	if base == ".envrc" || base == ".env" {
		return true
	}
	switch kind, ok := strings.CutPrefix(base, ".env."); kind {
	case "example", "sample", "template", "dist", "defaults", "schema":
		return false
	default:
		return ok
	}
}

func underAny(p string, trees []string) bool {
	for _, t := range trees {
		if under(p, t) {
			return true
		}
	}
	return false
}

// under reports whether p is tree or in it.
func under(p, tree string) bool {
	return strings.HasPrefix(p, tree) && (len(p) == len(tree) || p[len(tree)] == '/' || tree == "/")
}

// fold maps the spellings of a name that some file system takes for one
// another onto one: case, compatibility forms, and the invisible characters
// HFS+ ignores.
func fold(p string) string {
	for i := range len(p) {
		if p[i] >= 0x80 {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Cf, r) {
					return -1
				}
				return unicode.ToLower(r)
			}, norm.NFKC.String(strings.ToLower(p)))
		}
	}
	return strings.ToLower(p)
}
