package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// wireRows are those of section 1.10.
func wireRows() []row {
	return []row{
		{id: "1.10/1 framing", beaten: "an id and a token on every request; without the token the connection ends", test: prints(rawClient+`
link.sendall(request(7, "read_file", text="é世\n").encode("utf-8"))
line = lines.readline()
print(json.loads(line)["id"], json.loads(line)["result"]["text"] == "é世\n", line.count("\n"), line[-1] == "\n")
stranger = socket.socket(socket.AF_UNIX); stranger.connect(os.environ["HERMES_RPC_SOCKET"])
stranger.sendall(b'{"tool": "read_file", "args": {}}\n') # all the reference asks for
print(stranger.makefile().read())
`, "7 True 1 True\n"+`{"id":null,"error":{"code":"unauthorized","message":"missing or wrong token"}}`+"\n\n")},

		{id: "1.10/2 requests and replies", beaten: "a result is encoded again: a raw newline in it breaks no frame", test: printsWith(newlines(), `
import hermes_tools as h
print([h.extra() for _ in range(3)] == [{"a": [1, 2]}] * 3)
`, "True\n")},

		{id: "1.10/3 blank lines and pipelining", test: prints(rawClient+`
link.sendall(("\n \n" + request(1, "read_file", text="1") + "\r\n" + request(2, "read_file", text="2") + "\n" + request(3, "read_file", text="3")).encode())
print(sorted((r["id"], r["result"]["text"]) for r in (json.loads(lines.readline()) for _ in range(3))))
`, "[(1, '1'), (2, '2'), (3, '3')]\n")},

		{id: "1.10/4 order of the checks", test: shows(rawClient+`
print(say("{bad\n")["error"]["code"])
print(ask(1, "nope")["result"]["error"][:32])
print(ask(2, "read_file")["result"]["error"][:28])
`, func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = NoToolCalls }, func(t *testing.T, r Result) {
			wantOutput(t, r, "invalid\nTool 'nope' is not available in \nTool call limit reached (0).\n")
			equals(r.ToolCallsMade, 0)(t)
		})},

		{id: "1.10/5 arguments a script cannot give", beaten: "an unknown one is named, instead of passed through", test: printsWith(realTools, `
import hermes_tools as h, inspect
print([n for n in ("background", "pty", "notify_on_complete", "watch_patterns") if n in inspect.signature(h.terminal).parameters])
print(h._call("terminal", {"command": "echo hi", "background": True, "pty": True, "notify_on_complete": True, "watch_patterns": ["x"]}))
print(h._call("terminal", {"command": "echo hi", "force": True})["error"].split(";")[0])
`, "[]\n{'output': 'hi', 'exit_code': 0, 'error': None}\nterminal: unknown field \"force\"\n")},

		{id: "1.10/6 standard output of handlers", beaten: "nothing global is swapped: two runs at once do not meet", test: func(t *testing.T) {
			stdout, stderr := os.Stdout, os.Stderr
			setup := meeting(2)
			e := newEngine(t, func(c *Config) { setup(c, &Task{}, nil) })
			s := open(t, e, Task{Tools: []string{"extra"}})
			results := make(chan Result, 2)
			for _, name := range []string{"one", "two"} {
				go func() {
					r, _ := s.Run(t.Context(), Script{Code: "import hermes_tools as h\nprint('" + name + "', h.extra())"})
					results <- r
				}()
			}
			got := []string{(<-results).Output, (<-results).Output}
			slices.Sort(got)
			equals(strings.Join(got, ""), "one met\ntwo met\n")(t)
			if os.Stdout != stdout || os.Stderr != stderr {
				t.Error("the process's own streams were swapped")
			}
		}},

		{id: "1.10/7 count and log", beaten: "the log is in the result, secrets masked", test: shows(`
import hermes_tools as h
h.read_file("sk-aB3dE5gH7jK9mN1pQaB3dE5gH7jK9mN"); h.write_file(); h._call("nope", {}); h._call("read_file", {"wrong": 1})
`, nil, func(t *testing.T, r Result) {
			var log strings.Builder
			for _, c := range r.ToolCalls {
				fmt.Fprintf(&log, "%s %s %v\n", c.Tool, c.ArgsPreview, c.OK)
			}
			equals(log.String(), `read_file {"text":"sk-aB3...K9mN"} true`+"\nwrite_file {} false\n"+`read_file {"wrong":1} false`+"\n")(t)
			equals(r.ToolCallsMade, 3)(t)
		})},

		{id: "1.10/8 throughput", test: shows(`
import hermes_tools as h
print(sum(h.read_file(str(i))["text"] == str(i) for i in range(5000)))
`, func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = 5000 }, func(t *testing.T, r Result) {
			wantOutput(t, r, "5000\n")
			equals(r.ToolCallsMade, 5000)(t)
		})},

		{id: "1.10/9 threads, forks, second connections", beaten: "forks and other processes are served too, side by side", test: printsWith(
			func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = 1000 }, `
import multiprocessing, os, subprocess, sys, threading
import hermes_tools as h
def own(n):
    return all(h.read_file("%d-%d" % (n, i))["text"] == "%d-%d" % (n, i) for i in range(20))
own(0)
answers = []
threads = [threading.Thread(target=lambda n=n: answers.append(own(n))) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(answers.count(True))
with multiprocessing.get_context("fork").Pool(4) as pool: print(pool.map(own, range(8)).count(True))
child = "import hermes_tools as h; print(h.read_file('from a child')['text'])"
print(subprocess.run([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True).stdout, own(9))
`, "8\n8\nfrom a child\n True\n")},
	}
}

// newlines makes a tool whose answer is JSON on several lines.
func newlines() change {
	return func(c *Config, task *Task, _ *Script) {
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("extra", "t", "For tests.", func(context.Context, registry.Caller, struct{}) (string, error) {
				return "{\n\"a\": [1,\n" + strings.Repeat(" ", 65_536) + "2]\n}\n", nil
			})}
		}
		task.Tools = []string{"extra"}
	}
}
