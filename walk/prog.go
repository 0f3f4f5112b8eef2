package walk

import (
	"fmt"
	"regexp/syntax"
	"unicode/utf8"
)

// maxProg bounds the automaton of a pattern: in the worst case a byte costs a
// visit of all of it.
const maxProg = 20_000

// A prog is a nondeterministic automaton over bytes. Runes are spelled out in
// UTF-8, so bytes that are not valid match nothing but themselves: no class.
type prog struct {
	insts []inst
	start int32

	// What the pattern asks about the surroundings of a position.
	asksBegin, asksWord bool

	// Bytes that no instruction tells apart share a class; repr is one of them.
	classes [256]uint8
	repr    []byte
}

type inst struct {
	op        instOp
	lo, hi    byte       // opBytes
	empty     emptyWidth // opEmpty
	out, out1 int32
}

type instOp uint8

const (
	opBytes instOp = iota // one byte of lo to hi, then out
	opSplit               // out or out1
	opEmpty               // out, if the position is as asked
	opMatch
	opFail
)

type emptyWidth uint8

const (
	lineBegin emptyWidth = iota
	lineEnd
	wordBorder
	noWordBorder
)

// compileProg builds the automaton of a simplified, normalised tree.
func compileProg(re *syntax.Regexp) (*prog, error) {
	p := &prog{}
	p.start = p.compile(re, p.add(inst{op: opMatch}))
	if len(p.insts) > maxProg {
		return nil, fmt.Errorf("%w: the pattern is too large: fewer or smaller repetitions, please", ErrPattern)
	}
	p.classify()
	return p, nil
}

func (p *prog) add(i inst) int32 {
	if len(p.insts) <= maxProg { // past the bound the result is thrown away
		p.insts = append(p.insts, i)
	}
	return int32(len(p.insts) - 1)
}

// compile adds re, followed by what starts at next, and returns its start.
func (p *prog) compile(re *syntax.Regexp, next int32) int32 {
	if len(p.insts) > maxProg {
		return next
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return next
	case syntax.OpLiteral:
		text := string(re.Rune)
		for i := len(text) - 1; i >= 0; i-- {
			next = p.add(inst{op: opBytes, lo: text[i], hi: text[i], out: next})
		}
		return next
	case syntax.OpCharClass:
		return p.class(re.Rune, next)
	case syntax.OpBeginLine:
		p.asksBegin = true
		return p.add(inst{op: opEmpty, empty: lineBegin, out: next})
	case syntax.OpEndLine:
		return p.add(inst{op: opEmpty, empty: lineEnd, out: next})
	case syntax.OpWordBoundary:
		p.asksWord = true
		return p.add(inst{op: opEmpty, empty: wordBorder, out: next})
	case syntax.OpNoWordBoundary:
		p.asksWord = true
		return p.add(inst{op: opEmpty, empty: noWordBorder, out: next})
	case syntax.OpConcat:
		for i := len(re.Sub) - 1; i >= 0; i-- {
			next = p.compile(re.Sub[i], next)
		}
		return next
	case syntax.OpAlternate:
		start := p.compile(re.Sub[len(re.Sub)-1], next)
		for i := len(re.Sub) - 2; i >= 0; i-- {
			start = p.add(inst{op: opSplit, out: p.compile(re.Sub[i], next), out1: start})
		}
		return start
	case syntax.OpQuest:
		return p.add(inst{op: opSplit, out: p.compile(re.Sub[0], next), out1: next})
	case syntax.OpStar, syntax.OpPlus:
		loop := p.add(inst{op: opSplit, out1: next})
		body := p.compile(re.Sub[0], loop)
		p.insts[loop].out = body
		if re.Op == syntax.OpStar {
			return loop
		}
		return body
	}
	return p.add(inst{op: opFail}) // OpNoMatch
}

// class adds a choice of runes as a choice of byte sequences.
func (p *prog) class(ranges []rune, next int32) int32 {
	start := int32(-1)
	for i := 0; i+1 < len(ranges); i += 2 {
		utf8Ranges(ranges[i], ranges[i+1], func(lo, hi []byte) {
			out := next
			for k := len(lo) - 1; k >= 0; k-- {
				out = p.add(inst{op: opBytes, lo: lo[k], hi: hi[k], out: out})
			}
			if start >= 0 {
				out = p.add(inst{op: opSplit, out: out, out1: start})
			}
			start = out
		})
	}
	if start < 0 {
		return p.add(inst{op: opFail})
	}
	return start
}

// utf8Ranges splits a range of runes into ranges of byte sequences: lo[k] to
// hi[k] for each byte k.
func utf8Ranges(lo, hi rune, emit func(lo, hi []byte)) {
	const surrogateMin, surrogateMax = 0xD800, 0xDFFF
	switch {
	case lo > hi:
		return
	case lo <= surrogateMax && hi >= surrogateMin:
		utf8Ranges(lo, surrogateMin-1, emit)
		utf8Ranges(surrogateMax+1, hi, emit)
		return
	}
	// One length only.
	for _, last := range []rune{0x7F, 0x7FF, 0xFFFF} {
		if lo <= last && last < hi {
			utf8Ranges(lo, last, emit)
			utf8Ranges(last+1, hi, emit)
			return
		}
	}
	// Bytes after the first that differ must span all their values.
	for n := 1; n < utf8.RuneLen(lo); n++ {
		low := rune(1)<<(6*n) - 1
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			utf8Ranges(lo, lo|low, emit)
			utf8Ranges((lo|low)+1, hi, emit)
			return
		}
		if hi&low != low {
			utf8Ranges(lo, hi&^low-1, emit)
			utf8Ranges(hi&^low, hi, emit)
			return
		}
	}
	emit(utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi))
}

// classify groups bytes that the program does not tell apart.
func (p *prog) classify() {
	var border [257]bool // a class begins here
	border[0] = true
	mark := func(lo, hi byte) { border[lo], border[int(hi)+1] = true, true }
	mark('\n', '\n')
	for _, i := range p.insts {
		if i.op == opBytes {
			mark(i.lo, i.hi)
		}
	}
	if p.asksWord {
		mark('0', '9')
		mark('A', 'Z')
		mark('_', '_')
		mark('a', 'z')
	}
	for b := range 256 {
		if border[b] {
			p.repr = append(p.repr, byte(b))
		}
		p.classes[b] = uint8(len(p.repr) - 1)
	}
}

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
}
