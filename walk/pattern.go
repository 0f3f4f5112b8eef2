package walk

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// ErrPattern marks a pattern that cannot be searched for.
var ErrPattern = errors.New("regex parse error")

// maxPattern bounds a pattern's text.
const maxPattern = 16 << 10

// Pattern is a compiled regular expression that is looked for line by line. It
// is safe for concurrent use.
type Pattern struct {
	tree *syntax.Regexp // normalised: see normalise
	prog *prog

	// literal is text that every match holds, "" if none is known; whole tells
	// that the pattern is that text and nothing else.
	literal []byte
	whole   bool
	rare    [2]int // where in literal its two rarest bytes are

	matchers sync.Pool // of *matcher
}

// Compile reads a pattern in the syntax of Go's regexp. A line matches when
// some part of it does; ^ and $ (and \A and \z) are the borders of the line, and
// $ also stands before the carriage return of a CRLF line. Errors wrap
// ErrPattern and say what RE2 lacks where that is what the pattern asks for.
func Compile(text string) (*Pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%w: the pattern is longer than %d bytes", ErrPattern, maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%w: %w%s", ErrPattern, err, explain(text, err))
	}
	if hasNewline(tree) {
		return nil, fmt.Errorf("%w: a newline never matches: the search is line by line", ErrPattern)
	}
	p := &Pattern{tree: normalise(tree)}
	if p.prog, err = compileProg(p.tree.Simplify()); err != nil {
		return nil, err
	}
	lit, whole := required(p.tree)
	if p.literal = []byte(lit); len(lit) < 2 && !whole {
		p.literal = nil // one byte is everywhere: the automaton is as fast
	}
	p.whole = whole && len(lit) > 0
	p.rare = rarest(p.literal)
	p.matchers.New = func() any { return newMatcher(p) }
	return p, nil
}

// explain adds to a syntax error what people who know other dialects need.
func explain(text string, err error) string {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return ""
	}
	for _, s := range []string{"(?=", "(?!", "(?<=", "(?<!", "(?>"} {
		if strings.Contains(text, s) {
			return ": look-around and atomic groups are not supported: patterns are RE2 (matched in linear time). " +
				"Search for the part that must be there, and filter the lines found"
		}
	}
	switch {
	case e.Code == syntax.ErrInvalidEscape && len(e.Expr) == 2 && '0' <= e.Expr[1] && e.Expr[1] <= '9':
		return ": backreferences are not supported: patterns are RE2 (matched in linear time)"
	case e.Code == syntax.ErrMissingRepeatArgument, e.Code == syntax.ErrMissingParen,
		e.Code == syntax.ErrUnexpectedParen, e.Code == syntax.ErrMissingBracket:
		return `: to search for a special character itself, put a backslash before it`
	}
	return ""
}

func hasNewline(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') {
		return true
	}
	return slices.ContainsFunc(re.Sub, hasNewline)
}

// normalise rewrites a tree so that it says exactly what is meant, without
// flags: classes without the newline, folded letters as classes, line borders
// for text borders, $ also before \r\n, no captures. All that reads a pattern
// (the automaton, the literal search, the translation) reads this tree, so they
// cannot disagree.
func normalise(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture:
		return normalise(re.Sub[0])
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return foldLiteral(re.Rune)
		}
		return &syntax.Regexp{Op: syntax.OpLiteral, Rune: re.Rune}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return class([]rune{0, unicode.MaxRune})
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpBeginLine, syntax.OpBeginText:
		return &syntax.Regexp{Op: syntax.OpBeginLine}
	case syntax.OpEndLine, syntax.OpEndText:
		cr := &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{{Op: syntax.OpLiteral, Rune: []rune{'\r'}}}}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{cr, {Op: syntax.OpEndLine}}}
	}
	out := &syntax.Regexp{Op: re.Op, Min: re.Min, Max: re.Max}
	for _, sub := range re.Sub {
		out.Sub = append(out.Sub, normalise(sub))
	}
	return out
}

// class returns a character class of the ranges without the newline.
func class(ranges []rune) *syntax.Regexp {
	out := &syntax.Regexp{Op: syntax.OpCharClass}
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo <= '\n' && '\n' <= hi {
			if lo < '\n' {
				out.Rune = append(out.Rune, lo, '\n'-1)
			}
			lo = '\n' + 1
		}
		if lo <= hi {
			out.Rune = append(out.Rune, lo, hi)
		}
	}
	if len(out.Rune) == 0 {
		return &syntax.Regexp{Op: syntax.OpNoMatch}
	}
	return out
}

// foldLiteral spells out a literal that matches either case.
func foldLiteral(runes []rune) *syntax.Regexp {
	out := &syntax.Regexp{Op: syntax.OpConcat}
	for _, r := range runes {
		ways := []rune{r}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			ways = append(ways, f)
		}
		if len(ways) == 1 {
			out.Sub = append(out.Sub, &syntax.Regexp{Op: syntax.OpLiteral, Rune: ways})
			continue
		}
		slices.Sort(ways)
		c := &syntax.Regexp{Op: syntax.OpCharClass}
		for _, w := range ways {
			c.Rune = append(c.Rune, w, w)
		}
		out.Sub = append(out.Sub, c)
	}
	return out
}

// required returns the longest text found that every match of re holds, and
// whether re is that text and nothing else.
func required(re *syntax.Regexp) (text string, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune), true
	case syntax.OpEmptyMatch:
		return "", true
	case syntax.OpPlus:
		text, _ = required(re.Sub[0])
		return text, false
	case syntax.OpRepeat:
		if re.Min > 0 {
			text, _ = required(re.Sub[0])
		}
		return text, false
	case syntax.OpConcat:
		// Neighbours that are wholly literal make one text.
		best, run, all := "", "", true
		for _, sub := range re.Sub {
			t, w := required(sub)
			if w {
				run += t
			} else {
				run, all = "", false
			}
			for _, c := range []string{t, run} {
				if len(c) > len(best) {
					best = c
				}
			}
		}
		return best, all
	}
	return "", false
}
