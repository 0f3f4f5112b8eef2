package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// stub shows a function of hermes_tools: its signature, the beginning of its
// documentation, and what it would send for some arguments.
func stub(name, signature, doc, args, payload string) func(*testing.T) {
	return printsWith(realTools, `
import hermes_tools as h, inspect, json
print(inspect.signature(h.`+name+`))
print(h.`+name+`.__doc__.startswith("`+doc+`") or h.`+name+`.__doc__)
h._call = lambda tool, args: json.dumps([tool, args])
print(h.`+name+args+`)
`, signature+"\nTrue\n[\""+name+"\", "+payload+"]\n")
}

// stubRows are those of section 1.9 about hermes_tools.py.
func stubRows() []row {
	return []row{
		{id: "1.9/1 imports", beaten: "socket, shlex and threading are not loaded: that costs milliseconds", test: printsWith(realTools, `
import sys
before = set(sys.modules)
import hermes_tools
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(new & {"socket", "shlex", "threading", "tempfile"}, {"hermes_tools"} <= new <= set(sys.stdlib_module_names) | {"hermes_tools"})
from hermes_tools import *
print(json_parse("[1]"), callable(read_file), "json" in globals())
`, "set() True\n[1] True False\n")},

		{id: "1.9/2 functions sorted, payloads whole", test: printsWith(realTools, `
import hermes_tools as h
names = [n for n in h.__all__ if n != "sandbox" and callable(getattr(h, n)) and getattr(getattr(h, n), "__code__", None) and "_call" in getattr(h, n).__code__.co_names]
print(names == sorted(names), len(names))
h._call = lambda tool, args: args
print(all(set(getattr(h, n)(*[None] * getattr(h, n).__code__.co_argcount)) == set(getattr(h, n).__code__.co_varnames[:getattr(h, n).__code__.co_argcount]) for n in names))
`, "True 7\nTrue\n")},

		{id: "1.9/3 web_search", test: stub("web_search", "(query: str, limit: int = 5)", "Search the web. Returns dict with", "('q')", `{"query": "q", "limit": 5}`)},
		{id: "1.9/4 web_extract", test: stub("web_extract", "(urls: list)", "Read web pages. Returns dict with", "(['u'])", `{"urls": ["u"]}`)},
		{id: "1.9/5 read_file", test: stub("read_file", "(path: str, offset: int = 1, limit: int = 500)", "Read a file (1-indexed lines). Returns dict with", "('p', 2)", `{"path": "p", "offset": 2, "limit": 500}`)},
		{id: "1.9/6 write_file", test: stub("write_file", "(path: str, content: str, cross_profile: bool = False)", "Write content to a file (always overwrites). Returns dict with status.", "('p', 'c')", `{"path": "p", "content": "c", "cross_profile": false}`)},
		{id: "1.9/7 search_files", test: stub("search_files", "(pattern: str, target: str = 'content', path: str = '.', file_glob: str = None, limit: int = 50, offset: int = 0, output_mode: str = 'content', context: int = 0)",
			"Search file contents (target=", "('x')", `{"pattern": "x", "target": "content", "path": ".", "file_glob": null, "limit": 50, "offset": 0, "output_mode": "content", "context": 0}`)},
		{id: "1.9/8 patch", test: stub("patch", "(path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, mode: str = 'replace', patch: str = None, cross_profile: bool = False)",
			"Replace a passage in a file, or apply a patch.", "('a', new_string='y')", `{"path": "a", "old_string": null, "new_string": "y", "replace_all": false, "mode": "replace", "patch": null, "cross_profile": false}`)},
		{id: "1.9/9 terminal", test: stub("terminal", "(command: str, timeout: int = None, workdir: str = None)", "Run a shell command (foreground only). Returns dict with", "('ls')", `{"command": "ls", "timeout": null, "workdir": null}`)},

		{id: "1.9/10 json_parse and shell_quote", test: prints(`
from hermes_tools import json_parse, shell_quote
print(json_parse('{"a": "x\ny\tz"}'), shell_quote("it's; rm"))
`, `{'a': 'x\ny\tz'} 'it'"'"'s; rm'`+"\n")},

		{id: "1.9/11 retry", test: prints(`
import hermes_tools as h, inspect
print(inspect.signature(h.retry))
slept = []; h._sleep = slept.append
def fail(until):
    calls = []
    def fn():
        calls.append(1)
        if len(calls) < until: raise ValueError(len(calls))
        return len(calls)
    return fn
print(h.retry(fail(1)), h.retry(fail(3)), slept)
try: h.retry(fail(9), max_attempts=4, delay=0.5)
except ValueError as e: print(e, slept)
`, "(fn, max_attempts=3, delay=2)\n1 3 [2, 4]\n4 [2, 4, 0.5, 1.0, 2.0]\n")},

		{id: "1.9/12 _call and its lock", beaten: "no lock: each thread has a connection of its own, and calls run side by side", test: printsWith(meeting(8), `
import threading, hermes_tools as h
answers = []
threads = [threading.Thread(target=lambda: answers.append(h._call("extra", {}))) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(answers)
`, "['met', 'met', 'met', 'met', 'met', 'met', 'met', 'met']\n")},

		{id: "1.9/13 return value", test: printsWith(answering(`{"a": 1}`, `[1]`, `plain text`, `"quoted"`, ``, `{broken`), `
import hermes_tools as h
print([h.extra() for _ in range(6)])
`, `[{'a': 1}, [1], 'plain text', 'quoted', '', '{broken']`+"\n")},
	}
}

