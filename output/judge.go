package output

import "strings"

// has says whether the blank-separated list holds w.
func has(list, w string) bool {
	if w == "" || strings.IndexByte(w, ' ') >= 0 {
		return false
	}
	for from := 0; ; {
		i := strings.Index(list[from:], w)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(w)
		if (i == 0 || list[i-1] == ' ') && (end == len(list) || list[end] == ' ') {
			return true
		}
		from = i + 1
	}
}

// The parts of a NAME that say it holds a secret, and those that say it holds
// a fact about one.
const (
	secretParts  = "TOKEN SECRET PASSWORD PASSWD CREDENTIAL CREDENTIALS CREDS AUTH BEARER PASSPHRASE APIKEY APITOKEN PASS PWD AUTHTOKEN"
	passwordEnds = "PASSWORD PASSWD PASSPHRASE PASS PWD SECRET"
	countParts   = "TOKENS MAX MIN LIMIT COUNT NUM NUMBER TOTAL USED USAGE BUDGET LENGTH LEN SIZE TTL EXPIRY EXPIRES " +
		"EXPIRATION TIMEOUT DURATION AGE RATE COST PRICE MAXLEN"
	aboutEnds = "FILE PATH DIR URL URI ENDPOINT HOST PORT NAME TYPE METHOD MODE ENABLED DISABLED ENABLE DISABLE ID USER " +
		"USERNAME DOMAIN REALM SCOPE SCOPES AUDIENCE ISSUER REGION PROVIDER BACKEND CLASS FIELD HEADER PARAM COLUMN " +
		"REQUIRED POLICY ALGORITHM ALG FORMAT REGEX PATTERN PREFIX SUFFIX PROMPT HASHER SOCK SOCKET STRATEGY CALLBACK " +
		"TEMPLATE VERSION IN AT PROXY SERVER SERVICE STORE PLUGIN HANDLER MODULE COOKIE LEVEL STATUS STATE KIND FLAG SOURCE"
	plainWords = "string str text password passwd secret token bytes none null nil true false undefined yes no on off input " +
		"required optional hidden default value empty unset missing invalid valid ok error key any object basic bearer oauth " +
		"oauth2 enabled disabled auto env file test"
)

// secretName judges the NAME of an assignment.
func secretName(name string) bool {
	if len(name) < 4 || len(name) > 128 {
		return false
	}
	hit := strings.Contains(name, "API_KEY") || strings.Contains(name, "ACCESS_KEY") || strings.Contains(name, "PRIVATE_KEY") ||
		strings.Contains(name, "SIGNING_KEY") || strings.Contains(name, "ENCRYPTION_KEY") || strings.Contains(name, "MASTER_KEY")
	last := ""
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "_")
		if part == "" {
			continue
		}
		last = strings.TrimRight(part, "0123456789")
		if has(countParts, part) {
			return false
		}
		hit = hit || secretPart(last)
	}
	return hit && !has(aboutEnds, last)
}

// secretPart also knows the words that a name runs together: GHTOKEN, PGPASSWORD.
func secretPart(p string) bool {
	if has(secretParts, p) {
		return true
	}
	for _, end := range [...]string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "PASSPHRASE", "CREDENTIALS"} {
		if strings.HasSuffix(p, end) {
			return true
		}
	}
	return strings.HasSuffix(p, "PASS") && !has("BYPASS COMPASS TRESPASS OVERPASS UNDERPASS ENCOMPASS", p)
}

// secretAssigned judges the value of an assignment to a secret name: it is not
// one if it looks like a number, a placeholder, an expression or a plain word.
func secretAssigned(name, v string, spaced, quoted bool) bool {
	if !quoted {
		if code(v, spaced) {
			return false
		}
		v = strings.TrimRight(v, `,;)]}>`)
	}
	if len(v) < 4 || placeholder(v) || strings.Contains(v, "://") || pathLike(v) {
		return false
	}
	last := strings.TrimRight(name[strings.LastIndexByte(name, '_')+1:], "0123456789")
	pass := has(passwordEnds, last) || strings.HasSuffix(last, "PASSWORD") || strings.HasSuffix(last, "PASS")
	if number(v) {
		return pass && !spaced
	}
	if strings.Count(v, " ") >= 4 { // prose
		return false
	}
	if lettersOnly(v) {
		if pass {
			return !has(plainWords, strings.ToLower(v)) && (quoted || !spaced)
		}
		return len(v) >= 20 && !strings.ContainsAny(v, "_-")
	}
	if spaced && !quoted && len(v) < 16 && identifier(v) {
		return false
	}
	if last == "AUTH" { // a method: CRAM-MD5
		return len(v) >= 16
	}
	return pass || len(v) >= 6
}

// The kinds of fields of rule 3.
const (
	plainField = iota
	authField  // a header: scheme and credentials
	tokenField // often a word of a text, so its value must look random
	passField  // a password or key: anything but a placeholder
)

