package local

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxSockets bounds the sockets that are hidden, each by a mount. Beyond it the
// nearest directory with at least crowdOfSockets of them in it is hidden instead.
const (
	maxSockets     = 512
	crowdOfSockets = 16
)

// tops are directories that are never hidden for the sockets in them.
var tops = [...]string{"/", "/bin", "/etc", "/home", "/lib", "/lib64", "/mnt", "/media", "/nix", "/opt", "/root", "/sbin", "/srv", "/sys", "/usr", "/usr/local", "/var", "/var/lib"}

// together puts directories in place of the sockets in them, where there are too
// many: somebody else's box must not be able to end the making of others.
func (pl *plan) together(sockets []string) ([]string, error) {
	if len(sockets) <= maxSockets {
		return sockets, nil
	}
	count := map[string]int{}
	for _, name := range sockets {
		for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
			count[dir]++
		}
	}
	needed := func(dir string) bool {
		return slices.Contains(tops[:], dir) || within(pl.home, dir) || slices.ContainsFunc(pl.c.Write, func(w string) bool { return within(w, dir) }) ||
			slices.ContainsFunc(pl.c.Mounts, func(m guest.Mount) bool { return within(m.Target, dir) })
	}
	hidden, hide := map[string]bool{}, []string(nil)
	for _, name := range sockets {
		dir := filepath.Dir(name)
		for dir != "/" && (count[dir] < crowdOfSockets || needed(dir)) {
			dir = filepath.Dir(dir)
		}
		if dir == "/" {
			dir = name
		}
		if !hidden[dir] {
			hidden[dir] = true
			hide = append(hide, dir)
		}
	}
	if len(hide) > maxSockets {
		return nil, fmt.Errorf("%d sockets of this machine would have to be hidden, %d can be: %w", len(hide), maxSockets, sandbox.ErrPolicy)
	}
	return hide, nil
}

// hostSockets are the sockets with a name in the file system that somebody on
// this machine listens on: to connect is to write, but no mount is read-only
// to it. The names are whatever their owners gave to bind, line breaks too, so
// only what is a socket counts.
//
// Of a name that is gone, what is in its directory is looked at if that is visible.
func hostSockets(visible func(dir string) bool) ([]string, error) {
	const table = "/proc/self/net/unix" // /proc/net is missing in a proc of processes alone
	fd, err := unix.Open(table, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil, nil // a kernel without them
	}
	if err != nil {
		return nil, fmt.Errorf("sockets of this machine: %w", err)
	}
	f := os.NewFile(uintptr(fd), table)
	defer f.Close()
	return socketNames(f, visible)
}

// tables are the buffers a table of sockets is read with.
var tables = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// socketNames reads the kernel's table of sockets. One of a relative name cannot
// be told where it is.
func socketNames(table io.Reader, visible func(dir string) bool) (names []string, err error) {
	in, seen := tables.Get().(*bufio.Reader), map[string]bool{} // each of its connections has a socket's name
	in.Reset(table)
	defer tables.Put(in)
	for {
		line, err := in.ReadSlice('\n') // none is as long as the buffer
		if at := bytes.Index(line, []byte(" /")); at >= 0 {
			name := filepath.Clean(string(bytes.TrimSuffix(line[at+1:], []byte("\n"))))
			if !seen[name] {
				seen[name] = true
				names = append(names, socketsAt(name, seen, visible)...)
			}
		}
		switch {
		case err == io.EOF:
			return names, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, fmt.Errorf("sockets of this machine: %w", err)
		}
	}
}

// socketsAt are the real names of the socket that was bound to a name. One that was
// renamed since has a name nobody tells: it is one of those in the directory.
func socketsAt(name string, seen map[string]bool, visible func(dir string) bool) []string {
	var st unix.Stat_t
	switch err := unix.Lstat(name, &st); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK:
		if real, err := realPath(name); err == nil { // where mounts can be made
			return []string{real}
		}
		return []string{name}
	case err != unix.ENOENT:
		return nil
	}
	dir := filepath.Dir(name)
	if seen[dir+"/"] || !visible(dir) { // no name has a slash at its end
		return nil
	}
	seen[dir+"/"] = true
	real, err := realPath(dir)
	if err != nil {
		return nil
	}
	f, err := os.Open(real)
	if err != nil {
		return nil
	}
	defer f.Close()
	var sockets []string
	for read := 0; read < maxRenamed; {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if e.Type() == fs.ModeSocket {
				sockets = append(sockets, filepath.Join(real, e.Name()))
			}
		}
		if read += len(entries); err != nil {
			break
		}
	}
	return sockets
}

// maxRenamed bounds the names that are looked at where a socket was renamed.
const maxRenamed = 4096
