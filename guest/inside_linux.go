package guest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/guest/landlock"
	"github.com/hermes-exec/hermes-exec/guest/seccomp"
)

// maxPacket bounds one message of the session's socket. It is below what the
// kernel takes by default.
const maxPacket = 128 << 10

// inside is the guest of one box.
type inside struct {
	c       Confinement
	ruleset *landlock.Ruleset
	usual   []unix.SockFilter                 // of commands without options, made ahead, or nil
	filter  []unix.SockFilter                 // of commands
	server  func() ([]unix.SockFilter, error) // the filter of the file server
	serving chan int                          // to a thread that waits to serve files, or nil
	prog    *unix.SockFprog
	groups  []int
	root    *root // while it is made
	uids    string
	files   int // a connection to serve files on from the start, or -1

	ended int     // eventfd: a command has ended
	ahead *reaper // made before its command is known, or nil; only where there are namespaces

	mu       sync.Mutex
	commands map[*command]struct{}
	starting map[int]struct{} // reapers of commands that do not run yet
}

// confineOne is the whole life of a session guest: it confines itself, serves
// the engine until its socket closes, and takes everything with it.
func confineOne() int {
	runtime.LockOSThread() // reapers die with this thread
	volunteer()
	closeOnExec(control)
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGVTALRM, unix.SIGPROF} {
		ignore(sig)
	}
	g := &inside{files: -1, commands: map[*command]struct{}{}, starting: map[int]struct{}{}}
	packet, fds, err := receivePacket(control, maxPacket)
	if err == nil && len(packet) > 0 && packet[0] == orderFoundation {
		if g.c, err = parseConfinement(packet[1:]); err != nil || len(fds) > 0 || g.found() != nil {
			return 1
		}
		if !readable(control) {
			g.warmUp()
		}
		packet, fds, err = receivePacket(control, maxPacket)
	}
	if err != nil || len(packet) == 0 || packet[0] != orderConfine {
		return 1 // the engine ended before it had said what to be
	}
	founded := g.c.message()
	if g.c, err = parseConfinement(packet[1:]); err != nil {
		return 1
	}
	if g.root != nil && !bytes.Equal(founded, g.c.foundation().message()) {
		return 1
	}
	err = g.setUp(fds)
	var s Setup
	if err != nil {
		s = failed(err)
	} else if g.ruleset != nil {
		s.Landlock = g.ruleset.ABI()
	}
	s.UIDMap = g.uids
	var rights []byte // to its own file system, so that the engine sees when that is full
	scratch := -1
	if s.Error == "" && g.c.Namespaces {
		if scratch, err = unix.Open(g.c.Scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return 1
		}
		rights = unix.UnixRights(scratch)
	}
	if s.Error == "" && !g.c.More && g.leave() != nil {
		return 1
	}
	if unix.Sendmsg(control, s.message(), rights, nil, unix.MSG_NOSIGNAL) != nil || s.Error != "" {
		return 1
	}
	if scratch >= 0 {
		unix.Close(scratch)
	}
	g.serveFirst()
	if g.c.More && g.leave() != nil {
		return 1
	}
	return g.serve()
}

// serveFirst has a thread confine itself, while this one is busy, and serve files
// on the connection that is there from the start, where nothing is asked before
// Confine, and Mount if More says so, have returned.
func (g *inside) serveFirst() {
	switch {
	case g.serving != nil:
		g.serving <- g.files
	case g.files >= 0:
		go g.serveFiles(g.files)
	}
}

// leave lets go of this machine's tree before anything else that is asked of the
// guest, but for the mounts that come first: they take as long, and the kernel
// does both at once.
func (g *inside) leave() error {
	if g.root == nil {
		return nil
	}
	left := make(chan error, 1)
	go func() { left <- g.root.leave() }()
	if g.c.More {
		packet, fds, err := receivePacket(control, maxPacket)
		if err != nil || len(packet) == 0 || packet[0] != orderMount {
			closeAll(fds)
			return errFrame
		}
		g.c.More = false
		answer := g.mount(packet[1:]) // what comes along is kept open
		if err := <-left; err != nil {
			return err
		}
		return unix.Sendmsg(control, answer, nil, nil, unix.MSG_NOSIGNAL)
	}
	return <-left
}

// warmUp does ahead, while nothing is asked of the guest, what the first use of
// a package costs.
func (g *inside) warmUp() {
	g.usual, _ = seccomp.Program(seccomp.Options{})
	g.server = g.serverFilter(false)
	_, _ = g.server()
	_ = LandlockABI()
	g.serving = make(chan int)
	go func() {
		runtime.LockOSThread()
		filter, err := g.server()
		if err != nil || keepCapability(-1) != nil || seccomp.Install(filter) != nil { // which compiles it
			os.Exit(1)
		}
		if fd := <-g.serving; fd >= 0 {
			g.filesOn(fd)
		}
	}()
}

