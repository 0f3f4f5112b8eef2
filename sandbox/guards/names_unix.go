//go:build unix

package guards

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Reasons that are no name's own.
const (
	whyGitConfig = "git runs what it names (hooks, monitors, filters) at the next command there"
	whyGitHook   = "git runs it at the next matching command there"
	whyGitPlace  = "git takes its configuration and hooks from where it points"
	whyVenv      = "it runs when the virtual environment is used"
	whySitePath  = "python runs it at every start of this installation"
	whyGitInfo   = "git runs the configured filters and drivers it names"
	whyMoved     = "it may have been moved there, or its directory made what it is"
	whySetuid    = "it runs with its owner's rights, whoever starts it"
	whyCommand   = "it runs for the command of that name where the directory is in PATH"
	whyClosed    = "the policy closes it because it is run or trusted later"
	whyUnseen    = "it leads to where other tools' files are, which are not searched"
	whyOption    = "a command that is given * takes the name for an option"
)

// names is the tables, to look things up in.
type names struct {
	files, dirs map[string]string
}

// usualNames are the tables every scan uses; nobody changes them.
var usualNames = sync.OnceValue(newNames)

func newNames() *names {
	n := &names{make(map[string]string, len(inputFiles)), make(map[string]string, len(inputDirs))}
	for _, in := range inputFiles {
		n.files[in.name] = in.why
	}
	for _, in := range inputDirs {
		n.dirs[in.name] = in.why
	}
	return n
}

// file says why a file of that name counts, "" if it does not.
func (n *names) file(name []byte) string {
	if why := n.files[string(name)]; why != "" {
		return why
	}
	for _, in := range inputPatterns {
		if len(name) >= len(in.prefix)+len(in.suffix) && string(name[:len(in.prefix)]) == in.prefix && string(name[len(name)-len(in.suffix):]) == in.suffix {
			return in.why
		}
	}
	return ""
}

// whyInGit says why every file counts in a directory of a repository's own.
func whyInGit(name string) string {
	for _, in := range inputsInGit {
		if in.name == name {
			return in.why
		}
	}
	return ""
}

// at says why a file counts in a certain directory, "" if it does not.
func (n *names) at(dir, name string) string {
	for _, in := range inputsAt {
		if in.name == name && (dir == in.dir || strings.HasSuffix(dir, "/"+in.dir)) {
			return in.why
		}
	}
	return ""
}

// isCommand reports whether a shell or Windows takes a file for a common
// command. Windows goes by the end of the name, the others by the mode.
func isCommand(name string, executable bool) bool {
	for _, ext := range [...]string{".exe", ".com", ".cmd", ".bat", ".ps1"} {
		if base, ok := strings.CutSuffix(strings.ToLower(name), ext); ok {
			return slices.Contains(commands[:], base)
		}
	}
	return executable && slices.Contains(commands[:], name)
}

// dir says why a directory of that name counts, or one or a file that is in it.
func (n *names) dir(name string) string {
	if why := n.dirs[name]; why != "" {
		return why
	}
	for _, in := range inputsBelow {
		if in.parent == name {
			return in.why
		}
	}
	for _, in := range inputsAt {
		if first, _, _ := strings.Cut(in.dir, "/"); first == name && first[0] == '.' {
			return in.why
		}
	}
	return ""
}

// way reports whether something counts by being right in a directory of that
// name, or on the way to it.
func (n *names) way(name string) bool {
	base := path.Base(name)
	for _, in := range inputsBelow {
		if in.parent == base {
			return true
		}
	}
	for _, in := range inputsAt {
		first, _, more := strings.Cut(in.dir, "/")
		if in.dir != "." && (first == base || more && (name == in.dir || strings.HasSuffix(name, "/"+in.dir))) {
			return true
		}
	}
	return slices.ContainsFunc(commandDirs[:], func(dir string) bool { return strings.HasPrefix(dir, name+"/") })
}

// link says why a link to target, which is outside, counts: unless that is the
// system's, somebody's program may write there by way of it.
func (n *names) link(target string) string {
	up := strings.Contains(target, "/../") // from where a link of the system's leads
	target = path.Clean(target)
	for _, dir := range [...]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/opt", "/dev", "/sys"} {
		if beneath(dir, target) && !up {
			return ""
		}
	}
	return "who writes through it changes " + target + ", outside the workspace"
}
