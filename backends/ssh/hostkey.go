package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

var (
	// ErrUnknownHost marks a host that is not in known_hosts.
	ErrUnknownHost = errors.New("unknown host key")
	// ErrChangedKey marks a host that shows another key than known_hosts has.
	ErrChangedKey = errors.New("changed host key")
)

// hostKeys judges the key of one host.
type hostKeys struct {
	target     target
	acceptNew  bool
	known      ssh.HostKeyCallback
	algorithms []string // nil: any
	accepted   func(line string)
}

// newHostKeys reads known_hosts.
func newHostKeys(t target, acceptNew bool) (*hostKeys, error) {
	h := &hostKeys{target: t, acceptNew: acceptNew, accepted: func(string) {}}
	var files []string
	for _, name := range append(slices.Clone(t.knownHosts), "/etc/ssh/ssh_known_hosts") {
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	known, err := knownhosts.New(files...)
	if err != nil {
		return nil, fmt.Errorf("%w; correct or remove the line", err)
	}
	h.known = known
	h.algorithms, err = h.choose()
	return h, err
}

// choose asks for keys that are known, as ssh does: a host that has others
// besides would else show one of them and seem to have changed.
func (h *hostKeys) choose() ([]string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	nobodys, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	var wrong *knownhosts.KeyError
	if !errors.As(h.known(h.target.name(), placeholder{h.target.addr()}, nobodys), &wrong) {
		return nil, nil
	}
	var list []string
	add := func(algorithms ...string) {
		for _, a := range algorithms {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	for _, k := range wrong.Want {
		switch kind := k.Key.Type(); kind {
		case ssh.KeyAlgoRSA:
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			add(kind)
		}
	}
	return list, nil
}

// placeholder is an address that is not looked at.
type placeholder struct{ addr string }

func (placeholder) Network() string  { return "tcp" }
func (p placeholder) String() string { return p.addr }

// check implements ssh.HostKeyCallback.
func (h *hostKeys) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	t := h.target
	err := h.known(t.name(), placeholder{t.addr()}, key)
	if err == nil {
		return nil
	}
	line := knownhosts.Line([]string{knownhosts.Normalize(t.name())}, key)
	print := fmt.Sprintf("%s %s", key.Type(), ssh.FingerprintSHA256(key))
	var wrong *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		return &hostKeyError{ErrChangedKey, fmt.Sprintf("%s shows a key that %s:%d revokes: %s", t, revoked.Revoked.Filename, revoked.Revoked.Line, print)}
	case !errors.As(err, &wrong):
		return &hostKeyError{ErrChangedKey, fmt.Sprintf("%s: %v (%s)", t, err, print)}
	case len(wrong.Want) > 0:
		var places []string
		for _, k := range wrong.Want {
			places = append(places, fmt.Sprintf("%s:%d has %s %s", k.Filename, k.Line, k.Key.Type(), ssh.FingerprintSHA256(k.Key)))
		}
		return &hostKeyError{ErrChangedKey, fmt.Sprintf("the host key of %s has CHANGED: it shows %s, but %s. Somebody may be between you and the host. If it was set up anew, remove what is known, with: ssh-keygen -R '%s' -f '%s'",
			t, print, strings.Join(places, ", "), knownhosts.Normalize(t.name()), wrong.Want[0].Filename)}
	}
	file := "~/.ssh/known_hosts"
	if len(t.knownHosts) > 0 {
		file = t.knownHosts[0]
	}
	if !h.acceptNew {
		return &hostKeyError{ErrUnknownHost, fmt.Sprintf("the host key of %s is not known: %s. Compare it with the host's (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub, there); then accept it by adding this line to %s, or by accept_new in the backend's configuration:\n%s",
			t, print, file, line)}
	}
	if len(t.knownHosts) == 0 {
		return &hostKeyError{ErrUnknownHost, fmt.Sprintf("the host key of %s is not known: %s, and there is no known_hosts file to note it in", t, print)}
	}
	if err := note(file, line); err != nil {
		return &hostKeyError{ErrUnknownHost, fmt.Sprintf("the host key of %s is not known: %s, and cannot be noted: %v", t, print, err)}
	}
	h.accepted(line)
	return nil
}

// hostKeyError is why a host was refused.
type hostKeyError struct {
	kind error
	text string
}

func (e *hostKeyError) Error() string   { return e.text }
func (e *hostKeyError) Unwrap() []error { return []error{e.kind, sandbox.ErrUnavailable} }

// note adds a line to known_hosts, which is at every moment the old file or the
// new one. Others that do the same wait.
func note(file, line string) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	perm := os.FileMode(0o600)
	if st, err := os.Stat(file); err == nil {
		perm = st.Mode().Perm()
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	f, err := os.CreateTemp(dir, ".known_hosts-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, line+"\n"...))
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