// fieldKind judges the name of a JSON field, whatever its case and however its
// words are joined.
func fieldKind(name string) int {
	if len(name) < 4 || len(name) > 48 {
		return plainField
	}
	var buf [48]byte
	b := buf[:0]
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_' || c == '-':
		case c >= 'A' && c <= 'Z':
			b = append(b, c|0x20)
		default:
			b = append(b, c)
		}
	}
	switch string(b) {
	case "authorization", "proxyauthorization":
		return authField
	case "token", "bearer", "idtoken", "sessiontoken", "privatetoken", "bearertoken", "accesskey", "accesskeyid":
		return tokenField
	case "secretvalue", "rawsecret", "secretinput", "keymaterial", "passwd", "passphrase", "secretaccesskey":
		return passField
	}
	for _, end := range [...]string{"apikey", "password", "secret", "accesstoken", "refreshtoken", "authtoken", "secretkey", "privatekey", "signingkey", "encryptionkey"} {
		if len(b) >= len(end) && string(b[len(b)-len(end):]) == end {
			return passField
		}
	}
	return plainField
}

func secretInField(kind int, v string) bool {
	if len(v) < 4 || placeholder(v) || strings.Contains(v, "://") || strings.Count(v, " ") >= 4 ||
		has(plainWords, strings.ToLower(v)) {
		return false
	}
	if kind == passField {
		return true
	}
	return !lettersOnly(v) && !number(v) && len(v) >= 6 || len(v) >= 16 && !strings.ContainsAny(v, " _-")
}

func formField(name string) bool {
	switch strings.ToLower(name) {
	case "access_token", "refresh_token", "id_token", "token", "api_key", "apikey", "client_secret", "password", "passwd",
		"pass", "secret", "auth", "jwt", "private_key", "session_token", "client_assertion", "assertion", "auth_token":
		return true
	}
	return false
}

func dsnScheme(s string) bool {
	switch s {
	case "postgres", "postgresql", "mysql", "mariadb", "mongodb", "redis", "rediss", "amqp", "amqps", "mssql", "sqlserver",
		"oracle", "cockroachdb", "clickhouse", "clickhouses", "cassandra", "neo4j", "bolt", "snowflake", "redshift", "db2",
		"nats", "mqtt", "mqtts", "kafka", "ftp", "ftps", "sftp", "ssh", "smtp", "smtps", "imap", "imaps", "ldap", "ldaps",
		"libsql", "valkey", "valkeys", "memcached", "couchbase", "influxdb", "trino", "hive", "vertica":
		return true
	}
	return false
}

// placeholder says that v stands for a secret, or refers to one.
func placeholder(v string) bool {
	if v == "" {
		return true
	}
	switch v[0] {
	case '$', '{', '<', '[', '*', '&':
		return true
	case '%':
		if len(v) > 1 && (v[1] == '(' || v[1] == 's' || v[1] == 'v' || v[len(v)-1] == '%') {
			return true
		}
	}
	if strings.Contains(v, "***") || strings.Contains(v, "...") || strings.Contains(v, "…") || strings.Contains(v, "${") || filler(v) {
		return true
	}
	n := min(len(v), 16)
	head := strings.ToLower(v[:n])
	for _, p := range [...]string{"your", "changeme", "change-me", "change_me", "placeholder", "dummy", "insert", "replace",
		"redacted", "enter-", "enter_", "todo", "fixme", "example", "xxxx", "<"} {
		if strings.HasPrefix(head, p) {
			return true
		}
	}
	return false
}

func number(v string) bool {
	if len(v) <= 10 && len(v) > 2 && v[0] == '0' && strings.IndexByte("xXoObB", v[1]) >= 0 {
		return strings.Trim(v[2:], "0123456789abcdefABCDEF_") == ""
	}
	digits := 0
	for i := range len(v) {
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' || c == '_' || c == ',' || c == '-' || c == '+':
		case i == len(v)-1 && digits > 0: // a unit: 30s, 10k, 5%
		default:
			return false
		}
	}
	return digits > 0
}

func lettersOnly(v string) bool {
	for i := range len(v) {
		if c := v[i]; !(c|0x20 >= 'a' && c|0x20 <= 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// identifier accepts a name of a programming language.
func identifier(v string) bool {
	for i := range len(v) {
		if c := v[i]; !(c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return v != ""
}

func pathLike(v string) bool {
	if strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") {
		return true
	}
	return v[0] == '/' && strings.Count(v, "/") >= 2 && (strings.ToLower(v) == v || strings.IndexByte(v, '.') > 0)
}

// code says that the bare value v is an expression: a call, an index, a dotted
// name, an f-string.
func code(v string, spaced bool) bool {
	if i := strings.IndexAny(v, "(["); i > 0 && dottedName(v[:i]) {
		return spaced || v[len(v)-1] == ')' || v[len(v)-1] == ']' || strings.IndexByte(v[:i], '.') > 0
	}
	v = strings.TrimRight(v, `,;)]}`)
	if strings.IndexByte(v, '.') > 0 && dottedName(v) && (spaced || !strings.ContainsAny(v, "0123456789")) {
		return true
	}
	return len(v) == 1 || len(v) > 0 && (v[0] == '(' || v[0] == '|' || v[0] == '&')
}

func dottedName(v string) bool {
	for rest := v; ; {
		part, after, dot := strings.Cut(rest, ".")
		if !identifier(part) {
			return false
		}
		if !dot {
			return true
		}
		rest = after
	}
}
