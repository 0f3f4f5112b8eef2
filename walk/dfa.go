package walk

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// A dfa runs a prog over bytes, one table look-up a byte. States are made when
// they are first reached and forgotten all at once when they become too many,
// so time stays linear and memory bounded for any pattern. It answers only
// whether and where a match ends first, which is all a search by lines needs.
//
// A state is the set of instructions reached so far, before looking at what
// follows: whether ^, $ or \b hold is known only with the next byte, so a match
// is noticed one byte late. That byte is the dfa's answer. A dfa belongs to one
// goroutine.
type dfa struct {
	prog   *prog
	shift  uint    // a state's row in next is 1<<shift wide
	next   []int32 // row of the state + class of the byte → row of the next state
	states []state
	index  map[string]int32 // a state's key → its row
	held   int              // instructions in all sets
	resets int

	// idle is the row in which nothing has begun to match, leaves the bytes that
	// lead out of it; 0 when the pattern has no such row, or most bytes do.
	idle   int32
	leaves [256]bool

	// Making states is the one thing that can take long; it ends when done is
	// closed, with answers that mean nothing.
	done <-chan struct{}
	work int // instructions visited since done was looked at
	over bool

	seen       []uint32 // by instruction: the round that visited it last
	round      uint32
	stack, set []int32
	key        []byte
}

// state is a set of instructions and what the byte before was.
type state struct {
	set    []int32
	before surroundings
}

type surroundings uint8

const (
	other surroundings = iota
	word
	newline // or the begin of the text
)

// Rows with a meaning of their own; those of states begin above.
const (
	unknown int32 = 0
	matched int32 = 1
)

// Bounds of the entries of next and of the instructions in all sets: 2 MiB
// each, and as much again for the keys.
const (
	maxTable = 1 << 19
	maxHeld  = 1 << 19
)

func newDFA(p *prog) *dfa {
	d := &dfa{prog: p, seen: make([]uint32, len(p.insts))}
	d.shift = uint(bits.Len(uint(len(p.repr)))) // one more class: the end of the text
	d.reset()
	d.findIdle()
	return d
}

// findIdle looks whether scanning can skip over most bytes.
func (d *dfa) findIdle() {
	if d.prog.asksWord {
		return // every word leads out and in again
	}
	idle := d.row(nil, d.before(0))
	often := 0
	for b := range 256 {
		class := int32(d.prog.classes[b])
		if d.leaves[b] = d.step(idle, class) != idle; d.leaves[b] && strings.IndexByte(common, byte(b)) >= 0 {
			often++
		}
	}
	if often <= 8 {
		d.idle = idle
	}
}

// reset forgets all states but the first.
func (d *dfa) reset() {
	d.index, d.held = map[string]int32{}, 0
	d.states = append(d.states[:0], state{}) // row 0 is no state
	d.next = append(d.next[:0], make([]int32, 1<<d.shift)...)
	d.row(nil, newline)
	if d.idle != 0 {
		d.idle = d.row(nil, d.before(0))
	}
}

// start is the row of the state at the begin of a line.
func (d *dfa) start() int32 { return 1 << d.shift }

// end is the class of the end of the text.
func (d *dfa) end() int32 { return int32(len(d.prog.repr)) }

// row returns the row of a state, made if need be.
func (d *dfa) row(set []int32, before surroundings) int32 {
	d.key = append(d.key[:0], byte(before))
	for _, i := range set {
		d.key = binary.LittleEndian.AppendUint32(d.key, uint32(i))
	}
	if row, ok := d.index[string(d.key)]; ok {
		return row
	}
	if len(d.next) >= maxTable || d.held >= maxHeld {
		d.reset()
		d.resets++
		return d.row(set, before)
	}
	row := int32(len(d.states)) << d.shift
	d.states = append(d.states, state{slices.Clone(set), before})
	d.held += len(set)
	d.next = append(d.next, make([]int32, 1<<d.shift)...)
	d.index[string(d.key)] = row
	return row
}

