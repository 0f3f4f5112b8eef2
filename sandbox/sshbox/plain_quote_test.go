//go:build unix

package sshbox

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Whatever the arguments and the values are: the header is two lines, and a
// shell that reads it gets exactly them, and runs nothing of them.
func FuzzHeader(f *testing.F) {
	f.Add("a b", "$(id)", "`id`")
	f.Add("'", "\n", "';id;'")
	f.Add("\\", "\xff\x81\x88", "\r\n\t")
	f.Add("-n", "", "~*?[a]{a,b}")
	f.Fuzz(func(t *testing.T, one, two, value string) {
		head, err := header(sandbox.Cmd{Args: []string{"prog", one, two}}, "/", []string{"V=" + value})
		if err != nil {
			if strings.ContainsRune(one+two+value, 0) {
				return
			}
			t.Fatal(err)
		}
		if bytes.Count(head, []byte("\n")) != 2 || head[len(head)-1] != '\n' {
			t.Fatalf("not two lines: %q", head)
		}
		cmd := exec.Command("/bin/sh", "-c", `__hx_n='
'
IFS= read -r a && IFS= read -r b && eval "$a" && eval "$b" && printf '%s\0' "$#" "$2" "$3" "$V"`)
		cmd.Stdin, cmd.Env = bytes.NewReader(head), []string{"LC_ALL=C"}
		out, err := cmd.Output()
		if want := strings.Join([]string{"3", one, two, value, ""}, "\x00"); err != nil || string(out) != want {
			t.Fatalf("%q arrived as %q, %v", want, out, err)
		}
	})
}

func TestHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		env  string
		want error
	}{
		{"A.B=1", sandbox.ErrUnsupported}, {"BASH_FUNC_x%%=() { :; }", sandbox.ErrUnsupported}, {"1A=1", sandbox.ErrUnsupported}, {"=1", sandbox.ErrUnsupported},
		{"UID=0", sandbox.ErrUnsupported}, {"__hx_d=/", sandbox.ErrUnsupported}, {"A;id=1", sandbox.ErrUnsupported}, {"A", nil}, {"A=\x00", nil},
		{"A=" + strings.Repeat("x", 200<<10), syscall.E2BIG},
	} {
		_, err := header(sandbox.Cmd{Args: []string{"prog"}}, "/", []string{c.env})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%.40q: %v, want %v", c.env, err, c.want)
		}
	}
	// The mark is the engine's; of several values the first counts.
	text, err := exports([]string{"A=1", commandMark + "=mine", "A=2"})
	if err != nil || text != "export A='1';" {
		t.Errorf("%q, %v", text, err)
	}
}

// What a hostile host says of itself is bounded, and believed in nothing that
// would lead elsewhere.
func TestHelloOfAnotherKind(t *testing.T) {
	for _, text := range []string{"", "ok", "ok\x00", "hello\x00a\x00b\x00c\x00d\x00e\x00f\x00g\x00h\x00i\x00j\x00", "ok\x00relative\x00/w\x00/h\x000\x00Linux\x00x\x00proc\x00yes\x00\x001\x00",
		"ok\x00/s\x00/w\x00/h\x000\x00Linux\x00x\x00none\x00yes\x00\x001\x00", "ok\x00/s\x00/w\x00/h\x000\x00Linux\x00x\x00proc\x00no\x00\x001\x00", "fail\x00dir\x00/x: none\x00"} {
		if h, err := parseHello([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, h)
		}
	}
	h, err := parseHello([]byte("ok\x00/s\x00/w\x00/h\x000\x00Linux\x00x86_64\x00proc\x00yes\x00\x0012\x00A=1\x00B=x\ny\x00SHLVL=1\x00BASH_FUNC_f%%=() {\x00PWD=/\x00"))
	if err != nil || h.goos() != "linux" || h.goarch() != "amd64" || strings.Join(h.env, "|") != "A=1|B=x\ny" {
		t.Errorf("%+v, %v", h, err)
	}
}
