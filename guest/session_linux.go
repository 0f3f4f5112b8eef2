package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spawner is a goroutine on a thread of its own.
type spawner struct {
	mu     sync.Mutex
	jobs   chan func()
	closed bool
}

// do runs f on the thread.
func (s *spawner) do(f func()) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrSpawner
	}
	if s.jobs == nil {
		jobs := make(chan func())
		s.jobs = jobs
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			for job := range jobs {
				job()
			}
		}()
	}
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	s.mu.Unlock()
	<-done
	return nil
}

// Close ends the thread and with it every guest it has started.
func (s *Spawner) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.jobs != nil {
		close(s.jobs)
	}
	s.closed = true
}

// Session is the engine's end of a session guest. All methods are safe for
// concurrent use.
type Session struct {
	proc  *os.Process
	conn  *os.File // SOCK_SEQPACKET
	setup Setup
	done  chan struct{} // closed when the guest has ended
	bare  bool          // without namespaces, with which everything in them would end
	ran   atomic.Bool   // a command was started

	founded bool     // Found was called
	more    bool     // Mount was not called yet, and shall be; under mu
	scratch *os.File // a directory of the box's private file system, or nil

	reading chan struct{} // holds who reads answers
	mu      sync.Mutex    // one order is sent at a time
	pending []*pending    // those whose answers were not read, in order; under mu
}

// Spawn starts a guest with the identity and in the namespaces c asks for; it
// waits to be told the rest by Confine. The error is a *SetupError when this
// machine does not allow it.
func (s *Spawner) Spawn(program string, c Confinement) (*Session, error) {
	if program == "" {
		program = "/proc/self/exe"
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("guest: socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "guest")
	defer theirs.Close()
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		return nil, err
	}
	box := &Session{bare: !c.Namespaces, conn: os.NewFile(uintptr(fds[0]), "session"), done: make(chan struct{}), reading: make(chan struct{}, 1)}
	if e := s.do(func() { box.proc, err = spawnSession(program, c, theirs) }); e != nil {
		err = e
	}
	if err != nil {
		box.conn.Close()
		if errors.Is(err, ErrSpawner) {
			return nil, err
		}
		return nil, spawnError(err)
	}
	go func() {
		_, _ = box.proc.Wait()
		close(box.done)
	}()
	return box, nil
}

// Found has the guest lay the foundation for the confinements that are like c
// in who they are for, in Base, Size and Scratch. It does not wait: a guest that
// cannot, or is then confined otherwise, ends, and Confine returns ErrGone.
func (s *Session) Found(c Confinement) error {
	if err := s.send(append([]byte{orderFoundation}, c.foundation().message()...)); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	s.founded = true
	return nil
}

// Confine tells the guest what to make of itself and waits until it has.
// descriptors are the connection to serve files on, if any, the cgroup.procs files, then the trees
// c speaks of; they may be closed once it returned. The error is a *SetupError when this machine does not allow it,
// else the cause of ctx, ErrGone or ErrNoGuest. After an error the guest is
// gone.
func (s *Session) Confine(ctx context.Context, c Confinement, descriptors []*os.File) error {
	if err := s.BeginConfine(c, descriptors); err != nil {
		return err
	}
	return s.Confined(ctx)
}

// BeginConfine is the first half of Confine, which does not wait. After an error
// the guest is gone.
func (s *Session) BeginConfine(c Confinement, descriptors []*os.File) (err error) {
	defer s.gone(&err)
	s.more = c.More
	message := append([]byte{orderConfine}, c.message()...)
	if len(message) > maxPacket || len(descriptors) > maxRights {
		return fmt.Errorf("guest: a confinement of %d bytes and %d descriptors is too large", len(message), len(descriptors))
	}
	_ = s.conn.SetDeadline(time.Now().Add(greetWithin)) // of what is sent, too, until Confined has returned
	if err := s.send(message, descriptors...); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// Confined is the second half, which waits for the guest.
func (s *Session) Confined(ctx context.Context) (err error) {
	defer s.gone(&err)
	return s.greet(ctx)
}

// gone ends the guest after an error.
func (s *Session) gone(err *error) {
	if *err != nil {
		s.Kill()
		_ = s.Close()
	}
}

// spawnSession starts the process. It runs on the spawner's thread.
func spawnSession(program string, c Confinement, theirs *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
	if c.Namespaces && noNamespaces {
		return nil, unix.EPERM
	}
	if c.Namespaces {
		sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		if c.NetworkOff {
			sys.Cloneflags |= unix.CLONE_NEWNET
		}
		sys.Pdeathsig = syscall.SIGKILL
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN}
		if c.Mapped {
			sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.UID, HostID: c.UID, Size: 1}}
			sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.GID, HostID: c.GID, Size: 1}}
			sys.GidMappingsEnableSetgroups = true
		}
	}
	if c.Mapped {
		sys.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID)}
	}
	return os.StartProcess(program, []string{argv0, confine}, &os.ProcAttr{
		Dir:   "/",
		Env:   append([]string{marker + "=1", "GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=64MiB", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}, detector...),
		Files: []*os.File{null, null, null, theirs},
		Sys:   sys,
	})
}

