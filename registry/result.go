package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxErrorText bounds what a failing tool can put into a model's context.
const maxErrorText = 2000

// failed is the answer to a call that could not be served.
func failed(text string) json.RawMessage {
	return marshal(object{{"error", text}})
}

// crashed is the answer to a call whose tool broke.
func crashed(cause any) json.RawMessage {
	kind := fmt.Sprintf("%T", cause)
	text := sanitize(fmt.Sprintf("Tool execution failed: %s: %v", strings.TrimPrefix(kind, "*"), cause))
	return failed("[TOOL_ERROR] " + text)
}

// appender is a result that encodes itself, on one line: for those so large
// that reflection would cost more than the tool.
type appender interface{ AppendJSON(dst []byte) []byte }

// encode turns what a tool returned into JSON: one line, valid UTF-8, no HTML
// escapes. What has no JSON form is an error.
func encode(result any) (out json.RawMessage, err error) {
	switch result := result.(type) {
	case json.RawMessage:
		out, err = compact(result)
	case appender:
		out = result.AppendJSON(nil)
	case string:
		if !utf8.ValidString(result) {
			result = strings.ToValidUTF8(result, "\uFFFD")
		}
		out = AppendString(make([]byte, 0, len(result)+len(result)/16+2), result)
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(result)
		out = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(out) { // only what a tool marshalled itself
		out = bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	return out, nil
}

// compact checks JSON that a tool wrote itself and puts it on one line.
func compact(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the tool returned nothing")
	}
	if !bytes.ContainsAny(raw, " \t\r\n") && json.Valid(raw) {
		return raw, nil
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("the tool returned invalid JSON: %w", err)
	}
	return b.Bytes(), nil
}

// marshal is encode for values of this package, which always have a JSON form.
func marshal(v any) json.RawMessage {
	out, err := encode(v)
	if err != nil {
		panic(err)
	}
	return out
}

// sanitize takes from an error what a model could take for structure of the
// conversation: role and call tags, code fences, CDATA marks. A file name or a
// server's answer in an error text must not be able to speak as the system.
func sanitize(text string) string {
	if len(text) > 4*maxErrorText {
		text = text[:4*maxErrorText]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		out = append(out, text[i])
		// Looking back at what is left, not at what came, also finds a tag
		// that appears when another one between its halves is taken away.
		switch text[i] {
		case '>':
			if at := bytes.LastIndexByte(out, '<'); at >= 0 && isRoleTag(string(out[at:])) {
				out = out[:at]
			} else {
				out = bytes.TrimSuffix(out, []byte("]]>"))
			}
		case '[':
			out = bytes.TrimSuffix(out, []byte("<![CDATA["))
		}
	}
	lines := strings.Split(string(out), "\n")
	for i, line := range lines {
		lines[i] = trimFence(line)
	}
	text = strings.TrimSpace(strings.Join(lines, "\n"))
	if runes := []rune(text); len(runes) > maxErrorText {
		text = string(runes[:maxErrorText-3]) + "..."
	}
	return text
}

const roleTags = " tool_call function_call result response output input system assistant user "

func isRoleTag(s string) bool {
	name := strings.TrimPrefix(s[1:len(s)-1], "/")
	return name != "" && !strings.Contains(name, " ") && strings.Contains(roleTags, " "+strings.ToLower(name)+" ")
}

// trimFence removes ``` with its language from both ends of a line.
func trimFence(line string) string {
	const fence = "```"
	if rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), fence); ok {
		rest = strings.TrimLeft(rest, "`")
		for _, language := range []string{"json", "xml", "html", "markdown"} {
			if after, ok := strings.CutPrefix(rest, language); ok {
				rest = after
				break
			}
		}
		line = strings.TrimLeft(rest, " \t")
	}
	if rest := strings.TrimRight(line, " \t"); strings.HasSuffix(rest, fence) {
		line = strings.TrimRight(rest, "`")
	}
	return line
}
