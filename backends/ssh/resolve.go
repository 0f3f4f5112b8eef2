package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"
)

// target is a host with all that is needed to get there.
type target struct {
	alias string // as it was named
	host  string // as it is dialled
	port  int
	user  string

	keys           []string // private key files
	keysNamed      bool     // the user has named them: a missing one is an error
	identitiesOnly bool
	agent          string // socket; "" is none

	knownAs    string   // HostKeyAlias
	knownHosts []string // the first is written to
	jumps      []target // in the order of travel, each without jumps of its own
}

func (t target) addr() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// name is how known_hosts calls it, before normalization.
func (t target) name() string {
	if t.knownAs != "" {
		return t.knownAs
	}
	return t.addr()
}

func (t target) String() string {
	if t.alias == t.host {
		return fmt.Sprintf("%s@%s", t.user, t.addr())
	}
	return fmt.Sprintf("%s (%s@%s)", t.alias, t.user, t.addr())
}

// maxJumps bounds a way that leads in circles.
const maxJumps = 8

// resolver looks up hosts as ssh does.
type resolver struct {
	files []*ssh_config.Config
	home  string
}

func newResolver(file string) (*resolver, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	r := &resolver{home: home}
	switch file {
	case "none":
		return r, nil
	case "":
		for _, name := range []string{filepath.Join(home, ".ssh", "config"), "/etc/ssh/ssh_config"} {
			if err := r.read(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return r, nil
	}
	return r, r.read(r.expand(file, target{}))
}

func (r *resolver) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("ssh_config: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > 4<<20 {
		return fmt.Errorf("ssh_config: %s is not a regular file of reasonable size", name)
	}
	c, err := ssh_config.Decode(f)
	if err != nil {
		return fmt.Errorf("%s: %w; name another file (ssh_config_file), or none", name, err)
	}
	r.files = append(r.files, c)
	return nil
}

// get returns the first value of a keyword.
func (r *resolver) get(alias, key string) (string, error) {
	for _, f := range r.files {
		v, err := f.Get(alias, key)
		if err != nil {
			return "", fmt.Errorf("ssh_config: %s of %s: %w", key, alias, err)
		}
		if v = unquote(v); v != "" {
			return v, nil
		}
	}
	return "", nil
}

func (r *resolver) all(alias, key string) (values []string, err error) {
	for _, f := range r.files {
		v, err := f.GetAll(alias, key)
		if err != nil {
			return nil, fmt.Errorf("ssh_config: %s of %s: %w", key, alias, err)
		}
		for _, one := range v {
			values = append(values, unquote(one))
		}
	}
	return values, nil
}

func unquote(v string) string {
	v = strings.TrimSpace(v)
	if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	return v
}

// expand replaces ~ and the tokens that ssh knows.
func (r *resolver) expand(v string, t target) string {
	if v == "~" || strings.HasPrefix(v, "~/") {
		v = r.home + v[1:]
	}
	me := ""
	if strings.Contains(v, "%u") {
		me = username()
	}
	return strings.NewReplacer("%%", "%", "%d", r.home, "%h", t.host, "%n", t.alias, "%p", strconv.Itoa(t.port), "%r", t.user, "%u", me).Replace(v)
}

func username() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// resolve finds the host of a Config and the way there.
func resolve(c Config) (target, error) {
	if c.Host == "" {
		return target{}, errors.New("no host is configured (terminal.ssh_host, or a backend of type ssh under backends:)")
	}
	r, err := newResolver(c.ConfigFile)
	if err != nil {
		return target{}, err
	}
	t, err := r.target(c.Host, c)
	if err != nil {
		return target{}, err
	}
	t.jumps, err = r.way(t, c, 0)
	return t, err
}

// target is one host, without the way there.
func (r *resolver) target(alias string, c Config) (t target, err error) {
	if u, host, ok := cutLast(alias, "@"); ok {
		alias = host
		if c.User == "" {
			c.User = u
		}
	}
	if host, port, err := net.SplitHostPort(alias); err == nil && c.Port == 0 {
		if c.Port, err = strconv.Atoi(port); err != nil || c.Port < 1 {
			return t, fmt.Errorf("host %q: port %q is none", alias, port)
		}
		alias = host
	}
	if alias == "" || strings.HasPrefix(alias, "-") || strings.ContainsAny(alias, " \t\n\x00/") {
		return t, fmt.Errorf("%q cannot be a host", alias)
	}
	t = target{alias: alias, host: alias, port: c.Port, user: c.User}
	get := func(key string) string {
		v, e := r.get(alias, key)
		if err == nil {
			err = e
		}
		return v
	}
	if v := get("HostName"); v != "" {
		t.host = strings.NewReplacer("%%", "%", "%h", alias).Replace(v)
	}
	if v := get("Port"); t.port == 0 && v != "" {
		n, e := strconv.Atoi(v)
		if e != nil || n < 1 {
			return t, fmt.Errorf("ssh_config: Port %q of %s is none", v, alias)
		}
		t.port = n
	}
	if t.port == 0 {
		t.port = 22
	}
	if t.port > 65535 || t.port < 0 {
		return t, fmt.Errorf("host %s: port %d is none", alias, t.port)
	}
	if v := get("User"); t.user == "" {
		t.user = v
	}
	if t.user == "" {
		t.user = username()
	}
	t.knownAs = get("HostKeyAlias")
	t.identitiesOnly = strings.EqualFold(get("IdentitiesOnly"), "yes")
	t.agent = r.agent(c.Agent, get("IdentityAgent"), t)
	known := c.KnownHosts
	if known == "" {
		known = get("UserKnownHostsFile")
	} else {
		known = `"` + known + `"`
	}
	for _, name := range fields(known) {
		if name != "none" {
			t.knownHosts = append(t.knownHosts, r.expand(name, t))
		}
	}
	if known == "" {
		t.knownHosts = []string{filepath.Join(r.home, ".ssh", "known_hosts")}
	}
	keys, e := r.all(alias, "IdentityFile")
	if err = errors.Join(err, e); err != nil {
		return t, err
	}
	if c.Key != "" {
		keys, t.identitiesOnly = []string{c.Key}, true
	}
	for _, k := range keys {
		if k != "none" {
			t.keys = append(t.keys, r.expand(k, t))
		}
	}
	if t.keysNamed = len(keys) > 0; !t.keysNamed {
		for _, k := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			t.keys = append(t.keys, filepath.Join(r.home, ".ssh", k))
		}
	}
	return t, nil
}

