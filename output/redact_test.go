package output

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	alnum   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	pemBody = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\nNMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ\nab12=\n"
	pemKey  = "-----BEGIN PRIVATE KEY-----\n" + pemBody + "-----END PRIVATE KEY-----"
	token   = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

func body(n int) string { return strings.Repeat("aB3dE5gH7jK9mN1pQ", n/17+1)[:n] }

// TestRedact has the ten rules of the reference, in its order.
func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		// 1. vendor prefixes
		{"short", "sk-abc123def4", "***"},
		{"long", "key sk-" + body(48) + " end", "key sk-aB3...K9mN end"},
		{"anthropic", "sk-ant-api03-" + body(90), ""},
		{"github", "https://x:ghp_" + body(36) + "@github.com", "https://x:ghp_aB...pQaB@github.com"},
		{"aws", "id AKIAIOSFODNN7EXAMPLE.", "id AKIAIO...MPLE."},
		{"google", "AIzaSy" + body(33), ""},
		{"slack", "xoxb-123456789012-abcdef", "xoxb-1...cdef"},
		{"sendgrid", "SG." + body(22) + "." + body(43) + ".", ""},
		{"fernet", "gAAAAABk" + body(60) + "==", ""},
		{"stripe", "sk_live_" + body(24), ""},
		{"huggingface", "hf_" + body(34), ""},
		{"npm", "npm_" + body(36), ""},
		{"xai", "xai-" + body(70), ""},
		{"after an escaped line end", `"a\nsk-` + body(40) + `"`, `"a\nsk-aB3...3dE5"`},
		// 2. NAME=value
		{"assignment", "API_KEY=abcdef1234567890abcdef", "API_KEY=abcdef...cdef"},
		{"quoted", `export DB_PASSWORD='hunter2 and more'`, `export DB_PASSWORD='***'`},
		{"spaced", `GITHUB_TOKEN = "0123456789abcdef0123"`, `GITHUB_TOKEN = "012345...0123"`},
		{"aws secret", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=wJalrX...EKEY"},
		{"weak password", "PGPASSWORD=letmein", "PGPASSWORD=***"},
		{"numeric password", "MYSQL_PASSWORD=12345678", "MYSQL_PASSWORD=***"},
		{"in a command", `bash -c "API_TOKEN=s3cr3tv4lue; run"`, `bash -c "API_TOKEN=***; run"`},
		{"in JSON text", `{"env":"A=1\nAPI_TOKEN=s3cr3tv4lue\nB=2"}`, `{"env":"A=1\nAPI_TOKEN=***\nB=2"}`},
		// 3. JSON
		{"json", `{"api_key": "0123456789abcdefghij"}`, `{"api_key": "012345...ghij"}`},
		{"json case and joint", `{"accessToken":"a1b2c3d4","Client-Secret":"zzz9"}`, `{"accessToken":"***","Client-Secret":"***"}`},
		{"json in a string", `"{\"password\": \"hunter2\"}"`, `"{\"password\": \"***\"}"`},
		{"repr", `{'refresh_token': 'r1-98765'}`, `{'refresh_token': '***'}`},
		{"json, escaped quote", `{"password": "hun\"ter2", "a": "b"}`, `{"password": "***", "a": "b"}`},
		// 4. authorization
		{"bearer", "Authorization: Bearer abcdef123456", "Authorization: Bearer ***"},
		{"bearer in curl", `curl -H "authorization: bearer 0123456789abcdef0123"`, `curl -H "authorization: bearer 012345...0123"`},
		{"basic", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic dXNlcj...ZA=="},
		{"field", `{"Authorization": "Bearer 0123456789abcdef0123"}`, `{"Authorization": "Bearer 012345...0123"}`},
		{"key header", "X-Api-Key: 0123456789abcdef0123", "X-Api-Key: 012345...0123"},
		// 5. bots
		{"telegram", "bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "bot123456789:***"},
		{"telegram bare", "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "123456789:***"},
		// 6. keys
		{"pem", "a\n" + pemKey + "\nb", "a\n[REDACTED PRIVATE KEY]\nb"},
		{"pem escaped", `{"k":"` + strings.ReplaceAll(pemKey, "\n", `\n`) + `\n"}`, `{"k":"[REDACTED PRIVATE KEY]\n"}`},
		{"pem cut off", "-----BEGIN RSA PRIVATE KEY-----\n" + pemBody, "[REDACTED PRIVATE KEY]\n"},
		{"pem encrypted", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n" + pemBody +
			"-----END RSA PRIVATE KEY-----\n", "[REDACTED PRIVATE KEY]\n"},
		{"pem indented", "  -----BEGIN PRIVATE KEY-----\n  " + strings.ReplaceAll(pemBody, "\n", "\n  ") + "-----END PRIVATE KEY-----", "  [REDACTED PRIVATE KEY]"},
		{"pgp", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n" + pemBody + "=ab12\n-----END PGP PRIVATE KEY BLOCK-----", "[REDACTED PRIVATE KEY]"},
		// 7. connection strings
		{"dsn", "postgres://me:s3cret@db/x", "postgres://me:***@db/x"},
		{"dsn driver", "postgresql+asyncpg://me:s3cret@db/x", "postgresql+asyncpg://me:***@db/x"},
		{"dsn srv", "mongodb+srv://me:p%40ss@c.mongodb.net", "mongodb+srv://me:***@c.mongodb.net"},
		{"dsn without a user", "redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"},
		{"dsn with @", "mysql://me:p@ss@db/x?a=b@c", "mysql://me:***@db/x?a=b@c"},
		{"dsn with /", "amqp://me:p/ss@mq", "amqp://me:***@mq"},
		{"dsn assigned", "DATABASE_URL=postgres://me:s3cret@db/x", "DATABASE_URL=postgres://me:***@db/x"},
		// 8. web tokens
		{"jwt", "t " + token + " u", "t eyJhbG...sR8U u"},
		{"jwt header alone", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJhbG...VCJ9"},
		// 9. forms
		{"form", "grant_type=password&username=me&password=hunter2!", "grant_type=password&username=me&password=***"},
		{"form line", "POST\nclient_secret=a1b2c3d4&x=1\n", "POST\nclient_secret=***&x=1\n"},
		// 10. telephone numbers
		{"phone", "call +15551234567.", "call +155****4567."},
		{"phone link", "see tel:+4915112345678 or (+4915112345678)", "see tel:+491****5678 or (+491****5678)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewRedactor().Redact(c.in)
			if c.want == "" { // the whole of it, but for a full stop
				tok := strings.TrimRight(c.in, ".")
				c.want = mask(tok) + c.in[len(tok):]
			}
			if got != c.want {
				t.Errorf("Redact(%q)\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

// TestRedactLeavesAlone holds what looks like a secret and is none. Where the
// reference masks it, that is its fault: its answer is noted as wrong.
func TestRedactLeavesAlone(t *testing.T) {
	for _, c := range []struct{ name, in, wrong string }{
		{"a limit", "MAX_TOKENS=100", "MAX_TOKENS=***"},
		{"another", "TOKEN_LIMIT = 4096", "TOKEN_LIMIT = ***"},
		{"a count", "PROMPT_TOKENS=128000", "PROMPT_TOKENS=***"},
		{"an author", "AUTHOR=Somebody1", "AUTHOR=***"},
		{"a flag", "USE_AUTH=true", "USE_AUTH=***"},
		{"a kind", "AUTH=basic", "AUTH=***"},
		{"code", `API_KEY = os.environ["API_KEY"]`, `API_KEY = ***`},
		{"a call", "TOKEN = get_token()", "TOKEN = ***"},
		{"an attribute", "SECRET = settings.SECRET", "SECRET = ***"},
		{"a name", "TOKEN = token2", "TOKEN = ***"},
		{"a comparison", "if TOKEN == expected1234567:", ""},
		{"a reference", "API_KEY=$OTHER_KEY_1 API_KEY=${KEY2} API_KEY={key3} API_KEY=<key4>", "API_KEY=***"},
		{"a placeholder", "OPENAI_API_KEY=your-api-key-1 DB_PASSWORD=changeme", "OPENAI_API_KEY=***"},
		{"a masked one", "API_KEY=sk-abc...wxyz PASSWORD=***", ""},
		{"a path", "TOKEN=/run/secrets/token.1 AUTH_FILE=/etc/a1b2c3", ""},
		{"an address", "AUTH_URL=https://login.example.org/oauth2/v2 TOKEN=https://a1.example/b2", ""},
		{"a schema", `{"api_key": "string", "password": "required", "token": ""}`, `{"api_key": "***"}`},
		{"a word", `{"token": "hello", "pos": "NOUN"} {"eos_token": "</s>", "next_page_token": "a1b2c3d4e5f6"}`, ""},
		{"a message", `{"password": "must be at least 8 characters long"}`, ""},
		{"prose", "Bearer authentication is used; the bearer of news", ""},
		{"a scheme with fields", `Authorization: OAuth realm="x", Authorization: Digest username="me"`, ""},
		{"a template", "Authorization: Bearer ${TOKEN1234567890} Authorization: Bearer <token>", ""},
		{"a connection template", "postgres://{user}:{password}@{host}/{db} mysql://u:$PW@h redis://:%(pw)s@h", "postgres://{user}:***@{host}/{db}"},
		{"lines", "postgres://localhost:5432\nsecond line\nthird@line", "postgres://localhost:***@line"},
		{"link", "http://me:pw1234567@example.org/?token=a1b2c3d4e5f6", ""},
		{"number in code", "x = +15551234567", "x = +155****4567"},
		{"number in data", `{"phone": "+15551234567", "n": [1,+15551234567]}`, ""},
		{"number in a diff", "@@\n+15551234567\n-15551234568", "@@\n+155****4567\n-15551234568"},
		{"sum", "id+15551234567 1e+15551234567 5 +15551234567", ""},
		{"zone", "at 12:00 +0000 or +01:00", ""},
		{"css", "sk-folding-cube sk-fading-circle", "***"},
		{"python", "hf_hub_download_file fal_client_run exa_search_results am_pm_indicator", "***"},
		{"npm", "npm_config_global_prefix=/usr npm_package_devDependencies_x", "***"},
		{"model", "pplx-70b-online fc-match-pattern sk_buff_fclones_cache", "***"},
		{"filler", "sk-xxxxxxxxxxxxxxxxxxxxxxxx ghp_XXXXXXXXXXXXXXXXXXXX", "***"},
		{"c names", "sk_X509_EXTENSION_value sk_X509_CERTIFICATES_new", "***"},
		{"mode bits", "S_IFIFO = 0x1000\nSET_TOKEN = 0x0080\nREMOVE_PRIVATE_KEY = C.FS_IOC_REMOVE_2", ""},
		{"a method", "AUTH=CRAM-MD5", "AUTH=***"},
		{"inside a word", "task-abc123def456 risk-0123456789abcdef", ""},
		{"base64 of json", "eyJuYW1lIjoiaGVsbG8iLCJhZ2UiOjQyfQ", "eyJuYW...NDJ9"},
		{"digest", "12345678:da39a3ee5e6b4b0d3255bfef95601890afd80709", "12345678:***"},
		{"pem words", "the -----BEGIN PRIVATE KEY----- line comes first, then text.", ""},
		{"certificate", "-----BEGIN CERTIFICATE-----\n" + pemBody + "-----END CERTIFICATE-----", ""},
		{"query", "a=1&b=2&page_token=3", ""},
		{"go", "const tokenLimit = 100\nvar authToken = getAuthToken(ctx)\n", ""},
		{"hash", "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", ""},
		{"uuid", "123e4567-e89b-12d3-a456-426614174000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewRedactor().Redact(c.in)
			if c.wrong != "" && got == c.wrong {
				t.Fatalf("Redact(%q) = %q, the reference's wrong answer", c.in, got)
			}
			if got != c.in {
				t.Errorf("Redact(%q)\n = %q, want it untouched", c.in, got)
			}
		})
	}
}

func TestRedactOff(t *testing.T) {
	var off *Redactor
	if s := "sk-" + body(40); off.Redact(s) != s {
		t.Error("a nil Redactor redacted")
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "***",
		"12345678901234567":     "***",
		"123456789012345678":    "123456...5678",
		strings.Repeat("é", 17): "***",
		strings.Repeat("é", 18): "éééééé...éééé",
	} {
		if got := mask(in); got != want {
			t.Errorf("mask(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestRedactLinear would not end if a rule looked at the same text again for
// every word of it.
func TestRedactLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("ten megabytes and more")
	}
	r := NewRedactor()
	for _, unit := range []string{
		"redis://", "TOKEN=", `"token":"`, `"token":'`, "eyJ.", "a", "A_TOKEN", "12345678:", "bearer ", "SG.", "x=", "x=y&",
		"-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\n" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n", "redis://a:b", "+1555123",
		`\"token\":\"`, "PASSWORD=\\", "sk-", "-----", "-----END ",
	} {
		t.Run(unit[:min(len(unit), 12)], func(t *testing.T) {
			s := strings.Repeat(unit, 1<<19/len(unit))
			r.Redact(s)
			r.Redact("\n" + s + " x@")
		})
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spans, hold, _ := find(s, 0, true)
		if hold != len(s) {
			t.Fatalf("%q: a final text was held at %d", s, hold)
		}
		end := 0
		for _, sp := range spans {
			if sp.anchor > sp.start || sp.start < end || sp.end <= sp.start || sp.end > len(s) {
				t.Fatalf("%q: bad span %+v after %d", s, sp, end)
			}
			end = sp.end
		}
	})
}

// samples are texts that touch every rule, for tests that cut them up.
var samples = []string{
	"", "plain text\n", "sk-" + body(48) + " x", "API_KEY=abcdef1234567890\nB=2\n", `{"api_key": "0123456789abcdefghij", "a\"b": 1}`,
	`"{\"password\": \"hunter2\"}"`, "Authorization: Bearer abcdef123456\n", "bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
	"a\n" + pemKey + "\nb", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + pemBody, "postgresql+asyncpg://me:p@s/s@db/x?y@z\n",
	"redis://:s3cret@cache", token + ".", "grant_type=x&password=hunter2!&a=b\nnext", "call me at +15551234567.\n", "x = +15551234567",
	"MAX_TOKENS=100 TOKEN = get_token() TOKEN == x", `export A_PASSWORD='hun ter2' B_SECRET="a1b2c3d4" C_TOKEN=`, "SG." + body(22) + "." + body(43) + ".",
	"gAAAAABk" + body(60) + "==", "AKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLEX", `"a\nsk-` + body(40) + `\nAPI_TOKEN=s3cr3tv4lue\n"`,
	"-----BEGIN PRIVATE KEY----- and words that go on here and there", "PASSWORD=ab\"cd PASSWORD=a1b2\\", `{"password": "` + body(900) + `"}`,
	"TOKEN=" + body(900) + " x", `{'token': 'a1b2c3d4'}`, "X-Api-Key: 0123456789abcdef0123", "12345678:da39a3ee5e6b4b0d3255bfef95601890afd80709",
}

// soup makes a text of samples, words and odd bytes.
func soup(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		switch rnd.IntN(6) {
		case 0, 1:
			b.WriteString(samples[rnd.IntN(len(samples))])
		case 2:
			s := samples[rnd.IntN(len(samples))]
			b.WriteString(s[rnd.IntN(len(s)+1):])
		case 3:
			b.WriteString([]string{" ", "\n", "=", "\"", ":", "é世", "\xff", "\\n", "\x1b[1m", "\r\n", "'"}[rnd.IntN(11)])
		default:
			for range rnd.IntN(8) {
				b.WriteByte(alnum[rnd.IntN(len(alnum))])
			}
			b.WriteByte(' ')
		}
	}
	return b.String()
}
