package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// stage is the scratch directory of one run: hermes_tools.py and script.py.
type stage struct {
	box sandbox.Sandbox
	dir string
}

// script is the path of the staged script.
func (st *stage) script() string { return path.Join(st.dir, "script.py") }

// newStage makes the directory, 0700, and writes both files. After an error
// nothing is left. Where it takes no step more, choice is told what is found of what
// it looks for first.
func newStage(ctx context.Context, box sandbox.Sandbox, run, module, code string, choice *choice) (*stage, error) {
	files := box.Files()
	st := &stage{box: box, dir: path.Join(box.Info().ScratchDir, run)}
	staged := []sandbox.StagedFile{{Name: "hermes_tools.py", Content: module}, {Name: "script.py", Content: code}}
	if stager, ok := files.(sandbox.Stager); ok {
		first := choice.first()
		found, err := stager.Stage(ctx, st.dir, staged, first)
		if err == nil {
			choice.asked, choice.told = first, found
			return st, nil
		}
		failed := fmt.Errorf("stage: scratch directory %s: %w", st.dir, err)
		if errors.Is(err, fs.ErrExist) {
			return nil, failed // it is not ours to remove
		}
		return nil, errors.Join(failed, st.remove(ctx))
	}
	if err := files.Mkdir(ctx, st.dir, 0o700); err != nil {
		return nil, fmt.Errorf("stage: scratch directory: %w", err)
	}
	for _, f := range staged {
		if err := writeFile(ctx, files, path.Join(st.dir, f.Name), f.Content); err != nil {
			failed := fmt.Errorf("stage: write %s in %s: %w", f.Name, st.dir, err)
			return nil, errors.Join(failed, st.remove(ctx))
		}
	}
	return st, nil
}

func writeFile(ctx context.Context, files sandbox.Files, name, content string) error {
	f, err := files.Create(ctx, name, sandbox.CreateOptions{Perm: 0o600, New: true})
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write([]byte(content)); err != nil {
		return err
	}
	return f.Commit()
}

func (st *stage) remove(ctx context.Context) error {
	// The run may have been cancelled; its files go all the same.
	err := st.box.Files().RemoveAll(context.WithoutCancel(ctx), st.dir)
	if errors.Is(err, sandbox.ErrClosed) {
		return nil // the box took its scratch along
	}
	return err
}

// module is hermes_tools.py for a set of granted tools: the client, which may be
// the one that polls, and the tools' functions. Each is made once.
func (e *Engine) module(poll bool, granted []string) string {
	key := fmt.Sprint(poll, granted)
	if text, ok := e.modules.Load(key); ok {
		return text.(string)
	}
	client := rpc.ClientSource
	if poll {
		client = rpc.PollClientSource
	}
	var declared []registry.Tool
	for _, name := range granted {
		if t, ok := e.declared.Get(name); ok {
			declared = append(declared, t)
		}
	}
	text := registry.PythonModule(client(), declared)
	e.modules.Store(key, text)
	return text
}

// Stub is the hermes_tools.py that scripts with this grant import. nil means
// the default grant.
func (e *Engine) Stub(tools []string) (string, error) {
	granted, err := grant(e.declared, e.cfg.AllowedTools, tools)
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}
	return e.module(false, granted), nil
}
