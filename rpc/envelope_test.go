package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParseRequest compares the parser with a slow one made of encoding/json.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"token":"T","tool":"read_file","args":{"path":"a"}}`,
		`{"id":9007199254740992,"token":"","tool":"","args":{}}`,
		`{"id":9007199254740993,"token":"T","tool":"x"}`,
		`{"\u0069d":0,"tok\u0065n":"\u0054","tool":"\ud83d\ude00"}`,
		`{"id":1,"id":2,"tool":"x"}`, `{"id":-0,"tool":"x"}`, `{"id":00,"tool":"x"}`,
		`{"id":1,"tool":"x","args":{"a":[1,2.5e+3,-0.0,true,false,null,"\\\"\/\b\f\n\r\t"]}}`,
		`{"id":1,"tool":"x","args":[]}`, `{"id":1,"tool":"x","more":1}`,
		`{"id":1,"tool":"\ud800"}`, `{"id":1,"tool":"\udc00\ud800"}`, `{"id":1,"tool":"\ud800\ud800"}`, `{"id":1,"tool":"\ud800x"}`,
		`{"id":1,"tool":"\\ud800"}`, "{\"id\":1,\"tool\":\"\xff\"}", "{\"id\":1,\"tool\":\"\x1f\"}", `{"id":1,"tool":"` + "\x7f\u2028" + `"}`,
		`{}`, `{ }`, `[]`, `null`, `"x"`, `1`, ``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}}`, `{"a":1} x`, `{,}`, `{"a" 1}`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":-}`, `{"a":tru}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":"\u12`,
		`{"a":` + strings.Repeat("[", 498) + strings.Repeat("]", 498) + `}`,
		`{"a":` + strings.Repeat("[", 499) + strings.Repeat("]", 499) + `}`,
		`{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
		"{\"a\":1}\r", "\ufeff{}", "\v{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // never in a line
		}
		got, err := parseRequest(line)
		want, ok := slowParse(line)
		if (err == nil) != ok {
			t.Fatalf("error %v, but the slow parser says %v", err, ok)
		}
		if err != nil {
			return
		}
		if (got.fault == "") != !want.faulty || got.hasID != want.hasID ||
			got.hasID && got.id != want.id || string(got.token) != want.token {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if got.fault == "" && (got.tool != want.tool || string(got.args) != want.args) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

type slowRequest struct {
	id          uint64
	hasID       bool
	token, tool string
	args        string
	faulty      bool
}

// Escapes, one a match: pairs of surrogates, a single surrogate, any other.
var escapes = regexp.MustCompile(`\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|(?s:.))`)

func slowParse(line []byte) (r slowRequest, ok bool) {
	if !utf8.Valid(line) || !json.Valid(line) {
		return r, false
	}
	for _, escape := range escapes.FindAll(line, -1) {
		if len(escape) == 6 && (escape[2] == 'd' || escape[2] == 'D') {
			return r, false
		}
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	depth, first := 0, true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return r, false
		}
		switch delim, _ := token.(json.Delim); delim {
		case '{', '[':
			if depth++; depth > maxDepth || first && delim == '[' {
				return r, false
			}
		case '}', ']':
			depth--
		default:
			if first {
				return r, false
			}
		}
		first = false
	}
	d = json.NewDecoder(bytes.NewReader(line))
	d.Token()
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return r, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return r, false
		}
		name := key.(string)
		if seen[name] {
			r.faulty = true
			continue
		}
		seen[name] = true
		switch name {
		case "id":
			var id uint64
			if json.Unmarshal(value, &id) != nil || id > 1<<53 || bytes.Equal(value, []byte("null")) {
				r.faulty = true
			} else {
				r.id, r.hasID = id, true
			}
		case "token":
			if value[0] == '"' {
				json.Unmarshal(value, &r.token)
			}
		case "tool":
			if value[0] != '"' || json.Unmarshal(value, &r.tool) != nil || len(r.tool) > 256 {
				r.faulty = true
			}
		case "args":
			if r.args = string(value); value[0] != '{' {
				r.faulty = true
			}
		default:
			r.faulty = true
		}
	}
	r.faulty = r.faulty || !seen["id"] || !seen["tool"]
	return r, true
}

// FuzzFit: whatever a handler returns, what is sent is one line of valid JSON
// that fits; and what was right already is not changed.
func FuzzFit(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, ` [1] `, "[\n1,\r2]", `"` + strings.Repeat("x", 5000) + `"`, "\"\xff\"", `{`, ``, `nul`, `"\ud800"`, `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		sent := fit(bytes.Clone(result), leastFrame)
		if !json.Valid(sent) || !utf8.Valid(sent) || bytes.ContainsAny(sent, "\r\n") || len(sent)+envelopeSize > leastFrame {
			t.Fatalf("%q became %q", result, sent)
		}
		var compact bytes.Buffer
		if json.Compact(&compact, result) == nil && utf8.Valid(result) && len(result) < 900 && !bytes.Contains(result, []byte(`\u`)) {
			var again bytes.Buffer
			if err := json.Compact(&again, sent); err != nil || !bytes.Equal(again.Bytes(), compact.Bytes()) {
				t.Fatalf("%q became %q", result, sent)
			}
		}
	})
}
