package web

import (
	"net/netip"
	"testing"
)

// Every form in which a private address can hide, and the public address that
// is most like it.
func TestAddressClasses(t *testing.T) {
	const ( // what opens it
		public  = iota
		allowed // Config.AllowPrivate
		never
	)
	for _, c := range []struct {
		ip   string
		want int
	}{
		{"0.0.0.0", never}, {"0.255.255.255", never}, {"1.0.0.0", public},
		{"9.255.255.255", public}, {"10.0.0.0", allowed}, {"10.255.255.255", allowed}, {"11.0.0.0", public},
		{"100.63.255.255", public}, {"100.64.0.0", allowed}, {"100.127.255.255", allowed}, {"100.128.0.0", public},
		{"100.100.100.200", never}, {"100.100.100.201", allowed},
		{"126.255.255.255", public}, {"127.0.0.1", allowed}, {"127.255.255.254", allowed}, {"128.0.0.0", public},
		{"168.63.129.16", never}, {"168.63.129.15", public}, {"168.63.129.17", public},
		{"169.253.255.255", public}, {"169.254.0.0", never}, {"169.254.169.254", never}, {"169.254.170.2", never}, {"169.255.0.0", public},
		{"172.15.255.255", public}, {"172.16.0.0", allowed}, {"172.31.255.255", allowed}, {"172.32.0.0", public},
		{"192.0.0.0", never}, {"192.0.0.192", never}, {"192.0.1.0", public}, {"192.0.2.1", never}, {"192.0.3.0", public},
		{"192.88.98.255", public}, {"192.88.99.1", never}, {"192.88.100.0", public},
		{"192.167.255.255", public}, {"192.168.0.0", allowed}, {"192.168.255.255", allowed}, {"192.169.0.0", public},
		{"198.17.255.255", public}, {"198.18.0.0", allowed}, {"198.19.255.255", allowed}, {"198.20.0.0", public},
		{"198.51.99.255", public}, {"198.51.100.1", never}, {"198.51.101.0", public},
		{"203.0.112.255", public}, {"203.0.113.1", never}, {"203.0.114.0", public},
		{"223.255.255.255", public}, {"224.0.0.1", never}, {"239.255.255.255", never}, {"240.0.0.0", never}, {"255.255.255.255", never},
		{"8.8.8.8", public}, {"93.184.216.34", public},

		{"::", never}, {"::1", allowed}, {"::2", never}, {"::7f00:1", never}, {"::808:808", never}, // IPv4-compatible
		{"::ffff:127.0.0.1", allowed}, {"::ffff:10.1.2.3", allowed}, {"::ffff:169.254.169.254", never}, {"::ffff:8.8.8.8", public},
		{"::ffff:0:127.0.0.1", never}, {"::ffff:0:8.8.8.8", never}, // translated, RFC 2765
		{"64:ff9b::7f00:1", never}, {"64:ff9b::a01:203", never}, {"64:ff9b::a9fe:a9fe", never}, {"64:ff9b::808:808", public},
		{"64:ff9b:1::808:808", never}, {"64:ff9b:1:ffff::1", never}, {"64:ff9a::1", never},
		{"100::1", never}, {"200::1", never}, {"1fff::1", never},
		{"2000::1", public}, {"2001::1", never}, {"2001:0:4136:e378:8000:63bf:3fff:fdd2", never}, // Teredo
		{"2001:2::1", never}, {"2001:10::1", never}, {"2001:20::1", never}, {"2001:1ff::1", never}, {"2001:200::1", public},
		{"2001:db7::1", public}, {"2001:db8::1", never}, {"2001:db9::1", public}, {"2001:4860:4860::8888", public},
		{"2001:ffff::1", public}, {"2002::1", never}, {"2002:7f00:1::", never}, {"2002:808:808::1", never}, {"2003::1", public},
		{"2606:4700::1111", public}, {"2606:4700::5efe:a00:1", never}, {"2606:4700:0:0:200:5efe:a00:1", never}, {"2606:4700::5eff:a00:1", public},
		{"3ffe:ffff::1", public}, {"3fff::1", never}, {"3fff:1000::1", public}, {"4000::1", never}, {"5f00::1", never},
		{"fbff::1", never}, {"fc00::1", allowed}, {"fd12:3456::1", allowed}, {"fd00:ec2::254", never}, {"fd00:ec3::254", allowed}, {"fd20:ce::254", never},
		{"fe80::1", never}, {"fe80::1%eth0", never}, {"2606:4700::1%eth0", never}, {"fec0::1", never}, {"ff02::1", never},
	} {
		ip := netip.MustParseAddr(c.ip)
		closed, open := New(Config{}), New(Config{AllowPrivate: true})
		if got := closed.admitAddress(ip) == nil; got != (c.want == public) {
			t.Errorf("%s: admitted is %v", c.ip, got)
		}
		if got := open.admitAddress(ip) == nil; got != (c.want != never) {
			t.Errorf("%s with private networks open: admitted is %v", c.ip, got)
		}
	}
	if New(Config{AllowPrivate: true}).admitAddress(netip.Addr{}) == nil {
		t.Error("no address at all was admitted")
	}
}

func FuzzAddress(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("64:ff9b::7f00:1").AsSlice())
	f.Fuzz(func(t *testing.T, b []byte) {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		class, private := classOf(ip)
		if ip = ip.Unmap(); class == "" && (ip.IsPrivate() || ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast()) {
			t.Errorf("%v counts as public", ip)
		}
		if private && (ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast()) {
			t.Errorf("%v can be opened", ip)
		}
	})
}
