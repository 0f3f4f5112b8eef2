package sandboxtest

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// memory is a file tree in memory: directories and regular files, no links.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*node // by clean absolute name
	gone  error            // what every call fails with, once it is set
}

type node struct {
	mode    fs.FileMode
	content []byte // never changed, only replaced
	time    time.Time
}

var _ sandbox.Files = (*memory)(nil)

func newMemory(dirs ...string) *memory {
	m := &memory{nodes: map[string]*node{"/": {mode: fs.ModeDir | 0o755}}}
	for _, dir := range dirs {
		_ = m.MkdirAll(context.Background(), dir, 0o700)
	}
	return m
}

// lose makes every call fail from now on.
func (m *memory) lose(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = why
}

// at returns what is under a name; the caller holds the lock.
func (m *memory) at(op, name string) (*node, error) {
	if m.gone != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: m.gone}
	}
	if !path.IsAbs(name) || strings.IndexByte(name, 0) >= 0 {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if n := m.nodes[path.Clean(name)]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (m *memory) Resolve(_ context.Context, name string) (string, error) {
	if !path.IsAbs(name) || strings.IndexByte(name, 0) >= 0 {
		return "", &fs.PathError{Op: "resolve", Path: name, Err: fs.ErrInvalid}
	}
	return path.Clean(name), nil
}

func (m *memory) Open(_ context.Context, name string) (sandbox.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("open", name)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: sandbox.ErrNotRegular}
	}
	return &memoryFile{bytes.NewReader(n.content), info{path.Base(name), *n}}, nil
}

func (m *memory) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("stat", name)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), *n}, nil
}

func (m *memory) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	var entries []fs.DirEntry
	for _, child := range m.children(name) {
		entries = append(entries, fs.FileInfoToDirEntry(info{path.Base(child), *m.nodes[child]}))
	}
	return entries, nil
}

// children returns the names directly below a directory, sorted.
func (m *memory) children(dir string) (names []string) {
	for name := range m.nodes {
		if name != "/" && path.Dir(name) == path.Clean(dir) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *memory) Mkdir(_ context.Context, name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mkdir(name, perm)
}

func (m *memory) mkdir(name string, perm fs.FileMode) error {
	if _, err := m.at("mkdir", name); err == nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	parent, err := m.at("mkdir", path.Dir(name))
	if m.gone != nil {
		return err
	}
	if err != nil || !parent.mode.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrNotExist}
	}
	m.nodes[path.Clean(name)] = &node{mode: fs.ModeDir | perm.Perm(), time: time.Now()}
	return nil
}

func (m *memory) MkdirAll(_ context.Context, name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := "/"
	if _, err := m.at("mkdir", at); err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		at = path.Join(at, part)
		if n := m.nodes[at]; n != nil {
			if !n.mode.IsDir() {
				return &fs.PathError{Op: "mkdir", Path: at, Err: fs.ErrExist}
			}
			continue
		}
		if err := m.mkdir(at, perm); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Rename(_ context.Context, oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.at("rename", oldName); err != nil {
		return err
	}
	if _, err := m.at("rename", path.Dir(newName)); err != nil {
		return err
	}
	from, to := path.Clean(oldName), path.Clean(newName)
	if strings.HasPrefix(to, from+"/") {
		return &fs.PathError{Op: "rename", Path: newName, Err: fs.ErrInvalid}
	}
	moved := map[string]*node{}
	for name, n := range m.nodes {
		if name == from || strings.HasPrefix(name, from+"/") {
			moved[to+strings.TrimPrefix(name, from)] = n
			delete(m.nodes, name)
		}
	}
	for name, n := range moved {
		m.nodes[name] = n
	}
	return nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.at("remove", name); err != nil {
		return err
	}
	if len(m.children(name)) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrExist}
	}
	delete(m.nodes, path.Clean(name))
	return nil
}

func (m *memory) RemoveAll(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: m.gone}
	}
	top := path.Clean(name)
	for name := range m.nodes {
		if name == top || strings.HasPrefix(name, top+"/") {
			delete(m.nodes, name)
		}
	}
	return nil
}

func (m *memory) Create(_ context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.at("create", path.Dir(name)); err != nil {
		return nil, err
	}
	if n, err := m.at("create", name); err == nil && n.mode.IsDir() {
		return nil, &fs.PathError{Op: "create", Path: name, Err: sandbox.ErrNotRegular}
	}
	if opt.Perm == 0 {
		opt.Perm = 0o666
	}
	return &memoryWriter{memory: m, name: path.Clean(name), opt: opt}, nil
}

type memoryWriter struct {
	memory *memory
	name   string
	opt    sandbox.CreateOptions
	buf    bytes.Buffer
	ended  bool
}

func (w *memoryWriter) Write(p []byte) (int, error) { return w.buf.Write(p) }

func (w *memoryWriter) Commit() error {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if w.ended {
		return &fs.PathError{Op: "commit", Path: w.name, Err: fs.ErrClosed}
	}
	w.ended = true
	if w.memory.gone != nil {
		return &fs.PathError{Op: "commit", Path: w.name, Err: w.memory.gone}
	}
	mode := w.opt.Perm.Perm()
	if old := w.memory.nodes[w.name]; old != nil {
		if w.opt.New {
			return &fs.PathError{Op: "commit", Path: w.name, Err: fs.ErrExist}
		}
		mode = old.mode
	}
	w.memory.nodes[w.name] = &node{mode: mode, content: bytes.Clone(w.buf.Bytes()), time: time.Now()}
	return nil
}

func (w *memoryWriter) Discard() error {
	w.ended = true
	return nil
}

type memoryFile struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Stat() (fs.FileInfo, error) { return f.info, nil }

type info struct {
	name string
	node node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.node.content)) }
func (i info) Mode() fs.FileMode  { return i.node.mode }
func (i info) ModTime() time.Time { return i.node.time }
func (i info) IsDir() bool        { return i.node.mode.IsDir() }
func (i info) Sys() any           { return nil }
