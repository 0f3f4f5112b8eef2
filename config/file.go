package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	maxFile   = 1 << 20 // bytes of a configuration file
	maxErrors = 20      // told at once

	// A few lines of merge keys can ask for 2^n mappings.
	maxMerges = 1000
	maxPairs  = 100_000
)

// readFile applies the file, or says everything that is wrong with it.
func (c *Config) readFile(settings []setting, mustExist bool) []error {
	data, mode, err := readBounded(c.Path)
	if errors.Is(err, fs.ErrNotExist) && !mustExist {
		return nil
	}
	if err != nil {
		return []error{fmt.Errorf("config: %w", err)}
	}
	if runtime.GOOS != "windows" && mode&0o022 != 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s can be written by others (mode %04o); chmod go-w it", c.Path, mode))
	}
	r := &reader{config: c, settings: settings}
	if root := r.parse(data); root != nil {
		r.section("", root)
	}
	return r.errs
}

// readBounded reads a regular file of bounded size and tells its permissions.
func readBounded(path string) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hang us
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxFile {
		return nil, 0, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return data, info.Mode().Perm(), nil
}

// reader walks the tree of one file.
type reader struct {
	config   *Config
	settings []setting
	merges   int  // followed so far
	pairs    int  // seen so far, those of merged mappings again and again
	crowded  bool // one of the two was too many; told once
	errs     []error
}

func (r *reader) fail(line int, key, format string, args ...any) {
	if len(r.errs) > maxErrors {
		return
	}
	where := r.config.Path
	if len(r.errs) == maxErrors {
		line, key, format, args = 0, "", "there are more mistakes", nil
	}
	if line > 0 {
		where = fmt.Sprintf("%s:%d", where, line)
	}
	if key != "" {
		where += ": " + key
	}
	r.errs = append(r.errs, fmt.Errorf("config: %s: %w", where, fmt.Errorf(format, args...)))
}

// parse makes the tree; nil when the file is empty or was refused.
func (r *reader) parse(data []byte) *yaml.Node {
	if at := invalidUTF8(data); at >= 0 {
		r.fail(1+bytes.Count(data[:at], []byte("\n")), "", "not valid UTF-8 (byte 0x%02x)", data[at])
		return nil
	}
	if at := bytes.IndexFunc(data, control); at >= 0 {
		r.fail(1+bytes.Count(data[:at], []byte("\n")), "", "a control character (0x%02x) is not allowed", data[at])
		return nil
	}
	var docs []yaml.Node
	err := yaml.Load(data, &docs, yaml.WithAllDocuments())
	if err != nil {
		r.failParse(data, err)
		return nil
	}
	if len(docs) > 1 {
		line := 0
		if len(docs[1].Content) > 0 {
			line = docs[1].Content[0].Line
		}
		r.fail(line, "", "want one YAML document, got %d", len(docs))
		return nil
	}
	if len(docs) == 0 || len(docs[0].Content) == 0 {
		return nil
	}
	return docs[0].Content[0]
}

// failParse puts the library's error into this package's shape.
func (r *reader) failParse(data []byte, err error) {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		r.fail(0, "", "not YAML: %v", err)
		return
	}
	message, line := load.Message, load.Mark.Line
	lines := bytes.Split(data, []byte("\n"))
	if line >= 1 && line <= len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[line-1], " "), []byte("\t")) {
		message = "a tab cannot indent in YAML; use spaces"
	}
	r.fail(line, "", "not YAML: %s", message)
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func control(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }

