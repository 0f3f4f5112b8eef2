package registry

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is what the providers of models accept.
const maxName = 64

// pythonKeywords cannot be names at all.
const pythonKeywords = ` False None True and as assert async await break class continue def del elif
 else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield `

// reservedNames belong to Python or to the client module: a function of that
// name would take the place of what the module itself calls.
const reservedNames = ` abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod
 compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset
 getattr globals hasattr hash help hex id input int isinstance issubclass iter len license list locals map max
 memoryview min next object oct open ord pow print property quit range repr reversed round set setattr slice sorted
 staticmethod str sum super tuple type vars zip
 aio json_parse shell_quote retry sandbox HermesError RPCError Disconnected Unauthorized FrameTooLarge
 asyncio atexit base64 builtins collections concurrent contextlib errno functools inspect io itertools json math
 os pathlib queue random re secrets select selectors shlex signal socket ssl struct subprocess sys tempfile
 threading time traceback types typing uuid weakref `

// usableInPython reports whether a name can be a parameter of a stub.
func usableInPython(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '_' || digit(name[0]) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '_' && !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return !hasWord(pythonKeywords, name)
}

// checkName says why a name cannot be a tool's.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > maxName:
		return fmt.Errorf("it is longer than %d characters", maxName)
	case hasWord(pythonKeywords, name):
		return errors.New("it is a keyword of Python")
	case !usableInPython(name):
		return errors.New("it must be ASCII letters, digits and underscores, and start with a letter")
	case hasWord(reservedNames, name):
		return errors.New("scripts need it for something else")
	}
	return nil
}

// hasWord looks a name without spaces up in a list of words.
func hasWord(list, word string) bool {
	for rest := list; ; {
		at := strings.Index(rest, word)
		if at < 0 {
			return false
		}
		end := at + len(word)
		if at > 0 && end < len(rest) && space(rest[at-1]) && space(rest[end]) {
			return true
		}
		rest = rest[end:]
	}
}

func space(c byte) bool { return c == ' ' || c == '\n' }

// nearest is the candidate a mistyped name most likely meant, "" when none is
// near. Ties go to the earlier candidate.
func nearest(name string, candidates []string) string {
	if len(name) > 2*maxName {
		return ""
	}
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance && d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of single-character edits, swaps included, from a to b.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
