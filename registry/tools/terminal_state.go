package tools

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/registry"
)

const (
	maxExports  = 256 << 10 // bytes of exported variables that are kept
	maxVariable = 96 << 10  // bytes of one; Linux refuses to start programs with 128 KiB in one
	maxReport   = 1 << 20   // bytes of what a shell reports about itself
)

// environment is the kind of environment a command runs in. What a model
// exports in its wide one may hold what a script's scrubbed one must not, so
// each has its own exports.
type environment int

const (
	modelEnv environment = iota
	scriptEnv
)

func environmentOf(caller registry.Caller) environment {
	if caller.IsScript() {
		return scriptEnv
	}
	return modelEnv
}

// shellState is what commands leave to later ones besides the working
// directory: variables exported or unset, per environment. The zero value is
// ready. Nothing of it is ever written anywhere but into the environment of
// the next command.
type shellState struct {
	mu      sync.Mutex
	changes [2]map[string]*string // nil: unset
}

// environ is the environment of the next command, as a list and as what the
// command could have changed.
func (st *shellState) environ(kind environment, base []string) (env []string, before map[string]string) {
	before = make(map[string]string, len(base))
	for _, entry := range base {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || startup(name):
		case kept(name):
			before[name] = value
		default: // PWD, SHLVL, exported functions: passed on, never kept
			env = append(env, entry)
		}
	}
	st.mu.Lock()
	for name, value := range st.changes[kind] {
		if value == nil {
			delete(before, name)
		} else {
			before[name] = *value
		}
	}
	st.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		env = append(env, name+"="+before[name])
	}
	return env, before
}

// apply keeps what a command changed: the difference between what it started
// with and what it ended with, so that two commands at a time do not undo each
// other's work. It returns what the caller should know.
func (st *shellState) apply(kind environment, before map[string]string, after map[string]string) string {
	if after == nil {
		return "The exported variables could not be read and were not kept."
	}
	delta := map[string]*string{}
	for name, value := range after {
		if old, ok := before[name]; kept(name) && (!ok || old != value) {
			delta[name] = &value
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			delta[name] = nil
		}
	}
	if len(delta) == 0 {
		return ""
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	next := maps.Clone(st.changes[kind])
	if next == nil {
		next = map[string]*string{}
	}
	maps.Copy(next, delta)
	size, longest := 0, 0
	for name, value := range next {
		size += len(name)
		if value != nil {
			size += len(*value)
			longest = max(longest, len(name)+len(*value))
		}
	}
	if size > maxExports || longest > maxVariable {
		return "The exported variables were not kept: they take more than 256 KiB together or 96 KiB in one."
	}
	st.changes[kind] = next
	return ""
}

// startup tells variables that make a shell run or trace things before the
// command; they are kept from it.
func startup(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD":
		return true
	}
	return false
}

// kept tells variables that persist: those a shell can export, less those it
// sets by itself and ours.
func kept(name string) bool {
	switch name {
	case "_", "PWD", "OLDPWD", "SHLVL":
		return false
	}
	return variableName(name) && !startup(name) && !strings.HasPrefix(name, "_hx_")
}

func variableName(name string) bool {
	for i := range len(name) {
		ch := name[i]
		if ch != '_' && (ch|0x20 < 'a' || ch|0x20 > 'z') && (i == 0 || ch < '0' || ch > '9') {
			return false
		}
	}
	return name != ""
}

// record is what the shell reported.
type record struct {
	start, end string            // directories; "" when it could not tell
	exports    map[string]string // nil when they could not be read
}

// parseRecord reads the report: mark, directory, and again mark, directory,
// mark, exports, mark. What it does not understand, it does not believe.
func parseRecord(report []byte, mark string) (r record, ok bool) {
	line := mark + "\n"
	_, rest, ok := strings.Cut(string(report), line)
	if !ok {
		return r, false
	}
	var start, end string
	if start, rest, ok = strings.Cut(rest, line); !ok {
		return r, false
	}
	if end, rest, ok = strings.Cut(rest, line); !ok {
		return r, false
	}
	r.start, r.end = directory(start), directory(end)
	if exports, ok := parseExports(rest, line); ok {
		r.exports = exports
	}
	return r, true
}

// directory is a line that holds an absolute path, or "".
func directory(line string) string {
	dir, ok := strings.CutSuffix(line, "\n")
	if !ok || !strings.HasPrefix(dir, "/") || len(dir) > maxPath || strings.IndexByte(dir, 0) >= 0 {
		return ""
	}
	return dir
}

// withoutMark is what a shell wrote before, or instead of, its report: messages.
func withoutMark(report []byte, mark string) []byte {
	before, _, _ := bytes.Cut(report, []byte(mark))
	return before[:min(len(before), 4096)]
}

// limited keeps the first bytes of a stream.
type limited struct {
	data  []byte
	limit int
	total int64
}

// Write never fails: a program must not notice how much of it is kept.
func (l *limited) Write(p []byte) (int, error) {
	l.total += int64(len(p))
	if room := l.limit - len(l.data); room > 0 {
		l.data = append(l.data, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