// find returns the position of the byte that showed that a match ended before
// it, len(b) when the end of the text showed it, -1 when there is none. b starts
// at the begin of a line and is text to its end.
func (d *dfa) find(b []byte, atEnd bool) int {
	next, classes := d.next, &d.prog.classes
	row := d.start()
	for i := 0; i < len(b); i++ {
		if row == d.idle {
			for !d.leaves[b[i]] {
				if i++; i == len(b) {
					return d.last(row, len(b), atEnd)
				}
			}
		}
		class := int32(classes[b[i]])
		to := next[row+class]
		if to <= matched {
			if to == unknown {
				if to = d.step(row, class); d.over {
					return -1
				}
				next = d.next
			}
			if to == matched {
				return i
			}
		}
		row = to
	}
	return d.last(row, len(b), atEnd)
}

// last tells what the end of the text, at n, shows.
func (d *dfa) last(row int32, n int, atEnd bool) int {
	if atEnd && d.step(row, d.end()) == matched {
		return n
	}
	return -1
}

// step works out one entry of the table.
func (d *dfa) step(row, class int32) int32 {
	if to := d.next[row+class]; to != unknown {
		return to
	}
	from := d.states[row>>d.shift]
	if d.work += len(from.set) + 16; d.work > 1<<18 {
		d.work = 0
		select {
		case <-d.done:
			d.over = true
		default:
		}
	}
	atEnd := class == d.end()
	var c byte
	if !atEnd {
		c = d.prog.repr[class]
	}
	at := position{
		begin: from.before == newline,
		end:   atEnd || c == '\n',
		word:  (from.before == word) != (!atEnd && isWord(c)),
	}
	to := matched
	if !d.closure(from.set, at) {
		set := d.set[:0]
		for _, i := range d.stack { // closure left the byte instructions here
			if in := &d.prog.insts[i]; !atEnd && in.lo <= c && c <= in.hi {
				set = append(set, in.out)
			}
		}
		slices.Sort(set)
		d.set = slices.Compact(set)
		resets := d.resets
		to = d.row(d.set, d.before(c))
		if d.resets != resets {
			return to // the table was reset: row is not from's any more
		}
	}
	d.next[row+class] = to
	return to
}

// before tells what the state after c must remember of it.
func (d *dfa) before(c byte) surroundings {
	switch {
	case c == '\n' && (d.prog.asksBegin || d.prog.asksWord):
		return newline
	case d.prog.asksWord && isWord(c):
		return word
	case d.prog.asksBegin || d.prog.asksWord:
		return other
	}
	return newline // nobody asks: all the same
}

// position is what holds between two bytes.
type position struct{ begin, end, word bool }

func (at position) holds(e emptyWidth) bool {
	switch e {
	case lineBegin:
		return at.begin
	case lineEnd:
		return at.end
	case wordBorder:
		return at.word
	}
	return !at.word
}

// closure follows all that needs no byte, from the set and from the start of
// the pattern, which may begin anywhere. It reports a match, or leaves the
// byte instructions reached in d.stack.
func (d *dfa) closure(set []int32, at position) bool {
	if d.round++; d.round == 0 {
		clear(d.seen)
		d.round = 1
	}
	todo := append(d.stack[:0], set...)
	todo = append(todo, d.prog.start)
	bytes := 0 // todo[:bytes] are byte instructions found, the rest is to visit
	for len(todo) > bytes {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if d.seen[i] == d.round {
			continue
		}
		d.seen[i] = d.round
		switch in := &d.prog.insts[i]; in.op {
		case opMatch:
			d.stack = todo
			return true
		case opSplit:
			todo = append(todo, in.out1, in.out)
		case opEmpty:
			if at.holds(in.empty) {
				todo = append(todo, in.out)
			}
		case opBytes:
			// Put it below what is to visit.
			todo = append(todo, i)
			todo[bytes], todo[len(todo)-1] = todo[len(todo)-1], todo[bytes]
			bytes++
		}
	}
	d.stack = todo
	return false
}
