package web

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

const (
	private = "Blocked: URL targets a private or internal network address"
	invalid = "Invalid URL: "
)

func TestTarget(t *testing.T) {
	for _, c := range []struct{ raw, want string }{ // want is the plain form, or what the error begins with
		{"https://example.com", "https://example.com"},
		{" https://Example.COM./a?b#c ", "https://example.com/a?b"},
		{"HTTP://example.com:080/x", "http://example.com:80/x"},
		{"http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"},
		{"http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"},
		{"http://under_score.example.com/", "http://under_score.example.com/"},
		{"http://8.8.8.8/", "http://8.8.8.8/"},
		{"http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"},
		{"http://[::ffff:8.8.8.8]/", "http://[::ffff:8.8.8.8]/"},
		{"http://7.example.com/", "http://7.example.com/"},
		{"http://0x7f.example.com/", "http://0x7f.example.com/"},

		{"http://127.0.0.1/x", private},
		{"http://127.1/", private},
		{"http://127.0.1/", private},
		{"http://2130706433/", private},
		{"http://0x7f000001/", private},
		{"http://0X7F.0.0.1/", private},
		{"http://0177.0.0.1/", private},
		{"http://017700000001/", private},
		{"http://0x7f.1/", private},
		{"http://0/", private},
		{"http://0x/", private},
		{"http://127.0.0.1./", private},
		{"http://%31%32%37.0.0.1/", invalid},
		{"http://１２７.０.０.１/", private},
		{"http://127。0。0。1/", private},
		{"http://①②⑦.⓪.⓪.①/", private},
		{"http://[::1]/", private},
		{"http://[::]/", private},
		{"http://[::ffff:127.0.0.1]/", private},
		{"http://[::ffff:7f00:1]/", private},
		{"http://[0:0:0:0:0:0:0:1]/", private},
		{"http://[64:ff9b::a00:1]/", private},
		{"http://[2002:7f00:1::]/", private},
		{"http://[fe80::1%25eth0]/", private},
		{"http://[fd00:ec2::254]/", private},
		{"http://169.254.169.254/latest/meta-data", private},
		{"http://2852039166/", private},
		{"http://168.63.129.16/", private},
		{"http://localhost/", private},
		{"http://LOCALHOST./", private},
		{"http://a.b.localhost:8080/", private},
		{"http://metadata.google.internal/", private},

		{"http://134744072/", invalid}, // 8.8.8.8, but who knows
		{"http://010.8.8.8/", invalid}, // 8.8.8.8 or 10.8.8.8
		{"http://8.8.8/", invalid},
		{"http://1.2.3.4.5/", invalid},
		{"http://256.1.1.1/", invalid},
		{"http://4294967296/", invalid},
		{"", invalid},
		{"example.com/x", invalid},
		{"//example.com", invalid},
		{"ftp://example.com/", invalid},
		{"file:///etc/passwd", invalid},
		{"gopher://example.com:70/", invalid},
		{"javascript:alert(1)", invalid},
		{"http:example.com", invalid},
		{"http://", invalid},
		{"http:///x", invalid},
		{"http://user:pass@example.com/", invalid},
		{"http://example.com@127.0.0.1/", invalid},
		{"http://@example.com/", invalid},
		{`http://example.com\@127.0.0.1/`, invalid},
		{"http://exa mple.com/", invalid},
		{"http://example.com/\n", "http://example.com/"},
		{"http://example.com/a\nb", invalid},
		{"http://example.com/a\x00b", invalid},
		{"http://example..com/", invalid},
		{"http://.example.com/", invalid},
		{"http://exa%2fmple.com/", invalid},
		{"http://example.com:0/", invalid},
		{"http://example.com:65536/", invalid},
		{"http://example.com:/", invalid},
		{"http://example.com:-1/", invalid},
		{"http://example.com:25/", "Blocked: port 25"},
		{"http://example.com:6379/", "Blocked: port 6379"},
		{"http://[::1/", invalid},
		{"http://[1.2.3.4]/", invalid},
		{"http://" + strings.Repeat("a.", 127) + "com/", invalid},
		{"http://" + strings.Repeat("a", 64) + ".com/", invalid},
		{"http://example.com/" + strings.Repeat("x", maxURL), invalid},
	} {
		u, err := New(Config{}).target(c.raw)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = u.String()
		}
		if got != c.want && !(err != nil && strings.HasPrefix(got, c.want)) {
			t.Errorf("%.80q: got %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestTargetWithPrivateNetworksOpen(t *testing.T) {
	c := New(Config{AllowPrivate: true})
	for raw, ok := range map[string]bool{
		"http://127.0.0.1:8080/": true, "http://localhost/": true, "http://10.0.0.1/": true, "http://[::1]/": true, "http://[fd12::1]/": true,
		"http://169.254.169.254/": false, "http://[::ffff:169.254.169.254]/": false, "http://100.100.100.200/": false, "http://168.63.129.16/": false,
		"http://[fd00:ec2::254]/": false, "http://metadata.google.internal/": false, "http://0.0.0.0/": false, "http://2852039166/": false,
	} {
		if _, err := c.target(raw); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestSecretsInAddresses(t *testing.T) {
	secret := func(s string) bool { return strings.Contains(s, "sk-secret") || strings.Contains(s, "+49") }
	for raw, want := range map[string]bool{
		"https://example.com/?k=sk-secret":           true,
		"https://example.com/?k=%73k-secret":         true,
		"https://example.com/?k=sk%2Dsecret":         true,
		"https://example.com/?k=%2573k-secret":       true,
		"https://example.com/?k=%25252573k-secret":   false, // beyond what anybody decodes
		"https://example.com/%zz/%73k-secret":        true,
		"https://sk-secret.example.com/":             true,
		"https://example.com/?k=task-sekretary-sk":   false,
		"https://example.com/?q=a+49+30":             false,
		"https://example.com/search?q=100%25+secret": false,
	} {
		if got := holdsSecret(raw, secret); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
	_, err := New(Config{Secret: secret}).Extract(t.Context(), []string{"https://example.com/", "https://example.com/?k=sk-secret"})
	if !errors.Is(err, ErrSecret) {
		t.Errorf("the call went on: %v", err)
	}
}

func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"http://127.1/", "https://example.com/a?b#c", "http://[::ffff:1.2.3.4]:80/", "http://0x7f.1/", "http://bücher.example", "http://a%2eb/", "http://①/", "http://[fe80::1%25x]/"} {
		f.Add(seed)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		holdsSecret(raw, func(string) bool { return false })
		u, err := c.target(raw)
		if err != nil {
			return
		}
		again, err := c.target(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q became %q, which became %v, %v", raw, u, again, err)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && c.admitAddress(ip) != nil {
			t.Fatalf("%q leads to %v", raw, ip)
		}
	})
}
