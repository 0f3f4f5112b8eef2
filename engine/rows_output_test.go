package engine

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	key48 = "aB3dE5gH7jK9mN1pQaB3dE5gH7jK9mN1pQaB3dE5gH7jK9mN"
	jwt   = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

// masks prints a text from a script and wants it in the result as it should be
// seen there. Texts come in pairs: what is printed, what is seen; "" for as it is.
func masks(pairs ...string) func(*testing.T) {
	return func(t *testing.T) {
		var code, want strings.Builder
		for i := 0; i < len(pairs); i += 2 {
			code.WriteString("print(" + strconv.QuoteToASCII(pairs[i]) + ")\n")
			seen := pairs[i+1]
			if seen == "" {
				seen = pairs[i]
			}
			want.WriteString(seen + "\n")
		}
		r := run(t, code.String(), nil)
		got, wanted := strings.Split(r.Output, "\n"), strings.Split(want.String(), "\n")
		for i := range max(len(got), len(wanted)) {
			if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
				t.Fatalf("line %d: got %q\nwant %q\n%s", i, got[min(i, len(got)-1):], wanted[min(i, len(wanted)-1):], r.Stderr)
			}
		}
	}
}

// outputRows are those of section 1.8.
func outputRows() []row {
	const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----"
	vendors := []string{"key sk-" + key48 + " end", "key sk-aB3...K9mN end", "sk-abc123def4", "***"}
	for _, prefix := range strings.Fields(`sk- ghp_ github_pat_ gho_ ghu_ ghs_ ghr_ xoxb- xoxa- xoxp- xoxr- xoxs- AIza pplx- fal_ fc- bb_live_ gAAAA
		sk_live_ sk_test_ rk_live_ SG. hf_ r8_ npm_ pypi- dop_v1_ doo_v1_ am_ sk_ tvly- exa_ gsk_ syt_ retaindb_ hsk- mem0_ brv_ xai- ntn_`) {
		token := prefix + key48
		vendors = append(vendors, token, token[:6]+"..."+token[len(token)-4:], "x"+token, "") // not inside a word
	}
	vendors = append(vendors, "id AKIAIOSFODNN7EXAMPLE.", "id AKIAIO...MPLE.")

	return []row{
		{id: "1.8/1 order of the steps", beaten: "S10: redacted before it is cut: no part of a secret survives at an edge", test: all(
			masks("\x1b[31msk-"+key48[:20]+"\x1b[0m"+key48[20:], "sk-aB3...K9mN"), // stripped before redacted
			func(t *testing.T) {
				for _, cut := range []int{0, len(key48) / 2, len(key48) + 2} {
					r := run(t, "print('a' * "+strconv.Itoa(20_000-1-cut)+" + ' sk-"+key48+" ' + 'c' * 60000, end='')", nil)
					if strings.Contains(r.Output, "aB3dE5gH7jK9") || strings.Contains(r.Output, "mN1pQaB3dE5gH7") || !r.Truncated {
						t.Errorf("cut at %d: %q", cut, r.Output[19_900:20_200])
					}
				}
				// Each stream by itself, and status strings as they are.
				r := run(t, "import sys, time\nprint('o sk-"+key48+"'); print('e\\x1b[1m sk-"+key48+"', file=sys.stderr)\ntime.sleep(60)", func(_ *Config, _ *Task, s *Script) { s.Limits.Timeout = time.Second })
				if r.Output != "o sk-aB3...K9mN\n\n\n⏰ Script timed out after 1s and was killed." || r.Stderr != "e sk-aB3...K9mN\n" {
					t.Errorf("%s", r.JSON())
				}
			})},

		{id: "1.8/2 ANSI", test: masks(
			"\x1b[1;31mred\x1b[0m", "red", "\x1b[?25lx\x1b[38:2::255:0:0my\x1b[0 q", "xy", // CSI
			"\x1b]0;title\ax\x1b]8;;http://e.org\x1b\\link\x1b]8;;\x1b\\", "xlink", // OSC
			"\x1bP1$r0m\x1b\\a\x1bXb\x1b\\c\x1b^d\x1b\\e\x1b_f\x1b\\g", "aceg", // DCS SOS PM APC
			"\x1b(Ba\x1b7b\x1bMc\x1bcd", "abcd", // nF Fp Fe Fs
			"\u009b31mx\u009d0;t\u009cy\u0085z", "xyz", // 8 bit
			"plain héllo\t世", "")},

		{id: "1.8/3 redaction switch", test: all(
			masks("sk-"+key48, "sk-aB3...K9mN"),
			printsWith(func(c *Config, _ *Task, _ *Script) { c.ShowSecrets = true }, "print('sk-"+key48+"')", "sk-"+key48+"\n"),
			func(t *testing.T) {
				for _, c := range []struct {
					yaml, env string
					want      bool
				}{
					{"", "X=", true}, {"security: {redact_secrets: false}", "X=", false}, {"security: {redact_secrets: false}", "HERMES_REDACT_SECRETS=1", true},
					{"", "HERMES_REDACT_SECRETS=on", true}, {"", "HERMES_REDACT_SECRETS=yes", true}, {"", "HERMES_REDACT_SECRETS=TRUE", true},
					{"", "HERMES_REDACT_SECRETS=off", false}, {"", "HERMES_REDACT_SECRETS=0", false},
				} {
					if got := configured(t, c.yaml, c.env).Security.RedactSecrets; got != c.want {
						t.Errorf("%q, %s: %v", c.yaml, c.env, got)
					}
				}
			})},

		{id: "1.8/4 vendor prefixes", test: masks(vendors...)},

		{id: "1.8/5 assignments", beaten: "a limit, a flag or a piece of code is no secret", test: masks(
			"API_KEY=abcdef1234567890abcdef", "API_KEY=abcdef...cdef", "export DB_PASSWORD='hunter2 and more'", "export DB_PASSWORD='***'",
			`GITHUB_TOKEN = "0123456789abcdef0123"`, `GITHUB_TOKEN = "012345...0123"`, "MY_APIKEY=a1b2c3d4e5", "MY_APIKEY=***", "X_SECRET=a1b2c3d4e5", "X_SECRET=***",
			"X_PASSWD=a1b2c3d4e5", "X_PASSWD=***", "X_CREDENTIAL=a1b2c3d4e5", "X_CREDENTIAL=***", "X_AUTH=a1b2c3d4e5a1b2c3d4e5", "X_AUTH=a1b2c3...d4e5",
			"MAX_TOKENS=100", "", "USE_AUTH=true", "", `API_KEY = os.environ["API_KEY"]`, "")},

		{id: "1.8/6 JSON fields", test: func(t *testing.T) {
			var pairs []string
			for _, name := range strings.Fields("api_key apiKey token secret password access_token refresh_token auth_token bearer secret_value raw_secret secret_input key_material PASSWORD") {
				pairs = append(pairs, `{"`+name+`": "a1b2c3d4e5"}`, `{"`+name+`": "***"}`)
			}
			masks(append(pairs, `{"pos": "NOUN", "token": "hello"}`, "")...)(t)
		}},

		{id: "1.8/7 authorization", test: masks("Authorization: Bearer abcdef123456", "Authorization: Bearer ***",
			`curl -H "authorization: bearer 0123456789abcdef0123"`, `curl -H "authorization: bearer 012345...0123"`)},

		{id: "1.8/8 telegram", test: masks("bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "bot123456789:***", "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "123456789:***")},

		{id: "1.8/9 private keys", test: masks("a\n"+pem+"\nb", "a\n[REDACTED PRIVATE KEY]\nb")},

		{id: "1.8/10 connection strings", beaten: "never over the end of a line", test: masks("postgres://me:s3cret@db/x", "postgres://me:***@db/x", "postgresql://me:s3cret@db/x", "postgresql://me:***@db/x",
			"mysql://me:s3cret@db/x", "mysql://me:***@db/x", "mongodb://me:s3cret@db/x", "mongodb://me:***@db/x", "mongodb+srv://me:s3cret@db/x", "mongodb+srv://me:***@db/x",
			"redis://me:s3cret@db/0", "redis://me:***@db/0", "amqp://me:s3cret@mq", "amqp://me:***@mq", "postgres://localhost:5432\nthird@line", "")},

		{id: "1.8/11 web tokens", test: masks("t "+jwt+" u", "t eyJhbG...sR8U u", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJhbG...VCJ9")},

		{id: "1.8/12 forms", beaten: "a line among others too", test: masks("grant_type=password&username=me&password=hunter2!", "grant_type=password&username=me&password=***")},

		{id: "1.8/13 telephone numbers", beaten: "a number in code is none", test: masks("call +15551234567.", "call +155****4567.", "x = +15551234567", "")},

		{id: "1.8/14 mask", test: masks("Authorization: Bearer 12345678901234567", "Authorization: Bearer ***", "Authorization: Bearer 123456789012345678", "Authorization: Bearer 123456...5678")},

		{id: "1.8/15 addresses of web pages", test: masks("http://me:pw1234567@example.org/?token=a1b2c3d4e5f6", "", "https://example.org/?api_key=a1b2c3d4e5f6&password=x", "")},
	}
}
