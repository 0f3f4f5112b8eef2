package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestClient runs each script of testdata/client under every python there is.
// A script asserts for itself; it must print ok and nothing on stderr, where
// warnings of unclosed sockets and abandoned tasks would be.
func TestClient(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("scripts are not run here")
	}
	scripts, err := filepath.Glob("testdata/client/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	t.Parallel()
	versions := pythons(t)
	for i, version := range versions {
		for _, script := range scripts {
			name := strings.TrimSuffix(filepath.Base(script), ".py")
			switch name {
			case "basics", "large", "threads", "death", "refused": // no more of Python than the others need
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
				runScript(t, version.path, filepath.Base(script), string(source))
			})
		}
	}
}

func runScript(t *testing.T, python, name, source string) {
	handler, allWait := clientHandler()
	cfg := Config{Handler: handler}
	if name == "refused.py" {
		cfg.MaxFrame = 1 << 20
	}
	s := serve(t, cfg)
	if name == "death.py" {
		go func() {
			select {
			case <-allWait:
			case <-t.Context().Done():
			}
			// As a crash looks: no answer, no word, nobody there any more.
			os.Remove(s.path)
			s.mu.Lock()
			for c := range s.conns {
				c.nc.Close()
			}
			s.mu.Unlock()
		}()
	}
	cmd := s.python(t, python, source)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stdout.String() != "ok\n" || stderr.Len() > 0 {
		t.Errorf("%v\nstdout: %s\nstderr: %s", err, &stdout, &stderr)
	}
}

// clientHandler is what the stubs call. allWait is closed when six calls wait.
func clientHandler() (handler Handler, allWait chan struct{}) {
	var counter, waiting atomic.Int64
	allWait = make(chan struct{})
	return func(ctx context.Context, c Call) json.RawMessage {
		switch c.Tool {
		case "noop":
			return json.RawMessage(`{"ok":true}`)
		case "count":
			return strconv.AppendInt(nil, counter.Add(1), 10)
		case "wait":
			if waiting.Add(1) == 6 {
				close(allWait)
			}
			<-ctx.Done()
			return errorResult("cancelled")
		case SandboxCall:
			return json.RawMessage(fmt.Sprintf(`{"tool":%q,"args":%s}`, c.Tool, c.Args))
		}
		return special(echoArgs(ctx, c))
	}, allWait
}

// special lets a script ask for results that echo cannot give.
func special(value json.RawMessage) json.RawMessage {
	var text string
	if len(value) > 100 {
		return value
	}
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	kind, rest, _ := strings.Cut(text, ":")
	n, err := strconv.ParseFloat(rest, 64)
	if err != nil {
		return value
	}
	switch kind {
	case "slow":
		time.Sleep(time.Duration(n * float64(time.Second)))
	case "result":
		return json.RawMessage(`"` + strings.Repeat("x", int(n)) + `"`)
	case "pretty":
		return json.RawMessage(fmt.Sprintf("{\n  \"pad\": \"%s\",\n  \"end\": true\n}", strings.Repeat("x", int(n))))
	}
	return value
}
