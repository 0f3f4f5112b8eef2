package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxKeys is how many keys are offered: servers close after a few (sshd:
// MaxAuthTries, 6), which they would count.
const maxKeys = 16

// ErrKey marks that there is no key to log in with, or that the host takes none.
var ErrKey = errors.New("no usable key")

// identity is what a user logs in with.
type identity struct {
	signers []ssh.Signer
	offered []string // what they are, for an error
	agent   net.Conn
}

func (id *identity) close() {
	if id.agent != nil {
		id.agent.Close()
	}
}

// identify gathers the keys for one host, in the order in which ssh offers
// them: the agent's that are named, files, the agent's others.
func identify(t target) (*identity, error) {
	id := &identity{}
	var held []ssh.Signer // by the agent
	var trouble []string
	if t.agent != "" {
		conn, err := net.DialTimeout("unix", t.agent, 5*time.Second)
		if err == nil {
			id.agent = conn
			_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a person may have to touch something
			held, err = agent.NewClient(conn).Signers()
		}
		if err != nil {
			trouble = append(trouble, fmt.Sprintf("the agent at %s: %v", t.agent, err))
		}
	}
	offer := func(s ssh.Signer, what string) {
		for _, other := range id.signers {
			if bytes.Equal(other.PublicKey().Marshal(), s.PublicKey().Marshal()) {
				return
			}
		}
		id.signers = append(id.signers, s)
		id.offered = append(id.offered, fmt.Sprintf("%s (%s)", what, ssh.FingerprintSHA256(s.PublicKey())))
	}
	var files []func()
	for _, name := range t.keys {
		signer, public, err := readKey(name)
		if public != nil {
			if s := among(held, public); s != nil {
				offer(s, name+", by the agent")
				continue
			}
		}
		switch {
		case err == nil:
			files = append(files, func() { offer(signer, name) })
		case errors.Is(err, fs.ErrNotExist) && !t.keysNamed:
		default:
			trouble = append(trouble, err.Error())
		}
	}
	for _, add := range files {
		add()
	}
	if !t.identitiesOnly {
		for _, s := range held {
			offer(s, "the agent's")
		}
	}
	if len(id.signers) == 0 {
		id.close()
		if len(trouble) == 0 {
			trouble = []string{"there is none in ~/.ssh and no agent: name one (key), or make one: ssh-keygen -t ed25519, ssh-copy-id " + t.alias}
		}
		return nil, fmt.Errorf("%s: %w: %s: %w", t, ErrKey, strings.Join(trouble, "; "), sandbox.ErrUnavailable)
	}
	if len(id.signers) > maxKeys {
		id.signers, id.offered = id.signers[:maxKeys], id.offered[:maxKeys]
	}
	id.offered = append(id.offered, trouble...)
	return id, nil
}

// readKey reads a private key file. The public key may be known although the
// private one is not.
func readKey(name string) (ssh.Signer, ssh.PublicKey, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, publicOf(name), err
	}
	if !st.Mode().IsRegular() || st.Size() > 1<<20 {
		return nil, nil, fmt.Errorf("%s is no private key", name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, publicOf(name), err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return signer, signer.PublicKey(), nil
	}
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		public := locked.PublicKey
		if public == nil {
			public = publicOf(name)
		}
		return nil, public, fmt.Errorf("%s is encrypted with a passphrase, which is not asked for: add it to the ssh agent (ssh-add %s)", name, name)
	}
	if public, _, _, _, e := ssh.ParseAuthorizedKey(text); e == nil { // an agent holds the other half
		return nil, public, fmt.Errorf("%s is a public key, and the agent does not hold the private one", name)
	}
	return nil, publicOf(name), fmt.Errorf("%s is no private key that can be read: %w", name, err)
}

// publicOf reads the public key beside a private one, nil if there is none.
func publicOf(name string) ssh.PublicKey {
	text, err := os.ReadFile(name + ".pub")
	if err != nil {
		return nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return public
}

// among finds a key among signers.
func among(signers []ssh.Signer, key ssh.PublicKey) ssh.Signer {
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), key.Marshal()) {
			return s
		}
	}
	return nil
}
