package sshbox

import (
	"io"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// piece is what is copied in one step; a packet takes no more.
const piece = 32 << 10

// mostAfterExit bounds what a server may send after it has told the exit: what
// was under way, and what was being read.
const mostAfterExit = 8 << 20

// copyOut hands the output to the command's writers.
func (p *process) copyOut(cmd sandbox.Cmd) {
	if cmd.Stdout != nil {
		p.out.Go(func() { p.pump(cmd.Stdout, p.ch) })
	}
	if cmd.Stderr != nil && cmd.PTY == nil && !same(cmd.Stdout, cmd.Stderr) {
		p.out.Go(func() { p.pump(cmd.Stderr, p.ch.Stderr()) })
	}
}

// pump delivers until the end of the stream. A writer that fails is not called
// again, but the command is not disturbed. While a writer is slow the server's
// window closes: nobody else is held up.
func (p *process) pump(w io.Writer, r io.Reader) {
	buf := p.box.link.buffers.get()
	defer p.box.link.buffers.put(buf)
	after := 0
	for {
		n, err := r.Read(*buf)
		if n > 0 && w != nil {
			p.writing.Add(1)
			if _, err := w.Write((*buf)[:n]); err != nil {
				w = nil
			}
			p.writing.Add(-1)
		}
		if err != nil {
			return
		}
		select {
		case <-p.ended:
			if after += n; after > mostAfterExit {
				p.box.link.lose(errSilent)
			}
		default:
		}
	}
}

// copyIn sends what the command reads, until the end of either.
func (p *process) copyIn(r io.Reader) {
	buf := p.box.link.buffers.get()
	defer p.box.link.buffers.put(buf)
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			p.box.link.room()
			if _, err := p.ch.Write((*buf)[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = p.ch.CloseWrite()
			return
		}
	}
}

// buffers are shared by what is copied on one connection.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, piece)
	return &buf
}

func (b *buffers) put(buf *[]byte) { b.pool.Put(buf) }
