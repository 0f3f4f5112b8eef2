//go:build unix

package guards

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// dir is a directory that is being visited.
type dir struct {
	*scan
	place
	fd    int
	fresh bool
	subs  []string
	links []link
	found []sandbox.FutureInput // Path is the name
	old   []sandbox.FutureInput // as found, for what did not change but may have been moved
	have  gitParts
	venv  bool
}

// gitParts are the entries by which git knows a repository.
type gitParts struct{ head, config, common, objects, refs, headFresh bool }

// isRepository reports whether git takes the directory itself for one. Where those
// of submodules are, one that is not complete is closed the next time as well.
func (d *dir) isRepository() bool {
	switch d.kind {
	case gitModules:
		return d.have.head
	case plain:
		return !d.byLink() && d.have.head && (d.have.common || d.have.objects && d.have.refs)
	}
	return false
}

func (d *dir) read() error {
	d.subs, d.links = d.subs[:0], d.links[:0]
	return entries(d.fd, d.buf, func(name []byte, kind entryKind) bool {
		d.seen++
		d.entry(name, kind)
		return d.seen%256 != 0 || d.goOn()
	})
}

func (d *dir) entry(name []byte, kind entryKind) {
	var mode uint32
	var ctime int64
	if kind != entryDir {
		var err error
		if mode, ctime, err = statEntry(d.fd, name); err != nil {
			if err != unix.ENOENT {
				d.complete = false
			}
			return
		}
		kind = kindOf(mode)
	}
	d.know(name, kind, ctime >= d.since)
	if kind == entryDir {
		d.subs = append(d.subs, string(name))
		return
	}
	changed := ctime >= d.since
	if !changed && d.moved == nil && kind != entryLink {
		return
	}
	why := d.why1(name, mode)
	if why == "" && len(d.closed) > 0 && d.closed[path.Join(d.place.name, string(name))] {
		why = whyClosed
	}
	switch {
	case name[0] == '-' && (changed || d.moved != nil):
		why = whyOption
	case kind == entryFile && (mode&unix.S_ISUID != 0 || mode&(unix.S_ISGID|0o010) == unix.S_ISGID|0o010):
		why = whySetuid
	case kind == entryLink:
		d.links = append(d.links, link{string(name), why, changed}) // when it is known what the directory is
		return
	case kind == entryOther:
		why = "" // a pipe or a socket is not run
	}
	switch {
	case why == "":
	case changed:
		d.found = d.note(d.found, string(name), why)
	default:
		d.old = d.note(d.old, string(name), why)
	}
}

// note notes a name once, the first reason counts.
func (d *dir) note(list []sandbox.FutureInput, name, why string) []sandbox.FutureInput {
	if d.kind == gitDir && slices.ContainsFunc(list, func(f sandbox.FutureInput) bool { return f.Path == name }) {
		return list // of the second reading
	}
	return append(list, sandbox.FutureInput{Path: name, Why: why})
}

// know notes what says what the directory is.
func (d *dir) know(name []byte, kind entryKind, changed bool) {
	isDir := kind == entryDir || kind == entryLink // git follows links here
	switch string(name) {
	case "HEAD":
		d.have.head = true
		d.have.headFresh = changed && kind != entryDir
	case "config":
		d.have.config = kind != entryDir
	case "commondir":
		d.have.common = kind != entryDir
	case "objects":
		d.have.objects = isDir
	case "refs":
		d.have.refs = isDir
	case "pyvenv.cfg":
		d.venv = kind != entryDir
	}
}

// why1 says why a file of that name and mode counts in this directory.
func (d *dir) why1(name []byte, mode uint32) string {
	switch d.kind {
	case whole:
		return d.why
	case gitHook:
		if !strings.HasSuffix(string(name), ".sample") {
			return whyGitHook
		}
		return ""
	case gitDir:
		switch string(name) {
		case "config", "config.worktree":
			return whyGitConfig
		case "commondir", "gitdir", "hooks", "worktrees", "modules", "info":
			return whyGitPlace // hooks and the like: as links
		}
		if why := whyInGit(string(name)); why != "" {
			return why // as a link
		}
	case gitInfo:
		if string(name) == "attributes" {
			return whyGitInfo
		}
	case cmdDir:
		if executable(mode) {
			return whyCommand
		}
	case pySite:
		if strings.HasSuffix(string(name), ".pth") {
			return whySitePath
		}
	}
	if d.kind == plain && d.byLink() {
		return d.names.at(d.as, string(name)) // the rest it is by itself
	}
	if string(name) == ".git" {
		return whyGitPlace
	}
	if d.kind == nodeMod {
		return ""
	}
	if why := d.names.file(name); why != "" && !(strings.HasSuffix(string(name), ".cmake") && generated(d.as)) {
		return why
	}
	if d.as == "." && isCommand(string(name), executable(mode)) {
		return whyCommand
	}
	return d.names.at(d.as, string(name))
}

