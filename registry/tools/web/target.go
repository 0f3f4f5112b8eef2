package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// problem is an error in the words its reader gets, which are sentences.
type problem string

func (p problem) Error() string { return string(p) }

var (
	// ErrPrivate is what every way into a private network ends in.
	ErrPrivate error = problem("Blocked: URL targets a private or internal network address")
	// ErrSecret refuses a whole call: a secret in an address ends in logs.
	ErrSecret error = problem("Blocked: URL contains what appears to be an API key or token. Secrets must not be sent in URLs.")
)

const (
	maxURL  = 8 << 10
	maxHost = 253
)

// badPorts are those that browsers do not speak HTTP to, either: what listens
// there could take a request for something of its own.
const badPorts = ` 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115
 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990
 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6379 6566 6665 6666 6667 6668 6669 6679 6697 10080 11211 `

// hostProfile maps a host as browsers do: case, width, dots, punycode.
func hostProfile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))
}

// target reads an address a caller wants and writes it in its one plain form:
// lower-case ASCII host, no fragment. What cannot be fetched, and what by its
// text alone leads into a private network, is an error.
func (c *Client) target(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	switch {
	case raw == "":
		return nil, problem("Invalid URL: it is empty")
	case len(raw) > maxURL:
		return nil, problem(fmt.Sprintf("Invalid URL: it is longer than %d bytes", maxURL))
	case !utf8.ValidString(raw):
		return nil, problem("Invalid URL: it is not UTF-8")
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return nil, problem("Invalid URL: spaces, backslashes and control characters must be encoded")
	}
	u, err := url.Parse(raw)
	if err != nil {
		var why *url.Error
		if errors.As(err, &why) {
			err = why.Err
		}
		return nil, problem("Invalid URL: " + err.Error())
	}
	if err := c.admissible(u); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// admissible checks an address that is about to be visited, and makes its host
// plain. Redirects pass through here, too.
func (c *Client) admissible(u *url.URL) error {
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return problem("Invalid URL: only http:// and https:// addresses can be fetched")
	}
	if u.User != nil {
		return problem("Invalid URL: it must not contain a user name or a password")
	}
	host, err := plainHost(u.Hostname())
	if err != nil {
		return err
	}
	port, err := plainPort(u)
	if err != nil {
		return err
	}
	if err := c.admitHost(host); err != nil {
		return err
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host = net.JoinHostPort(host, port)
	}
	return nil
}

// plainHost is a host in lower-case ASCII without a final dot. Every notation
// of an IPv4 address that is not four decimal numbers is refused: what it means
// depends on who reads it.
func plainHost(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && strings.Contains(host, ":") {
		if ip.Zone() != "" {
			return "", ErrPrivate
		}
		return ip.String(), nil
	}
	profile := hostProfile()
	ascii, err := profile.ToASCII(host)
	if again, _ := profile.ToASCII(ascii); err != nil || again != ascii {
		return "", problem("Invalid URL: the host is not a domain name")
	}
	ascii = strings.TrimSuffix(strings.ToLower(ascii), ".")
	if ascii == "" || len(ascii) > maxHost {
		return "", problem("Invalid URL: there is no host in it")
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", problem("Invalid URL: the host is not a domain name")
		}
	}
	if !endsInNumber(ascii) {
		return ascii, nil
	}
	ip, ok := looseIPv4(ascii)
	if class, _ := classOf(ip); !ok || class == "" && ip.String() != ascii {
		return "", problem("Invalid URL: an IPv4 address is four decimal numbers")
	} else if class != "" && ip.String() != ascii {
		return "", ErrPrivate
	}
	return ascii, nil
}

func plainPort(u *url.URL) (string, error) {
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", problem("Invalid URL: the port is empty")
		}
		return "", nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", problem("Invalid URL: the port must be between 1 and 65535")
	}
	port = strconv.FormatUint(n, 10)
	if strings.Contains(badPorts, " "+port+" ") {
		return "", problem("Blocked: port " + port + " does not belong to a web server")
	}
	return port, nil
}

// admitHost judges a plain host by its text.
func (c *Client) admitHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return c.admitAddress(ip)
	}
	switch {
	case host == "metadata.google.internal" || host == "metadata.goog" || host == "instance-data":
		return ErrPrivate
	case c.allowPrivate:
		return nil
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return ErrPrivate
	}
	return nil
}

// admitAddress judges a resolved address.
func (c *Client) admitAddress(ip netip.Addr) error {
	class, private := classOf(ip)
	if class == "" || private && c.allowPrivate {
		return nil
	}
	return ErrPrivate
}

// endsInNumber reports whether a host is to be read as an IPv4 address: its
// last label is a number, in any notation.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if rest, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// looseIPv4 reads an IPv4 address as the C library does: one to four numbers,
// each decimal, octal (0…) or hexadecimal (0x…), the last one filling the rest.
func looseIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var ip uint64
	for i, part := range parts {
		digits, base := part, 10
		if rest, ok := strings.CutPrefix(part, "0x"); ok {
			if digits, base = rest, 16; rest == "" {
				digits = "0"
			}
		} else if len(part) > 1 && part[0] == '0' {
			digits, base = part[1:], 8
		}
		n, err := strconv.ParseUint(digits, base, 33)
		limit, shift := uint64(256), 8*(3-i)
		if i == len(parts)-1 {
			limit, shift = 1<<(8*(4-i)), 0
		}
		if err != nil || n >= limit {
			return netip.Addr{}, false
		}
		ip |= n << shift
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}), true
}

// holdsSecret reports whether an address carries a credential, as written or
// behind percent-encoding, however often that was applied.
func holdsSecret(raw string, secret func(string) bool) bool {
	if secret == nil {
		return false
	}
	for range 4 {
		// A plus is a space in a query, and would look like a telephone number.
		if secret(strings.ReplaceAll(raw, "+", " ")) {
			return true
		}
		plain, err := url.PathUnescape(raw)
		if err != nil {
			plain = unescapeLoosely(raw)
		}
		if plain == raw {
			return false
		}
		raw = plain
	}
	return false
}

// unescapeLoosely decodes what is well-formed and leaves the rest.
func unescapeLoosely(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