// greet waits until the guest has confined itself.
func (s *Session) greet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	_ = s.conn.SetDeadline(time.Now().Add(greetWithin))
	answer, scratch, err := s.receive()
	if errors.Is(err, unix.ECONNRESET) { // it has ended with an order unread; what it said before comes after
		answer, scratch, err = s.receive()
	}
	s.scratch = scratch
	if !stop() {
		return context.Cause(ctx)
	}
	ended := err == nil && len(answer) == 0 || errors.Is(err, unix.ECONNRESET)
	switch {
	case ended && s.founded:
		return ErrGone
	case ended, errors.Is(err, os.ErrDeadlineExceeded):
		return ErrNoGuest
	case err != nil:
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if s.setup, err = parseSetup(answer); err != nil {
		return fmt.Errorf("guest: what it said: %w", err)
	}
	if err := setupError(s.setup); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// Setup is what the guest has made of itself.
func (s *Session) Setup() Setup { return s.setup }

// Full reports whether the box's private file system, which has scratch and
// /tmp, has no room left. One without namespaces has none.
func (s *Session) Full() bool {
	if s.scratch == nil {
		return false
	}
	var st unix.Statfs_t
	return unix.Fstatfs(int(s.scratch.Fd()), &st) == nil && (st.Bavail == 0 || st.Ffree == 0)
}

// Done is closed when the guest has ended, and everything in its box with it.
func (s *Session) Done() <-chan struct{} { return s.done }

// send writes one packet.
func (s *Session) send(packet []byte, files ...*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		for {
			sendErr = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return sendErr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = sendErr
	}
	return err
}

// receive reads one packet and at most one descriptor.
func (s *Session) receive() (packet []byte, file *os.File, err error) {
	packet, fds, err := s.receiveAll()
	for i, fd := range fds {
		if i > 0 || err != nil {
			unix.Close(fd)
			continue
		}
		file = os.NewFile(uintptr(fd), "socket")
	}
	return packet, file, err
}

// receiveAll reads one packet with its descriptors.
func (s *Session) receiveAll() (packet []byte, fds []int, err error) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		packet, fds, readErr = receivePacket(int(fd), 4<<10)
		return readErr != unix.EAGAIN
	})
	if err == nil {
		err = readErr
	}
	return packet, fds, err
}

// Kill ends the guest and everything in the box. It reports whether that was all
// found: without namespaces it has to be looked for.
func (s *Session) Kill() (all bool) {
	all = !s.bare || !s.ran.Load() || killBelow(s.proc)
	_ = s.proc.Kill()
	return all
}

// Close lets the guest end, and returns when it has: it kills everything that
// still runs in the box.
func (s *Session) Close() error {
	err := s.conn.Close()
	if errors.Is(err, os.ErrClosed) { // it was, when the guest failed
		err = nil
	}
	if s.scratch != nil {
		s.scratch.Close()
	}
	select {
	case <-s.done:
	case <-time.After(2 * resist):
		s.Kill()
		<-s.done
	}
	return err
}

// Remote is the engine's end of one command in a confined box. Signal, End and
// Kill are safe for concurrent use; Next is for one goroutine.
type Remote struct {
	line
	session *Session
	theirs  *os.File // the guest's end, until it has it
}

// Start runs the command with the three files as its standard streams. The
// error is a *StartError when the command could not be run, ErrGone when the
// guest has died, or the cause of ctx.
func (r *Remote) Start(ctx context.Context, cmd Command, files commandFiles) (pid int, err error) {
	defer func() {
		if err != nil {
			_, _ = r.Close()
		}
	}()
	r.session.ran.Store(true)
	pid, err = r.start(ctx, cmd, files, func() error { return r.session.hand(orderCommand, r.theirs) })
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return pid, err
}

// Next returns the next event, as Supervisor.Next. An error means that the
// guest is gone, and with it everything that was in the box; without namespaces,
// what could be found of it.
func (r *Remote) Next() (Event, error) {
	kind, p, err := r.receive()
	if err == nil {
		var e Event
		if e, err = parseEvent(kind, p); err == nil {
			return e, nil
		}
	}
	r.Kill()
	return Event{}, fmt.Errorf("the guest ended: %w", err)
}

// End sends SIGTERM to the tree, and SIGKILL to what is left of it after
// grace; at once when grace is 0. A later, earlier deadline wins.
func (r *Remote) End(grace time.Duration) error {
	return r.order(newFrame(kindEnd).number(uint64(max(grace, 0))).bytes())
}

// Signal sends sig to the whole tree.
func (r *Remote) Signal(sig syscall.Signal) error {
	return r.order(newFrame(kindSignal).number(uint64(sig)).bytes())
}

// Kill ends the whole box, for when its guest does not obey, as Session.Kill, and
// waits until it has ended.
func (r *Remote) Kill() (all bool) {
	all = r.session.Kill()
	select {
	case <-r.session.done: // after all of its namespace
		return all
	case <-time.After(resist):
		return false
	}
}

// Close lets go of the command; one that still runs is killed.
func (r *Remote) Close() (*os.ProcessState, error) {
	_ = r.theirs.Close() // unless that is done
	return nil, r.conn.Close()
}
