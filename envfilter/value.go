package envfilter

import (
	"path/filepath"
	"strings"
)

func isPath(name string) bool { return strings.EqualFold(name, "PATH") }

// cleanPath drops every entry of a search path that is not absolute: an empty
// one and "." mean the working directory, where anyone may have put an "ls".
func cleanPath(value string) string {
	var keep []string
	for _, dir := range filepath.SplitList(value) {
		if filepath.IsAbs(dir) {
			keep = append(keep, dir)
		}
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

func isProxy(name string) bool {
	upper := strings.ToUpper(name)
	return upper == "PROXY" || strings.HasSuffix(upper, "_PROXY")
}

// cleanProxy removes user and password from a proxy address. strict is for the
// names that are known to hold one: whatever is not a plain address is refused
// there, since a password may hide in anything else. Other names are only
// looked at when an '@' says that there is something to remove.
func cleanProxy(name, value string, strict bool) (string, bool) {
	if strings.HasPrefix(strings.ToUpper(name), "NO_") { // a list of hosts
		return value, !strings.ContainsRune(value, '@')
	}
	if value == "" || !strict && !strings.ContainsRune(value, '@') {
		return value, true
	}
	scheme, rest := "", value
	if i := strings.Index(value, "://"); i >= 0 {
		scheme, rest = value[:i+3], value[i+3:]
		if !onlyOf(value[:i], "+.-") || i == 0 {
			return "", false
		}
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	// What follows the host is kept only if it is as plain as a path can be:
	// in http://me:pa/ss@host the password reaches past the first slash.
	if !onlyOf(path, "/._-") {
		return "", false
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	if !plainHost(authority) {
		return "", false
	}
	return scheme + authority + path, true
}

// plainHost accepts host, host:port and [v6]:port.
func plainHost(s string) bool {
	host, port := s, ""
	if v6, ok := strings.CutPrefix(s, "["); ok {
		addr, after, closed := strings.Cut(v6, "]")
		if !closed || addr == "" || strings.Trim(addr, "0123456789abcdefABCDEF:.") != "" {
			return false
		}
		if after == "" {
			return true
		}
		if after[0] != ':' {
			return false
		}
		host, port = "v6", after[1:]
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
	} else {
		port = "0"
	}
	return host != "" && onlyOf(host, ".-_") && port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == ""
}

// onlyOf says whether s is made of ASCII letters, digits and extra alone.
func onlyOf(s, extra string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(extra, c) >= 0 {
			continue
		}
		return false
	}
	return true
}
