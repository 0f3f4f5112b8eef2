package walk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ErrGlob marks a glob that cannot be understood.
var ErrGlob = errors.New("invalid glob")

// Glob is one pattern over paths, as a line of an ignore file or ripgrep's -g
// has it. Without a slash it matches the last component anywhere; with one, the
// whole path from the root of the search. * and ? do not match a slash, **
// matches any number of components, {a,b} either, [a-z] and [!a-z] one
// character; a backslash escapes.
type Glob struct {
	exclude bool
	dirOnly bool
	alts    []glob // one for each way to resolve the braces
}

// glob is one pattern without braces, reduced to the cheapest test.
type glob struct {
	kind globKind
	text string
}

type globKind uint8

const (
	baseExact  globKind = iota // the last component is text
	baseSuffix                 // … ends in text
	basePrefix                 // … starts with text
	baseGlob                   // … matches text
	pathExact                  // the whole path is text
	pathGlob                   // … matches text
)

// Bounds of one glob: hostile ignore files must not make matching slow.
const (
	maxGlobLength = 4096
	maxGlobAlts   = 64
)

// ParseGlob reads a glob as a person types it: a leading ! excludes what
// matches, a leading / ties it to the root of the search. Errors wrap ErrGlob.
func ParseGlob(text string) (*Glob, error) {
	exclude := false
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		exclude, text = true, rest
	}
	g, err := parseGlob(text)
	if err != nil {
		return nil, err
	}
	g.exclude = exclude
	return g, nil
}

// Match reports whether the file at rel, a path relative to the root of the
// search, is one the glob asks for.
func (g *Glob) Match(rel string) bool {
	return g.match(rel, rel[strings.LastIndexByte(rel, '/')+1:], false) != g.exclude
}

// parseGlob reads what is left of an ignore line without its ! and comments.
func parseGlob(text string) (*Glob, error) {
	if len(text) > maxGlobLength {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrGlob, maxGlobLength)
	}
	g := &Glob{}
	anchored := false
	if rest, ok := strings.CutPrefix(text, "/"); ok {
		anchored, text = true, rest
	}
	if rest, ok := strings.CutSuffix(text, "/"); ok {
		g.dirOnly, text = true, strings.TrimSuffix(rest, `\`)
	}
	if text == "" || !doublestar.ValidatePattern(text) {
		return nil, fmt.Errorf("%w: %q", ErrGlob, text)
	}
	inPath := anchored || strings.Contains(text, "/")
	alts, err := braces(text)
	if err != nil {
		return nil, err
	}
	for _, alt := range alts {
		g.alts = append(g.alts, compileGlob(alt, inPath))
	}
	return g, nil
}

// compileGlob finds the cheapest test for a glob without braces.
func compileGlob(text string, inPath bool) glob {
	for inPath {
		rest, ok := strings.CutPrefix(text, "**/")
		if !ok {
			break
		}
		// "**/x" is x anywhere.
		if text = rest; !strings.Contains(rest, "/") {
			inPath = false
		}
		if inPath {
			return glob{pathGlob, allBelow("**/" + rest)}
		}
	}
	switch {
	case inPath && !strings.ContainsAny(text, `*?[\`):
		return glob{pathExact, text}
	case inPath:
		return glob{pathGlob, allBelow(text)}
	case !strings.ContainsAny(text, `*?[\`):
		return glob{baseExact, text}
	case text[0] == '*' && !strings.ContainsAny(text[1:], `*?[\`):
		return glob{baseSuffix, text[1:]}
	case strings.IndexAny(text, `*?[\`) == len(text)-1 && strings.HasSuffix(text, "*"):
		return glob{basePrefix, text[:len(text)-1]}
	}
	return glob{baseGlob, text}
}

// allBelow makes "a/**" mean all that is in a, not a itself.
func allBelow(text string) string {
	if strings.HasSuffix(text, "/**") {
		return text + "/*"
	}
	return text
}

// match reports whether the pattern fits, exclusion aside.
func (g *Glob) match(rel, base string, dir bool) bool {
	if g.dirOnly && !dir {
		return false
	}
	for i := range g.alts {
		if g.alts[i].match(rel, base) {
			return true
		}
	}
	return false
}

func (g *glob) match(rel, base string) bool {
	switch g.kind {
	case baseExact:
		return base == g.text
	case baseSuffix:
		return strings.HasSuffix(base, g.text)
	case basePrefix:
		return strings.HasPrefix(base, g.text)
	case baseGlob:
		return doublestar.MatchUnvalidated(g.text, base)
	case pathExact:
		return rel == g.text
	}
	return doublestar.MatchUnvalidated(g.text, rel)
}

// basenames returns globs over last components, such as ripgrep's --type-add
// takes, that match every file g asks for and maybe more; nil when there is no
// such small set. It lets a search leave most files alone before Match decides.
func (g *Glob) basenames() []string {
	if g.exclude || g.dirOnly {
		return nil
	}
	var names []string
	for _, alt := range g.alts {
		base := alt.text[strings.LastIndexByte(alt.text, '/')+1:]
		switch alt.kind {
		case baseSuffix:
			base = "*" + base
		case basePrefix:
			base += "*"
		}
		for _, c := range []byte(base) {
			plain := c == '*' || c == '?' || c == '.' || c == '_' || c == '-' ||
				'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
			if !plain {
				return nil
			}
		}
		if strings.Contains(base, "**") || strings.Trim(base, "*") == "" {
			return nil
		}
		names = append(names, base)
	}
	return names
}

// Hidden reports whether the glob asks for hidden files: some component starts
// with a dot.
func (g *Glob) Hidden() bool {
	if g.exclude {
		return false
	}
	for _, alt := range g.alts {
		if alt.kind != baseSuffix && (strings.HasPrefix(alt.text, ".") || strings.Contains(alt.text, "/.")) {
			return true
		}
	}
	return false
}

// Plain returns the text of a glob without any special character, as in
// "main.go", and whether it is one.
func (g *Glob) Plain() (string, bool) {
	if len(g.alts) == 1 && !g.exclude && (g.alts[0].kind == baseExact || g.alts[0].kind == pathExact) {
		return g.alts[0].text, true
	}
	return "", false
}

// braces resolves {a,b} into all its readings.
func braces(text string) ([]string, error) {
	done, todo := []string(nil), []string{text}
	for len(todo) > 0 {
		head := todo[0]
		todo = todo[1:]
		before, inner, after, ok := firstBraces(head)
		if !ok {
			done = append(done, head)
			continue
		}
		for _, choice := range inner {
			todo = append(todo, before+choice+after)
		}
		if len(todo)+len(done) > maxGlobAlts {
			return nil, fmt.Errorf("%w: more than %d alternatives", ErrGlob, maxGlobAlts)
		}
	}
	return done, nil
}

// firstBraces splits at the first outermost {…} outside escapes and classes.
func firstBraces(text string) (before string, choices []string, after string, ok bool) {
	depth, start, from := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '[':
			// A class runs to the first ] that is not its first character.
			j := i + 1
			for j < len(text) && (text[j] == '!' || text[j] == '^') {
				j++
			}
			for j++; j < len(text) && text[j] != ']'; j++ {
				if text[j] == '\\' {
					j++
				}
			}
			i = j
		case c == '{':
			if depth++; depth == 1 {
				start, from = i, i+1
			}
		case c == ',' && depth == 1:
			choices = append(choices, text[from:i])
			from = i + 1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return text[:start], append(choices, text[from:i]), text[i+1:], true
			}
		}
	}
	return "", nil, "", false
}
