package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkTools measures the tools as a script calls them, without the wire.
func BenchmarkTools(b *testing.B) {
	e := setup(b, nil)
	e.file("small.txt", strings.Repeat("a line of some length\n", 40))
	e.file("1mb.txt", strings.Repeat("a line of some length, more or less\n", 1<<20/36))
	big, _ := json.Marshal(args{"path": "w.txt", "content": strings.Repeat("a line of text\n", 60)})
	js, _ := json.Marshal(args{"path": "w.json", "content": `{"a": [1, 2, 3]}`})
	for _, bm := range []struct{ name, tool, in string }{
		{"read small", "read_file", `{"path":"small.txt"}`},
		{"read 1MB", "read_file", `{"path":"1mb.txt","limit":0}`},
		{"read page of 1MB", "read_file", `{"path":"1mb.txt","offset":20000}`},
		{"write small", "write_file", string(big)},
		{"write json", "write_file", string(js)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if out := e.reg.Dispatch(context.Background(), script, bm.tool, []byte(bm.in)); len(out) < 60 {
					b.Fatalf("%s", out)
				}
			}
		})
	}
}
