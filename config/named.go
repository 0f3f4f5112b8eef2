package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// backends reads the section of the backends that users name.
func (r *reader) backends(n *yaml.Node) {
	if n = resolve(n); isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "backends", "want a mapping of names to backends, got %s", describe(n))
		return
	}
	for _, e := range r.entries("backends.", n, 0) {
		r.backend(e)
	}
	slices.SortFunc(r.config.named, func(a, b *Backend) int { return cmp.Compare(a.Name, b.Name) })
}

// backend reads one. Its type says which keys it can have. One with mistakes
// is there too, so that naming it is not another mistake.
func (r *reader) backend(e entry) {
	b := &Backend{Name: e.key}
	r.config.named = append(r.config.named, b)
	if err := backendName(e.key); err != nil {
		r.fail(e.line, "backends."+clip(e.key), "%w", err)
		return
	}
	path := "backends." + e.key
	n := resolve(e.value)
	if n.Kind != yaml.MappingNode {
		r.fail(e.line, path, "want a mapping with a type, docker or ssh, got %s", describe(n))
		return
	}
	entries := r.entries(path+".", n, 0)
	if !r.need(path, "type", e.line, entries, "docker or ssh") {
		return
	}
	for _, sub := range entries {
		if sub.key == "type" {
			r.apply(b.settings()[0], sub)
		}
	}
	switch b.Type {
	case "":
		return
	case "docker":
		b.Docker = defaultDocker()
	}
	settings := b.settings()
	for _, sub := range entries {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key == path+"."+sub.key })
		switch {
		case i > 0:
			r.apply(settings[i], sub)
		case i < 0:
			r.fail(sub.line, path+"."+clip(sub.key), "%w", b.unknown(sub.key))
		}
	}
	if b.Type == "ssh" {
		r.need(path, "host", e.line, entries, "the host to reach, or its name in the ssh configuration file")
	}
}

// need tells whether a key is set, and says what is missing otherwise.
func (r *reader) need(path, key string, line int, entries []entry, wanted string) bool {
	for _, e := range entries {
		if e.key == key && !isNull(resolve(e.value)) {
			return true
		}
	}
	r.fail(line, path+"."+key, "missing: want %s", wanted)
	return false
}

// unknown says what is wrong with a key this type of backend does not have.
func (b *Backend) unknown(key string) error {
	own, other := b.keys(), (&Backend{Type: map[string]string{"docker": "ssh", "ssh": "docker"}[b.Type]})
	if slices.Contains(other.keys(), key) {
		return fmt.Errorf("a backend of type %s has no such key, one of type %s has", b.Type, other.Type)
	}
	// A key of the terminal section is this one with a prefix.
	for _, short := range []string{key, strings.TrimPrefix(key, b.Type+"_"), strings.TrimPrefix(key, "container_")} {
		if near := Nearest(short, own); near != "" {
			return fmt.Errorf("unknown key; did you mean %q?", near)
		}
	}
	return fmt.Errorf("unknown key; known are %s", strings.Join(own, ", "))
}

// keys are those that can stand in this backend's entry.
func (b *Backend) keys() []string {
	var keys []string
	for _, s := range b.settings() {
		keys = append(keys, s.key[strings.LastIndexByte(s.key, '.')+1:])
	}
	return keys
}

// backendName accepts what can be named where a backend is chosen, and is none
// that is or will be there anyway.
func backendName(s string) error {
	const letters, more = "abcdefghijklmnopqrstuvwxyz0123456789", "._-"
	switch {
	case s == "" || len(s) > 63 || strings.Trim(s, letters+more) != "" || strings.ContainsRune(more, rune(s[0])):
		return errors.New("want a name of a-z, 0-9, '.', '_' and '-', at most 63, a letter or digit first")
	case s == "docker" || s == "ssh":
		return fmt.Errorf("the name is taken by the backend that terminal.%s_… configure; choose another", s)
	case s == "local" || slices.Contains(strings.Fields(laterTypes), s):
		return errors.New("the name is taken by a place to run; choose another")
	}
	return nil
}

// backendType accepts what a named backend can be.
func backendType(s string) error {
	types := []string{"docker", "ssh"}
	switch {
	case slices.Contains(types, s):
		return nil
	case slices.Contains(strings.Fields(laterTypes), s):
		return fmt.Errorf("want %s, got %q, which is not built yet", oneOf(types), s)
	case s == "local":
		return fmt.Errorf("want %s, got %q, which is always there under its own name", oneOf(types), s)
	}
	err := fmt.Errorf("want %s, got %q", oneOf(types), clip(s))
	if near := Nearest(s, types); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return err
}
