package registry

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// stubClient stands in for the client's source: calls come back as data.
const stubClient = `import json

__all__ = []


def _tool(function):
    __all__.append(function.__name__)
    return function


def _call(tool, args):
    return {"tool": tool, "args": args}
`

func TestPythonModuleGolden(t *testing.T) {
	const golden = "testdata/hermes_tools.golden.py"
	got := PythonModule(stubClient, theSeven())
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the module differs from %s (run with -update and look at the difference):\n%s", golden, got)
	}
}

// The signatures are interface data: scripts are written against them.
func TestPythonSignatures(t *testing.T) {
	module := PythonModule("", theSeven())
	last := 0
	for _, want := range []string{
		`def patch(path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, mode: str = "replace", patch: str = None, cross_profile: bool = False):`,
		`def read_file(path: str, offset: int = 1, limit: int = 500):`,
		`def search_files(pattern: str, target: str = "content", path: str = ".", file_glob: str = None, limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0):`,
		`def terminal(command: str, timeout: int = None, workdir: str = None):`,
		`def web_extract(urls: list):`,
		`def web_search(query: str, limit: int = 5):`,
		`def write_file(path: str, content: str, cross_profile: bool = False):`,
	} {
		at := strings.Index(module, want+"\n")
		if at < last {
			t.Errorf("missing, or not in sorted order: %s", want)
		}
		last = max(at, last)
	}
}

func TestDocLine(t *testing.T) {
	seven := theSeven()
	if got, want := DocLine(seven[0]), "terminal(command: str, timeout: int = None, workdir: str = None): Run a shell command."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := DocLine(echo[struct{}]("ping", "")), "ping()"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every call carries every argument, None included.
func TestPythonPayload(t *testing.T) {
	got := python(t, PythonModule(stubClient, theSeven()), `
print(json.dumps([terminal("ls"), patch("a", old_string="x"), web_extract(["u"]), read_file("p", 2)]))`)
	const want = `[{"tool": "terminal", "args": {"command": "ls", "timeout": null, "workdir": null}},` +
		` {"tool": "patch", "args": {"path": "a", "old_string": "x", "new_string": null, "replace_all": false, "mode": "replace", "patch": null, "cross_profile": false}},` +
		` {"tool": "web_extract", "args": {"urls": ["u"]}},` +
		` {"tool": "read_file", "args": {"path": "p", "offset": 2, "limit": 500}}]`
	if strings.TrimSpace(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Names, texts and defaults that try to end the function they stand in.
func TestPythonModuleWithstandsHostileText(t *testing.T) {
	type in struct {
		Text string         `json:"text" default:"\"\"\"\n\nimport os; os._exit(9)\n\\"`
		Map  map[string]any `json:"map" default:"{\"a'\\\"\": [true, null, 1.5]}"`
	}
	const docs = `""" + __import__("os")._exit(9) + """` + "\x00" +
		`\` + "\x00" +
		`ends in "` + "\x00" +
		`ends in \"` + "\x00" +
		`"""` + "\x00" +
		`""` + "\x00" +
		"null \x01 and \x7f and bell \a and \u202e and \u2028 \xff" + "\x00" +
		"carriage\rreturn\x0cfeed" + "\x00" +
		`{braces} %s \N{DASH} \x41 \u0041 ' ''' quotes` + "\x00" +
		`ünï — 😀` + "\x00" +
		"\n\nfirst line\nsecond line"
	var tools []Tool
	var want []any
	for i, doc := range strings.Split(docs, "\x00") {
		tools = append(tools, echo[in](fmt.Sprintf("probe%02d", i), doc))
		want = append(want, []any{
			strings.ToValidUTF8(Tool{Doc: doc}.Summary(), "ÿ"),
			"\"\"\"\n\nimport os; os._exit(9)\n\\", map[string]any{`a'"`: []any{true, nil, 1.5}},
		})
	}
	out := python(t, PythonModule(stubClient, tools), `
for name in __all__:
    probe = globals()[name]
    print(json.dumps([probe.__doc__, probe()["args"]["text"], probe()["args"]["map"]]))`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(tools) {
		t.Fatalf("%d functions answered, want %d:\n%s", len(lines), len(tools), out)
	}
	for i, line := range lines {
		var got any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("doc %q (-want +got):\n%s", tools[i].Doc, diff)
		}
	}
}

// Names are not escaped, so they are refused, and left out of a module.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		"", "a b", "a-b", "a.b", "a:", "1a", "a\n", "def", "None", "lambda", "print", "json", "os", "_call", "__all__",
		"retry", "aio", "json_parse", "é", "a()", "a\x00", "x(): pass\nimport os; os._exit(9)\ndef y", strings.Repeat("a", 65),
	} {
		tool := echo[struct{}](name, "")
		if _, err := NewRegistry(tool); err == nil {
			t.Errorf("%q was accepted", name)
		}
		if module := PythonModule(stubClient, []Tool{tool}); module != stubClient {
			t.Errorf("%q went into the module:\n%s", name, module)
		}
	}
	for _, name := range []string{"a", "A1", "mcp_server_tool", strings.Repeat("a", 64), "forward", "in_", "jsonx", "xprint"} {
		if _, err := NewRegistry(echo[struct{}](name, "")); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The reserved names are Python's own lists; a newer Python may add to them.
func TestReservedNamesAreComplete(t *testing.T) {
	got := python(t, "import builtins, keyword, json, sys", `
print(json.dumps([n for n in keyword.kwlist + dir(builtins) if n.isidentifier() and not n.startswith("_") and not n[:1].isupper()]))`)
	var names []string
	if err := json.Unmarshal([]byte(got), &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if checkName(name) == nil {
			t.Errorf("a tool may not be called %q", name)
		}
	}
}

// The real client with the real generated functions is a module Python loads.
func TestRealClientLoads(t *testing.T) {
	client, err := os.ReadFile("../rpc/client.py")
	if err != nil {
		t.Fatal(err)
	}
	got := python(t, PythonModule(string(client), theSeven()), `
import inspect
print(sorted(n for n in __all__ if n in globals() and inspect.isfunction(globals()[n])))
print(inspect.signature(read_file), inspect.iscoroutinefunction(aio.read_file))`)
	for _, want := range []string{"'patch'", "'read_file'", "'write_file'", "(path: str, offset: int = 1, limit: int = 500) True"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}

// python runs a module and code after it with a real interpreter.
func python(t *testing.T, module, code string) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on PATH")
	}
	file := filepath.Join(t.TempDir(), "hermes_tools.py")
	if err := os.WriteFile(file, []byte(module+"\n"+code), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, "-I", "-B", file)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), module)
	}
	return string(out)
}
