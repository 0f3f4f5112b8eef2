package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/docker"
	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// noops times a tool call that does nothing, from a script; it prints the median
// in ms.
const noops = `
import statistics, time
from hermes_tools import noop
took = []
for _ in range(300):
    start = time.perf_counter()
    noop()
    took.append((time.perf_counter() - start) * 1e3)
print(statistics.median(took[20:]))
`

// measureDocker compares commands, calls and runs in containers with what the
// docker command takes. It needs a daemon and an image with python3.
func measureDocker(opt Options, dir string) (rows []Row, err error) {
	guest := func(string, string) (string, error) { return filepath.Abs(opt.Binary) }
	backends := map[string]sandbox.Backend{
		"local":  local.New(local.Config{}),
		"docker": docker.New(docker.Config{Host: opt.DockerHost, Image: opt.DockerImage, Guest: guest}),
		"pool":   docker.New(docker.Config{Name: "pool", Host: opt.DockerHost, Image: opt.DockerImage, Guest: guest, Pool: 1}),
	}
	e, err := newEngine(backends)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	ctx := context.Background()
	warm, err := e.Open(ctx, engine.Task{Backend: "docker", WorkDir: dir})
	if err != nil {
		return nil, err
	}
	box, err := backends["docker"].Create(ctx, sandbox.Spec{WorkDir: dir, Profile: sandbox.Profile{Name: "workspace"}})
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), "DOCKER_HOST="+opt.DockerHost)
	client := func(args ...string) func() error {
		return func() error {
			cmd := exec.Command("docker", args...)
			cmd.Env = env
			return cmd.Run()
		}
	}
	plain := fmt.Sprintf("hxbench-%d", os.Getpid())
	if err := client("run", "-d", "--rm", "--name", plain, "--init", opt.DockerImage, "sleep", "600")(); err != nil {
		return nil, fmt.Errorf("docker run: %w", err)
	}
	defer client("rm", "-f", plain)()
	task, err := Task(dir, "workspace")
	if err != nil {
		return nil, err
	}
	task.Backend = "local"
	t := series{}
	once := func(name string, task engine.Task) (err error) { // without the session's end: the result is there before
		var s *engine.Session
		err = t.time(name, func() (err error) {
			if s, err = e.Open(ctx, task); err == nil {
				err = runOnce(s, pass)
			}
			return err
		})
		if s != nil {
			err = errors.Join(err, s.Close(ctx))
		}
		return err
	}
	pooled := engine.Task{Backend: "pool", WorkDir: dir}
	if err := errors.Join(once("filling the pool", pooled), runOnce(warm, pass)); err != nil {
		return nil, err
	}
	for range max(opt.Rounds/4, 3) {
		time.Sleep(time.Second) // in which the pool is filled again
		if err := errors.Join(
			t.time("command", start(box)), t.time("exec", client("exec", plain, "/bin/true")),
			t.time("warm", func() error { return runOnce(warm, pass) }), once("cold", task),
			once("pooled", pooled), t.time("run", client("run", "--rm", opt.DockerImage, "python3", "-c", "pass")),
		); err != nil {
			return nil, err
		}
	}
	call, err := callsOf(warm)
	if err != nil {
		return nil, err
	}
	command, execed, w, cold, p, run := median(t["command"]), median(t["exec"]), median(t["warm"]), median(t["cold"]), median(t["pooled"]), median(t["run"])
	return []Row{
		{"command in a warm docker session", command, "ms", fmt.Sprintf("docker exec %.1f ms, %.3f×", execed, command/execed), "≤ 0.1 × docker exec", command <= 0.1*execed},
		{"tool call from a script in docker", call, "ms", "", "≤ 0.3 ms", call <= 0.3},
		{"run of pass in a warm docker session", w, "ms", fmt.Sprintf("local, cold %.1f ms, %+.1f ms", cold, w-cold), "≤ local cold + 10 ms", w <= cold+10},
		{"first run in docker, warm pool", p, "ms", fmt.Sprintf("docker run %.0f ms, %.2f×", run, p/run), "≤ 0.3 × docker run", p <= 0.3*run},
	}, nil
}

// measureSSH compares a command and a call with what OpenSSH takes for a command
// over a connection it keeps.
func measureSSH(opt Options, dir string) ([]Row, error) {
	guest := func(string, string) (string, error) { return filepath.Abs(opt.Binary) }
	const host = "hermes-test"
	backend := ssh.New(ssh.Config{Host: host, ConfigFile: opt.SSHConfig, Guest: guest})
	e, err := newEngine(map[string]sandbox.Backend{"local": backend})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	ctx := context.Background()
	s, err := e.Open(ctx, engine.Task{WorkDir: dir})
	if err != nil {
		return nil, err
	}
	box, err := backend.Create(ctx, sandbox.Spec{WorkDir: dir, Profile: sandbox.Profile{Name: "workspace"}})
	if err != nil {
		return nil, err
	}
	control := filepath.Join(dir, "control")
	client := func(args ...string) func() error {
		return exec.Command("ssh", append([]string{"-F", opt.SSHConfig, "-S", control}, args...)...).Run
	}
	if err := client("-M", "-N", "-f", host)(); err != nil {
		return nil, fmt.Errorf("ssh -M: %w", err)
	}
	defer client("-O", "exit", host)()
	t := series{}
	for range opt.Rounds {
		if err := errors.Join(t.time("command", start(box)), t.time("control", client(host, "true"))); err != nil {
			return nil, err
		}
	}
	call, err := callsOf(s)
	if err != nil {
		return nil, err
	}
	command, control2 := median(t["command"]), median(t["control"])
	return []Row{
		{"command on a live ssh connection", command, "ms", fmt.Sprintf("ssh -S %.1f ms, %.2f×", control2, command/control2), "≤ 0.3 × ssh -S", command <= 0.3*control2},
		{"tool call from a script over ssh", call, "ms", "", "≤ 0.5 ms", call <= 0.5},
	}, nil
}

// start runs /bin/true in a box.
func start(box sandbox.Sandbox) func() error {
	return func() error {
		p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}})
		if err == nil {
			_, err = p.Wait()
		}
		return err
	}
}

// callsOf is the median of a call that does nothing, in ms.
func callsOf(s *engine.Session) (ms float64, err error) {
	r, err := s.Run(context.Background(), engine.Script{Code: noops})
	if err = outcome(r, err); err == nil {
		err = json.Unmarshal([]byte(r.Output), &ms)
	}
	return ms, err
}
