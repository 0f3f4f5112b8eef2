package sshbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Start implements sandbox.Sandbox.
func (b *plainBox) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	called := ""
	if len(cmd.Args) > 0 {
		called = cmd.Args[0]
	}
	p, err := b.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: start %q: %w", b.link.config.Name, clip(called), err)
	}
	return p, nil
}

func clip(s string) string { return s[:min(len(s), 200)] }

func (b *plainBox) start(ctx context.Context, cmd sandbox.Cmd) (*plainProcess, error) {
	switch {
	case len(cmd.Args) == 0:
		return nil, errors.New("no program given")
	case cmd.Policy != nil && !cmd.Policy.Unconfined:
		return nil, fmt.Errorf("a policy for one command: a plain sshd enforces none: %w", sandbox.ErrPolicy)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir := b.info.WorkDir
	if cmd.Dir != "" {
		dir = cmd.Dir
		if !path.IsAbs(dir) {
			dir = path.Join(b.info.WorkDir, dir)
		}
	}
	env := cmd.Env
	if env == nil {
		env = b.spec.Env
	}
	head, err := header(cmd, dir, env)
	if err != nil {
		return nil, err
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	p, err := b.launch(ctx, cmd, dir, head)
	if err != nil {
		b.using.Done()
		return nil, err
	}
	return p, nil
}

// launch starts the command; the caller has registered it as a use of the box,
// which ends with the process.
func (b *plainBox) launch(ctx context.Context, cmd sandbox.Cmd, dir string, head []byte) (*plainProcess, error) {
	b.mu.Lock()
	b.last++
	id := b.last
	b.mu.Unlock()
	tag := fmt.Sprintf("%s.%d.", b.spec.ID, id)
	if cmd.PTY != nil { // a terminal would echo it, and cut it
		if n, err := b.keeper.order(ctx, fmt.Sprintf("header %d\n%s", id, strings.TrimSuffix(string(head), "\n"))); err != nil {
			return nil, err
		} else if n != 0 {
			return nil, errors.New("the command cannot be written to the scratch directory")
		}
	}
	link, s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	p := newPlainProcess(b, link, s, cmd, tag)
	go p.hear(s.requests)
	mark := "hermes-exec-" + rand.Text()
	complaint := make(chan string, 1)
	if cmd.PTY == nil {
		p.streams++
		go p.pump(p.ch.Stderr(), cmd.Stderr, func(in *bufio.Reader) bool {
			said, err := skipTo(in, mark)
			complaint <- said
			return err == nil
		})
	} else {
		complaint <- ""
	}
	out := bufio.NewReaderSize(p.ch, piece)
	started, err := ask(ctx, link, func() (string, error) {
		if cmd.PTY != nil {
			size := sshwire.PTY{Term: "xterm", Columns: uint32(cmd.PTY.Cols), Rows: uint32(cmd.PTY.Rows), Modes: "\x00"}
			if ok, err := p.ch.SendRequest("pty-req", true, ssh.Marshal(size)); err != nil {
				return "", err
			} else if !ok {
				return "", fmt.Errorf("the host's sshd gives no terminal (PermitTTY): %w", sandbox.ErrUnsupported)
			}
		}
		run := fmt.Sprintf("exec env -i %s=%s /bin/sh %s %d %s", commandMark, tag, verbatim(b.info.ScratchDir+"/.keeper/run"), id, mark)
		if b.host.setsid != "" {
			run += " " + b.host.setsid
		}
		if err := execute(p.ch, run); err != nil {
			return "", err
		}
		if cmd.PTY == nil {
			for rest := head; len(rest) > 0; {
				n, err := p.ch.Write(rest[:min(len(rest), piece)])
				if err != nil {
					return "", err
				}
				rest = rest[n:]
			}
		}
		return readStarted(out, mark)
	}, nil)
	word, rest, _ := strings.Cut(started, " ")
	switch {
	case err == nil && word == "started":
		if p.pid, err = strconv.Atoi(rest); err == nil && p.pid > 1 {
			break
		}
		err = fmt.Errorf("the host's shell says %.100q: %w", started, sandbox.ErrLost)
	case err == nil:
		err = plainRefusal(rest, cmd.Args[0], dir)
	case ctx.Err() == nil && link.Err() == nil && !errors.Is(err, sandbox.ErrUnsupported):
		said := ""
		select {
		case said = <-complaint:
		case <-time.After(time.Second):
		}
		err = fmt.Errorf("the host's shell did not run the command (%w) and said %.300q", err, said)
	}
	if err != nil {
		p.ch.Close()
		go func() { // it may run all the same
			_, _ = b.keeper.order(context.WithoutCancel(ctx), fmt.Sprintf("cancel %d %s", id, tag))
			<-p.over
		}()
		return nil, err
	}
	p.began = time.Now()
	p.streams++
	go p.pump(out, cmd.Stdout, nil)
	if b.host.way == "ps" {
		_, _ = b.keeper.order(ctx, fmt.Sprintf("runs %d", p.pid))
	}
	if cmd.Stdin != nil {
		go p.copyIn(cmd.Stdin)
	} else {
		p.endIn('\n')
	}
	p.stop = context.AfterFunc(ctx, func() { p.end(p.grace) })
	go p.follow()
	return p, nil
}

// readStarted reads what plain_run.sh says, past what login files print.
func readStarted(in *bufio.Reader, mark string) (string, error) {
	for marked, left := false, maxHello; left > 0; {
		l, err := readLine(in)
		if err != nil {
			return "", err
		}
		left -= len(l) + 1
		if marked && (strings.HasPrefix(l, "started ") || strings.HasPrefix(l, "failed ")) {
			return l, nil
		}
		marked = l == mark
	}
	return "", errors.New("too much output of login files")
}

// skipTo reads past the mark and returns the beginning of what was before it.
func skipTo(in *bufio.Reader, mark string) (said string, err error) {
	for left := maxHello; left > 0; {
		l, err := readLine(in)
		if l == mark {
			return said, nil
		}
		if len(said) < 300 && l != "" {
			said += l + "\n"
		}
		if err != nil {
			return said, err
		}
		left -= len(l) + 1
	}
	return said, errors.New("too much output of login files")
}

// readLine reads a line without its end, or a part of a long one.
func readLine(in *bufio.Reader) (string, error) {
	l, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return strings.TrimRight(string(l), "\r\n"), err
}

// plainRefusal is why a command could not be run.
func plainRefusal(kind, program, dir string) error {
	switch kind {
	case "dir-missing":
		return fmt.Errorf("working directory %q: %w", dir, fs.ErrNotExist)
	case "dir-not":
		return fmt.Errorf("working directory %q: %w", dir, syscall.ENOTDIR)
	case "dir-denied":
		return fmt.Errorf("working directory %q: %w", dir, fs.ErrPermission)
	case "program-denied":
		return fmt.Errorf("not executable: %w", fs.ErrPermission)
	case "interpreter-missing":
		return fmt.Errorf("the interpreter named in its first line, or its loader: %w", fs.ErrNotExist)
	case "program-missing":
		if !strings.Contains(program, "/") {
			return fmt.Errorf("not found on PATH: %w", fs.ErrNotExist)
		}
		return fs.ErrNotExist
	}
	return fmt.Errorf("the host's shell says %.100q: %w", kind, sandbox.ErrLost)
}

// copyIn sends what the command reads, until the end of either.
func (p *plainProcess) copyIn(r io.Reader) {
	buf := p.link.buffers.get()
	defer p.link.buffers.put(buf)
	last := byte('\n')
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			last = (*buf)[n-1]
			if _, err := p.ch.Write((*buf)[:n]); err != nil {
				return
			}
		}
		if err != nil {
			break
		}
		select {
		case <-p.exited: // nobody reads the rest
			return
		default:
		}
	}
	p.endIn(last)
}

// endIn tells the command that there is no more. At a terminal that is a key,
// pressed twice where a line has been begun: then the first only sends it.
func (p *plainProcess) endIn(last byte) {
	if !p.pty {
		_ = p.ch.CloseWrite()
		return
	}
	keys := []byte{4, 4}
	if last == '\n' {
		keys = keys[1:]
	}
	_, _ = p.ch.Write(keys)
}
