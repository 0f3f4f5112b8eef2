package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Check implements sandbox.Backend: it asks the engine, looks for the image and
// makes one box. Nothing is pulled: that may take minutes.
func (b *Backend) Check(ctx context.Context) []sandbox.Finding {
	var findings []sandbox.Finding
	add := func(subject string, since time.Time, err error, detail, fix string) bool {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: subject, Detail: fmt.Sprintf("%s (%v)", detail, time.Since(since).Round(100*time.Microsecond))}
		if err != nil {
			f.Severity, f.Detail, f.Fix = sandbox.Failure, err.Error(), fix
		}
		findings = append(findings, f)
		return err == nil
	}
	began := time.Now()
	d, err := b.connect(ctx)
	if err == nil { // that it answered once does not say that it does now
		_, err = d.api.Ping(ctx, client.PingOptions{})
		if err != nil {
			err = unreachable(err, d.endpoint)
		}
	}
	fix := "start the docker engine, or set DOCKER_HOST to one that runs"
	if err != nil && strings.Contains(err.Error(), "may not talk") {
		fix = "add this user to the group docker, which gives it this machine's root, or use a rootless engine"
	}
	if !add("docker engine", began, err, "", fix) {
		return findings
	}
	findings[0].Detail = fmt.Sprintf("%s, version %s, API %s, linux/%s (%v)", d.endpoint.display(), d.version, d.api.ClientVersion(), d.arch, time.Since(began).Round(100*time.Microsecond))
	if !d.seccomp {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: "seccomp", Detail: "the docker engine does not use it", Fix: "run it on a kernel with CONFIG_SECCOMP_FILTER"})
	}
	if lacks := lacking(sandbox.Resources{Memory: 1, CPU: 1, PIDs: 1}, d.facts); len(lacks) > 0 {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: "limits", Detail: strings.Join(lacks, "; ")})
	}
	began = time.Now()
	if b.config.Image == "" {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Failure, Subject: "image", Detail: "none is named", Fix: "set terminal.docker_image"})
		return findings
	}
	if _, err := d.api.ImageInspect(ctx, b.config.Image); err != nil {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: "image",
			Detail: b.config.Image + " is not there; the first task pulls it", Fix: "docker pull " + b.config.Image})
		return findings
	}
	image, err := b.image(ctx, d, b.config.Image)
	if !add("image", began, err, b.config.Image, "docker pull "+b.config.Image) {
		return findings
	}
	began = time.Now()
	file, err := b.config.Guest("linux", image.Arch)
	if !add("guest", began, err, file, "make guests") {
		return findings
	}
	return append(findings, b.checkBox(ctx, d)...)
}

// checkBox makes a sealed box and looks at it from inside.
func (b *Backend) checkBox(ctx context.Context, d *daemon) []sandbox.Finding {
	began := time.Now()
	box, err := b.Create(ctx, sandbox.Spec{Profile: sandbox.Profile{Name: "sealed"}})
	if err != nil {
		return []sandbox.Finding{{Severity: sandbox.Failure, Subject: "box", Detail: err.Error(), Fix: boxFix(err)}}
	}
	defer box.Close(ctx)
	way := "the attached stream, files are copied in: " + d.shared.why
	if d.shared.sockets {
		way = "a socket that is bound in"
	}
	findings := []sandbox.Finding{{Severity: sandbox.OK, Subject: "box", Detail: fmt.Sprintf("made in %v, reached by %s", time.Since(began).Round(time.Millisecond), way)}}
	if os.Geteuid() == 0 && d.shared.files {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: "user", Detail: fmt.Sprintf("root's work directories are shown as user %d's", boxID)}
		if !d.shared.maps {
			f.Severity, f.Detail = sandbox.Warning, "containers of root's work directories run as uid 0, without capabilities: "+d.shared.mapsNot
			f.Fix = "give work directories to an ordinary user (chown), or run the engine where the docker engine sees its mounts"
		}
		findings = append(findings, f)
	}
	for _, c := range box.Info().Enforcement {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: "box: " + string(c.Clause), Detail: c.Mechanism}
		if c.State != sandbox.Enforced {
			f.Severity, f.Detail = sandbox.Warning, fmt.Sprintf("%s: %s", c.State, c.Why)
		}
		findings = append(findings, f)
	}
	began = time.Now()
	p, err := box.Start(ctx, sandbox.Cmd{Args: []string{"python3", "-c", "pass"}})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		return append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: "python", Detail: fmt.Sprintf("image %s: %v", b.config.Image, err),
			Fix: "scripts need an image with python3 (3.8 or newer); commands do without"})
	}
	return append(findings, sandbox.Finding{Severity: sandbox.OK, Subject: "python", Detail: fmt.Sprintf("starts in %v", time.Since(began).Round(100*time.Microsecond))})
}

// boxFix is what to do when a box cannot be made.
func boxFix(err error) string {
	switch {
	case errors.Is(err, sandbox.ErrPolicy):
		return "change what the message names, or the policy"
	case strings.Contains(err.Error(), "guest program"):
		return "make guests"
	}
	return ""
}
