//go:build unix

package guards

import (
	"fmt"
	"path"
	"path/filepath"
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
	found []sandbox.FutureInput // Path is the name
	have  gitParts
	venv  bool
}

// gitParts are the entries by which git knows a repository.
type gitParts struct{ head, config, common, objects, refs, headFresh bool }

// isRepository reports whether git takes the directory itself for one.
func (d *dir) isRepository() bool {
	return d.have.head && (d.have.common || d.have.objects && d.have.refs)
}

func (d *dir) read() error {
	d.subs = d.subs[:0]
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
	counts := changed || d.moved && d.kind != plain
	if !counts {
		return
	}
	why := d.why1(name)
	switch {
	case kind == entryFile && changed && (mode&unix.S_ISUID != 0 || mode&(unix.S_ISGID|0o010) == unix.S_ISGID|0o010):
		why = whySetuid
	case kind == entryLink && why == "":
		why = d.names.dir(string(name))
		if why == "" && changed {
			why = d.outside(string(name))
		}
	case kind == entryOther:
		why = "" // a pipe or a socket is not run
	}
	if why != "" {
		d.note(string(name), why)
	}
}

// note notes a name once, the first reason counts.
func (d *dir) note(name, why string) {
	if d.kind == gitDir && slices.ContainsFunc(d.found, func(f sandbox.FutureInput) bool { return f.Path == name }) {
		return // of the second reading
	}
	d.found = append(d.found, sandbox.FutureInput{Path: name, Why: why})
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

// why1 says why a file of that name counts in this directory.
func (d *dir) why1(name []byte) string {
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
		case "commondir", "gitdir", "hooks", "worktrees", "modules":
			return whyGitPlace // hooks and the like: as links
		}
	case pySite:
		if strings.HasSuffix(string(name), ".pth") {
			return whySitePath
		}
	}
	if string(name) == ".git" {
		return whyGitPlace
	}
	if d.kind == nodeMod {
		return ""
	}
	return d.names.file(name)
}

// outside says why a link counts that leads out of the root, "" if it does not.
func (d *dir) outside(name string) string {
	var buf [4096]byte
	n, err := unix.Readlinkat(d.fd, name, buf[:])
	if err != nil {
		return ""
	}
	target := string(buf[:n])
	if !filepath.IsAbs(target) {
		target = filepath.Join(d.path, d.place.name, target)
	}
	target = filepath.Clean(target)
	if target == d.path || strings.HasPrefix(target, strings.TrimSuffix(d.path, "/")+"/") {
		return ""
	}
	return d.names.link(target)
}

// finish reports what was found and queues the directories.
func (d *dir) finish() {
	if d.kind == gitDir && d.have.config && (d.moved || d.have.headFresh && d.place.name != ".git") {
		d.note("config", whyGitConfig)
	}
	if len(d.found) > manyInOne && (d.kind == whole || d.kind == gitHook) {
		d.add(d.place.name, fmt.Sprintf("%d files: %s", len(d.found), d.found[0].Why))
	} else {
		for _, f := range d.found {
			d.add(path.Join(d.place.name, f.Path), f.Why)
		}
	}
	for _, name := range d.subs {
		p := place{name: path.Join(d.place.name, name), depth: d.depth + 1, above: d.fresh}
		if !d.enter(&p, name) {
			continue
		}
		if p.depth > d.Depth {
			d.complete = false
			continue
		}
		d.queue = append(d.queue, p)
	}
}

// enter says what a directory in this one is, and whether to visit it.
func (d *dir) enter(p *place, name string) bool {
	base := path.Base(d.place.name)
	for _, in := range inputsBelow {
		if in.parent == base && in.name == name {
			p.kind, p.why, p.moved = whole, in.why, d.moved
			return true
		}
	}
	switch {
	case d.kind == whole:
		p.kind, p.why, p.moved = whole, d.why, d.moved
	case d.names.dirs[name] != "":
		p.kind, p.why = whole, d.names.dirs[name]
	case name == ".git":
		p.kind = gitDir
	case d.kind == gitDir && name == "hooks":
		p.kind, p.moved = gitHook, d.moved
	case d.kind == gitDir && (name == "objects" || name == "refs" || name == "logs"):
		return false
	case d.venv && (name == "bin" || name == "Scripts"):
		p.kind, p.why = whole, whyVenv
	case name == "node_modules":
		p.kind = nodeMod
	case name == "site-packages" || name == "dist-packages":
		p.kind = pySite
	case d.kind == nodeMod || d.kind == pySite:
		return d.Deep
	}
	return true
}
