package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// value is a field that can be set from a node of the file or from the text of
// a variable. The errors say what is wanted and what came.
type value interface {
	set(*yaml.Node) error
	parse(string) error
	show() string
}

// whole is a number within bounds.
type whole struct {
	to       *int
	min, max int
	unit     string // "" for none
}

func (v whole) set(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		return fmt.Errorf("want %s, got %s", v.wanted(), describe(n))
	}
	return v.parse(n.Value)
}

func (v whole) parse(s string) error {
	digits := strings.ReplaceAll(s, "_", "")
	if len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("want %s, got %s: write it in decimal, without a leading zero", v.wanted(), clip(s))
	}
	n, err := strconv.Atoi(digits)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("want %s, got %q", v.wanted(), clip(s))
	}
	if err != nil || n < v.min || n > v.max {
		return fmt.Errorf("want %s from %d to %d, got %s", v.wanted(), v.min, v.max, clip(s))
	}
	*v.to = n
	return nil
}

func (v whole) wanted() string {
	if v.unit == "" {
		return "a whole number"
	}
	return "a whole number of " + v.unit
}

func (v whole) show() string {
	if *v.to < v.min {
		return "unset" // nothing that can be set
	}
	return strconv.Itoa(*v.to)
}

// seconds is a duration, written as a whole number of seconds.
type seconds struct {
	to  *time.Duration
	max time.Duration
}

func (v seconds) set(n *yaml.Node) error {
	return v.from(func(w whole) error { return w.set(n) })
}

func (v seconds) parse(s string) error {
	return v.from(func(w whole) error { return w.parse(s) })
}

func (v seconds) from(read func(whole) error) error {
	var n int
	if err := read(whole{&n, 1, int(v.max / time.Second), "seconds"}); err != nil {
		return err
	}
	*v.to = time.Duration(n) * time.Second
	return nil
}

func (v seconds) show() string {
	if *v.to == 0 {
		return "unset"
	}
	return strconv.Itoa(int(*v.to / time.Second))
}

// flag is a boolean. Files are YAML 1.1 to the reference, so yes, no, on and
// off are booleans too.
type flag struct{ to *bool }

func (v flag) set(n *yaml.Node) error {
	on, ok := boolean(n)
	if !ok {
		return fmt.Errorf("want true or false, got %s", describe(n))
	}
	*v.to = on
	return nil
}

func (v flag) parse(s string) error {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on":
		*v.to = true
	case "0", "false", "no", "off":
		*v.to = false
	default:
		return fmt.Errorf("want true or false, got %q", clip(s))
	}
	return nil
}

func (v flag) show() string { return strconv.FormatBool(*v.to) }

// word is free text.
type word struct{ to *string }

func (v word) set(n *yaml.Node) error {
	s, err := text(n)
	if err != nil {
		return err
	}
	return v.parse(s)
}

func (v word) parse(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("want text without NUL bytes")
	}
	*v.to = s
	return nil
}

func (v word) show() string { return strconv.Quote(*v.to) }

// choice is one of a few words, in any case.
type choice struct {
	to      *string
	allowed []string
	aliases map[string]string
}

func (v choice) set(n *yaml.Node) error {
	// An unquoted off is false to YAML 1.1, and who writes false means off.
	if on, ok := boolean(n); ok && !on && slices.Contains(v.allowed, "off") {
		*v.to = "off"
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("want %s, got %s", oneOf(v.allowed), describe(n))
	}
	return v.parse(n.Value)
}

func (v choice) parse(s string) error {
	lower := strings.ToLower(strings.TrimSpace(s))
	if to, ok := v.aliases[lower]; ok {
		lower = to
	}
	if !slices.Contains(v.allowed, lower) {
		err := fmt.Errorf("want %s, got %q", oneOf(v.allowed), clip(s))
		if near := Nearest(lower, v.allowed); near != "" {
			err = fmt.Errorf("%w; did you mean %q?", err, near)
		}
		return err
	}
	*v.to = lower
	return nil
}

func (v choice) show() string {
	if *v.to == "" {
		return "unset"
	}
	return *v.to
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// list is a list of strings; set, even when empty, it is not nil.
type list struct {
	to    *[]string
	check func(string) error
}

func (v list) set(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("want a list, got %s", describe(n))
	}
	items := []string{}
	for i, item := range n.Content {
		s, err := text(resolve(item))
		if err == nil && s == "" {
			err = errors.New("want a string, got an empty one")
		}
		if err == nil && strings.ContainsRune(s, 0) {
			err = errors.New("want text without NUL bytes")
		}
		if err == nil && v.check != nil {
			err = v.check(s)
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
		items = append(items, s)
	}
	*v.to = items
	return nil
}

func (v list) parse(s string) error {
	n, err := jsonNode(s)
	if err != nil {
		return fmt.Errorf(`want a list as JSON, such as ["a", "b"]: %w`, err)
	}
	return v.set(n)
}

func (v list) show() string {
	if *v.to == nil {
		return "unset"
	}
	quoted := make([]string, len(*v.to))
	for i, s := range *v.to {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// variableName accepts what can be a variable of the environment.
func variableName(s string) error {
	if s == "" || strings.ContainsAny(s, "=\x00 \t\r\n") {
		return fmt.Errorf("want the name of a variable, got %q", clip(s))
	}
	return nil
}

// text is a string node's content. What YAML reads as something else must be
// quoted, or "no" and 3.10 would change on the way.
func text(n *yaml.Node) (string, error) {
	_, isBool := boolean(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && !isBool {
		return n.Value, nil
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		return "", fmt.Errorf("want a string, got %s: put it in quotes", describe(n))
	}
	return "", fmt.Errorf("want a string, got %s", describe(n))
}

// boolean reads an unquoted boolean of YAML 1.1.
func boolean(n *yaml.Node) (on, ok bool) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Kind != yaml.ScalarNode || n.Style&quoted != 0 || n.ShortTag() != "!!str" && n.ShortTag() != "!!bool" {
		return false, false
	}
	switch n.Value {
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

// isNull tells a value that is as if it were not there.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe says what a node is, for an error.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if _, ok := boolean(n); ok {
		return "the boolean " + n.Value
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return fmt.Sprintf("the string %q", clip(n.Value))
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "the date " + clip(n.Value)
	default:
		return "a value of type " + clip(tag)
	}
}

// clip shortens foreign text for an error.
func clip(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
