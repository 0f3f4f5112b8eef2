package seccomp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python is ordinary work, each line of its output a piece that went well.
const python = `
import asyncio, ctypes, mmap, multiprocessing, os, pty, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time, http.server, urllib.request

def square(x): return x * x

def put(q, x): q.put(x)

if __name__ == "__main__":
    seen = []
    threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(20)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert sorted(seen) == list(range(20)); print("threads")

    for how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            assert pool.map(square, range(8)) == [x * x for x in range(8)]
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=put, args=(q, 7)); p.start()
    assert q.get(timeout=30) == 7; p.join(); print("multiprocessing")

    out = subprocess.run("seq 5 | sort -r | head -1", shell=True, capture_output=True, text=True)
    assert out.stdout == "5\n", out; print("subprocess")

    async def talk():
        async def echo(r, w):
            w.write(await r.readline()); await w.drain(); w.close()
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
        w.write(b"hi\n"); line = await r.readline()
        w.close(); server.close()
        p = await asyncio.create_subprocess_exec("echo", "x", stdout=subprocess.PIPE)
        return line, (await p.communicate())[0]
    assert asyncio.run(talk()) == (b"hi\n", b"x\n"); print("asyncio")

    db = sqlite3.connect("wal.db")
    assert db.execute("pragma journal_mode=wal").fetchone()[0] == "wal"
    db.execute("create table t (x)"); db.execute("insert into t values (1)"); db.commit()
    assert sqlite3.connect("wal.db").execute("select x from t").fetchone() == (1,); print("sqlite")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    server = http.server.ThreadingHTTPServer(("localhost", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert opener.open("http://localhost:%d/wal.db" % server.server_port).status == 200
    server.shutdown(); server.server_close(); print("http")

    pid, fd = pty.fork()
    if pid == 0: os.execvp("tty", ["tty"])
    assert os.read(fd, 100).startswith(b"/dev/"); os.waitpid(pid, 0); print("pty")
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("x"); os.write(fd, b"y"); os.close(fd)
    with tempfile.TemporaryDirectory() as d:
        os.mkfifo(d + "/fifo"); os.link("wal.db", d + "/link") if os.stat(d).st_dev == os.stat(".").st_dev else None
    print("files")
`

func TestOrdinaryWork(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("work.py", python)
	write("hello.js", `
const fs = require("fs"), cp = require("child_process"), {Worker} = require("worker_threads");
(async () => {
  await fs.promises.writeFile("x.txt", "x");
  if (await fs.promises.readFile("x.txt", "utf8") !== "x") throw "read";
  if (cp.execFileSync("echo", ["y"]).toString() !== "y\n") throw "exec";
  await new Promise((ok, bad) => new Worker("process.exit(0)", {eval: true}).on("exit", ok).on("error", bad));
  const server = require("http").createServer((q, r) => r.end("z")).listen(0, "127.0.0.1", () =>
    require("http").get({port: server.address().port, host: "127.0.0.1"}, r => r.on("data", d => { console.log("" + d); server.close(); })));
})();`)
	write("go.mod", "module hello\ngo 1.24\n")
	write("hello.go", "package main\n\nfunc main() { print(\"hello\") }\n")

	for _, work := range []struct {
		name, needs, want string
		env               []string
		args              []string
	}{
		{"python", "python3", "threads\nmultiprocessing\nsubprocess\nasyncio\nsqlite\nhttp\npty\nfiles\n", nil, []string{"python3", "work.py"}},
		{"node", "node", "z\n", nil, []string{"node", "hello.js"}},
		{"node with io_uring", "node", "z\n", []string{"UV_USE_IO_URING=1"}, []string{"node", "hello.js"}},
		{"go version", "go", "go version", nil, []string{"go", "version"}},
		{"go build", "go", "hello", nil, []string{"sh", "-c", "go build -o hello . && ./hello 2>&1"}},
		{"git", "git", "nothing to commit", nil, []string{"sh", "-c", "git init -q repo && cd repo && touch f && git add f && " +
			"git -c user.name=n -c user.email=e commit -qm m && git gc -q && git status"}},
		{"shell", "bash", "55\n", nil, []string{"bash", "-c", `n=0; while read x; do n=$((n+x)); done < <(seq 10); wait $!; echo $n`}},
	} {
		t.Run(work.name, func(t *testing.T) {
			if _, err := exec.LookPath(work.needs); err != nil {
				t.Skip(err)
			}
			cmd := command(t, "filter", work.args...)
			cmd.Dir = dir
			cmd.Env = append(append(cmd.Env, "GOFLAGS=", "GOTOOLCHAIN=local", "GIT_CONFIG_GLOBAL=/dev/null"), work.env...)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), work.want) {
				t.Errorf("%v: %v\n%s", work.args, err, out)
			}
		})
	}
}

func TestWithoutNetworkPipesAndSocketPairsWork(t *testing.T) {
	script := `
import multiprocessing, asyncio, socket
def put(q): q.put(1)
q = multiprocessing.Queue(); p = multiprocessing.Process(target=put, args=(q,)); p.start(); q.get(timeout=30); p.join()
asyncio.run(asyncio.sleep(0))
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
for family in socket.AF_INET, socket.AF_INET6:
    try: socket.socket(family); print("open")
    except PermissionError: print("closed")
`
	for how, want := range map[string]string{"filter-offline": "closed\nclosed\n", "filter": "open\nopen\n"} {
		if out, err := command(t, how, "python3", "-c", script).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v %s", how, err, out)
		}
	}
}
