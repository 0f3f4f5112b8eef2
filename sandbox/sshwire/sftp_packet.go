package sshwire

import "encoding/binary"

// Packet is a packet being built, its length first.
type Packet []byte

// NewPacket begins a packet in the memory of p.
func NewPacket(p []byte, kind byte, id uint32) Packet {
	return Packet(append(p[:0], 0, 0, 0, 0, kind)).U32(id)
}

// Extended begins a request that is not SFTP's own.
func Extended(p []byte, name string, id uint32) Packet {
	return NewPacket(p, SFTPExtended, id).Text(name)
}

// U32 appends a number.
func (p Packet) U32(n uint32) Packet { return binary.BigEndian.AppendUint32(p, n) }

// U64 appends a long number.
func (p Packet) U64(n uint64) Packet { return binary.BigEndian.AppendUint64(p, n) }

// Text appends a text: its length and its bytes.
func (p Packet) Text(s string) Packet { return append(p.U32(uint32(len(s))), s...) }

// Bytes appends bytes as a text.
func (p Packet) Bytes(b []byte) Packet { return append(p.U32(uint32(len(b))), b...) }

// Byte appends a byte.
func (p Packet) Byte(b byte) Packet { return append(p, b) }

// Frame fills in the length: the packet is ready.
func (p Packet) Frame() []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

// Body is a packet read front to back. The first thing that is missing or too
// long marks it bad, and all that follows is zero.
type Body struct {
	Rest []byte
	Bad  bool
}

func (b *Body) take(n int) []byte {
	if b.Bad || n < 0 || n > len(b.Rest) {
		b.Bad, b.Rest = true, nil
		return nil
	}
	head := b.Rest[:n:n]
	b.Rest = b.Rest[n:]
	return head
}

// Byte reads a byte.
func (b *Body) Byte() byte {
	if s := b.take(1); s != nil {
		return s[0]
	}
	return 0
}

// U32 reads a number.
func (b *Body) U32() uint32 {
	if s := b.take(4); s != nil {
		return binary.BigEndian.Uint32(s)
	}
	return 0
}

// U64 reads a long number.
func (b *Body) U64() uint64 {
	if s := b.take(8); s != nil {
		return binary.BigEndian.Uint64(s)
	}
	return 0
}

// Bytes reads a text of at most limit bytes; it shares the packet's memory.
func (b *Body) Bytes(limit int) []byte {
	n := b.U32()
	if int64(n) > int64(limit) {
		b.Bad, b.Rest = true, nil
		return nil
	}
	return b.take(int(n))
}

// Text reads a text of at most limit bytes.
func (b *Body) Text(limit int) string { return string(b.Bytes(limit)) }

// End reports whether all was read and nothing was wrong.
func (b *Body) End() bool { return !b.Bad && len(b.Rest) == 0 }
