package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
)

// bait is what a selftest puts on the host for the probes to find: files,
// sockets and a process, each of which would be out of reach of a confined
// script, and each of which may be spoilt.
type bait struct {
	nonce, secret string
	workspace     string // with a repository's skeleton, to be attacked
	outside       string // a directory in the user's cache, "" where none could be made
	tmp, vartmp   string // files, each "" where none could be made
	shm, run      string

	tcp, tcp6, unix, abstract net.Listener
	udp                       net.PacketConn
	reached                   struct{ tcp, tcp6, udp, unix, abstract atomic.Int64 } // connections and datagrams that came

	witness *exec.Cmd
	hold    io.Closer // its standard input: it ends with it
	undo    []func()
}

// baitFiles are the files to attack in the directory outside. Each is for one
// probe.
func baitFiles() []string {
	return []string{"read", "write", "truncate", "unlink", "rename", "chmod", "utime", "xattr", "symlink", "hardlink", "tool"}
}

const baitText = "bait of hermes-exec selftest; may be removed\n"

// layBait makes it all; after an error nothing is left.
func layBait() (*bait, error) {
	b := &bait{nonce: "hermes-exec-selftest-" + rand.Text()[:12], secret: "bait" + rand.Text()}
	if err := b.lay(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bait) lay() error {
	dir, err := os.MkdirTemp("", b.nonce+"-ws-")
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	b.undo = append(b.undo, func() { os.RemoveAll(dir) })
	if b.workspace, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if err := furnish(b.workspace); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		b.outside = b.directory(cache, true)
	}
	for _, name := range baitFiles() {
		if b.outside == "" {
			break
		}
		if err := os.WriteFile(filepath.Join(b.outside, name), []byte(baitText), 0o644); err != nil {
			return err
		}
	}
	b.tmp, b.vartmp, b.shm = b.file("/tmp"), b.file("/var/tmp"), b.file("/dev/shm")
	if b.run = b.file("/run"); b.run == "" {
		b.run = b.file(os.Getenv("XDG_RUNTIME_DIR"))
	}
	if err := b.listen(); err != nil {
		return err
	}
	return b.post()
}

// furnish makes what a workspace has that somebody else runs or reads later.
// Names of such things that are missing are probed as well.
func furnish(dir string) error {
	for name, text := range map[string]string{
		".git/HEAD":               "ref: refs/heads/main\n",
		".git/config":             "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		".git/objects/info/.keep": "",
		".git/refs/heads/.keep":   "",
		".git/hooks/README":       baitText,
		// A submodule and a linked worktree, as git keeps them.
		".git/modules/lib/HEAD":              "ref: refs/heads/main\n",
		".git/modules/lib/config":            "[core]\n\tbare = false\n",
		".git/modules/lib/objects/info/keep": "",
		".git/modules/lib/refs/heads/keep":   "",
		".git/worktrees/other/HEAD":          "ref: refs/heads/other\n",
		".git/worktrees/other/commondir":     "../..\n",
		".github/workflows/ci.yml":           "on: push\n",
		".vscode/tasks.json":                 "{}\n",
		"README.md":                          baitText,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// concede takes away what a session without namespaces is refused for: a socket
// that any script could reach, and a workspace of root's.
func (b *bait) concede() error {
	if b.unix != nil {
		b.unix.Close()
		b.unix = nil
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(b.workspace, func(name string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, local.BoxUID, local.BoxUID))
	})
}

// directory makes a directory of the selftest's own in dir; "" where it cannot.
func (b *bait) directory(dir string, parents bool) string {
	if _, err := os.Stat(dir); err != nil && parents {
		if os.MkdirAll(dir, 0o700) != nil {
			return ""
		}
		b.undo = append(b.undo, func() { os.Remove(dir) }) // when nobody else uses it by then
	}
	path := filepath.Join(dir, b.nonce)
	if os.Mkdir(path, 0o755) != nil {
		return ""
	}
	b.undo = append(b.undo, func() { os.RemoveAll(path) })
	return path
}

// file makes a file of the selftest's own in dir; "" where it cannot.
func (b *bait) file(dir string) string {
	if dir == "" {
		return ""
	}
	path := filepath.Join(dir, b.nonce+"-outside")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return ""
	}
	f.Close()
	b.undo = append(b.undo, func() { os.Remove(path) })
	return path
}