// found makes the part that depends on who the box is for and nothing else.
func (g *inside) found() error {
	defer unix.Umask(unix.Umask(0o022)) // commands have the engine's, what is made here has not
	if g.c.Namespaces {
		// The death of the engine's thread that made this process is its own.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return at("pdeathsig", err)
		}
		if err := g.mapIDs(); err != nil {
			return at("ids", err)
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return at("subreaper", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return at("dumpable", err)
	}
	m, _ := os.ReadFile("/proc/self/uid_map")
	g.uids = strings.Join(strings.Fields(string(m)), " ")
	if !g.c.Namespaces {
		return nil
	}
	root, err := newRoot(&g.c)
	if err != nil {
		return err
	}
	g.root = root
	if err := unix.Sethostname([]byte("localhost")); err != nil {
		return at("hostname", err)
	}
	if g.c.NetworkOff {
		if err := raiseLoopback(); err != nil {
			return at("loopback", err)
		}
	}
	return nil
}

// setUp confines this process as far as it goes for one that has to fork
// commands. Each command is confined further.
func (g *inside) setUp(fds []int) error {
	if g.root == nil {
		if err := g.found(); err != nil {
			return err
		}
	}
	defer unix.Umask(unix.Umask(0o022))
	if g.c.Files {
		if len(fds) == 0 {
			return at("configuration", unix.EBADF)
		}
		g.files, fds = fds[0], fds[1:]
	}
	if g.c.Groups < 0 || g.c.Groups > len(launch{}.groups) || g.c.Trees < 0 || g.c.Groups+g.c.Trees > len(fds) {
		return at("configuration", unix.EBADF)
	}
	g.groups = fds[:g.c.Groups]
	trees := fds[g.c.Groups:][:g.c.Trees]
	if g.c.Namespaces {
		if err := g.root.build(&g.c, trees); err != nil {
			return err
		}
	}
	for _, fd := range trees {
		unix.Close(fd)
	}
	if err := g.wall(); err != nil {
		return err
	}
	if g.c.Namespaces {
		// The last capability that is needed is the one to make namespaces.
		if err := keepCapability(unix.CAP_SYS_ADMIN); err != nil {
			return at("capabilities", err)
		}
	}
	return nil
}

// mapIDs maps the engine's user to itself, unless the engine has mapped.
func (g *inside) mapIDs() error {
	if g.c.Mapped {
		return nil
	}
	line := func(id int) []byte { return []byte(strconv.Itoa(id) + " " + strconv.Itoa(id) + " 1") }
	if err := os.WriteFile("/proc/self/setgroups", []byte("deny"), 0); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/gid_map", line(g.c.GID), 0); err != nil {
		return err
	}
	return os.WriteFile("/proc/self/uid_map", line(g.c.UID), 0)
}

// serve obeys the engine until its socket closes. The orders of a session are
// packets: one letter and what it needs, with at most one descriptor.
func (g *inside) serve() int {
	var err error
	if g.ended, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return 1
	}
	for wait := 0; ; {
		if g.c.Namespaces && g.ahead == nil && g.idle(wait) {
			g.ahead, _ = g.newReaper(usualCommand) // without one the next command makes its own
		}
		wait = millis(idleAfter)
		packet, fds, err := receivePacket(control, maxPacket)
		if err != nil || len(packet) == 0 {
			g.end()
			return 0
		}
		var fd = -1
		if len(fds) == 1 {
			fd = fds[0]
		}
		switch {
		case packet[0] == orderCommand && fd >= 0:
			var none [8]byte
			_, _ = unix.Read(g.ended, none[:])
			g.command(fd)
		case packet[0] == orderFiles && fd >= 0:
			go g.serveFiles(fd)
		case packet[0] == orderListen && len(fds) == 0:
			g.listen(string(packet[1:]))
		case packet[0] == orderTerminal && len(fds) == 0:
			g.terminal()
		case packet[0] == orderMount: // what comes along is kept open
			g.letGo() // it has the mounts as they were
			_ = unix.Sendmsg(control, g.mount(packet[1:]), nil, nil, unix.MSG_NOSIGNAL)
		default:
			g.end()
			return 1
		}
	}
}

// idleAfter is how long nothing is asked of a guest, and no command ends, before
// it makes a reaper for the next: not while the last one is starting.
const idleAfter = 250 * time.Millisecond

// afterEnd is what a command's end gets to be told and tidied up after.
const afterEnd = 5 * time.Millisecond

// idle waits for so many milliseconds, or until soon after the end of a command;
// it reports whether nothing is asked then.
func (g *inside) idle(wait int) bool {
	fds := []unix.PollFd{{Fd: control, Events: unix.POLLIN}, {Fd: int32(g.ended), Events: unix.POLLIN}}
	err := poll(fds, wait)
	if err == nil && fds[0].Revents == 0 && fds[1].Revents != 0 {
		err = poll(fds[:1], millis(afterEnd))
	}
	return err == nil && fds[0].Revents == 0
}

