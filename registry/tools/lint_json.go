package tools

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// checkJSON reports the first error in the words of Python's json module,
// which every model knows by heart, "" for none. With comments set, comments
// and trailing commas are fine, as the readers of such files have it.
func checkJSON(text string, comments bool) string {
	c := jsonCheck{text: text, comments: comments}
	c.space()
	if c.value(); c.err == "" {
		if c.space(); c.at < len(text) {
			c.fail("Extra data", c.at)
		}
	}
	return c.err
}

// isJSONC knows the files whose readers take comments although they are called .json.
func isJSONC(resolved string) bool {
	base := path.Base(resolved)
	switch path.Base(path.Dir(resolved)) {
	case ".vscode", ".devcontainer", ".zed":
		return true
	}
	switch base {
	case "devcontainer.json", ".devcontainer.json", ".eslintrc.json", "tslint.json", "api-extractor.json", "deno.json", "babel.config.json", "turbo.json":
		return true
	}
	return strings.HasPrefix(base, "tsconfig") || strings.HasPrefix(base, "jsconfig")
}

// maxJSONDepth is how deep Python's reader goes before it gives up, about.
const maxJSONDepth = 900

type jsonCheck struct {
	text     string
	comments bool
	at       int
	depth    int
	err      string
}

func (c *jsonCheck) fail(what string, at int) {
	if c.err == "" {
		before := c.text[:min(at, len(c.text))]
		line := strings.Count(before, "\n") + 1
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		c.err = fmt.Sprintf("JSONDecodeError: %s (line %d, column %d)", what, line, column)
	}
}

func (c *jsonCheck) peek() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

func (c *jsonCheck) space() {
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
			continue
		case '/':
			if rest := c.text[c.at:]; c.comments && strings.HasPrefix(rest, "//") {
				if n := strings.IndexByte(rest, '\n'); n >= 0 {
					c.at += n
				} else {
					c.at = len(c.text)
				}
				continue
			} else if c.comments && strings.HasPrefix(rest, "/*") {
				if n := strings.Index(rest, "*/"); n >= 0 {
					c.at += n + 2
					continue
				}
			}
		}
		return
	}
}

func (c *jsonCheck) value() {
	if c.depth++; c.depth > maxJSONDepth {
		c.fail("Nested too deeply", c.at)
	}
	defer func() { c.depth-- }()
	if c.err != "" {
		return
	}
	start := c.at
	switch b := c.peek(); {
	case b == '{':
		c.list('}', c.member)
	case b == '[':
		c.list(']', c.value)
	case b == '"':
		c.str()
	case b == '-' || b >= '0' && b <= '9':
		c.number()
	default:
		for _, word := range []string{"true", "false", "null", "NaN", "Infinity"} {
			if strings.HasPrefix(c.text[c.at:], word) {
				c.at += len(word)
				return
			}
		}
		c.fail("Expecting value", start)
	}
}

// list is what stands between brackets: items with commas between them.
func (c *jsonCheck) list(end byte, item func()) {
	c.at++
	c.space()
	for first := true; c.err == ""; first = false {
		if c.peek() == end && (first || c.comments) {
			c.at++
			return
		}
		if item(); c.err != "" {
			return
		}
		switch c.space(); c.peek() {
		case end:
			c.at++
			return
		case ',':
			c.at++
			c.space()
		default:
			c.fail("Expecting ',' delimiter", c.at)
		}
	}
}

// member is one of an object's.
func (c *jsonCheck) member() {
	if c.peek() != '"' {
		c.fail("Expecting property name enclosed in double quotes", c.at)
		return
	}
	if c.str(); c.err != "" {
		return
	}
	if c.space(); c.peek() != ':' {
		c.fail("Expecting ':' delimiter", c.at)
		return
	}
	c.at++
	c.space()
	c.value()
}

func (c *jsonCheck) str() {
	start := c.at
	for c.at++; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b == '"':
			c.at++
			return
		case b < 0x20:
			c.fail("Invalid control character at", c.at)
			return
		case b == '\\':
			c.at++
			switch e := c.peek(); {
			case e == 'u':
				for i := 1; i <= 4; i++ {
					if c.at+i >= len(c.text) || !strings.ContainsRune("0123456789abcdefABCDEF", rune(c.text[c.at+i])) {
						c.fail("Invalid \\uXXXX escape", c.at)
						return
					}
				}
				c.at += 4
			case c.at >= len(c.text):
				c.fail("Unterminated string starting at", start)
				return
			case !strings.ContainsRune(`"\/bfnrt`, rune(e)):
				c.fail("Invalid \\escape", c.at-1)
				return
			}
		}
	}
	c.fail("Unterminated string starting at", start)
}

func (c *jsonCheck) number() {
	start := c.at
	if c.peek() == '-' {
		c.at++
		if strings.HasPrefix(c.text[c.at:], "Infinity") {
			c.at += len("Infinity")
			return
		}
	}
	switch b := c.peek(); {
	case b == '0':
		c.at++
	case b >= '1' && b <= '9':
		c.digits()
	default:
		c.fail("Expecting value", start)
		return
	}
	if c.peek() == '.' && c.at+1 < len(c.text) && isDigit(c.text[c.at+1]) {
		c.at++
		c.digits()
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		mark := c.at
		c.at++
		if b := c.peek(); b == '+' || b == '-' {
			c.at++
		}
		if !isDigit(c.peek()) {
			c.at = mark // "1e" is a 1 with something behind it
			return
		}
		c.digits()
	}
}

func (c *jsonCheck) digits() {
	for isDigit(c.peek()) {
		c.at++
	}
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