// generated reports whether cmake fills a directory by itself, with several of its
// files for each target: they would crowd out what else is listed.
func generated(dir string) bool {
	return strings.Contains("/"+dir+"/", "/CMakeFiles/")
}

// executable reports whether somebody can start a file, or where a link leads.
func executable(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFLNK || mode&0o111 != 0
}

// finish reports what was found and queues the directories.
func (d *dir) finish() {
	for _, l := range d.links {
		d.link(l)
	}
	if d.kind == gitDir && d.have.config && d.have.headFresh && d.as != ".git" && d.moved == nil {
		d.found = d.note(d.found, "config", whyGitConfig)
	}
	for _, f := range d.old {
		d.moved.note(path.Join(d.place.name, f.Path), f.Why)
	}
	if len(d.found) > manyInOne && (d.kind == whole || d.kind == gitHook || d.kind == cmdDir) {
		d.add(d.place.name, fmt.Sprintf("%d files: %s", len(d.found), d.found[0].Why))
	} else {
		for _, f := range d.found {
			d.add(path.Join(d.place.name, f.Path), f.Why)
		}
	}
	for _, name := range d.subs {
		p := d.below(name)
		if !d.enter(&p, name) {
			continue
		}
		if d.byLink() && p.kind == plain && !d.names.way(p.as) {
			continue // it is visited as what it is
		}
		if p.depth > d.Depth {
			d.complete = false
			continue
		}
		d.queue = append(d.queue, p)
	}
}

// below is a directory in this one.
func (d *dir) below(name string) place {
	p := place{name: path.Join(d.place.name, name), depth: d.depth + 1, above: d.fresh, moved: d.moved, hops: d.hops}
	if p.as = p.name; d.byLink() {
		p.as = path.Join(d.as, name)
	}
	return p
}

// enter says what a directory in this one is, and whether to visit it.
func (d *dir) enter(p *place, name string) bool {
	base := path.Base(d.as)
	for _, in := range inputsBelow {
		if in.parent == base && in.name == name {
			p.kind, p.why = whole, in.why
			return true
		}
	}
	switch {
	case d.kind == whole && !d.flat:
		p.kind, p.why = whole, d.why
	case d.names.dirs[name] != "":
		p.kind, p.why = whole, d.names.dirs[name]
	case name == ".git":
		p.kind = gitDir
	case d.kind == gitDir && name == "hooks":
		p.kind = gitHook
	case d.kind == gitDir && name == "modules" || d.kind == gitModules:
		p.kind = gitModules
	case d.kind == gitDir && name == "info":
		p.kind = gitInfo
	case d.kind == gitDir && whyInGit(name) != "":
		p.kind, p.why = whole, whyInGit(name)
	case d.closed[p.name]:
		p.kind, p.why = whole, whyClosed
	case d.kind == gitDir && name == "objects":
		p.kind = gitObjects
	case d.kind == gitObjects && p.moved == nil && isObjects(name):
		return !d.settled(name)
	case d.venv && (name == "bin" || name == "Scripts"):
		p.kind, p.why = whole, whyVenv
		if d.fresh && p.moved == nil { // it may be an environment from now on
			p.moved = d.newMoved(p.name)
		}
	case slices.Contains(commandDirs[:], p.as):
		p.kind = cmdDir
	case name == "node_modules":
		p.kind = nodeMod
	case name == "site-packages" || name == "dist-packages":
		p.kind = pySite
	case (d.kind == nodeMod || d.kind == pySite) && slices.Contains(d.ways, p.name):
		p.kind = d.kind
	case d.kind == nodeMod || d.kind == pySite:
		return d.Deep
	}
	return true
}

// isObjects reports whether git has a directory of that name for objects: up to
// 258 of them, each full of files.
func isObjects(name string) bool {
	const hex = "0123456789abcdef"
	return name == "pack" || name == "info" || len(name) == 2 && strings.IndexByte(hex, name[0]) >= 0 && strings.IndexByte(hex, name[1]) >= 0
}

// settled reports whether nothing was put into a directory and there is none in
// it, so that there is no need to visit it. Some file systems do not say.
func (d *dir) settled(name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && unix.TimespecToNsec(st.Ctim) < d.since && st.Nlink == 2
}
