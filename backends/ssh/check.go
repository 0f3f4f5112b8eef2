package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Check tells whether the host can be reached and takes the key, which python
// and architecture it has, and which rung holds boxes there. It connects, and
// uploads the guest, as the first Create would.
func (b *Backend) Check(ctx context.Context) []sandbox.Finding {
	subject := b.config.name()
	c, _, err := b.take(ctx)
	if err != nil {
		return []sandbox.Finding{{Severity: sandbox.Failure, Subject: subject, Detail: err.Error(), Fix: fix(err)}}
	}
	h := c.host
	list := []sandbox.Finding{{
		Severity: sandbox.OK, Subject: subject + " host",
		Detail: fmt.Sprintf("%s: connected and logged in within %v, %s %s, looked at within %v", c.target, ms(c.reached), h.system, h.machine, ms(c.probed)),
	}}
	switch {
	case h.python == "":
		list = append(list, sandbox.Finding{
			Severity: sandbox.Warning, Subject: subject + " python", Detail: "there is no python3 on the PATH of a session: run cannot run scripts there, terminal works",
			Fix: "install python3 (3.8 or later) on " + c.target.alias,
		})
	default:
		version := h.version
		if version == "" {
			version = "that does not start"
		}
		list = append(list, sandbox.Finding{Severity: sandbox.OK, Subject: subject + " python", Detail: fmt.Sprintf("python3 %.40s at %.200s", version, h.python)})
	}
	if c.guest == nil {
		return append(list, sandbox.Finding{
			Severity: sandbox.Warning, Subject: subject + " guest", Detail: "plain sshd, where only policy open can be kept: " + c.plain,
			Fix: "a Linux host needs a guest program for its architecture (make guests) and a home directory, /var/tmp or /tmp that is not mounted noexec; else use policy open",
		})
	}
	return append(list, sandbox.Finding{
		Severity: sandbox.OK, Subject: subject + " guest",
		Detail: fmt.Sprintf("%s/%s, at %s, started within %v: policies are kept as on that machine", h.goos(), h.goarch(), c.where, ms(c.served)),
	})
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// fix is what to do about a connection that cannot be made.
func fix(err error) string {
	switch {
	case errors.Is(err, ErrUnknownHost):
		return "compare the fingerprint with the host's, then add the line to known_hosts, or set accept_new"
	case errors.Is(err, ErrChangedKey):
		return "make sure that the host was set up anew; then remove the old key with ssh-keygen -R"
	case errors.Is(err, ErrKey):
		return "add a key that the host takes: ssh-copy-id, or ssh-add for one with a passphrase"
	case strings.Contains(err.Error(), "ssh_config"):
		return "correct the ssh configuration"
	}
	return "make sure that ssh reaches the host from here, and correct host, user and port"
}
