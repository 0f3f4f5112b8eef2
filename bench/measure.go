package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// Options of a measurement.
type Options struct {
	Rounds int    // of the rows that start processes, three times as many of those of sessions, the others in proportion; 0 means 40
	Binary string // hermes-exec, for the CLI's own start and as guest; "" leaves the rows out

	DockerHost, DockerImage string // of the rows about docker; "" leaves them out
	SSHConfig               string // names a host hermes-test; "" leaves the rows about ssh out
}

// pass is a script that does nothing.
const pass = "pass\n"

// NewEngine makes an engine as the command would, with one more
// tool that does nothing.
func NewEngine() (*engine.Engine, error) {
	return newEngine(map[string]sandbox.Backend{"local": local.New(local.Config{})})
}

func newEngine(backends map[string]sandbox.Backend) (*engine.Engine, error) {
	megabyte := strings.Repeat("x", 1<<20)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
	return engine.New(engine.Config{
		Backends: backends,
		Tools: func(box sandbox.Sandbox) []registry.Tool {
			return append(tools.New(box, tools.Config{Env: env, ModelEnv: env}),
				registry.New("noop", "bench", "Do nothing.", func(context.Context, registry.Caller, struct{}) (map[string]bool, error) {
					return map[string]bool{"ok": true}, nil
				}),
				registry.New("megabyte", "bench", "Return a megabyte.", func(context.Context, registry.Caller, struct{}) (string, error) {
					return megabyte, nil
				}))
		},
		AllowedTools: []string{"noop", "megabyte"},
		Environ:      env,
		Limits:       engine.Limits{MaxToolCalls: 1 << 30},
	})
}

// Task is a session in dir, under the profile of a name.
func Task(dir, profile string) (engine.Task, error) {
	p, env, err := policy.Resolve(profile, policy.Context{
		Home: os.Getenv("HOME"), WorkDir: dir, CacheDir: dir + "-cache", Environ: os.Environ(),
	})
	return engine.Task{WorkDir: dir, Policy: &p, Env: env}, err
}

// Measure fills the table.
func Measure(opt Options) (python string, rows []Row, err error) {
	if opt.Rounds == 0 {
		opt.Rounds = 40
	}
	dir, err := os.MkdirTemp("", "hxbench")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	defer os.RemoveAll(dir + "-cache")
	e, err := NewEngine()
	if err != nil {
		return "", nil, err
	}
	defer e.Close()
	task, err := Task(dir, "workspace")
	if err != nil {
		return "", nil, err
	}
	s, err := e.Open(context.Background(), task)
	if err != nil {
		return "", nil, err
	}
	r, err := s.Run(context.Background(), engine.Script{Code: pass})
	if err != nil {
		return "", nil, err
	}
	python = r.Interpreter

	starts, err := measureStarts(opt, e, s, python, dir)
	if err != nil {
		return "", nil, err
	}
	calls, err := measureCalls(opt, s, dir)
	if err != nil {
		return "", nil, err
	}
	stdout, err := measureStdout(s)
	if err != nil {
		return "", nil, err
	}
	files, err := measureTools(opt, s, dir)
	if err != nil {
		return "", nil, err
	}
	var docker, ssh []Row
	if opt.DockerImage != "" && opt.Binary != "" {
		if docker, err = measureDocker(opt, dir); err != nil {
			return "", nil, err
		}
	}
	if opt.SSHConfig != "" && opt.Binary != "" {
		if ssh, err = measureSSH(opt, dir); err != nil {
			return "", nil, err
		}
	}
	return python, slices.Concat(starts, calls, stdout, files, docker, ssh), nil
}

func runOnce(s *engine.Session, code string, args ...string) error {
	return outcome(s.Run(context.Background(), engine.Script{Code: code, Args: args}))
}

func runNamed(s *engine.Session, code, python string) error {
	return outcome(s.Run(context.Background(), engine.Script{Code: code, Interpreter: python}))
}

