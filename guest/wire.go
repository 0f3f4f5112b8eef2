package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// version is said in the hello; an engine talks to guests of its own only.
const version = 2

// The kinds of frames.
const (
	kindHello   = 'h'
	kindRunning = 'r'
	kindFailed  = 'f'
	kindExited  = 'x'
	kindGone    = 'g'
	kindCommand = 'c'
	kindSignal  = 's'
	kindEnd     = 'e'
)

// What a command is besides.
const (
	flagKeep = 1 << iota
	flagTerminal
)

const (
	headerSize = 5
	// maxCommand bounds a command frame. The kernel takes at most 6 MiB of
	// arguments and environment.
	maxCommand = 8 << 20
	// maxOther bounds every other frame.
	maxOther = 4 << 10
)

var (
	errFrame  = errors.New("malformed frame")
	errTooBig = errors.New("arguments and environment are too long")
)

// frame is one message, ready to be written.
type frame []byte

func newFrame(kind byte) frame { return frame{kind, 0, 0, 0, 0} }

func (f frame) number(n uint64) frame { return binary.BigEndian.AppendUint64(f, n) }

func (f frame) text(s string) frame {
	return append(binary.BigEndian.AppendUint32(f, uint32(len(s))), s...)
}

func (f frame) list(l []string) frame {
	f = f.number(uint64(len(l)))
	for _, s := range l {
		f = f.text(s)
	}
	return f
}

// bytes fills in the length and returns the whole message.
func (f frame) bytes() []byte {
	binary.BigEndian.PutUint32(f[1:], uint32(len(f)-headerSize))
	return f
}

// header reads the first headerSize bytes of a message.
func header(b []byte) (kind byte, size int, err error) {
	kind, n := b[0], binary.BigEndian.Uint32(b[1:headerSize])
	limit := uint32(maxOther)
	if kind == kindCommand {
		limit = maxCommand
	}
	if n > limit {
		return 0, 0, fmt.Errorf("%w: %d bytes of kind %q", errFrame, n, kind)
	}
	return kind, int(n), nil
}

// payload is read front to back; the first thing that is missing marks it bad.
type payload struct {
	rest []byte
	bad  bool
}

func (p *payload) take(n int) []byte {
	if p.bad || n > len(p.rest) {
		p.bad, p.rest = true, nil
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *payload) number() uint64 {
	if b := p.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *payload) text() string {
	if b := p.take(4); b != nil {
		return string(p.take(int(binary.BigEndian.Uint32(b))))
	}
	return ""
}

func (p *payload) list() []string {
	n := p.count(4)
	if p.bad {
		return nil
	}
	l := make([]string, 0, n)
	for range n {
		l = append(l, p.text())
	}
	return l
}

// end reports whether the payload held exactly what was read from it.
func (p *payload) end() error {
	if p.bad || len(p.rest) > 0 {
		return errFrame
	}
	return nil
}

// Command is what a guest is to run. Nothing in it may contain a NUL byte.
type Command struct {
	Args []string // the program is looked up on the PATH of Env when it has no slash
	Dir  string   // absolute
	Env  []string
	Keep bool // descendants may outlive the main process
	// Terminal says that its descriptors are a terminal, which becomes the one
	// its session is controlled by.
	Terminal bool
}

func (c Command) frame() ([]byte, error) {
	f := newFrame(kindCommand).number(flag(c.Keep, flagKeep) | flag(c.Terminal, flagTerminal)).text(c.Dir).list(c.Args).list(c.Env)
	if len(f)-headerSize > maxCommand {
		return nil, errTooBig
	}
	return f.bytes(), nil
}

func parseCommand(b []byte) (Command, error) {
	p := payload{rest: b}
	flags := p.number()
	c := Command{Dir: p.text(), Args: p.list(), Env: p.list(), Keep: flags&flagKeep != 0, Terminal: flags&flagTerminal != 0}
	if err := p.end(); err != nil {
		return Command{}, err
	}
	if flags > flagKeep|flagTerminal || len(c.Args) == 0 {
		return Command{}, errFrame
	}
	return c, nil
}
