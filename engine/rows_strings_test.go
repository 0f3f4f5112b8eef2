package engine

import (
	"strings"
	"testing"
)

// stringRows are those of section 1.4.
func stringRows() []row {
	return []row{
		{id: "1.4/1 truncation notice", beaten: "W3: counts bytes, never cuts a character, comes also when the tail is empty", test: all(
			prints("print('é' * 25_000, end='')", strings.Repeat("é", 25_000)),
			shows("print('😀' * 15_001, end='')", nil, func(t *testing.T, r Result) {
				const fault = "48,192 chars omitted out of 60,001 total"
				head, tail := strings.Repeat("😀", 5_000), strings.Repeat("😀", 7_500)
				want := head + "\n\n... [OUTPUT TRUNCATED - 10,004 bytes omitted out of 60,004 total] ...\n\n" + tail
				if strings.Contains(r.Output, fault) || r.Output != want {
					t.Errorf("%d bytes: %q", len(r.Output), r.Output[len(head):len(head)+90])
				}
			}))},

		{id: "1.4/2 disallowed tool", test: shows("import hermes_tools as h, json\nprint(json.dumps(h._call('nopé', {})))", nil, func(t *testing.T, r Result) {
			wantOutput(t, r, `{"error": "Tool 'nop\u00e9' is not available in execute_code. Available: patch, read_file, terminal, write_file"}`+"\n")
			equals(r.ToolCallsMade, 0)(t)
		})},

		{id: "1.4/3 call limit", test: func(t *testing.T) {
			r := run(t, "import hermes_tools as h, json\nprint(json.dumps([h.read_file('x')['text'], h.read_file('x'), h._call('nope', {})]))", func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = 1 })
			wantOutput(t, r, `["x", {"error": "Tool call limit reached (1). No more tool calls allowed in this execution."}, {"error": "Tool 'nope' is not available in execute_code. Available: patch, read_file, terminal, write_file"}]`+"\n")
			equals(r.ToolCallsMade, 1)(t)
			printsWith(func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = NoToolCalls },
				"import hermes_tools as h\nprint(h.read_file('x')['error'])", "Tool call limit reached (0). No more tool calls allowed in this execution.\n")(t)
		}},

		{id: "1.4/4 bad JSON line", test: shows(rawClient+`
print(say("{bad\n")["error"]["message"])
print(say("[1,2]\n")["error"]["message"]) # the reference's server died of this one
print(ask(1, "read_file", text="still here")["result"]["text"])
`, nil, func(t *testing.T, r Result) {
			wantOutput(t, r, "Invalid RPC request: expected a member name at byte 1\nInvalid RPC request: expected an object at byte 0\nstill here\n")
			equals(r.ToolCallsMade, 1)(t)
		})},

		{id: "1.4/5 handler error", test: shows("import hermes_tools as h\nprint(h.write_file(), h.write_file())", nil, func(t *testing.T, r Result) {
			wantOutput(t, r, "{'error': 'disk on fire'} {'error': 'disk on fire'}\n")
			if r.ToolCallsMade != 2 || len(r.ToolCalls) != 2 || r.ToolCalls[1].Tool != "write_file" || r.ToolCalls[1].OK {
				t.Errorf("%s", r.JSON())
			}
		})},

		{id: "1.4/6 lost server", test: prints(`
import os, socket, tempfile, threading
import hermes_tools as h
with tempfile.TemporaryDirectory(dir=os.path.dirname(__file__)) as d:
    for answer in (b"", b'{"id":1,"res'):
        path = d + "/%d" % len(answer)
        server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
        def hang_up():
            link = server.accept()[0]
            link.recv(65536); link.sendall(answer); link.close()
        thread = threading.Thread(target=hang_up); thread.start()
        os.environ["HERMES_RPC_SOCKET"] = path
        try: h.read_file("x")
        except RuntimeError as e: print(e)
        thread.join()
    os.environ["HERMES_RPC_SOCKET"] = d + "/nobody"
    try: h.read_file("x")
    except RuntimeError as e: print(e)
`, strings.Repeat("Agent process disconnected\n", 3))},

		{id: "1.4/7 what the documentation promised", beaten: "one notice, and the description tells the cap in force", test: func(t *testing.T) {
			const fault = "[output truncated at 50KB]"
			e := newEngine(t, func(c *Config) { c.Limits.Stdout = 20_000 })
			text := e.ExecuteCode([]string{"read_file"}, nil).Doc
			if strings.Contains(text, fault) || !strings.Contains(text, "20KB stdout cap") {
				t.Error(text)
			}
			r := run(t, "print('x' * 60_000)", nil)
			if strings.Contains(r.Output, fault) || strings.Count(r.Output, "TRUNCATED") != 1 {
				t.Errorf("%.100s", r.Output[20_000:])
			}
		}},
	}
}

// rawClient is the beginning of a script that speaks on the tool socket by
// itself, without hermes_tools.
const rawClient = `
import json, os, socket
link = socket.socket(socket.AF_UNIX); link.connect(os.environ["HERMES_RPC_SOCKET"])
lines = link.makefile(encoding="utf-8", newline="\n")
def request(id, tool, **args):
    return json.dumps({"id": id, "token": os.environ["HERMES_RPC_TOKEN"], "tool": tool, "args": args}) + "\n"
def say(text):
    link.sendall(text.encode()); return json.loads(lines.readline())
def ask(id, tool, **args):
    return say(request(id, tool, **args))
`
