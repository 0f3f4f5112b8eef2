package engine

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/rpc"
)

// trouble is what a program says the operating system answered it.
type trouble int

const (
	troubleDenied  trouble = iota // EACCES, EPERM
	troubleFixed                  // EROFS
	troublePinned                 // EBUSY: a mount is in the way of a rename
	troubleTaken                  // EISDIR, EEXIST: a reserved directory is in the way
	troubleMissing                // ENOENT: hidden, perhaps
	troubleNetwork                // no route, no names
)

// complaint is one line of a program about a path it could not use. All of it
// is the script's word: a lead, never evidence.
type complaint struct {
	trouble trouble
	path    string // absolute, not clean; "" for the network
}

// Bounds of what is read of a script's words.
const (
	maxComplaints    = 64
	maxComplaintText = 64 << 10
	maxComplaintLine = 8 << 10
	maxPrinted       = 16 << 10 // of stdout, which is long more often than it complains
	maxPath          = 4096
)

// phrase gives the words of C libraries, Go, Node.js and our own tools.
type phrase struct {
	text    string // lower case
	trouble trouble
}

func phrases() [22]phrase {
	return [...]phrase{
		{"permission denied", troubleDenied},
		{"operation not permitted", troubleDenied},
		{"eacces:", troubleDenied},
		{"eperm:", troubleDenied},
		{"read-only file system", troubleFixed},
		{"erofs:", troubleFixed},
		{"device or resource busy", troublePinned},
		{"ebusy:", troublePinned},
		{"is a directory", troubleTaken},
		{"file exists", troubleTaken},
		{"no such file or directory", troubleMissing},
		{"file not found", troubleMissing},
		{"enoent:", troubleMissing},
		{"network is unreachable", troubleNetwork},
		{"enetunreach", troubleNetwork},
		{"temporary failure in name resolution", troubleNetwork},
		{"name or service not known", troubleNetwork},
		{"could not resolve host", troubleNetwork},
		{"unable to resolve host", troubleNetwork},
		{"eai_again", troubleNetwork},
		{"no such host", troubleNetwork},
		{"nodename nor servname provided", troubleNetwork},
	}
}

// complaints reads what a program wrote, the last lines first: what ended it
// comes last. dir is what relative paths are taken to mean.
func complaints(text, dir string) (list []complaint) {
	if len(text) > maxComplaintText {
		text = text[len(text)-maxComplaintText:]
	}
	table := phrasesIn(text)
	if len(table) == 0 {
		return nil
	}
	for end := len(text); end > 0 && len(list) < maxComplaints; {
		begin := strings.LastIndexByte(text[:end], '\n') + 1
		line := text[begin:end]
		if len(line) > maxComplaintLine {
			line = line[len(line)-maxComplaintLine:]
		}
		end = begin - 1
		if len(line) < len("eperm:") {
			continue
		}
		low := lower(line)
		for _, p := range table {
			at := strings.Index(low, p.text)
			if at < 0 {
				continue
			}
			if p.trouble == troubleNetwork {
				list = append(list, complaint{trouble: troubleNetwork})
				break
			}
			names := namesIn(line, at, at+len(p.text))
			if p.trouble == troubleFixed && len(names) > 1 && copies(low[:at]) {
				names = names[1:] // what is copied is only read
			}
			for _, name := range names {
				list = append(list, complaint{p.trouble, absolute(dir, name)})
			}
			if p.trouble == troubleDenied && (len(names) == 0 || strings.Contains(low, "<urlopen error")) && connects(text[:begin], low) {
				list = append(list, complaint{trouble: troubleNetwork})
			}
			break
		}
	}
	return list[:min(len(list), maxComplaints)]
}

// phrasesIn are those that a text has: most have none, and are long.
func phrasesIn(text string) (table []phrase) {
	low := lower(text)
	for _, p := range phrases() {
		if strings.Contains(low, p.text) {
			table = append(table, p)
		}
	}
	return table
}

// copies tells whether a line is about a copy, from its first name to the
// second: git's "cannot copy 'a' to 'b'".
func copies(line string) bool {
	_, names, ok := strings.Cut(line, "copy '")
	return ok && strings.Contains(names, "' to '")
}

// connects tells whether the lines before one, a traceback's, were about a
// connection: Landlock refuses it as it refuses a file.
func connects(before, line string) bool {
	if len(before) > 1<<10 {
		before = before[len(before)-1<<10:]
	}
	return strings.Contains(line, "<urlopen error") || strings.Contains(line, "connect") || strings.Contains(before, ".connect(")
}

