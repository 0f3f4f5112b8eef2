package walk

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
)

// common are the bytes of source text and prose, the most frequent first.
const common = " etaorinslcdupmhfg\n\t.b(),_\"y=v;w:0-1/k2x'*>{}[]SETCIARNqj"

// rank is the higher the less often a byte is found.
func rank(b byte) int {
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}

// rarest returns the position of the byte of text that is found least often,
// and the like of one not next to it: neighbours come together too often to
// tell more than one of them ("fu" in func).
func rarest(text []byte) (at [2]int) {
	for i, b := range text {
		if rank(b) > rank(text[at[0]]) {
			at[0] = i
		}
	}
	at[1] = at[0]
	best := -1
	for i, b := range text {
		distance := max(i-at[0], at[0]-i)
		if score := rank(b) + 100*min(distance, 3); distance > 0 && score > best {
			at[1], best = i, score
		}
	}
	return at
}

// index is bytes.Index for the literal. It looks for the rarest byte of it
// first, and where that is not as rare as hoped for two of its bytes at once:
// both are several times as fast as starting from the first byte.
func (p *Pattern) index(b []byte) int {
	lit, rare := p.literal, p.rare[0]
	for at, misses := 0, 0; ; misses++ {
		if len(b)-at < len(lit) {
			return -1
		}
		if misses > 1 && at/misses < 256 {
			return p.indexPair(b, at)
		}
		i := bytes.IndexByte(b[at+rare:len(b)-len(lit)+rare+1], lit[rare])
		if i < 0 {
			return -1
		}
		if at += i; bytes.Equal(b[at:at+len(lit)], lit) {
			return at
		}
		at++
	}
}

// indexPair looks from at on, at eight places at a time.
func (p *Pattern) indexPair(b []byte, at int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	lit := p.literal
	first, second := p.rare[0], p.rare[1]
	x, y := ones*uint64(lit[first]), ones*uint64(lit[second])
	last := len(b) - len(lit) // where the literal can begin at the latest
	f, g := b[first:], b[second:]
	for ; at+8 <= min(len(f), len(g)) && at <= last; at += 8 {
		// A byte of diff is zero where both bytes of the literal are there.
		diff := binary.LittleEndian.Uint64(f[at:]) ^ x | binary.LittleEndian.Uint64(g[at:]) ^ y
		for hits := (diff - ones) &^ diff & tops; hits != 0; hits &= hits - 1 {
			i := at + bits.TrailingZeros64(hits)/8
			if i <= last && bytes.Equal(b[i:i+len(lit)], lit) {
				return i
			}
		}
	}
	if at > last {
		return -1
	}
	if i := bytes.Index(b[at:], lit); i >= 0 {
		return at + i
	}
	return -1
}
