package guest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandRoundTrip(t *testing.T) {
	for _, c := range []Command{
		{Args: []string{"true"}},
		{Args: []string{"", "\xff\n", strings.Repeat("x", 1<<20)}, Dir: "/a b", Env: []string{"A=", "é=\n"}, Keep: true},
	} {
		b, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		kind, size, err := header(b)
		if err != nil || kind != kindCommand || size != len(b)-headerSize {
			t.Fatalf("header: %q %d %v", kind, size, err)
		}
		got, err := parseCommand(b[headerSize:])
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Env) == 0 {
			c.Env = []string{}
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("(-sent +received)\n%s", diff)
		}
	}
}

func TestFramesAreBounded(t *testing.T) {
	if _, err := (Command{Args: []string{strings.Repeat("x", maxCommand)}}).frame(); !errors.Is(err, errTooBig) {
		t.Errorf("a command of more than %d bytes: %v", maxCommand, err)
	}
	for _, b := range [][]byte{
		{kindCommand, 0xff, 0xff, 0xff, 0xff},
		{kindHello, 0, 0, 0x10, 1},
		{'?', 0xff, 0, 0, 0},
	} {
		if _, _, err := header(b); !errors.Is(err, errFrame) {
			t.Errorf("header % x: %v", b, err)
		}
	}
}

func TestParseCommandRefuses(t *testing.T) {
	whole, err := Command{Args: []string{"a", "b"}, Dir: "/", Env: []string{"A=1"}}.frame()
	if err != nil {
		t.Fatal(err)
	}
	body := whole[headerSize:]
	for cut := range body {
		if _, err := parseCommand(body[:cut]); err == nil {
			t.Errorf("cut to %d of %d bytes, it was read", cut, len(body))
		}
	}
	if _, err := parseCommand(append(bytes.Clone(body), 0)); err == nil {
		t.Error("a byte too many was read")
	}
	huge := newFrame(kindCommand).number(0).text("/").number(1 << 60).bytes()[headerSize:]
	if _, err := parseCommand(huge); err == nil {
		t.Error("2^60 arguments were read")
	}
	none := newFrame(kindCommand).number(0).text("/").list(nil).list(nil).bytes()[headerSize:]
	if _, err := parseCommand(none); err == nil {
		t.Error("a command without a program was read")
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, c := range []Command{{Args: []string{"a"}}, {Args: []string{"", "b"}, Dir: "/", Env: []string{"A=1"}, Keep: true}} {
		b, err := c.frame()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[headerSize:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCommand(b)
		if err != nil {
			return
		}
		again, err := c.frame()
		if err != nil || !bytes.Equal(again[headerSize:], b) {
			t.Errorf("% x was read as %+v, which is % x", b, c, again)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add(byte(kindExited), newFrame(kindExited).number(1).number(2).number(3).number(4).number(5).number(1).number(1).bytes()[headerSize:])
	f.Add(byte(kindGone), newFrame(kindGone).number(3).number(4).number(5).number(1).number(0).bytes()[headerSize:])
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		e, err := parseEvent(kind, &payload{rest: b})
		if err == nil && !e.Exited && !e.Gone {
			t.Errorf("%q % x tells nothing: %+v", kind, b, e)
		}
	})
}
