package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Blocklist names the sites that must not be visited.
//
// An entry is a domain, which stands for itself and everything beneath it, or
// "*.domain" for what is beneath it alone. A whole address counts as its host;
// one that begins with "www." covers the name without it, too.
type Blocklist struct {
	Enabled     bool
	Domains     []string
	SharedFiles []string // one entry a line; "#" begins a comment
}

// Blocked says which rule forbids a site.
type Blocked struct {
	Host   string `json:"host"`
	Rule   string `json:"rule"`
	Source string `json:"source"` // "config" or a file
}

func (b *Blocked) Error() string {
	return fmt.Sprintf("Blocked by website policy: '%s' matched rule '%s' from %s", b.Host, b.Rule, b.Source)
}

const maxListFile = 16 << 20

// rules are a loaded blocklist: plain domains, "*." kept in front, by source.
type rules map[string]string

// loadRules reads the list anew: an edit counts from the next call on.
func (c *Client) loadRules() (rules, error) {
	if !c.blocklist.Enabled {
		return nil, nil
	}
	r := rules{}
	for _, entry := range c.blocklist.Domains {
		if err := r.add(entry, "config"); err != nil {
			return nil, fmt.Errorf("security.website_blocklist.domains: %w", err)
		}
	}
	for _, name := range c.blocklist.SharedFiles {
		if err := r.addFile(c.listPath(name)); err != nil {
			return nil, fmt.Errorf("security.website_blocklist.shared_files: %w", err)
		}
	}
	return r, nil
}

// listPath expands the name of a list: ~ is the user's home, and what is
// relative lies beside the configuration.
func (c *Client) listPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && c.home != "" {
		return filepath.Join(c.home, rest)
	}
	if !filepath.IsAbs(name) && c.listDir != "" {
		return filepath.Join(c.listDir, name)
	}
	return name
}

func (r rules) addFile(name string) error {
	f, err := openRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxListFile+1))
	for n := 1; lines.Scan(); n++ {
		if err := r.add(strings.TrimPrefix(lines.Text(), "\ufeff"), name); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() > maxListFile {
		return errors.Join(fmt.Errorf("%s: larger than %d MiB", name, maxListFile>>20), err)
	}
	return nil
}

// openRegular keeps a FIFO or a device from hanging every call.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	return os.Open(name)
}

func (r rules) add(entry, source string) error {
	domain, _, _ := strings.Cut(entry, "#")
	if domain = strings.TrimSpace(domain); domain == "" {
		return nil
	}
	if _, after, ok := strings.Cut(domain, "://"); ok {
		domain = after
	}
	domain, _, _ = strings.Cut(domain, "/")
	domain, beneath := strings.CutPrefix(domain, "*.")
	if _, err := netip.ParseAddr(domain); err != nil {
		u := url.URL{Host: domain}
		if domain = u.Hostname(); strings.Contains(u.Host, "@") {
			domain = ""
		}
	}
	plain, err := plainHost(domain)
	if err != nil {
		return fmt.Errorf("%q is not a domain", entry)
	}
	if beneath {
		plain = "*." + plain
	}
	if _, taken := r[plain]; !taken {
		r[plain] = source
	}
	return nil
}

// check finds the rule that forbids a plain host.
func (r rules) check(host string) error {
	if len(r) == 0 {
		return nil
	}
	found := func(rule string) error { return &Blocked{Host: host, Rule: rule, Source: r[rule]} }
	for _, rule := range []string{host, "www." + host} {
		if _, ok := r[rule]; ok {
			return found(rule)
		}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	for rest := host; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return nil
		}
		for _, rule := range []string{parent, "*." + parent} {
			if _, ok := r[rule]; ok {
				return found(rule)
			}
		}
		rest = parent
	}
}
