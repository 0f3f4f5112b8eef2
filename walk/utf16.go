package walk

import (
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Order returns the byte order that a file's mark tells, nil without one.
func utf16Order(head []byte) binary.ByteOrder {
	switch {
	case len(head) < 2:
		return nil
	case head[0] == 0xFF && head[1] == 0xFE:
		return binary.LittleEndian
	case head[0] == 0xFE && head[1] == 0xFF:
		return binary.BigEndian
	}
	return nil
}

// utf16Reader turns UTF-16 into UTF-8; what is not valid becomes U+FFFD.
type utf16Reader struct {
	order binary.ByteOrder
	r     io.Reader
	in    [4096]byte
	held  int    // bytes of in
	out   []byte // decoded, not yet read
	err   error
}

func newUTF16Reader(order binary.ByteOrder, r io.Reader) io.Reader {
	return &utf16Reader{order: order, r: r}
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 && u.err == nil {
		n, err := fill(u.r, u.in[u.held:])
		u.held += n
		u.err = err
		u.decode()
	}
	n := copy(p, u.out)
	if u.out = u.out[n:]; len(u.out) > 0 {
		return n, nil
	}
	return n, u.err
}

// decode turns what is held into UTF-8, but for the half of a pair at the end.
func (u *utf16Reader) decode() {
	last := u.err != nil
	u.out = u.out[:0]
	i := 0
	for ; i+1 < u.held; i += 2 {
		r := rune(u.order.Uint16(u.in[i:]))
		if utf16.IsSurrogate(r) {
			if i+3 >= u.held && !last {
				break
			}
			low := rune(0)
			if i+3 < u.held {
				low = rune(u.order.Uint16(u.in[i+2:]))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 2
			}
		}
		u.out = utf8.AppendRune(u.out, r)
	}
	if last && i < u.held {
		u.out = utf8.AppendRune(u.out, utf8.RuneError)
		i = u.held
	}
	u.held = copy(u.in[:], u.in[i:u.held])
}
