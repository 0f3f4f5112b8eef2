package envfilter

import "strings"

// The words are looked for in the parts of a name between its underscores.
const (
	// anywhere in a part: USERTOKEN, APIKEYS
	wordsInside = `KEY TOKEN SECRET PASSWORD PASSWD CREDENTIAL CREDS AUTH DSN WEBHOOK BEARER COOKIE
		PASSPHRASE PASSCODE`
	// at the end of a part: USERPASS
	wordsAtEnd = `PASS PASSFILE PASSWORT CRED`
	// the whole part: PAT is a token, PATH is not
	wordsWhole = `PAT PIN PW PWD OTP TOTP MFA JWT SAS SEED MNEMONIC COOKIES CREDS PASSES HMAC`
	// parts that hold a word above and mean something else
	harmless = `AUTHOR AUTHORS AUTHORITY KEYBOARD KEYMAP KEYLAYOUT MONKEY HOTKEY HOTKEYS TURKEY
		TOKENIZER TOKENIZERS BYPASS COMPASS ENCOMPASS TRESPASS OVERPASS UNDERPASS`

	// names without such a word that hold a secret, or lead to one, all the same
	secretNames = `
		DATABASE_URL DATABASE_URI DB_URL DB_URI POSTGRES_URL POSTGRESQL_URL PG_URL MYSQL_URL MARIADB_URL
		REDIS_URL REDIS_URI REDIS_TLS_URL MONGO_URL MONGO_URI MONGODB_URL MONGODB_URI AMQP_URL RABBITMQ_URL
		CLOUDAMQP_URL BROKER_URL CELERY_BROKER_URL CELERY_RESULT_BACKEND SQLALCHEMY_DATABASE_URI JDBC_URL
		ELASTICSEARCH_URL CLICKHOUSE_URL NATS_URL KAFKA_URL SMTP_URL MAIL_URL EMAIL_URL MAILER_URL
		PGPASSFILE PGSERVICEFILE NETRC KUBECONFIG DOCKER_CONFIG GNUPGHOME GPG_AGENT_INFO KRB5CCNAME KRB5_KTNAME
		XAUTHORITY ICEAUTHORITY DBUS_SESSION_BUS_ADDRESS
		PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX
		POETRY_HTTP_BASIC BUNDLE_RUBYGEMS__ORG HOMEBREW_GITHUB_API`
	secretEnds = `_DATABASE_URL _DATABASE_URI _DB_URL _DB_URI _REDIS_URL _REDIS_URI _MONGO_URL _MONGO_URI
		_MONGODB_URL _MONGODB_URI _POSTGRES_URL _AMQP_URL _BROKER_URL _CONNECTION_STRING _CONN_STR _CONNSTR
		CONNECTIONSTRING _NETRC _KUBECONFIG _GITHUB_API`
)

// words are the lists above, made ready for look-up.
type words struct {
	names, whole, harmless    map[string]bool
	nameEnds, inside, partEnd []string
}

func newWords() words {
	return words{
		names: set(secretNames), whole: set(wordsWhole), harmless: set(harmless),
		nameEnds: strings.Fields(secretEnds), inside: strings.Fields(wordsInside), partEnd: strings.Fields(wordsAtEnd),
	}
}

func set(list string) map[string]bool {
	m := make(map[string]bool, len(list)/8)
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// secret tells by its name whether a variable holds a secret: the word that
// gives it away, or "". upper is the name in upper case.
func (ws *words) secret(upper string) string {
	if upper == "PWD" || upper == "OLDPWD" { // a directory
		return ""
	}
	if ws.names[upper] {
		return upper
	}
	for _, end := range ws.nameEnds {
		if strings.HasSuffix(upper, end) {
			return end
		}
	}
	notWord := func(c rune) bool { return (c < 'A' || c > 'Z') && (c < '0' || c > '9') }
	for part := range strings.FieldsFuncSeq(upper, notWord) {
		if ws.harmless[part] {
			continue
		}
		for _, w := range ws.inside {
			if strings.Contains(part, w) {
				return w
			}
		}
		for _, w := range ws.partEnd {
			if strings.HasSuffix(part, w) {
				return w
			}
		}
		if ws.whole[strings.TrimRight(part, "0123456789")] {
			return part
		}
	}
	return ""
}