// callComplaints are those of a failed tool call: of its error, or of the
// output of a command.
func callComplaints(c rpc.Call, reply json.RawMessage, dir string) []complaint {
	const most = 4 * maxComplaintText
	if len(reply) > most {
		return nil
	}
	var r struct {
		Error  any `json:"error"`
		Output any `json:"output"`
		Exit   any `json:"exit_code"`
	}
	if json.Unmarshal(reply, &r) != nil {
		return nil
	}
	var list []complaint
	if text, ok := r.Error.(string); ok && text != "" {
		var args struct {
			Path any `json:"path"`
		}
		name := ""
		if len(c.Args) <= most && json.Unmarshal(c.Args, &args) == nil {
			name, _ = args.Path.(string)
		}
		list = complaints(text, dir)
		if low := lower(text[:min(len(text), maxComplaintLine)]); name != "" && name[0] != '~' && len(name) <= maxPath {
			for _, p := range phrases() { // the error is about the path, however it is worded
				if p.trouble != troubleNetwork && strings.Contains(low, p.text) {
					list = append([]complaint{{p.trouble, absolute(dir, name)}}, list...)
					break
				}
			}
		}
	}
	if text, ok := r.Output.(string); ok && r.Exit != nil && r.Exit != 0.0 {
		list = append(list, complaints(text, dir)...)
	}
	return list[:min(len(list), maxComplaints)]
}

// mayComplain spares decoding replies that have nothing to tell.
func mayComplain(reply json.RawMessage, failed bool) bool {
	if failed {
		return true
	}
	tail := string(reply[max(0, len(reply)-1024):]) // exit_code comes after output
	at := strings.LastIndex(tail, `"exit_code":`)
	return at >= 0 && !strings.HasPrefix(tail[at:], `"exit_code":0`)
}

// namesIn are the candidates for a path on a line with a phrase at [from, to):
// what is quoted, what follows the phrase, what comes before it.
func namesIn(line string, from, to int) (names []string) {
	const most, attempts = 8, 16
	add := func(name string) {
		if name != "" && len(name) <= maxPath && len(names) < most {
			names = append(names, name)
		}
	}
	for at, tried := 0, 0; at < len(line) && tried < attempts && len(names) < most; {
		if c := line[at]; c != '\'' && c != '"' && !strings.HasPrefix(line[at:], "‘") {
			at++
			continue
		}
		tried++
		name, size := quoted(line[at:], at > 0 && isWord(line[at-1]) && !(line[at-1] == 'b' && (at == 1 || line[at-2] == ' ')))
		if size == 0 {
			at++
			continue
		}
		add(name)
		at += size
	}
	if strings.Contains(line[:from], "[Errno ") { // Python quotes its paths
		return names
	}
	if rest, ok := strings.CutPrefix(line[to:], ": "); ok && !strings.ContainsAny(rest, "'\"") {
		add(strings.TrimSpace(rest))
	}
	before := strings.TrimRight(line[:from], " \t:,(")
	if at := strings.LastIndex(before, ": "); at >= 0 {
		before = before[at+2:]
	}
	if strings.ContainsAny(before, "'\"") {
		return names
	}
	add(before)
	fields := strings.Fields(before)
	for i, field := range fields {
		if i == len(fields)-1 || strings.ContainsRune(field, '/') {
			add(field)
		}
	}
	return names
}

// quoted reads a quoted string at the start of s, as Python's repr and GNU
// tools write it. size is 0 if there is none; an apostrophe in a word is none.
func quoted(s string, inWord bool) (text string, size int) {
	end := ""
	switch {
	case (s[0] == '\'' || s[0] == '"') && !inWord:
		end = s[:1]
	case strings.HasPrefix(s, "‘"):
		end = "’"
	default:
		return "", 0
	}
	open := len(end)
	var b strings.Builder
	for at := open; at < len(s); {
		if strings.HasPrefix(s[at:], end) {
			return b.String(), at + len(end)
		}
		if s[at] != '\\' || at+1 == len(s) {
			b.WriteByte(s[at])
			at++
			continue
		}
		value, multibyte, rest, err := strconv.UnquoteChar(s[at:], s[0])
		switch {
		case err == nil && value == '\\' || err == nil && (multibyte || value < utf8.RuneSelf):
			b.WriteRune(value)
			at = len(s) - len(rest)
		case err == nil: // \xNN: of bytes, or of a character below 256; bytes are likelier to be a path
			b.WriteByte(byte(value))
			at = len(s) - len(rest)
		case strings.HasPrefix(s[at:], `\udc`) && len(s) >= at+6: // a byte that was no UTF-8
			n, err := strconv.ParseUint(s[at+4:at+6], 16, 8)
			if err != nil {
				return "", 0
			}
			b.WriteByte(byte(n))
			at += 6
		default: // \' in double quotes and its like
			b.WriteByte(s[at+1])
			at += 2
		}
	}
	return "", 0
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

// absolute does not clean: what ".." means depends on the links before it.
func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// lower turns ASCII letters small and keeps every offset.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}
