package sshbox

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// seen is what one call has learned of names: none is looked at again.
type seen struct {
	infos   map[string]*fileInfo
	targets map[string]string // of links
}

// look describes every component of a name, the root's entries first. Those
// after the first that is missing are nil. What it finds it adds to known, which
// may be nil.
func (f stockFiles) look(ctx context.Context, name string, known map[string]*fileInfo) ([]*fileInfo, error) {
	if name == "/" {
		return nil, nil
	}
	var names []string
	for i := 1; i < len(name); i++ {
		if name[i] == '/' {
			names = append(names, name[:i])
		}
	}
	names = append(names, name)
	const atOnce = maxSFTPCalls / 2
	all := make([]*fileInfo, len(names))
	first := 0
	for ; first < len(names) && known[names[first]] != nil; first++ {
		all[first] = known[names[first]]
		if first < len(names)-1 && !all[first].IsDir() {
			return all, nil
		}
	}
	for from := first; from < len(names); from += atOnce {
		some := names[from:min(from+atOnce, len(names))]
		var calls []*sftpCall
		for _, name := range some {
			call, err := f.start(ctx, 0, lstatPacket(name))
			if err != nil {
				f.forsake(calls...)
				return nil, err
			}
			calls = append(calls, call)
		}
		for i, call := range calls {
			r, err := f.wait(ctx, call, nil)
			if err == nil {
				all[from+i], err = f.info(some[i], &r)
			}
			if err != nil {
				f.forsake(calls[i+1:]...)
				// A file above it, and a loop of links, are missing files to
				// an sftp server.
				if errors.Is(err, syscall.ENOENT) || isRefused(err) && from+i > 0 && !all[from+i-1].IsDir() {
					return all, nil
				}
				return all, f.refine(err, some[i])
			}
			if known != nil {
				known[some[i]] = all[from+i]
			}
			if i := from + i; i < len(names)-1 && !all[i].IsDir() {
				f.forsake(calls[i-from+1:]...)
				return all, nil
			}
		}
	}
	return all, nil
}

// refine tells what a vague error about a name must mean.
func (f stockFiles) refine(err error, name string) error {
	if len(path.Base(name)) > 255 && (errors.Is(err, syscall.EINVAL) || isRefused(err)) {
		return syscall.ENAMETOOLONG
	}
	return err
}

// check looks at a name and refuses one with a link in any component; last
// says whether the last one counts. The info is the last one's, nil when it
// does not exist but all above it does.
func (f stockFiles) check(ctx context.Context, name string, last bool) (*fileInfo, error) {
	if name == "/" {
		return f.lstat(ctx, name)
	}
	all, err := f.look(ctx, name, nil)
	for i, info := range all {
		switch final := i == len(all)-1; {
		case info == nil && err != nil:
			return nil, err
		case info == nil && !final:
			return nil, syscall.ENOENT
		case info == nil:
			return nil, nil
		case info.Mode()&fs.ModeSymlink != 0 && (last || !final):
			return nil, sandbox.ErrSymlink
		case !final && !info.IsDir():
			return nil, syscall.ENOTDIR
		case final:
			return info, nil
		}
	}
	return nil, err
}

// existing is check for a name that must exist.
func (f stockFiles) existing(ctx context.Context, name string, last bool) (*fileInfo, error) {
	info, err := f.check(ctx, name, last)
	if err == nil && info == nil {
		err = syscall.ENOENT
	}
	return info, err
}

// resolve follows links itself, on every server alike: what a server's own
// realpath does with what is missing, or with links at all, differs.
func (f stockFiles) resolve(ctx context.Context, name string) (string, error) {
	resolved, rest, links := "/", name, 0
	known := seen{map[string]*fileInfo{}, map[string]string{}}
	for rest != "" {
		// All components up to the next ".." are looked at together.
		var run []string
		tail := rest
		for tail != "" {
			comp, after, _ := strings.Cut(tail, "/")
			if comp == ".." {
				break
			}
			tail = after
			if comp != "" && comp != "." {
				run = append(run, comp)
			}
		}
		to := path.Join(append([]string{resolved}, run...)...)
		if len(to) > maxSFTPPath {
			return "", syscall.ENAMETOOLONG
		}
		infos, err := f.look(ctx, to, known.infos)
		if err != nil && !hasLink(infos) {
			return "", err
		}
		link := -1
		for i, info := range infos {
			if info == nil {
				break
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				link = i
				break
			}
			if i < len(infos)-1 && !info.IsDir() {
				return "", syscall.ENOTDIR
			}
		}
		if link >= 0 {
			if links++; links > maxLinks {
				return "", syscall.ELOOP
			}
			comps := strings.Split(to[1:], "/")
			at := "/" + strings.Join(comps[:link+1], "/")
			target, ok := known.targets[at]
			if !ok {
				if target, err = f.readlink(ctx, at); err != nil {
					return "", err
				}
				known.targets[at] = target
			}
			if resolved = path.Dir(at); strings.HasPrefix(target, "/") {
				resolved = "/"
			}
			rest = target + "/" + strings.Join(comps[link+1:], "/") + "/" + tail
			if len(rest) > 4*maxSFTPPath {
				return "", syscall.ENAMETOOLONG
			}
			continue
		}
		if err != nil {
			return "", err
		}
		resolved = to
		if rest = tail; rest == "" {
			break
		}
		if n := len(infos); n > 0 && infos[n-1] != nil && !infos[n-1].IsDir() {
			return "", syscall.ENOTDIR
		}
		_, rest, _ = strings.Cut(rest, "/") // the ".."
		resolved = path.Dir(resolved)
	}
	return resolved, nil
}

// hasLink tells whether a look came upon a link: what it found below is not
// what the name means.
func hasLink(infos []*fileInfo) bool {
	for _, info := range infos {
		if info != nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

func (f stockFiles) readlink(ctx context.Context, name string) (string, error) {
	r, err := f.do(ctx, 0, nil, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPReadlink, id).Text(name)
	})
	if err != nil {
		return "", err
	}
	if r.kind != sshwire.SFTPName {
		return "", f.unexpected(&r)
	}
	n := r.body.U32()
	target := r.body.Text(maxSFTPPath)
	if r.body.Bad || n != 1 || target == "" || strings.IndexByte(target, 0) >= 0 {
		return "", f.broken()
	}
	return target, nil
}