func outcome(r engine.Result, err error) error {
	if err == nil && r.Status != engine.Success {
		err = errors.New(r.Error)
	}
	return err
}

//go:embed calls.py
var callsScript string

// measureCalls times tool calls inside one script, in turns with a raw socket
// ping-pong of the same size and with bash.
func measureCalls(opt Options, s *engine.Session, dir string) ([]Row, error) {
	l, err := net.Listen("unix", filepath.Join(dir, "echo.sock"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go pingPong(l)
	if err := os.WriteFile(filepath.Join(dir, "small.txt"), bytes.Repeat([]byte("a line of text\n"), 100), 0o600); err != nil {
		return nil, err
	}
	r, err := s.Run(context.Background(), engine.Script{Code: callsScript, Args: []string{l.Addr().String(), dir, strconv.Itoa(max(1, opt.Rounds/2))}})
	if err := outcome(r, err); err != nil {
		return nil, err
	}
	var ms map[string]float64
	if err := json.Unmarshal([]byte(r.Output), &ms); err != nil {
		return nil, fmt.Errorf("bench: %w in %q", err, r.Output)
	}
	ping, bash := ms["ping"], ms["bash"]
	return []Row{
		{"tool call from a script (no-op)", ms["noop"], "ms", fmt.Sprintf("socket ping-pong %.3f ms, %.2f×", ping, ms["noop"]/ping), "≤ 2 × ping-pong", ms["noop"] <= 2*ping},
		{"read_file from a script", ms["read"], "ms", "", "≤ 0.3 ms", ms["read"] <= 0.3},
		{"write_file from a script, a new file", ms["write"], "ms", "", "≤ 0.5 ms", ms["write"] <= 0.5},
		{"write_file from a script, replacing one", ms["replace"], "ms", fmt.Sprintf("raw write + rename %.2f ms, %.2f×", ms["raw"], ms["replace"]/ms["raw"]), "≤ raw + 0.5 ms", ms["replace"] <= ms["raw"]+0.5},
		{`terminal("true") from a script`, ms["terminal"], "ms", fmt.Sprintf("bash -c true %.2f ms, %.2f×", bash, ms["terminal"]/bash), "≤ 2 × bash + 2 ms", ms["terminal"] <= 2*bash+2},
		{"1 MB tool result", ms["megabyte"], "ms", fmt.Sprintf("json.loads of it %.2f ms, %.2f×", ms["loads"], ms["megabyte"]/ms["loads"]), "≤ 4 ms", ms["megabyte"] <= 4},
	}, nil
}

// pingPong answers every line with one of the size of a no-op's answer.
func pingPong(l net.Listener) {
	reply := []byte(`{"id":1,"result":{"ok":true}}` + "\n")
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// measureStdout lets a script print a gigabyte and looks at speed and at this
// process's own peak memory meanwhile.
func measureStdout(s *engine.Session) ([]Row, error) {
	const code = "import os\nb = b'0123456789abcde\\n' * 65536\nfor _ in range(1024): os.write(1, b)\n"
	before := resetPeak()
	start := time.Now()
	r, err := s.Run(context.Background(), engine.Script{Code: code})
	if err := outcome(r, err); err != nil {
		return nil, err
	}
	speed := float64(r.StdoutBytes) / (1 << 20) / time.Since(start).Seconds()
	grown := max(0, float64(peakRSS()-before)/(1<<20))
	return []Row{
		{"1 GB of stdout", speed, "MB/s", "", "≥ 500 MB/s", speed >= 500 && r.StdoutBytes == 1<<30},
		{"  memory it cost the engine", grown, "MB", "", "≤ 32 MB", grown <= 32},
	}, nil
}

// resetPeak resets the kernel's peak of resident memory where it lets us, and
// returns the memory in use.
func resetPeak() int64 {
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return statusField("VmRSS:")
}

func peakRSS() int64 { return statusField("VmHWM:") }

func statusField(name string) int64 {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}
