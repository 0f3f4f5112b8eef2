package registry

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Models often send "5" for 5 or a lone string for a list. coerce turns such a
// value into what the declaration asks for and leaves every other one as it
// is; whether it then fits is for decode to say.
func coerce(p *Param, raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if string(raw) == "null" {
		return raw
	}
	if raw[0] == '"' && p.Nullable && strings.EqualFold(text(raw), "null") {
		return json.RawMessage("null")
	}
	for _, want := range p.Types {
		if to := coerceTo(want, raw, p.Nullable); to != nil {
			return to
		}
	}
	return raw
}

// coerceTo is nil when the value stays as it is.
func coerceTo(want string, raw json.RawMessage, nullable bool) json.RawMessage {
	if want == "array" {
		return toArray(raw, nullable)
	}
	if raw[0] != '"' {
		if want == "integer" && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
			return wholeNumber(string(raw)) // 4.0 and 1e3 are whole numbers
		}
		return nil
	}
	switch want {
	case "integer":
		return wholeNumber(pythonNumber(text(raw)))
	case "number":
		s := pythonNumber(text(raw))
		if whole := wholeNumber(s); whole != nil {
			return whole
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) {
			return json.RawMessage(strconv.FormatFloat(f, 'g', -1, 64))
		}
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(text(raw))) {
		case "true":
			return json.RawMessage("true")
		case "false":
			return json.RawMessage("false")
		}
	case "object":
		if s := strings.TrimSpace(text(raw)); strings.HasPrefix(s, "{") && json.Valid([]byte(s)) {
			return json.RawMessage(s)
		}
	}
	return nil
}

// toArray reads a list out of a string, and wraps everything else.
func toArray(raw json.RawMessage, nullable bool) json.RawMessage {
	switch raw[0] {
	case '[':
		return nil
	case '"':
		s := strings.TrimSpace(text(raw))
		if strings.HasPrefix(s, "[") && json.Valid([]byte(s)) {
			return json.RawMessage(s)
		}
		if nullable && s == "null" {
			return json.RawMessage("null")
		}
	}
	return append(append(json.RawMessage("["), raw...), ']')
}

// pythonNumber is s as Python's float() reads it, made into plain decimal
// notation: outer space, single underscores between digits, a plus sign, and
// missing digits around the point are fine. "" when it is no finite number.
func pythonNumber(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "+")
	sign := ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		s, sign = rest, "-"
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || !digit(s[i-1]) || !digit(s[i+1])) {
			return ""
		}
	}
	s = strings.ReplaceAll(s, "_", "")
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole+fraction == "" || !digits(whole) || !digits(fraction) {
		return ""
	}
	if hasExponent && (!digits(strings.TrimLeft(exponent, "+-")) || strings.TrimLeft(exponent, "+-") == "" || len(exponent) > 5) {
		return ""
	}
	if len(s) > 400 { // beyond every double
		return ""
	}
	text := sign + "0" + whole
	if fraction != "" {
		text += "." + fraction
	}
	if hasExponent {
		text += "e" + exponent
	}
	return text
}

// wholeNumber is the exact integer a decimal number stands for, nil when it is
// none. Exact: a float64 on the way would turn 9007199254740993 into …992.
func wholeNumber(s string) json.RawMessage {
	if s == "" || len(s) > 400 {
		return nil
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return nil // 1e1000000000 must not be written out
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		return nil
	}
	return json.RawMessage(r.Num().String())
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if !digit(s[i]) {
			return false
		}
	}
	return true
}

// fits reports whether a value, as it stands, has a JSON type.
func fits(want string, raw json.RawMessage) bool {
	switch got := pythonType(raw); want {
	case "string":
		return got == "str"
	case "integer":
		return got == "int"
	case "number":
		return got == "int" || got == "float"
	case "boolean":
		return got == "bool"
	case "array":
		return got == "list"
	case "object":
		return got == "dict"
	}
	return false
}

// pythonType is a value's type in the words of those who call, "" for no value.
func pythonType(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		return "str"
	case '[':
		return "list"
	case '{':
		return "dict"
	case 't', 'f':
		return "bool"
	case 'n':
		return "NoneType"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "float"
	}
	if raw[0] == '-' || digit(raw[0]) {
		return "int"
	}
	return ""
}

// text is the content of a JSON string, "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
