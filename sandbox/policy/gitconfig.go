package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// setting is one variable of git's configuration that matters here.
type setting struct{ file, name, value string }

// key is section and name, without what is between.
func (s setting) key() (section, last string) {
	section, _, _ = strings.Cut(s.name, ".")
	return section, s.name[strings.LastIndexByte(s.name, '.')+1:]
}

// isCommand tells whether git, or a program that keeps its settings with git's,
// takes the value for a command.
func (s setting) isCommand() bool {
	section, last := s.key()
	if section == "alias" || section == "pager" || s.isOne(gitRuns()) {
		return true
	}
	for end := range strings.FieldsSeq(gitRunsAll) {
		if strings.HasSuffix(last, end) {
			return true
		}
	}
	// A remote that is a command.
	return strings.Contains(" url pushurl remote pushremote pushdefault ", " "+last+" ") && strings.HasPrefix(s.value, "ext::") || strings.HasPrefix(s.name, "url.ext::")
}

// isOne tells whether it is in a list such as gitRuns.
func (s setting) isOne(list map[string]bool) bool {
	section, last := s.key()
	return list[section+"."+last]
}

// setOf is a list of words, to look them up in.
func setOf(list string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for word := range strings.FieldsSeq(list) {
			set[word] = true
		}
		return set
	})
}

// gitKnown is what is known of repositories and git's configuration.
type gitKnown struct {
	repos        map[string]bool // already guarded
	global       []setting       // of the machine and of the users
	globally     bool            // global was read
	includes     int
	modules      int // directories looked into for repositories of submodules
	bytes        int64
	commands     map[string][]shellWord // of settings, each read once
	commandBytes int
	hooks        map[string]bool // directories of hooks, already guarded
	looks        int
}

// How much configuration is read, of all repositories together.
const (
	maxConfig   = 1 << 20 // bytes of one file
	maxConfigs  = 16 << 20
	maxCommands = 256 << 10 // bytes of all different commands; a parser makes more of them than of the rest
	maxIncludes = 500
	includeDeep = 10 // as for git
	maxTrees    = 10 // working trees of one repository; git takes the last
)

// gitDirs name directories of hooks; gitRuns name commands, as section and name
// without what is between. The commands of whole sections are aliases and
// pagers. gitRunsAll are ends of names that mean a command in every section.
const (
	gitRunsAll = "command cmd hook program editor pager askpass"
	gitRunsOne = ` core.fsmonitor core.sshcommand core.gitproxy core.askpass core.editor core.pager core.alternaterefscommand
 sequence.editor credential.helper gpg.program gpg.defaultkeycommand diff.external diff.command diff.textconv merge.driver
 filter.clean filter.smudge filter.process difftool.cmd difftool.path mergetool.cmd mergetool.path browser.cmd browser.path
 man.cmd man.path tar.command trailer.command trailer.cmd hook.command remote.uploadpack remote.receivepack
 interactive.difffilter uploadpack.packobjectshook submodule.update imap.tunnel guitool.cmd instaweb.httpd svn.authorsprog
 sendemail.tocmd sendemail.cccmd sendemail.headercmd sendemail.sendmailcmd sendemail.smtpserver
 secrets.providers lfs.path lfs.clean lfs.smudge annex.secure-erase-command gc.recentobjectshook core.virtualfilesystem `
)

var (
	gitDirs = setOf("core.hookspath init.templatedir instaweb.modulepath gitflow.hooks")
	gitRuns = setOf(gitRunsOne)
)

