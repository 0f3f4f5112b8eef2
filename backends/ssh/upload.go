package ssh

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

//go:embed upload.sh
var uploadScript string

// program is a guest program on this machine.
type program struct {
	file string
	size int64
	sum  string // SHA-256, hex
}

// programs remembers the hashes of guest programs.
type programs struct {
	mu    sync.Mutex
	known map[string]struct {
		program
		at time.Time
	}
}

// read hashes a program, once per version of the file.
func (p *programs) read(name string) (program, error) {
	f, err := os.Open(name)
	if err != nil {
		return program{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return program{}, err
	}
	if !st.Mode().IsRegular() {
		return program{}, fmt.Errorf("%s is not a regular file", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.known[name]; ok && k.size == st.Size() && k.at.Equal(st.ModTime()) {
		return k.program, nil
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return program{}, err
	}
	k := struct {
		program
		at time.Time
	}{program{name, n, hex.EncodeToString(h.Sum(nil))}, st.ModTime()}
	if p.known == nil {
		p.known = map[string]struct {
			program
			at time.Time
		}{}
	}
	p.known[name] = k
	return k.program, nil
}

// upload puts a program where the host can run it: under a temporary name
// first, under its own when its hash there is right.
func upload(ctx context.Context, client *ssh.Client, h host, p program) (where string, err error) {
	where = h.guests + "/" + p.sum
	if h.have[p.sum] {
		return where, nil
	}
	if h.hash == "" {
		return "", fmt.Errorf("the host has no sha256sum, shasum or openssl to verify an uploaded program")
	}
	f, err := os.Open(p.file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var script []string // one line: every login shell passes it
	for l := range strings.Lines(uploadScript) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			script = append(script, l)
		}
	}
	// What the script quotes would end the quotes it is in.
	command := strings.Join([]string{"exec /bin/sh -c", quote(strings.Join(script, "; ")), "sh", quote(h.guests), p.sum, quote(h.hash)}, " ")
	_, errs, err := run(ctx, client, command, f)
	switch exitCode(err) {
	case 0:
		h.have[p.sum] = true
		return where, nil
	case 4:
		return "", fmt.Errorf("%s cannot be written: %.200s", h.guests, strings.TrimSpace(string(errs)))
	case 6:
		return "", fmt.Errorf("what arrived in %s has another hash than what was sent", h.guests)
	}
	return "", fmt.Errorf("uploading to %s: %w: %.200s", h.guests, err, strings.TrimSpace(string(errs)))
}
