//go:build unix

package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// python prepares a script that finds the directory, as the engine does.
func (s *polled) python(tb testing.TB, interpreter, script string) *exec.Cmd {
	tb.Helper()
	cmd := s.running.python(tb, interpreter, script)
	module := filepath.Join(filepath.Dir(cmd.Args[1]), "hermes_tools.py")
	if err := os.WriteFile(module, []byte(PollClientSource()+stubs), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "HERMES_RPC_SOCKET=", "HERMES_RPC_DIR="+s.folder.path)
	return cmd
}

// TestPollClient runs the scripts of TestClient, and some more, where there is
// no socket but a directory.
func TestPollClient(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/poll/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range []string{"aio", "basics", "large", "processes", "signals", "threads"} {
		scripts = append(scripts, "testdata/client/"+name+".py")
	}
	versions := pythons(t)
	for i, version := range versions {
		for _, script := range scripts {
			name := strings.TrimSuffix(filepath.Base(script), ".py")
			switch name {
			case "basics", "large", "threads", "processes", "death", "closed": // no more of Python than the others need
				if 0 < i && i < len(versions)-1 {
					continue
				}
			}
			t.Run(version.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				source, err := os.ReadFile(script)
				if err != nil {
					t.Fatal(err)
				}
				runPolled(t, version.path, name, string(source))
			})
		}
	}
}

func runPolled(t *testing.T, python, name, source string) {
	handler, allWait := clientHandler()
	cfg := Config{Handler: handler}
	if name == "refused" {
		cfg.MaxFrame = 1 << 20
	}
	var dead atomic.Bool
	s := servePoll(t, cfg, func(p *poll) {
		if name == "death" {
			p.deadAfter = time.Second
			p.dir = mortal{p.dir, &dead}
		}
	})
	if name == "death" || name == "closed" {
		go func() {
			select {
			case <-allWait:
			case <-t.Context().Done():
			}
			if name == "closed" {
				s.Close()
			}
			dead.Store(true)
		}()
	}
	cmd := s.python(t, python, source)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stdout.String() != "ok\n" || stderr.Len() > 0 {
		t.Errorf("%v\nstdout: %s\nstderr: %s", err, &stdout, &stderr)
	}
	if name == "death" {
		s.Close() // an end in itself, besides that of its directory
		<-s.ended
	}
}

// mortal is a directory that the engine loses, as when its connection breaks.
type mortal struct {
	Dir
	dead *atomic.Bool
}

var errBroken = errors.New("connection broken")

func (m mortal) List(ctx context.Context) ([]string, error) {
	if m.dead.Load() {
		return nil, errBroken
	}
	return m.Dir.List(ctx)
}

func (m mortal) Write(ctx context.Context, name string, content io.WriterTo) error {
	if m.dead.Load() {
		return errBroken
	}
	return m.Dir.Write(ctx, name, content)
}

// A child that was forked in the middle of calls does not take back its
// parent's requests, nor does one that ends.
func TestPollForkedChildTakesNothingBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var begun, cancelled atomic.Int64
	s := servePoll(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		switch c.Tool {
		case "count":
			return strconv.AppendInt(nil, begun.Load(), 10)
		case "noop":
			close(release)
			return json.RawMessage(`{}`)
		}
		begun.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
			cancelled.Add(1)
		}
		return json.RawMessage(`"done"`)
	}}, nil)
	versions := pythons(t)
	out, err := s.python(t, versions[len(versions)-1].path, `
import asyncio, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from hermes_tools import aio, count, noop, wait
async def main():
    thread = asyncio.get_running_loop().run_in_executor(None, wait)
    tasks = [asyncio.ensure_future(aio.wait()) for _ in range(3)]
    while await aio.count() < 4:
        pass
    pid = os.fork()
    if pid == 0:
        for task in tasks:
            task.cancel()
        os._exit(0)
    await asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
    for _ in range(4):  # the directory has been looked at since, and again
        count()
    noop()
    assert await asyncio.gather(thread, *tasks) == ["done"] * 4
asyncio.run(main())
print("ok")
`).CombinedOutput()
	if err != nil || string(out) != "ok\n" || cancelled.Load() != 0 {
		t.Errorf("%v: %s; %d begun, %d cancelled", err, out, begun.Load(), cancelled.Load())
	}
	s.left(t, "engine")
}

// The part for directories is all that the module for sockets lacks.
func TestClientSources(t *testing.T) {
	short, long := ClientSource(), PollClientSource()
	if strings.Contains(short, "HERMES_RPC_DIR") || strings.Contains(short, "_Poll") && !strings.Contains(short, "or _Poll") {
		t.Error("the module for sockets knows of directories")
	}
	if !strings.Contains(long, "\n# HERMES_RPC_DIR begins") || !strings.Contains(long, "\n# HERMES_RPC_DIR ends.\n") || len(short) > len(long)*2/3 {
		t.Errorf("%d and %d bytes", len(short), len(long))
	}
	head, tail, _ := strings.Cut(long, "# HERMES_RPC_DIR begins")
	if !strings.HasPrefix(short, head) || !strings.HasSuffix(tail, strings.TrimPrefix(short, head)) {
		t.Error("cut at the wrong places")
	}
}

// BenchmarkPollPython is BenchmarkPython's calls by files, one after the other
// without a pause and after one of 0.2 s each.
func BenchmarkPollPython(b *testing.B) {
	s := servePoll(b, Config{Handler: func(context.Context, Call) json.RawMessage { return json.RawMessage(`{"ok":true}`) }}, nil)
	versions := pythons(b)
	for b.Loop() {
		out, err := s.python(b, versions[len(versions)-1].path, `
import time
from hermes_tools import noop
clock = time.perf_counter
def measure(rounds, pause):
    took = []
    for _ in range(rounds):
        time.sleep(pause)
        begin = clock()
        noop()
        took.append(clock() - begin)
    return sorted(took)[rounds // 2] * 1e6
measure(50, 0)
print(measure(500, 0), measure(20, 0.2))
`).CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		var busy, rested float64
		if _, err := fmt.Sscan(string(out), &busy, &rested); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.ReportMetric(busy, "call-µs")
		b.ReportMetric(rested, "rested-µs")
	}
}
