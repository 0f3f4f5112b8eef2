package sshwire

import (
	"encoding/json"
	"unicode/utf8"
)

// text is a string of any bytes: arguments, variables and paths need not be
// UTF-8, which JSON insists on. What is not goes as {"bytes": base64}.
type text string

type rawText struct {
	Bytes []byte `json:"bytes"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(rawText{[]byte(t)})
}

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var raw rawText
		err := json.Unmarshal(b, &raw)
		*t = text(raw.Bytes)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// texts keeps whether a list is nil.
func texts(list []string) []text {
	if list == nil {
		return nil
	}
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func plain(list []text) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// The messages below have fields of text in place of those they shadow.
type (
	boxRequest BoxRequest
	boxOnWire  struct {
		boxRequest
		WorkDir text   `json:"work_dir,omitempty"`
		Env     []text `json:"env,omitempty"`
	}
	command       Command
	commandOnWire struct {
		command
		Args []text `json:"args"`
		Dir  text   `json:"dir,omitempty"`
		Env  []text `json:"env"`
	}
)

// MarshalJSON keeps every byte of paths and variables.
func (r BoxRequest) MarshalJSON() ([]byte, error) {
	return json.Marshal(boxOnWire{boxRequest(r), text(r.WorkDir), texts(r.Env)})
}

// UnmarshalJSON is the other way.
func (r *BoxRequest) UnmarshalJSON(b []byte) error {
	var w boxOnWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = BoxRequest(w.boxRequest)
	r.WorkDir, r.Env = string(w.WorkDir), plain(w.Env)
	return nil
}

// MarshalJSON keeps every byte of arguments, paths and variables.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(commandOnWire{command(c), texts(c.Args), text(c.Dir), texts(c.Env)})
}

// UnmarshalJSON is the other way.
func (c *Command) UnmarshalJSON(b []byte) error {
	var w commandOnWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*c = Command(w.command)
	c.Args, c.Dir, c.Env = plain(w.Args), string(w.Dir), plain(w.Env)
	return nil
}