// agent is the socket of the agent, "" for none.
func (r *resolver) agent(flag, config string, t target) string {
	for _, v := range []string{flag, config, "SSH_AUTH_SOCK"} {
		switch {
		case v == "none":
			return ""
		case v == "SSH_AUTH_SOCK":
			return os.Getenv("SSH_AUTH_SOCK")
		case strings.HasPrefix(v, "$"):
			return os.Getenv(v[1:])
		case v != "":
			return r.expand(v, t)
		}
	}
	return ""
}

// way lists the hosts to go through: those of ProxyJump, and theirs.
func (r *resolver) way(t target, c Config, depth int) (way []target, err error) {
	jump, err := r.get(t.alias, "ProxyJump")
	if err != nil {
		return nil, err
	}
	if jump == "" || jump == "none" {
		if command, err := r.get(t.alias, "ProxyCommand"); err == nil && command != "" && command != "none" {
			return nil, fmt.Errorf("ssh_config: %s has a ProxyCommand, which is not run; use ProxyJump", t.alias)
		}
		return nil, nil
	}
	if depth >= maxJumps {
		return nil, fmt.Errorf("ssh_config: the ProxyJump of %s leads through more than %d hosts, perhaps in a circle", t.alias, maxJumps)
	}
	for i, hop := range strings.Split(jump, ",") {
		hop = strings.TrimPrefix(strings.TrimSpace(hop), "ssh://")
		h, err := r.target(hop, Config{Agent: c.Agent})
		if err != nil {
			return nil, fmt.Errorf("ProxyJump of %s: %w", t.alias, err)
		}
		if i == 0 { // those behind it are reached through it
			before, err := r.way(h, c, depth+1)
			if err != nil {
				return nil, err
			}
			way = append(way, before...)
		}
		way = append(way, h)
		if len(way) > maxJumps {
			return nil, fmt.Errorf("ssh_config: the ProxyJump of %s leads through more than %d hosts", t.alias, maxJumps)
		}
	}
	return way, nil
}

// fields splits at spaces outside of double quotes.
func fields(v string) (list []string) {
	quoted, one := false, ""
	for _, r := range v + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ' ' || r == '\t'):
			if one != "" {
				list = append(list, one)
			}
			one = ""
		default:
			one += string(r)
		}
	}
	return list
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
