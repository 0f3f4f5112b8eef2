package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

const (
	maxFile   = 256 << 10 // bytes of a policy file
	maxPaths  = 1000      // in one list
	maxErrors = 20        // told at once
)

// fileSpec is what a policy file says, with where it says it.
type fileSpec struct {
	path, extends                    string
	read, write, denyRead, denyWrite []entry
	network                          sandbox.Network
	networkSet                       bool
	openGuards                       []string
	bestEffort                       []sandbox.ClauseName
}

// entry is a path and the place in the file it stands at.
type entry struct{ where, path string }

// Check reads a policy file and says everything that is wrong with it, without
// a work dir to resolve it for.
func Check(name string) error {
	given := name
	name, data, err := readFile(name)
	if err != nil && (given == Sealed || given == Workspace || given == Open) && !exists(name) {
		return refuse("policy: %s is built in and has no file to check: hermes-exec policy show %s prints it", given, given)
	}
	if err == nil {
		_, err = parse(name, data)
	}
	return err
}

// readFile returns the absolute name and the text of a policy file.
func readFile(name string) (string, []byte, error) {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	f, err := openRegular(name)
	if err != nil {
		return "", nil, refuse("policy: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", nil, refuse("policy: %v", err)
	}
	return name, data, nil
}

// parse reads a policy file's text. name is for messages only.
func parse(name string, data []byte) (fileSpec, error) {
	r := &reader{spec: fileSpec{path: name}}
	if root := r.root(data); root != nil {
		r.mapping(root)
	}
	if len(r.errs) > 0 {
		return fileSpec{}, &refusal{errors.Join(r.errs...).Error()}
	}
	return r.spec, nil
}

// reader walks the tree of one file.
type reader struct {
	spec fileSpec
	errs []error
}

func (r *reader) fail(line int, key, format string, args ...any) {
	r.add(r.where(line, key), format, args...)
}

func (r *reader) add(where, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf("policy: %s: %s", where, fmt.Sprintf(format, args...)))
	}
}

func (r *reader) where(line int, key string) string {
	where := r.spec.path
	if line > 0 {
		where = fmt.Sprintf("%s:%d", where, line)
	}
	if key != "" {
		where += ": " + key
	}
	return where
}

// root makes the tree; nil when the file was refused.
func (r *reader) root(data []byte) *yaml.Node {
	if len(data) > maxFile {
		r.fail(0, "", "larger than %d KiB", maxFile>>10)
		return nil
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		r.fail(0, "", "not text in UTF-8")
		return nil
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		var load *yaml.LoadError
		if errors.As(err, &load) {
			r.fail(load.Mark.Line, "", "not YAML: %s", load.Message)
		} else {
			r.fail(0, "", "not YAML: %v", err)
		}
		return nil
	}
	switch {
	case len(docs) > 1:
		r.fail(0, "", "want one YAML document, got %d", len(docs))
		return nil
	case len(docs) == 0 || len(docs[0].Content) == 0 || docs[0].Content[0].ShortTag() == "!!null":
		r.fail(0, "", "the file is empty: an empty policy would allow nothing; say extends: %s at least", Sealed)
		return nil
	}
	return docs[0].Content[0]
}

// keys are those a policy file can have.
const keys = "extends, read, write, deny_read, deny_write, network, open_guards, best_effort"

func (r *reader) mapping(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "", "want a mapping of keys to values, got %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" {
			r.fail(k.Line, "", "want a word as key, got %s", describe(k))
			continue
		}
		if first, twice := seen[k.Value]; twice {
			r.fail(k.Line, clip(k.Value), "the key is already in line %d", first)
			continue
		}
		seen[k.Value] = k.Line
		s := &r.spec
		switch k.Value {
		case "extends":
			if s.extends = r.word(k.Value, v); s.extends != "" && s.extends != Sealed && s.extends != Workspace {
				r.fail(v.Line, k.Value, "want %s or %s, got %q", Sealed, Workspace, clip(s.extends))
			}
		case "read":
			s.read = r.paths(k.Value, v)
		case "write":
			s.write = r.paths(k.Value, v)
		case "deny_read":
			s.denyRead = r.paths(k.Value, v)
		case "deny_write":
			s.denyWrite = r.paths(k.Value, v)
		case "network":
			s.networkSet = true
			switch word := r.word(k.Value, v); word {
			case "", "off":
			case "host":
				s.network = sandbox.NetworkHost
			default:
				r.fail(v.Line, k.Value, "want off or host, got %q: nothing in between can be kept", clip(word))
			}
		case "open_guards":
			s.openGuards = r.names(k.Value, v, guardNames())
		case "best_effort":
			for _, name := range r.names(k.Value, v, clauses()) {
				s.bestEffort = append(s.bestEffort, sandbox.ClauseName(name))
			}
		default:
			r.fail(k.Line, clip(k.Value), "unknown key; known are %s", keys)
		}
	}
	for _, list := range []struct {
		key     string
		entries []entry
	}{{"read", r.spec.read}, {"write", r.spec.write}} {
		if line, given := seen[list.key]; given && list.entries != nil && len(list.entries) == 0 && r.spec.extends != "" {
			r.fail(line, list.key, "an empty list adds nothing to what %s allows; leave it out, or take away with deny_%s: [.]", r.spec.extends, list.key)
		}
	}
}

