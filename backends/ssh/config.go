package ssh

import (
	"log/slog"
	"time"
)

// Config says which host, and how to get there. Host is required; the zero
// value of everything else is what ssh would do.
type Config struct {
	Name string // of the backend, in Info and errors; "" means "ssh"

	Host string // a Host of ssh_config, or an address
	User string // "" means ssh_config's, else this user's name
	Port int    // 0 means ssh_config's, else 22
	// Key is a private key file, and the only one used; "" means those of
	// ssh_config and of the agent, else ~/.ssh/id_ed25519, id_ecdsa, id_rsa.
	Key string
	// ConfigFile is the ssh_config; "" means ~/.ssh/config and the system's,
	// "none" no file.
	ConfigFile string
	// KnownHosts is the file with the keys of hosts; "" means ssh_config's, else
	// ~/.ssh/known_hosts. The system's is read besides.
	KnownHosts string
	// AcceptNew notes the key of a host that is not known, and goes on. A key
	// that has changed is never accepted.
	AcceptNew bool
	// Agent is the socket of the ssh agent; "" means ssh_config's, else
	// $SSH_AUTH_SOCK, "none" no agent.
	Agent string

	// Guest returns the guest program for a system: a file of this machine. nil,
	// or an error, means that a plain sshd must do.
	Guest func(goos, goarch string) (file string, err error)

	// DialTimeout bounds the way to one host and its greeting; 0 means 15 s.
	DialTimeout time.Duration
	// Keepalive is how often the host is asked whether it is there; 0 means
	// 10 s. One that does not answer within twice the time is lost.
	Keepalive time.Duration
	// Log gets what is worth knowing but no error; nil discards.
	Log *slog.Logger
}

func (c Config) name() string {
	if c.Name == "" {
		return "ssh"
	}
	return c.Name
}

func (c Config) dialTimeout() time.Duration {
	if c.DialTimeout <= 0 {
		return 15 * time.Second
	}
	return c.DialTimeout
}