// section applies one mapping. At the top level (prefix "") what is unknown
// belongs to somebody else; below it is a mistake.
func (r *reader) section(prefix string, n *yaml.Node) {
	if n = resolve(n); isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, strings.TrimSuffix(prefix, "."), "want a mapping of keys to values, got %s", describe(n))
		return
	}
	known := r.keys(prefix)
	foreign := foreignKeys(strings.TrimSuffix(prefix, "."))
	for _, e := range r.entries(prefix, n, 0) {
		path := prefix + e.key
		i := slices.IndexFunc(r.settings, func(s setting) bool { return s.key == path })
		switch {
		case i >= 0:
			r.apply(r.settings[i], e)
		case path == "backends":
			r.backends(e.value)
		case slices.Contains(known, e.key):
			r.section(path+".", e.value)
		case slices.Contains(foreign, e.key):
		case prefix == "":
			if near := Nearest(e.key, known); near != "" && !strings.Contains(foreignSections, " "+e.key+" ") {
				r.config.Warnings = append(r.config.Warnings,
					fmt.Sprintf("%s:%d: %s is ignored; did you mean %s?", r.config.Path, e.line, clip(e.key), near))
			}
		default:
			if near := Nearest(e.key, append(known, foreign...)); near != "" {
				r.fail(e.line, prefix+clip(e.key), "unknown key; did you mean %q?", near)
			} else {
				r.fail(e.line, prefix+clip(e.key), "unknown key; known are %s", strings.Join(known, ", "))
			}
		}
	}
}

func (r *reader) apply(s setting, e entry) {
	n := resolve(e.value)
	if isNull(n) {
		return // as if it were not there
	}
	if err := s.value.set(n); err != nil {
		r.fail(e.line, s.key, "%w", err)
		return
	}
	r.config.origins[s.key] = fmt.Sprintf("%s:%d", r.config.Path, e.line)
}

// keys are the names that can stand below a prefix, in the order of the list.
func (r *reader) keys(prefix string) []string {
	var keys []string
	if prefix == "" {
		keys = append(keys, "backends")
	}
	for _, s := range r.settings {
		if rest, ok := strings.CutPrefix(s.key, prefix); ok {
			key, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries are a mapping's pairs, with merge keys (<<) followed: what a mapping
// says itself wins over what it merges, an earlier source over a later one.
func (r *reader) entries(prefix string, n *yaml.Node, depth int) []entry {
	var own, merged []entry
	lines := map[string]int{} // of what the mapping says itself
	if r.pairs += len(n.Content) / 2; r.pairs > maxPairs {
		if !r.crowded {
			r.crowded = true
			r.fail(n.Line, strings.TrimSuffix(prefix, "."), "too many keys")
		}
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := resolve(n.Content[i]), n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			if prefix != "" {
				r.fail(n.Content[i].Line, strings.TrimSuffix(prefix, "."), "want a word as key, got %s", describe(key))
			}
		case key.ShortTag() == "!!merge":
			merged = append(merged, r.merge(prefix, val, depth)...)
		default:
			e := entry{key.Value, n.Content[i].Line, val}
			if first, twice := lines[e.key]; !twice {
				lines[e.key] = e.line
				own = append(own, e)
			} else if prefix != "" || slices.Contains(r.keys(""), e.key) {
				r.fail(e.line, prefix+clip(e.key), "the key is already in line %d", first)
			}
		}
	}
	for _, e := range merged {
		if _, taken := lines[e.key]; !taken {
			lines[e.key] = e.line
			own = append(own, e)
		}
	}
	return own
}

// merge is what one merge key brings in.
func (r *reader) merge(prefix string, n *yaml.Node, depth int) []entry {
	if r.merges++; r.merges > maxMerges || depth > 20 {
		if !r.crowded {
			r.crowded = true
			r.fail(n.Line, strings.TrimSuffix(prefix, "."), "too many merge keys, or one that merges itself")
		}
		return nil
	}
	target := resolve(n)
	switch target.Kind {
	case yaml.MappingNode:
		return r.entries(prefix, target, depth+1)
	case yaml.SequenceNode:
		var all []entry
		for _, item := range target.Content {
			all = append(all, r.merge(prefix, item, depth+1)...)
		}
		return all
	}
	r.fail(n.Line, strings.TrimSuffix(prefix, "."), "want a mapping to merge, got %s", describe(target))
	return nil
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for range 100 {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	return n
}