// answerRows are those of section 1.9 about what real tools answer to a script.
func answerRows() []row {
	return []row{
		{id: "1.9/14 answer of terminal", test: printsWith(realTools, `
import hermes_tools as h
print(h.terminal("echo hi; exit 3"))
print(sorted(h.terminal("rm -rf /")), h.terminal("rm -rf /")["status"])
`, "{'output': 'hi', 'exit_code': 3, 'error': None}\n['error', 'exit_code', 'output', 'status'] blocked\n")},

		{id: "1.9/15 answer of read_file", beaten: "the file as it is, without line numbers, as often as it is asked for", test: printsWith(realTools, `
import hermes_tools as h
with open("f", "w") as f: f.write("a\nb\n")
answers = [h.read_file("f") for _ in range(5)]
print(answers[0], all(a == answers[0] for a in answers))
`, "{'content': 'a\\nb\\n', 'total_lines': 2, 'file_size': 4, 'truncated': False, 'is_binary': False, 'is_image': False} True\n")},

		{id: "1.9/16 answer of search_files", beaten: "never blocked for asking again", test: printsWith(realTools, `
import hermes_tools as h
with open("f.txt", "w") as f: f.write("hay\nneedle\n")
answers = [h.search_files("needle") for _ in range(5)]
print(answers[0], all(a == answers[0] for a in answers), h.search_files("*.txt", target="files"))
`, "{'total_count': 1, 'matches': [{'path': 'f.txt', 'line': 2, 'content': 'needle'}]} True {'total_count': 1, 'files': ['f.txt']}\n")},

		{id: "1.9/17 answer of write_file", test: printsWith(realTools, `
import hermes_tools as h, os
r = h.write_file("new/f.txt", "hé\n")
here = os.path.realpath("new/f.txt")
print(r.pop("resolved_path") == here, r.pop("files_modified") == [here], r, open("new/f.txt", encoding="utf-8").read())
`, "True True {'bytes_written': 4, 'dirs_created': True, 'lint': {'status': 'skipped', 'message': 'No linter for .txt files'}} hé\n\n")},

		{id: "1.9/18 answer of patch", test: printsWith(realTools, `
import hermes_tools as h, os
with open("f.txt", "w") as f: f.write("a\n")
r = h.patch("f.txt", "a", "b")
here = os.path.realpath("f.txt")
print(r.pop("resolved_path") == here, r.pop("files_modified") == [here], r)
r = h.patch("f.txt", "a\n\nnope", "b")
print(r["success"], r["error"])
`, "True True {'success': True, 'diff': '--- a/f.txt\\n+++ b/f.txt\\n@@ -1 +1 @@\\n-a\\n+b\\n', 'lint': {'status': 'skipped', 'message': 'No linter for .txt files'}}\n"+
			"False Could not find a match for old_string in the file\n")},

		{id: "1.9/19 foreground limits of terminal", test: shows(`
import hermes_tools as h
print(h.terminal("touch ran", timeout=601))
print(h.terminal("touch ran; sleep 600 &"))
import os; print(os.path.exists("ran"))
`, realTools, func(t *testing.T, r Result) {
			lines := strings.Split(r.Output, "\n")
			if len(lines) != 4 || lines[2] != "False" ||
				lines[0] != "{'error': 'Foreground timeout 601s exceeds the maximum of 600s. Use background=true with notify_on_complete=true for long-running commands.'}" ||
				!strings.Contains(lines[1], "'exit_code': -1") || !strings.Contains(lines[1], "'&'") {
				t.Error(r.Output, r.Stderr)
			}
		})},
	}
}

// oneTool gives a session the tool "extra" alone.
func oneTool(run func(context.Context) (string, error)) change {
	return func(c *Config, task *Task, _ *Script) {
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("extra", "t", "For tests.", func(ctx context.Context, _ registry.Caller, _ struct{}) (string, error) { return run(ctx) })}
		}
		task.Tools = []string{"extra"}
	}
}

// meeting makes a tool that answers when n calls of it are under way.
func meeting(n int) change {
	seats, met := make(chan struct{}, n), make(chan struct{})
	return oneTool(func(ctx context.Context) (string, error) {
		seats <- struct{}{}
		if len(seats) == n {
			close(met)
		}
		select {
		case <-met:
			return "met", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
}

// answering makes a tool that answers with one text after the other.
func answering(texts ...string) change {
	next := 0
	return oneTool(func(context.Context) (string, error) {
		next++
		return texts[next-1], nil
	})
}
