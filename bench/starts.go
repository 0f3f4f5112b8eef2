package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// pause is between two turns. What one leaves to be done, and what an engine
// prepares after it, is not to be paid for by the next, which may be a baseline.
const pause = 50 * time.Millisecond

// measureStarts takes turns between a bare interpreter, bwrap with the same
// view, a session and run, a run in an open session, both without confinement,
// and the command's own start. What a session's end takes is a row of its own:
// the result is there before.
func measureStarts(opt Options, e *engine.Engine, open *engine.Session, python, dir string) ([]Row, error) {
	script := filepath.Join(dir, "pass.py")
	if err := os.WriteFile(script, []byte(pass), 0o644); err != nil {
		return nil, err
	}
	run := func(args ...string) func() error {
		return func() error {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"}
			return cmd.Run()
		}
	}
	task, err := Task(dir, "workspace")
	if err != nil {
		return nil, err
	}
	free, err := Task(dir, "open")
	if err != nil {
		return nil, err
	}
	freeOpen, err := e.Open(context.Background(), free)
	if err != nil {
		return nil, err
	}
	t := series{}
	cold := func(name string, task engine.Task) error {
		var s *engine.Session
		err := t.time(name, func() (err error) {
			if s, err = e.Open(context.Background(), task); err == nil {
				err = runNamed(s, pass, python)
			}
			return err
		})
		if s != nil {
			err = errors.Join(err, t.time(name+" close", func() error { return s.Close(context.Background()) }))
		}
		return err
	}
	places := local.New(local.Config{})
	defer places.Close()
	guest := func() error {
		var box sandbox.Sandbox
		err := t.time("guest", func() (err error) {
			if box, err = places.Create(context.Background(), sandbox.Spec{WorkDir: dir, Policy: *task.Policy}); err == nil {
				_, err = box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}, Dir: "/"})
			}
			return err
		})
		if box != nil {
			err = errors.Join(err, box.Close(context.Background()))
		}
		return err
	}
	bwrap, _ := exec.LookPath("bwrap")
	turns := []func() error{
		func() error { return t.time("bare", run(python, script)) },
		func() error { return cold("cold", task) },
		func() error { return t.time("warm", func() error { return runOnce(open, pass) }) },
		func() error { return cold("free", free) },
		func() error { return t.time("free warm", func() error { return runOnce(freeOpen, pass) }) },
		guest,
	}
	if bwrap != "" {
		args, err := bwrapArgs(context.Background(), bwrap, dir, open)
		if err != nil {
			return nil, err
		}
		turns = append(turns, func() error { return t.time("bwrap", run(append(args, python, script)...)) })
	}
	if opt.Binary != "" {
		turns = append(turns, func() error { return t.time("cli", run(opt.Binary, "version")) })
	}
	for range 3 * opt.Rounds { // what they differ by is less than what each varies by
		for _, turn := range turns {
			time.Sleep(pause)
			if err := turn(); err != nil {
				return nil, err
			}
		}
	}
	bare, g := median(t["bare"]), median(t["guest"])
	later := func(name string) float64 { return shift(t[name], t["bare"]) }
	row := func(what, name, must string, ok bool) Row {
		by := later(name)
		return Row{what, median(t[name]), "ms", fmt.Sprintf("bare python3 %.1f ms, %+.1f ms, %.2f×", bare, by, (bare+by)/bare), must, ok}
	}
	rows := []Row{
		row("session and run of pass, workspace", "cold", "≤ bare + 4.5 ms", later("cold") <= 4.5),
		row("run of pass in an open session, workspace", "warm", "≤ bare + 2.5 ms", later("warm") <= 2.5),
		row("session and run of pass, open", "free", "≤ 1.15 × bare", later("free") <= 0.15*bare),
		row("run of pass in an open session, open", "free warm", "≤ bare + 2.5 ms", later("free warm") <= 2.5),
		{"guest start to exec, workspace", g, "ms", "", "≤ 4 ms", g <= 4},
	}
	if bwrap != "" {
		rows = append(rows, row("the same by bwrap with equal binds", "bwrap", "slower than ours", shift(t["bwrap"], t["cold"]) > 0))
	}
	end := median(t["cold close"])
	rows = append(rows, Row{"end of that session", end, "ms", "", "≤ 10 ms", end <= 10})
	if opt.Binary != "" {
		v := median(t["cli"])
		rows = append(rows, Row{"the command's own start (version)", v, "ms", "", "≤ 15 ms", v <= 15})
	}
	return rows, nil
}
