package output

import "testing"

func TestHas(t *testing.T) {
	for _, c := range []struct {
		list, w string
		want    bool
	}{
		{"A BB CCC", "A", true}, {"A BB CCC", "BB", true}, {"A BB CCC", "CCC", true},
		{"A BB CCC", "B", false}, {"A BB CCC", "CC", false}, {"A BB CCC", "A BB", false}, {"A BB", "", false}, {"", "A", false},
	} {
		if got := has(c.list, c.w); got != c.want {
			t.Errorf("has(%q, %q) = %v", c.list, c.w, got)
		}
	}
}

func TestSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"API_KEY": true, "OPENAI_APIKEY": true, "GHTOKEN": true, "DB_PASS": true, "USERPASS": true, "PGPASSWORD": true,
		"AWS_SECRET_ACCESS_KEY": true, "API_KEY_2": true, "TOKEN2": true, "X_CREDS": true, "ENCRYPTION_KEY": true,
		"PATH": false, "MAX_TOKENS": false, "TOKEN_LIMIT": false, "TOKEN_URL": false, "SECRET_NAME": false, "AUTHOR": false,
		"COMPASS": false, "BYPASS": false, "PASSWORD_MIN_LENGTH": false, "KEY": false, "S_IFIFO": false, "TOKENIZER": false,
	} {
		if got := secretName(name); got != want {
			t.Errorf("secretName(%s) = %v", name, got)
		}
	}
}
