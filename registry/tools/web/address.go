package web

import "net/netip"

// network is a range of addresses that are not the public internet's.
type network struct {
	prefix netip.Prefix
	class  string
	// private says that Config.AllowPrivate opens it.
	private bool
}

// networks are searched in order: the first that holds an address decides.
var networks = [...]network{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata service", false},
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata service", false},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata service", false},
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata service", false},
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata service", false},
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata service", false},

	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified", false},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignment", false},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation", false},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", true},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark", true},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation", false},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation", false},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", false},

	{netip.MustParsePrefix("::1/128"), "loopback", true},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible", false},
	{netip.MustParsePrefix("2001::/23"), "protocol assignment", false}, // Teredo, ORCHID, benchmarks
	{netip.MustParsePrefix("2001:db8::/32"), "documentation", false},
	{netip.MustParsePrefix("2002::/16"), "6to4", false},
	{netip.MustParsePrefix("3fff::/20"), "documentation", false},
	{netip.MustParsePrefix("fc00::/7"), "unique local", true},
	{netip.MustParsePrefix("fe80::/10"), "link-local", false},
	{netip.MustParsePrefix("ff00::/8"), "multicast", false},
}

// classOf names the kind of network an address is in, "" for the public
// internet, and reports whether it is one a user can open.
func classOf(ip netip.Addr) (class string, private bool) {
	if !ip.IsValid() {
		return "invalid", false
	}
	if ip.Zone() != "" {
		return "link-local", false
	}
	ip = ip.Unmap()
	for i := range networks {
		if n := &networks[i]; n.prefix.Contains(ip) {
			return n.class, n.private
		}
	}
	if ip.Is4() {
		return "", false
	}
	b := ip.As16()
	if inner, ok := nat64(b); ok {
		// What a NAT64 gateway translates is as public as the address within.
		if class, _ := classOf(inner); class != "" {
			return "NAT64 of a " + class + " address", false
		}
		return "", false
	}
	if b[0]&0xe0 != 0x20 { // only 2000::/3 is handed out
		return "reserved", false
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return "ISATAP", false
	}
	return "", false
}

// nat64 is the IPv4 address within one of the well-known prefix 64:ff9b::/96.
// Other prefixes, 64:ff9b:1::/48 among them, put it where their owner wants.
func nat64(b [16]byte) (netip.Addr, bool) {
	if [12]byte(b[:12]) != [12]byte{0, 0x64, 0xff, 0x9b} {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:])), true
}
