package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

//go:embed probe.sh
var probeScript string

// host is what is known of the machine at the other end.
type host struct {
	system, machine string // uname -s, uname -m
	home            string
	python, version string // of python3, "" if there is none
	hash            string // a program that tells a SHA-256
	guests          string // where guest programs are, "" if they can be nowhere
	why             string // then why
	have            map[string]bool
}

// goos and goarch are what Go calls the system.
func (h host) goos() string { return strings.ToLower(h.system) }

func (h host) goarch() string {
	switch h.machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "armv7l", "armv6l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return h.machine
}

// probe asks, in one command.
func probe(ctx context.Context, client *ssh.Client) (h host, err error) {
	ctx, cancel := within(ctx, patience, "a first look at the host")
	defer cancel()
	mark := "hermes-exec-" + rand.Text()
	out, errs, err := run(ctx, client, "exec /bin/sh -s", strings.NewReader("mark="+mark+"\n"+probeScript))
	_, text, found := bytes.Cut(out, []byte("\n"+mark+"\n"))
	text, ended := bytes.CutSuffix(text, []byte(mark+"\n"))
	fields := strings.Split(string(text), "\x00")
	if !found || !ended || len(fields) < 8 {
		if err == nil {
			err = fmt.Errorf("it says %.200q", bytes.TrimSpace(append(out, errs...)))
		}
		if cause := context.Cause(ctx); cause != nil {
			return h, cause
		}
		return h, fmt.Errorf("the host gives no POSIX shell: %w: %w", err, sandbox.ErrUnavailable)
	}
	h = host{system: fields[0], machine: fields[1], home: fields[2], python: fields[3], version: fields[4],
		hash: fields[5], guests: fields[6], why: strings.TrimSuffix(fields[7], "; "), have: map[string]bool{}}
	sum := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, name := range fields[8:] {
		if sum.MatchString(name) {
			h.have[name] = true
		}
	}
	if h.guests != "" && (!strings.HasPrefix(h.guests, "/") || strings.ContainsAny(h.guests, "!\n\r")) {
		h.guests, h.why = "", fmt.Sprintf("%.100q cannot be passed through every shell", h.guests)
	}
	return h, nil
}
