package approval

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxSource  = 256 << 10 // bytes the parser is given
	maxNesting = 500       // brackets open at once; the parser recurses for each
	maxReparse = 8         // bash -c "bash -c …"
	maxInner   = 1 << 19   // bytes of all texts behind bash -c and the like
	maxCalls   = 1 << 20   // simple commands kept
	maxUnclear = 16        // reports of what cannot be told
)

// Script is a command line taken apart.
type Script struct {
	// Calls are the simple commands, in order, those behind wrappers such as
	// sudo or bash -c after the wrapper itself.
	Calls []Call
	// Writes are the targets of redirections to files.
	Writes []string
	// Err says why the parser refused the text; Calls is then a rough split.
	Err error

	forkBombs []string
	unclear   []string
	inner     int // bytes of inner texts looked at so far
}

// Unknown stands in names, arguments and targets for what only the running
// shell knows: the value of a variable, the output of a command.
const Unknown = "\x00"

// home stands for the user's home directory at the start of a path.
const home = "\x01"

// Call is one simple command.
type Call struct {
	// Name is the program's name in lower case, without the directory when
	// that is a usual place for programs. "" when it cannot be known.
	Name string
	// Args are the arguments after quote removal and expansion, as far as
	// they are known.
	Args []string
	// Via names the wrappers it was found behind, outermost first: sudo, bash.
	Via []string
	// Background: started with &, itself or the list it is in.
	Background bool
	// Last: the exit status of the whole script is this command's.
	Last bool
}

// Text is the command as the shell would see it, for people.
func (c *Call) Text() string {
	name := c.Name
	if name == "" {
		name = Unknown
	}
	return readable(strings.Join(append([]string{name}, c.Args...), " "))
}

// readable bounds a text and spells the placeholders out.
func readable(text string) string {
	text = strings.NewReplacer(Unknown, "…", home, "~").Replace(text)
	const limit = 200
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// context is what is known about the place of a command in the script.
type context struct {
	via        []string
	stdin      *string // what it reads, when that is known
	background bool
	last       bool
	function   bool // in a function or a nested shell: $1 may be set
	depth      int  // texts parsed around this one
}

// Parse takes a command line for bash or sh apart. It never fails: what the
// parser does not understand is split roughly, and Err says so.
func Parse(cmd string) *Script {
	s := &Script{}
	// A shell cannot be given a NUL; the placeholders must be ours alone.
	if strings.ContainsAny(cmd, Unknown+home) {
		cmd = strings.NewReplacer(Unknown, "", home, "\x02").Replace(cmd)
	}
	s.text(cmd, context{last: true})
	return s
}

func (s *Script) doubt(what string) {
	if len(s.unclear) < maxUnclear {
		s.unclear = append(s.unclear, readable(what))
	}
}

// spend takes n bytes from what may be looked at again: one here-document can
// be the input of many shells.
func (s *Script) spend(n int) bool {
	s.inner += n
	return s.inner <= maxInner
}

// text analyses source text.
func (s *Script) text(src string, c context) {
	if c.depth > maxReparse || c.depth > 0 && !s.spend(len(src)) {
		s.doubt(src)
		return
	}
	c.depth++
	if strings.ContainsAny(src, Unknown+home) { // of an outer text
		src = strings.NewReplacer(Unknown, "${_}", home, "${HOME}").Replace(src)
	}
	if len(src) > maxSource || nesting(src) > maxNesting {
		s.doubt("a command too long or too deeply nested to be understood")
		s.split(src, c)
		return
	}
	stmts, err := parse(src, syntax.LangBash)
	if err != nil {
		if posix, errPosix := parse(src, syntax.LangPOSIX); errPosix == nil {
			stmts, err = posix, nil
		}
	}
	// A shell runs line by line: what stands before the error is run.
	s.stmts(stmts, c)
	if err != nil {
		if s.Err == nil {
			s.Err = err
		}
		s.doubt("a command the shell parser refuses: " + err.Error())
		s.split(src, c)
	}
}

// parse returns the statements before the first error, and the error. A panic
// of the parser counts as one: its input is hostile.
func parse(src string, lang syntax.LangVariant) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &parserFault{p}
		}
	}()
	for stmt, err := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(src)) {
		if err != nil {
			return stmts, err
		}
		stmts = append(stmts, stmt)
	}
	return stmts, nil
}

type parserFault struct{ cause any }

func (*parserFault) Error() string { return "the parser broke" }

// nesting is an upper bound, cheap to get, of how deep brackets are open.
func nesting(src string) int {
	depth, deepest := 0, 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{':
			depth++
			deepest = max(deepest, depth)
		case ')', '}':
			depth = max(depth-1, 0)
		}
	}
	return max(deepest, strings.Count(src, "`")/32, strings.Count(src, "if ")/8)
}

func (s *Script) call(name string, args []string, c context) {
	if len(s.Calls) < maxCalls {
		s.Calls = append(s.Calls, Call{Name: name, Args: args, Via: c.via, Background: c.background, Last: c.last})
	}
}

// programName is what a command word calls: ./reboot is somebody's script,
// /sbin/reboot is not.
func programName(word string) string {
	dir, base := path.Split(word)
	switch {
	case dir == "", strings.HasPrefix(dir, "/"):
	case strings.HasSuffix(dir, "bin/"):
	default:
		return word
	}
	return strings.ToLower(base)
}
