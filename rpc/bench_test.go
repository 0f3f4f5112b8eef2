package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// page is a tool result of about 1 MB as read_file gives it: lines of text.
func page() json.RawMessage {
	line := strings.Repeat("the quick brown fox jumps over the lazy dog ", 2) + "\n"
	raw, err := json.Marshal(map[string]string{"content": strings.Repeat(line, 1_000_000/len(line))})
	if err != nil {
		panic(err)
	}
	return raw
}

func BenchmarkParseRequest(b *testing.B) {
	line := []byte(`{"id":12345,"token":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","tool":"noop","args":{"x":1}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseRequest(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	result := page()
	b.SetBytes(int64(len(result)))
	for b.Loop() {
		fit(result, 16<<20)
	}
}

// BenchmarkCall is the server alone: one connection, one call at a time, next
// to a bare echo of the same bytes.
func BenchmarkCall(b *testing.B) {
	s := serve(b, Config{Handler: func(context.Context, Call) json.RawMessage { return json.RawMessage(`{"ok":true}`) }})
	request := []byte(`{"id":12345,"token":"` + s.cfg.Token + `","tool":"noop","args":{"x":1}}` + "\n")
	b.Run("call", func(b *testing.B) {
		roundTrips(b, s.dial(b), request)
	})
	b.Run("echo", func(b *testing.B) {
		path := echoServer(b, []byte(`{"id":12345,"result":{"ok":true}}`+"\n"))
		nc, err := net.Dial("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		roundTrips(b, nc, request)
	})
}

func roundTrips(b *testing.B, nc net.Conn, request []byte) {
	b.ReportAllocs()
	in := bufio.NewReader(nc)
	for b.Loop() {
		if _, err := nc.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
}

// echoServer answers each line with the same bytes: the floor under any call.
func echoServer(tb testing.TB, answer []byte) string {
	path := filepath.Join(shortDir(tb), "echo")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := nc.Read(buf)
					if err != nil {
						return
					}
					if bytes.HasSuffix(buf[:n], []byte("\n")) {
						if _, err := nc.Write(answer); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return path
}

// BenchmarkPython measures a real script: a call against a bare socket
// round trip of the same bytes, taken in turns by the same process, and a 1 MB
// result. Medians are reported; ns/op means nothing here.
func BenchmarkPython(b *testing.B) {
	big := page()
	s := serve(b, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		if c.Tool == "page" {
			return big
		}
		return json.RawMessage(`{"ok":true}`)
	}})
	echo := echoServer(b, []byte(`{"id":12345,"result":{"ok":true}}`+"\n"))
	for _, version := range pythons(b) {
		b.Run(version.name, func(b *testing.B) {
			for b.Loop() {
				out, err := s.python(b, version.path, `
import json, os, socket, sys, time
from hermes_tools import noop, page
raw = socket.socket(socket.AF_UNIX)
raw.connect(sys.argv[1])
line = b'{"id":12345,"token":"%s","tool":"noop","args":{"x":1}}\n' % os.environ["HERMES_RPC_TOKEN"].encode()
def echo():
    raw.sendall(line)
    raw.recv(65536)
clock = time.perf_counter
def measure(functions, rounds, inner):
    took = [[] for _ in functions]
    for _ in range(rounds):
        for f, t in zip(functions, took):
            for _ in range(inner):
                begin = clock()
                f()
                t.append(clock() - begin)
    return [sorted(t)[len(t) // 2] * 1e6 for t in took]
measure([echo, noop], 5, 200)
print(*measure([echo, noop], 50, 200), *measure([page], 40, 1))
`, echo).CombinedOutput()
				if err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				var raw, call, mb float64
				if _, err := fmt.Sscan(string(out), &raw, &call, &mb); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				b.ReportMetric(raw, "echo-µs")
				b.ReportMetric(call, "call-µs")
				b.ReportMetric(call/raw, "ratio")
				b.ReportMetric(mb/1000, "1MB-ms")
			}
		})
	}
}
