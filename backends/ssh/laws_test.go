//go:build linux

package ssh_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func TestLawsGuest(t *testing.T) {
	c := at(t, "hermes-test")
	sandboxtest.Run(t, sandboxtest.Options{
		New:  func(t testing.TB) sandbox.Backend { return written{ssh.New(c)} },
		Spec: openSpec(), Share: true,
	})
}

func TestLawsPlain(t *testing.T) {
	c := plainly(t, "hermes-test")
	skip := map[string]string{
		"the environment is exact": "on a plain sshd every command also has HERMES_EXEC_COMMAND, by which what it starts is found",
	}
	if os.Getuid() != 0 {
		for _, law := range sandboxtest.Laws() {
			if strings.Contains(law, "terminal") && !strings.Contains(law, "without a terminal") || law == "what is typed is read to its end" {
				skip[law] = "an sshd that an ordinary user runs gives no terminals"
			}
		}
	}
	sandboxtest.Run(t, sandboxtest.Options{
		New:  func(t testing.TB) sandbox.Backend { return written{ssh.New(c)} },
		Spec: openSpec(), Share: true,
		Skip: skip,
	})
}