// clauses are the names of what may be missing.
func clauses() []string {
	return []string{
		string(sandbox.ClauseFiles), string(sandbox.ClauseGuards), string(sandbox.ClauseNetwork), string(sandbox.ClauseProcesses),
		string(sandbox.ClauseSyscalls), string(sandbox.ClauseResources), string(sandbox.ClauseKill),
	}
}

// word reads a string that is not empty.
func (r *reader) word(key string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		r.fail(n.Line, key, "want a word, got %s", describe(n))
		return ""
	}
	return n.Value
}

// list reads the strings of a list; nil when it is none.
func (r *reader) list(key string, n *yaml.Node) []entry {
	if n.Kind != yaml.SequenceNode {
		r.fail(n.Line, key, "want a list, got %s", describe(n))
		return nil
	}
	if len(n.Content) > maxPaths {
		r.fail(n.Line, key, "want at most %d entries, got %d", maxPaths, len(n.Content))
		return nil
	}
	var list []entry
	if len(n.Content) == 0 {
		list = []entry{} // empty as it was written, not for its mistakes
	}
	for _, item := range n.Content {
		if text := r.word(key, item); text != "" {
			list = append(list, entry{r.where(item.Line, key), text})
		}
	}
	return list
}

// paths reads a list of paths; what they lead to is not looked at.
func (r *reader) paths(key string, n *yaml.Node) []entry {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			if item.Value == "~" && item.ShortTag() == "!!null" {
				item.Tag = "!!str" // the home, which YAML takes for nothing
			}
		}
	}
	list := r.list(key, n)
	for _, e := range list {
		// Any absolute directories will do to see whether the form is right.
		if _, err := (&builder{c: Context{Home: "/"}, workdir: "/"}).expand(e.path, false); err != nil {
			r.add(e.where, "%v", err)
		}
	}
	return list
}

func (r *reader) names(key string, n *yaml.Node, known []string) (names []string) {
	for _, e := range r.list(key, n) {
		if !slices.Contains(known, e.path) {
			r.add(e.where, "there is no %q; there are %s", clip(e.path), strings.Join(known, ", "))
			continue
		}
		names = append(names, e.path)
	}
	return names
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return fmt.Sprintf("the string %q", clip(n.Value))
	case "!!null":
		return "nothing"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	default:
		return "a value of type " + clip(tag)
	}
}

// apply adds a file's own entries to the profile it extends.
func (b *builder) apply(s fileSpec) error {
	p := &b.policy
	p.Name = s.path
	for _, e := range s.read {
		place, err := b.expand(e.path, false)
		if err != nil {
			return refuse("policy: %s: %v", e.where, err)
		}
		if err := ownTree(b.links.real(place)); err != nil {
			return refuse("policy: %s: %v", e.where, err)
		}
		if !b.links.exists(place) {
			b.note("%s: %s does not exist here", e.where, place)
			continue
		}
		p.Read = append(p.Read, b.links.both(place)...)
		b.named = append(b.named, named{e.where, b.links.real(place)})
	}
	for _, e := range s.write {
		place, err := b.expand(e.path, false)
		if err == nil {
			err = b.checkWrite(place)
		}
		if err != nil {
			return refuse("policy: %s: %v", e.where, err)
		}
		p.Write = append(p.Write, b.links.real(place))
		b.named = append(b.named, named{e.where, b.links.real(place)})
	}
	for _, deny := range []struct {
		entries []entry
		add     func(guard, place string)
	}{{s.denyRead, b.denyRead}, {s.denyWrite, b.denyWrite}} {
		for _, e := range deny.entries {
			place, err := b.expand(e.path, false)
			if err != nil {
				return refuse("policy: %s: %v", e.where, err)
			}
			deny.add("", place)
		}
	}
	if s.networkSet {
		p.Network = s.network
	}
	p.BestEffort = append(p.BestEffort, s.bestEffort...)
	if s.extends == "" {
		b.privateTemp()
		b.note("%s extends nothing: what it does not name cannot be read, not even the interpreter; extends: %s gives the system", s.path, Sealed)
	}
	return nil
}

// denyConfigured adds code_execution.deny_read.
func (b *builder) denyConfigured(list []string) error {
	for _, name := range list {
		place, err := b.expand(name, true)
		if err != nil {
			return refuse("code_execution.deny_read: %v", err)
		}
		b.denyRead("", place)
	}
	return nil
}
