package main

import (
	"errors"
	"strconv"

	"github.com/hermes-exec/hermes-exec/engine"
)

// text is a flag that cannot be empty: who writes --policy "$POLICY" and has no
// such variable did not ask for the default.
type text string

func (t *text) Set(s string) error {
	if s == "" {
		return errors.New("it is empty: give a value, or leave the flag out for the default")
	}
	*t = text(s)
	return nil
}

func (t *text) String() string { return string(*t) }
func (t *text) Type() string   { return "string" }

// calls is a budget of tool calls as engine.Limits has it: 0 is not given.
type calls int

func (c *calls) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("want a whole number, 0 or more")
	}
	*c = calls(n)
	if n == 0 {
		*c = engine.NoToolCalls
	}
	return nil
}

func (c *calls) String() string { return strconv.Itoa(int(*c)) }
func (c *calls) Type() string   { return "int" }
