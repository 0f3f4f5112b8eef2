package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

const (
	maxID       = 1 << 53 // the largest integer every JSON reader keeps exact
	maxToolName = 256     // bytes
)

// A request is one line from a client, taken apart.
type request struct {
	id    uint64
	hasID bool
	token []byte // nil when missing or not a string; may be part of the line
	tool  string
	args  json.RawMessage // part of the line; nil when absent
	fault string          // why a well-formed object is not a request; "" if it is one
}

// parseRequest takes a line apart. The error says that the line is not a JSON
// object; anything wrong with the members of one is the request's fault, so
// that the token can be judged first.
func parseRequest(line []byte) (request, error) {
	var r request
	i := skipSpace(line, 0)
	switch {
	case !utf8.Valid(line):
		return r, wrong(firstInvalid(line), "invalid UTF-8")
	case i >= len(line):
		return r, wrong(i, "unexpected end")
	case line[i] != '{':
		if end, err := skipValue(line, i, 0); err != nil {
			return r, err
		} else if end = skipSpace(line, end); end < len(line) {
			return r, wrong(end, "unexpected text after the value")
		}
		return r, wrong(i, "expected an object")
	}
	var seen [4]bool
	end, err := skipObject(line, i, 1, func(key, value []byte) { r.member(&seen, key, value) })
	if err != nil {
		return r, err
	}
	if end = skipSpace(line, end); end < len(line) {
		return r, wrong(end, "unexpected text after the object")
	}
	switch {
	case r.fault != "":
	case !r.hasID:
		r.fault = "id is missing"
	case !seen[2]:
		r.fault = "tool is missing"
	}
	return r, nil
}

// member takes in one member of the object. The first fault is the one told.
func (r *request) member(seen *[4]bool, key, value []byte) {
	name, _ := unquote(key)
	var n int
	var fault string
	switch string(name) {
	case "id":
		n = 0
		if !seen[n] {
			if r.id, r.hasID = parseID(value); !r.hasID {
				fault = "id is not an integer from 0 to 2^53"
			}
		}
	case "token":
		n = 1
		if !seen[n] {
			r.token, _ = unquote(value)
		}
	case "tool":
		n = 2
		if !seen[n] {
			tool, ok := unquote(value)
			switch {
			case !ok:
				fault = "tool is not a string"
			case len(tool) > maxToolName:
				fault = "tool is longer than " + strconv.Itoa(maxToolName) + " bytes"
			default:
				r.tool = string(tool)
			}
		}
	case "args":
		n = 3
		if !seen[n] {
			if r.args = value; value[0] != '{' {
				r.args, fault = nil, "args is not an object"
			}
		}
	default:
		if r.fault == "" {
			r.fault = "unknown member " + quoteShort(name)
		}
		return
	}
	if seen[n] {
		fault = "duplicate member " + quoteShort(name)
	}
	seen[n] = true
	if r.fault == "" {
		r.fault = fault
	}
}

// unquote returns the text of a raw JSON string; false if the value is none.
// Without escapes it is part of raw.
func unquote(raw []byte) ([]byte, bool) {
	if raw[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err == nil
}

func parseID(raw []byte) (uint64, bool) {
	if len(raw) > 16 { // 2^53 has 16 digits
		return 0, false
	}
	var id uint64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = id*10 + uint64(c-'0')
	}
	return id, id <= maxID
}

// quoteShort quotes what a peer sent for a message, cut to a sane length.
func quoteShort(text []byte) string {
	const most = 40
	if len(text) > most {
		return strconv.QuoteToASCII(string(text[:most])) + "…"
	}
	return strconv.QuoteToASCII(string(text))
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// fit makes what a handler returned fit to go on the wire: valid JSON in one
// line that leaves room for the envelope. What cannot be mended becomes an
// error result, because the call must be answered.
func fit(result json.RawMessage, maxFrame int) json.RawMessage {
	if room := maxFrame - envelopeSize; len(result) > room {
		return errorResult("result of " + strconv.Itoa(len(result)) + " bytes exceeds the frame limit of " +
			strconv.Itoa(room) + " bytes: ask for a smaller part")
	}
	if len(result) == 0 {
		return errorResult("the tool returned nothing")
	}
	if !utf8.Valid(result) {
		return fit(bytes.ToValidUTF8(result, []byte("\uFFFD")), maxFrame)
	}
	start := skipSpace(result, 0)
	end, err := skipValue(result, start, 1)
	if next := skipSpace(result, end); err == nil && next < len(result) {
		err = wrong(next, "unexpected text after the value")
	}
	if err != nil {
		return errorResult("the tool returned invalid JSON: " + err.Error())
	}
	if result = result[start:end]; bytes.IndexByte(result, '\n') < 0 && bytes.IndexByte(result, '\r') < 0 {
		return result
	}
	var line bytes.Buffer
	if err := json.Compact(&line, result); err != nil {
		return errorResult("the tool returned invalid JSON: " + err.Error())
	}
	return line.Bytes()
}

// envelopeSize is the most that surrounds a result: {"id":9007199254740992,"result":}\n
const envelopeSize = 40

func errorResult(message string) json.RawMessage {
	raw, err := json.Marshal(struct {
		Error string `json:"error"`
	}{message})
	if err != nil { // a string always marshals
		return json.RawMessage(`{"error":"internal error"}`)
	}
	return raw
}
