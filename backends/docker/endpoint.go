package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// endpoint is a docker engine's address with what it takes to talk to it.
type endpoint struct {
	host string // "" is the usual socket
	from string // where the address comes from, for messages
	tls  string // a directory with ca.pem, cert.pem, key.pem; "" without
	skip bool   // the server's certificate is not verified, as the context says
}

// findEndpoint is the engine that the docker command would use.
func findEndpoint(configured, home string, environ []string) (endpoint, error) {
	e := endpoint{host: configured, from: "config"}
	if e.host == "" {
		e.host, e.from = getenv(environ, "DOCKER_HOST"), "DOCKER_HOST"
	}
	if e.host != "" {
		if getenv(environ, "DOCKER_TLS_VERIFY") != "" && strings.HasPrefix(e.host, "tcp:") {
			if e.tls = getenv(environ, "DOCKER_CERT_PATH"); e.tls == "" {
				e.tls = filepath.Join(home, ".docker")
			}
		}
		return e, e.check()
	}
	dir := getenv(environ, "DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(home, ".docker")
	}
	name := getenv(environ, "DOCKER_CONTEXT")
	if name == "" {
		var file struct{ CurrentContext string }
		if err := readJSON(filepath.Join(dir, "config.json"), &file); err != nil {
			return e, err
		}
		name = file.CurrentContext
	}
	e.from = "the usual socket"
	if name == "" || name == "default" {
		return e, nil
	}
	e.from = "docker context " + name
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta); err != nil {
		return e, err
	}
	e.host, e.skip = meta.Endpoints["docker"].Host, meta.Endpoints["docker"].SkipTLSVerify
	if e.host == "" {
		return e, fmt.Errorf("there is no docker context %q", name)
	}
	if tls := filepath.Join(dir, "contexts", "tls", id, "docker"); exists(tls) {
		e.tls = tls
	}
	return e, e.check()
}

// check refuses addresses that cannot be dialled.
func (e endpoint) check() error {
	u, err := url.Parse(e.host)
	if err != nil {
		return fmt.Errorf("address of the docker engine (%s): %w", e.from, err)
	}
	switch u.Scheme {
	case "unix", "tcp", "npipe", "http", "https":
		return nil
	case "ssh":
		if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
			return fmt.Errorf("address of the docker engine %q (%s): want ssh://[user@]host[:port]", e.host, e.from)
		}
		if _, set := u.User.Password(); set {
			return fmt.Errorf("address of the docker engine (%s): ssh:// takes no password", e.from)
		}
		return nil
	}
	return fmt.Errorf("address of the docker engine %q (%s): want unix://, tcp:// or ssh://", e.host, e.from)
}

// sameMachine tells whether the daemon may see this machine's files: one that is
// reached over a network is never taken to, whatever it has at the same names.
func (e endpoint) sameMachine() bool {
	return e.host == "" || strings.HasPrefix(e.host, "unix:") || strings.HasPrefix(e.host, "npipe:")
}

// display is the address for people.
func (e endpoint) display() string {
	if e.host == "" {
		return "unix:///var/run/docker.sock"
	}
	return e.host
}

// readJSON reads a file that may be missing.
func readJSON(name string, into any) error {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil || !os.IsNotExist(err)
}

// getenv is the last value a variable has in an environment.
func getenv(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