// poll is poll(2), which every SIGCHLD interrupts: so does the one that comes
// with the end of a command.
func poll(fds []unix.PollFd, wait int) error {
	for {
		if _, err := unix.Poll(fds, wait); err != unix.EINTR {
			return err
		}
	}
}

// readable reports whether there is something to be read.
func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil
}

// letGo ends the reaper that waits.
func (g *inside) letGo() {
	if r := g.ahead; r != nil {
		g.ahead = nil
		go g.bury(r)
	}
}

// end kills what still runs, where no namespace does it, and returns when nothing
// does: all orphans come to this process, so one without children has left none.
// It gives up what resists, which nobody can end.
func (g *inside) end() {
	if g.c.Namespaces {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := tree{root: os.Getpid()}
	pause := time.Millisecond
	for stop := time.Now().Add(resistAlone); time.Now().Before(stop); pause = min(2*pause, 100*time.Millisecond) {
		_, _ = all.kill() // without a descriptor or memory for it, again
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
			if err == unix.ECHILD {
				return
			}
			if err != nil || pid <= 0 {
				break
			}
		}
		time.Sleep(pause)
	}
}

// resistAlone is how long a guest tries to kill what it leaves, when nobody waits
// for it: a machine may stand still for a while.
const resistAlone = time.Minute

// serveFiles is a thread that is confined as a command is.
func (g *inside) serveFiles(fd int) {
	runtime.LockOSThread() // never unlocked: the thread ends with it
	if err := keepCapability(-1); err != nil && g.c.Namespaces {
		unix.Close(fd)
		return
	}
	if filter, err := g.server(); err != nil || seccomp.Install(filter) != nil {
		unix.Close(fd)
		return
	}
	g.filesOn(fd)
}

// filesOn serves on this thread, which has no capabilities any more and is under
// the filter.
func (g *inside) filesOn(fd int) {
	defer unix.Close(fd)
	if g.ruleset != nil && g.ruleset.Restrict() != nil {
		return
	}
	_ = files.Serve(fd, files.New())
}

// mount makes more mounts in the tree the box sees and returns the answer.
func (g *inside) mount(list []byte) []byte {
	p := payload{rest: list}
	mounts := p.mounts()
	err := p.end()
	if err == nil {
		err = amend(mounts)
	}
	answer := Setup{}
	if err != nil {
		answer = failed(err)
	}
	return answer.message()
}

// failed says what went wrong, for the engine.
func failed(err error) Setup {
	s := Setup{Error: err.Error()}
	var stage *stageError
	var errno syscall.Errno
	if errors.As(err, &stage) {
		s.Stage = stage.stage
	}
	if errors.As(err, &errno) {
		s.Errno = int(errno)
	}
	return s
}

// listen makes a socket in a new directory of the scratch directory and passes
// it to the engine.
func (g *inside) listen(name string) {
	fd, err := g.socket(name)
	if err != nil {
		errno, _ := err.(syscall.Errno)
		_ = unix.Sendmsg(control, []byte("!"+strconv.Itoa(int(errno))), nil, nil, unix.MSG_NOSIGNAL)
		return
	}
	_ = unix.Sendmsg(control, []byte{orderListen}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
	unix.Close(fd)
}

func (g *inside) socket(name string) (int, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
		return -1, unix.EINVAL
	}
	dir := filepath.Join(g.c.Scratch, name)
	if err := unix.Mkdir(dir, 0o700); err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(dir)
		return -1, err
	}
	name = filepath.Join(dir, socketName)
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err == nil {
		if err = unix.Chmod(name, 0o600); err == nil {
			err = unix.Listen(fd, 128)
		}
	}
	if err != nil {
		unix.Close(fd)
		_ = unix.Unlink(name)
		_ = unix.Rmdir(dir)
		return -1, err
	}
	return fd, nil
}

// receivePacket reads one message with its descriptors, which are ours alone.
func receivePacket(fd, limit int) ([]byte, []int, error) {
	buf, rights := make([]byte, limit), make([]byte, unix.CmsgSpace(maxRights*4))
	for {
		n, rn, flags, _, err := unix.Recvmsg(fd, buf, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		var fds []int
		messages, err := unix.ParseSocketControlMessage(rights[:rn])
		for i := range messages {
			got, rerr := unix.ParseUnixRights(&messages[i])
			fds = append(fds, got...)
			err = errors.Join(err, rerr)
		}
		if err != nil || flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
			for _, fd := range fds {
				unix.Close(fd)
			}
			return nil, nil, errFrame
		}
		return buf[:n], fds, nil
	}
}
