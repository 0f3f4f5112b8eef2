//go:build unix

package local

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Check implements sandbox.Backend: it looks at what boxes need, and runs one
// command in an open box and one in a confined box.
func (b *Backend) Check(ctx context.Context) []sandbox.Finding {
	findings := []sandbox.Finding{{
		Severity: sandbox.OK, Subject: "operating system", Detail: runtime.GOOS + "/" + runtime.GOARCH,
	}}
	add := func(subject string, err error, detail, fix string) bool {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: subject, Detail: detail}
		if err != nil {
			f.Severity, f.Detail, f.Fix = sandbox.Failure, err.Error(), fix
		}
		findings = append(findings, f)
		return err == nil
	}
	if guest.Inside() {
		add("guest", guest.ErrNoGuest, "", "call guest.Main() first in main")
		return findings
	}
	add("process table", usable(), killClause().Mechanism+" finds what a command starts", "mount /proc")
	findings = append(findings, b.limitFindings()...)
	box, err := b.Create(ctx, sandbox.Spec{WorkDir: "/", Policy: sandbox.Policy{Unconfined: true}})
	if !add("scratch directory", err, "", "set TMPDIR to a directory of yours with space") {
		return findings
	}
	findings[len(findings)-1].Detail = box.Info().ScratchDir
	began := time.Now()
	proc, err := box.Start(ctx, sandbox.Cmd{Args: []string{"/bin/sh", "-c", ":"}, Dir: "/"})
	if err == nil {
		_, err = proc.Wait()
	}
	add("guest", err, fmt.Sprintf("%s runs a command in %v", program(b.config.Guest), time.Since(began).Round(10*time.Microsecond)),
		"call guest.Main() first in main, or name a guest program that does")
	if err := box.Close(ctx); err != nil {
		add("scratch directory", err, "", "")
	}
	return append(findings, b.checkConfined(ctx)...)
}

func program(guest string) string {
	if guest != "" {
		return guest
	}
	path, err := os.Executable()
	if err != nil {
		return "this program"
	}
	return path
}