// listen opens servers that count who reaches them. What this host does not
// have (IPv6, a place for the socket) stays nil.
func (b *bait) listen() (err error) {
	if b.tcp, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return err
	}
	if b.udp, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
		return err
	}
	if b.abstract, err = net.Listen("unix", "@"+b.nonce); err != nil {
		return err
	}
	b.tcp6, _ = net.Listen("tcp6", "[::1]:0")
	for _, dir := range []string{b.outside, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if dir == "" {
			continue
		}
		if b.unix, err = net.Listen("unix", filepath.Join(dir, b.nonce[len(b.nonce)-6:]+".sock")); err == nil {
			break
		}
	}
	count := func(l net.Listener, n *atomic.Int64) {
		if l == nil {
			return
		}
		b.undo = append(b.undo, func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.SetReadDeadline(time.Now().Add(2 * time.Second))
					text := make([]byte, len(b.nonce))
					if _, err := io.ReadFull(c, text); err == nil && string(text) == b.nonce { // and no stranger
						n.Add(1)
					}
				}()
			}
		}()
	}
	count(b.tcp, &b.reached.tcp)
	count(b.tcp6, &b.reached.tcp6)
	count(b.unix, &b.reached.unix)
	count(b.abstract, &b.reached.abstract)
	b.undo = append(b.undo, func() { b.udp.Close() })
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := b.udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			if string(buffer[:n]) == b.nonce {
				b.reached.udp.Add(1)
			}
			b.udp.WriteTo(buffer[:n], from)
		}
	}()
	return nil
}

// post starts a process outside that has the secret in its environment and in
// its arguments. It ends when this process does.
func (b *bait) post() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	b.witness = exec.Command(self, "selftest", "--witness", b.secret)
	b.witness.Env = append(os.Environ(), "HERMES_EXEC_SELFTEST_API_KEY="+b.secret)
	if b.hold, err = b.witness.StdinPipe(); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	if err := b.witness.Start(); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	b.undo = append(b.undo, func() {
		b.hold.Close()
		b.witness.Process.Kill()
		b.witness.Wait()
	})
	return nil
}

// close takes it all away, the last first.
func (b *bait) close() {
	for i := len(b.undo) - 1; i >= 0; i-- {
		b.undo[i]()
	}
	b.undo = nil
}

// port of a listener, 0 for none.
func port(addr net.Addr) int {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.Port
	case *net.UDPAddr:
		return a.Port
	}
	return 0
}

// spoilt tells what became of one bait file; "" when nothing did.
func (b *bait) spoilt(name string) string {
	path := filepath.Join(b.outside, name)
	if _, err := os.Lstat(path + "-new"); err == nil {
		return "it was made"
	}
	if name == "create" || name == "mkdir" {
		return ""
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "it is gone"
	case err != nil:
		return err.Error()
	case info.Mode().Perm()&0o111 != 0:
		return "its mode was changed"
	case info.ModTime().Year() < 2000:
		return "its times were changed"
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != baitText {
		return "its content was changed"
	}
	return ""
}

// tree is what a directory holds: each name with its content.
func tree(dir string) map[string]string {
	all := map[string]string{}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			all[name] = err.Error()
		case d.Type().IsRegular():
			data, _ := os.ReadFile(path)
			all[name] = string(data)
		default:
			all[name] = d.Type().String()
		}
		return nil
	})
	return all
}

// changes names what differs between two trees.
func changes(before, after map[string]string) (names []string) {
	for name, text := range after {
		if old, ok := before[name]; !ok || old != text {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name+" (gone)")
		}
	}
	return names
}

// startOf is when a process began, as /proc has it: with the pid it names one
// process for good.
func startOf(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	if fields := strings.Fields(rest); len(fields) > 19 {
		return fields[19]
	}
	return ""
}