// guardConfigured closes what the configuration makes git run in a working
// tree: the repository's, if there is one, and the users' own.
func (b *builder) guardConfigured(guard, dir, root string) error {
	if !b.git.globally {
		b.git.globally = true
		if err := b.readGlobal(guard); err != nil {
			return err
		}
	}
	var local []setting
	if dir != "" {
		common, err := b.commonDir(dir)
		if err != nil {
			return err
		}
		names := []string{filepath.Join(common, "config"), filepath.Join(common, "config.worktree")}
		if common != dir {
			names = append(names, filepath.Join(dir, "config.worktree"))
		}
		for _, name := range names {
			if local, err = b.readConfig(guard, name, local, 0); err != nil {
				return err
			}
		}
	}
	roots := []string{root}
	for _, s := range local {
		if s.name == "core.worktree" {
			for _, tree := range b.pathsOf(s.value, dir) {
				roots = appendNew(roots, tree)
			}
		}
		if len(roots) > maxTrees {
			return &unread{s.file, errors.New("it has too many working trees")}
		}
	}
	for _, list := range [][]setting{b.git.global, local} {
		for _, s := range list {
			for _, root := range roots {
				if err := b.guardSetting(guard, s, root); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readGlobal reads what holds in every repository.
func (b *builder) readGlobal(guard string) (err error) {
	names := []string{"/etc/gitconfig", "/usr/local/etc/gitconfig", getenv(b.c.Environ, "GIT_CONFIG_SYSTEM"), getenv(b.c.Environ, "GIT_CONFIG_GLOBAL")}
	if dir := getenv(b.c.Environ, "XDG_CONFIG_HOME"); dir != "" {
		names = append(names, filepath.Join(dir, "git/config"))
	}
	for _, home := range append([]string{b.c.Home}, b.homes...) {
		names = appendNew(appendNew(names, filepath.Join(home, ".gitconfig")), filepath.Join(home, ".config/git/config"))
	}
	for _, name := range names {
		if !filepath.IsAbs(name) {
			continue
		}
		if err := b.guardNamed(guard, setting{name, "git's configuration", name}, name); err != nil {
			return err
		}
		b.git.global, err = b.readConfig(guard, name, b.git.global, 0)
		if err != nil && !errors.Is(err, fs.ErrPermission) { // git passes over those as well
			return err
		}
	}
	return b.readEnviron(guard)
}

// unread is about a file whose content must be known.
type unread struct {
	name string
	err  error
}

func (u *unread) Error() string {
	return "policy: git reads " + u.name + ", and what it runs by that cannot be guarded: " + u.err.Error() +
		"; make it a file that can be read, remove it, or open the guard: open_guards: [git]"
}
func (u *unread) Unwrap() []error { return []error{sandbox.ErrPolicy, u.err} }

// readInput is the start of a file that git reads, "" when there is none. More
// than limit is an error.
func (b *builder) readInput(name string, limit int64) (string, error) {
	if b.links.real(name) == os.DevNull {
		return "", nil
	}
	f, err := openRegular(name)
	if leadsNowhere(err) {
		return "", nil
	}
	if err != nil {
		return "", &unread{b.links.real(name), err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	b.git.bytes += int64(len(data))
	switch {
	case err != nil:
		return "", &unread{b.links.real(name), err}
	case int64(len(data)) > limit || b.git.bytes > maxConfigs:
		return "", &unread{b.links.real(name), errors.New("there is too much of it")}
	}
	return string(data), nil
}

// leadsNowhere reports whether nobody can open a file, git neither.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, errDirectory)
}

// readConfig adds the settings of a file and of what it includes, whatever the
// conditions, and closes what is included.
func (b *builder) readConfig(guard, name string, list []setting, depth int) ([]setting, error) {
	text, err := b.readInput(name, maxConfig)
	if err != nil {
		return list, err
	}
	var all []setting
	parseGit(text, func(key, value string) { all = append(all, setting{name, key, value}) })
	return b.keep(guard, list, all, filepath.Dir(name), depth) // also where that is a link
}

// keep adds of all settings those that matter here, and of the files that they
// include from base on.
func (b *builder) keep(guard string, list, all []setting, base string, depth int) ([]setting, error) {
	var included []setting
	for _, s := range all {
		section, last := s.key()
		switch {
		case last == "path" && (section == "include" || section == "includeif"):
			included = append(included, s)
		case s.name == "core.worktree", s.isOne(gitDirs()), s.isCommand():
			list = append(list, s)
		}
	}
	for _, s := range included {
		for _, path := range b.pathsOf(s.value, base) {
			if b.git.includes++; b.git.includes > maxIncludes {
				return list, &unread{b.links.real(s.file), errors.New("too many files are included")}
			}
			if err := b.guardNamed(guard, setting{s.file, "include.path", s.value}, path); err != nil {
				return list, err
			}
			if depth == includeDeep || b.isDir(path) {
				continue // git fails here, or reads none
			}
			var err error
			list, err = b.readConfig(guard, path, list, depth+1)
			if err != nil && (!errors.Is(err, fs.ErrPermission) || b.writable(b.links.real(path))) { // else git cannot read it either
				return list, err
			}
		}
	}
	return list, nil
}

// pathsOf are the places that a value can mean, relative to base.
func (b *builder) pathsOf(value, base string) (paths []string) {
	value = strings.TrimPrefix(value, ":(optional)")
	first, rest, _ := strings.Cut(value, "/")
	switch {
	case value == "" || first == "%(prefix)": // of git's own installation
		return nil
	case filepath.IsAbs(value):
		return []string{value}
	case first == "~":
		for _, home := range append([]string{b.c.Home}, b.homes...) {
			paths = appendNew(paths, home+"/"+rest)
		}
		return paths
	case strings.HasPrefix(first, "~"):
		if account, err := user.Lookup(first[1:]); err == nil {
			paths = append(paths, account.HomeDir+"/"+rest)
		}
		return paths
	}
	return []string{base + "/" + value}
}

// look counts how much is looked at because of what is in a place, so that it ends.
func (b *builder) look(place string, names int) error {
	if b.git.looks += names; b.git.looks > maxLooks || len(b.policy.DenyWrite) > maxDenied {
		return &unread{place, errors.New("with it too much is named")}
	}
	return nil
}

// guardSetting closes what one setting names in a working tree.
func (b *builder) guardSetting(guard string, s setting, root string) error {
	if err := b.look(s.file, 1); err != nil {
		return err
	}
	if s.isOne(gitDirs()) {
		for _, dir := range b.pathsOf(s.value, root) {
			if err := b.guardNamed(guard, s, dir); err != nil {
				return err
			}
			if err := b.guardHooks(guard, dir); err != nil {
				return err
			}
		}
		return nil
	}
	if s.name == "core.worktree" {
		return nil
	}
	return b.guardCommand(guard, s, root)
}

// guardNamed closes a place that git's configuration names, if a script could
// write it. A link on the way there could be replaced, so there must be none.
func (b *builder) guardNamed(guard string, s setting, path string) error {
	real := b.links.real(path)
	if link := b.replaceable(path); link != "" {
		return refuse("policy: %s: %s leads through the link %s, which a script could replace: name %s there, or open the guard: open_guards: [%s]", s.file, s.name, link, real, guard)
	}
	if !b.writable(real) {
		return nil
	}
	for _, tree := range b.policy.Write {
		if sandbox.Covers(real, tree) {
			return refuse("policy: %s: %s is %s, all of a tree that a script may write: use a directory in it, or open the guard: open_guards: [%s]", s.file, s.name, real, guard)
		}
	}
	b.denyWrite(guard, path)
	return nil
}

// guardHooks closes what the links among the hooks in a directory lead to.
func (b *builder) guardHooks(guard, dir string) error {
	dir = b.links.real(dir)
	if b.git.hooks[dir] {
		return nil
	}
	if b.git.hooks == nil {
		b.git.hooks = map[string]bool{}
	}
	b.git.hooks[dir] = true
	links, err := b.entries(dir, fs.ModeSymlink)
	if err == nil {
		err = b.look(dir, len(links))
	}
	if err != nil {
		return err
	}
	for _, name := range links {
		link := b.links.look(name).link
		for _, path := range b.pathsOf(link, dir) {
			if !b.isFull(path) {
				err = errors.Join(err, b.guardNamed(guard, setting{name, "the hook", link}, path))
			}
		}
	}
	return err
}
