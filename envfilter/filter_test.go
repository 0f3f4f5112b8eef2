package envfilter

import (
	"slices"
	"strings"
	"testing"
)

func one(t *testing.T, opt Options, entry string) Decision {
	t.Helper()
	ds := Filter([]string{entry}, opt)
	if len(ds) != 1 {
		t.Fatalf("Filter(%q) made %d decisions", entry, len(ds))
	}
	return ds[0]
}

// TestRules has every rule at least once: a variable, the options, the answer.
func TestRules(t *testing.T) {
	pass := func(names ...string) Options { return Options{Passthrough: names} }
	wide := Options{Wide: true}
	for _, c := range []struct {
		entry string
		opt   Options
		rule  string
		value string // "" for dropped
	}{
		// malformed
		{"no equals sign", Options{}, RuleMalformed, ""},
		{"=value", wide, RuleMalformed, ""},
		{"=C:=C:\\x", wide, RuleMalformed, ""},
		{"A\x00B=1", wide, RuleMalformed, ""},
		{"A\x1b[31m=1", wide, RuleMalformed, ""},
		{"A\xff=1", wide, RuleMalformed, ""},
		{"HOME=/a\x00b", pass("HOME"), RuleMalformed, ""},

		// provider keys, in any mode, by any passthrough
		{"OPENAI_API_KEY=x", Options{}, RuleProvider, ""},
		{"OPENAI_API_KEY=x", wide, RuleProvider, ""},
		{"OPENAI_API_KEY=x", pass("OPENAI_API_KEY"), RuleProvider, ""},
		{"openai_api_key=x", pass("openai_api_key"), RuleProvider, ""},
		{"OPENAI_API_KEY_2=x", pass("OPENAI_API_KEY_2"), RuleProvider, ""},
		{"ANTHROPIC_WORK_TOKEN=x", wide, RuleProvider, ""},
		{"TAVILY_API_KEY=x", pass("TAVILY_*"), RuleProvider, ""},
		{"GH_TOKEN=x", wide, RuleProvider, ""},
		{"MODAL_TOKEN_SECRET=x", wide, RuleProvider, ""},
		{"SUDO_PASSWORD=x", pass("SUDO_PASSWORD"), RuleProvider, ""},
		{"AWS_BEARER_TOKEN_BEDROCK=x", pass("AWS_BEARER_TOKEN_BEDROCK"), RuleProvider, ""},
		{"OPENAI_LOG=debug", wide, RuleWide, "debug"},

		// the general AWS chain is the user's own
		{"AWS_ACCESS_KEY_ID=x", Options{}, RuleSecret, ""},
		{"AWS_ACCESS_KEY_ID=x", pass("AWS_ACCESS_KEY_ID"), RulePassthrough, "x"},
		{"AWS_SECRET_ACCESS_KEY=x", pass("AWS_SECRET_ACCESS_KEY"), RulePassthrough, "x"},
		{"AWS_SESSION_TOKEN=x", wide, RuleWide, "x"},
		{"AWS_PROFILE=x", Options{}, RuleUnlisted, ""},

		// what tools declare
		{"SOME_SERVICE=x", Options{Declared: []string{"SOME_SERVICE"}, Wide: true}, RuleDeclared, ""},
		{"SOME_SERVICE=x", Options{Declared: []string{"SOME_SERVICE"}, Passthrough: []string{"SOME_SERVICE"}}, RuleDeclared, ""},
		{"some_service=x", Options{Declared: []string{"SOME_SERVICE"}, Wide: true}, RuleDeclared, ""},

		// the engine's own
		{"HERMES_HOME=/h", Options{}, RuleListed, "/h"},
		{"HERMES_PROFILE=p", Options{}, RuleListed, "p"},
		{"HERMES_CONFIG=c", Options{}, RuleListed, "c"},
		{"HERMES_ENV=e", Options{}, RuleListed, "e"},
		{"HERMES_RPC_SOCKET=/s", pass("HERMES_RPC_SOCKET"), RuleEngine, ""},
		{"HERMES_RPC_TOKEN=t", wide, RuleEngine, ""},
		{"HERMES_TIMEZONE=UTC", pass("HERMES_*"), RuleEngine, ""},
		{"HERMES_SESSION_ID=1", wide, RuleEngine, ""},
		{"_HERMES_FORCE_X=1", wide, RuleEngine, ""},
		{"hermes_home=/h", wide, RuleEngine, ""},
		{"TERMINAL_CWD=/w", Options{}, RuleSettings, ""},
		{"TERMINAL_CWD=/w", wide, RuleSettings, ""},
		{"TERMINAL_CWD=/w", pass("TERMINAL_CWD"), RulePassthrough, "/w"},

		// injection, never; or by name only
		{"LD_PRELOAD=/x.so", pass("LD_PRELOAD"), RuleInjection, ""},
		{"LD_AUDIT=/x.so", wide, RuleInjection, ""},
		{"LD_ANYTHING=1", pass("LD_ANYTHING"), RuleInjection, ""},
		{"DYLD_INSERT_LIBRARIES=/x", pass("DYLD_INSERT_LIBRARIES"), RuleInjection, ""},
		{"LD_LIBRARY_PATH=/cuda", Options{}, RuleLoader, ""},
		{"LD_LIBRARY_PATH=/cuda", wide, RuleLoader, ""},
		{"LD_LIBRARY_PATH=/cuda", pass("LD_*"), RuleLoader, ""},
		{"LD_LIBRARY_PATH=/cuda", pass("LD_LIBRARY_PATH"), RulePassthrough, "/cuda"},
		{"GIT_SSH_COMMAND=x", pass("GIT_SSH_COMMAND"), RuleInjection, ""},
		{"GIT_DIR=x", wide, RuleInjection, ""},
		{"GIT_ANYTHING_NEW=x", pass("GIT_ANYTHING_NEW"), RuleInjection, ""},
		{"GIT_AUTHOR_NAME=me", wide, RuleLoader, ""},
		{"GIT_AUTHOR_NAME=me", pass("GIT_AUTHOR_NAME"), RulePassthrough, "me"},
		{"BASH_FUNC_ls%%=() { rm -rf /; }", pass("BASH_FUNC_ls%%"), RuleInjection, ""},
		{"ANY=() { :; }; evil", pass("ANY"), RuleInjection, ""},
		{"bash_env=x", wide, RuleInjection, ""},
		{"LUA_INIT_5_4=x", wide, RuleInjection, ""},

		// passthrough
		{"CUDA_HOME=/cuda", Options{}, RuleUnlisted, ""},
		{"CUDA_HOME=/cuda", pass("CUDA_HOME"), RulePassthrough, "/cuda"},
		{"CUDA_HOME=/cuda", pass(" CUDA_HOME "), RulePassthrough, "/cuda"},
		{"cuda_home=/cuda", pass("CUDA_HOME"), RuleUnlisted, ""},
		{"CUDA_HOME=/cuda", pass("CUDA_*"), RulePassthrough, "/cuda"},
		{"MYAPP_API_KEY=x", pass("MYAPP_*"), RuleSecret, ""},
		{"MYAPP_API_KEY=x", pass("MYAPP_API_KEY"), RulePassthrough, "x"},
		{"CUDA_HOME=/cuda", pass("*", "CUDA*", "C*", "_*", "CU*_*", ""), RuleUnlisted, ""},
		{"TOKENIZERS_PARALLELISM=false", pass("TOKENIZERS_*"), RulePassthrough, "false"},

		// wide
		{"EDITOR=vi", Options{}, RuleUnlisted, ""},
		{"EDITOR=vi", wide, RuleWide, "vi"},
		{"DATABASE_URL=postgres://u:p@h", wide, RuleWide, "postgres://u:p@h"},
		{"MYAPP_API_KEY=x", wide, RuleWide, "x"},

		// time zone, secrets, lists
		{"TZ=UTC", Options{}, RuleTimezone, ""},
		{"TZ=UTC", wide, RuleWide, "UTC"},
		{"MY_DSN=x", Options{}, RuleSecret, ""},
		{"USER=me", Options{}, RuleListed, "me"},
		{"user=me", Options{}, RuleUnlisted, ""},
		{"LC_ALL=C.UTF-8", Options{}, RuleListed, "C.UTF-8"},
		{"LC_PROMPT=x", Options{}, RuleUnlisted, ""},
		{"PYTHONPATH=/p:q", Options{}, RuleListed, "/p:q"},
		{"VIRTUAL_ENV=/v", Options{}, RuleListed, "/v"},
		{"CONDA_PREFIX=/c", Options{}, RuleListed, "/c"},
		{"SSL_CERT_FILE=/ca", Options{}, RuleListed, "/ca"},
		{"REQUESTS_CA_BUNDLE=/ca", Options{}, RuleListed, "/ca"},
		{"LANG=", Options{}, RuleListed, ""}, // empty and passed: see below
	} {
		t.Run(c.entry, func(t *testing.T) {
			d := one(t, c.opt, c.entry)
			wantPass := slices.Contains([]string{RuleListed, RulePassthrough, RuleWide}, c.rule)
			if d.Rule != c.rule || d.Pass != wantPass || d.Value != c.value {
				t.Errorf("%q with %+v: %+v; want rule %s, value %q", c.entry, c.opt, d, c.rule, c.value)
			}
			if !strings.HasSuffix(d.Reason, ".") {
				t.Errorf("the reason is no sentence: %q", d.Reason)
			}
		})
	}
}

// TestPrefixLeaks is S3: these passed in the reference, since their names
// begin like a harmless one.
func TestPrefixLeaks(t *testing.T) {
	referencePrefixes := strings.Fields("PATH HOME USER LANG LC_ TERM TMPDIR TMP TEMP SHELL LOGNAME XDG_ PYTHONPATH VIRTUAL_ENV CONDA")
	for _, name := range strings.Fields(`LANGFUSE_HOST LANGFUSE_PUBLIC_ID LANGSMITH_ENDPOINT LANGSMITH_PROJECT USERPASS
		USER_PIN USER_PASSCODE SHELL_PASSPHRASE TMP_PASS CONDA_PAT TERMINAL_SSH_HOST TERMINAL_SSH_USER HOMEBREW_GITHUB_API
		PATH_COOKIE XDG_SESSION_COOKIE LANGUAGE_MODEL_URL TEMPLATE_CREDS HOMEASSISTANT_URL TERM_PAT USERDB TEMPORAL_ADDRESS`) {
		if !slices.ContainsFunc(referencePrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			t.Fatalf("%s is no fixture: the reference drops it, too", name)
		}
		if d := one(t, Options{}, name+"=leak"); d.Pass {
			t.Errorf("%s passes (%s), as in the reference", name, d.Rule)
		}
	}
}

// TestNeverPass: no passthrough opens these.
func TestNeverPass(t *testing.T) {
	for _, name := range strings.Fields(`
		LD_PRELOAD LD_AUDIT LD_DEBUG LD_BIND_NOW DYLD_INSERT_LIBRARIES BASH_ENV ENV PYTHONSTARTUP PYTHONHOME PYTHONINSPECT
		PYTHONBREAKPOINT PYTHONWARNINGS GIT_DIR GIT_EXEC_PATH GIT_CONFIG_GLOBAL GIT_EXTERNAL_DIFF GIT_PAGER NODE_OPTIONS PERL5OPT
		PERL5LIB RUBYOPT RUBYLIB PROMPT_COMMAND IFS SHELLOPTS BASHOPTS GCONV_PATH GLIBC_TUNABLES JAVA_TOOL_OPTIONS _JAVA_OPTIONS
		JDK_JAVA_OPTIONS DOTNET_STARTUP_HOOKS PHPRC PS4 ZDOTDIR MAKEFLAGS MAKEFILES LESSOPEN SSLKEYLOGFILE R_PROFILE LUA_INIT
		HERMES_RPC_SOCKET HERMES_RPC_TOKEN HERMES_TIMEZONE OPENAI_API_KEY ANTHROPIC_API_KEY OPENROUTER_API_KEY EXA_API_KEY
		BRAVE_SEARCH_API_KEY DAYTONA_API_KEY MODAL_TOKEN_ID TELEGRAM_BOT_TOKEN SLACK_BOT_TOKEN GITHUB_TOKEN GITLAB_TOKEN
		LANGFUSE_SECRET_KEY LANGSMITH_API_KEY HF_TOKEN AWS_BEARER_TOKEN_BEDROCK`) {
		for _, opt := range []Options{{}, {Wide: true}, {Passthrough: []string{name}}, {Wide: true, Passthrough: []string{name}}} {
			if d := one(t, opt, name+"=x"); d.Pass {
				t.Errorf("%s passes with %+v (%s)", name, opt, d.Rule)
			}
		}
		if d := one(t, Options{Passthrough: []string{name}}, name+"=x"); !strings.Contains(d.Reason, "passthrough does not open it") {
			t.Errorf("%s: the reason leaves the user alone with the passthrough: %q", name, d.Reason)
		}
	}
}

func TestSecretWord(t *testing.T) {
	ws := newWords()
	for _, name := range strings.Fields(`API_KEY MYTOKEN X_SECRET_Y DBPASSWORD A_PASSWD AUTH_X SENTRY_DSN HOOK_WEBHOOK AWS_CREDS X_BEARER
		MYAPIKEY DATABASE_URL APP_DATABASE_URL PGPASSFILE MYSQL_PWD DB_PASS USERPASS MY_PAT USER_PIN SESSION_COOKIE GPG_PASSPHRASE
		MONGODB_URI REDIS_URL CELERY_BROKER_URL STORAGE_CONNECTION_STRING KUBECONFIG SSH_AUTH_SOCK XAUTHORITY PIP_INDEX_URL
		KEY2 MY_PAT2 LOGIN_OTP ICEAUTHORITY NETRC`) {
		if ws.secret(name) == "" {
			t.Errorf("%s is not taken for a secret", name)
		}
	}
	for _, name := range strings.Fields(`PATH PWD OLDPWD AUTHOR_NAME KEYBOARD_LAYOUT BYPASS_CACHE COMPASS_HOME TOKENIZERS_PARALLELISM
		MONKEY_HOME SPIN_COUNT PATCH_LEVEL OPINION PATTERN COMPAT XDG_SEAT PASSIVE_MODE SPATIAL`) {
		if w := ws.secret(name); w != "" {
			t.Errorf("%s is taken for a secret (%s)", name, w)
		}
	}
	for _, name := range allowedNames() {
		if w := ws.secret(strings.ToUpper(name)); w != "" {
			t.Errorf("the allow-list holds %s, which a secret word (%s) would drop", name, w)
		}
	}
}

func allowedNames() []string {
	var names []string
	for _, a := range allowed {
		names = append(names, strings.Fields(a.names)...)
	}
	return names
}

func TestTables(t *testing.T) {
	seen := map[string]string{}
	check := func(table, names string) int {
		n := 0
		for name := range strings.FieldsSeq(names) {
			if n++; seen[name] != "" {
				t.Errorf("%s is in %s and in %s", name, seen[name], table)
			}
			if table != "allow-list" && name != strings.ToUpper(name) {
				t.Errorf("%s in %s is not in upper case", name, table)
			}
			seen[name] = table
		}
		return n
	}
	for _, a := range allowed {
		check("allow-list", a.names)
	}
	for _, v := range vectors {
		check(v.class, v.names)
	}
	n := 0
	for _, c := range credentials {
		n += check(c.what, c.names)
	}
	if n < 150 {
		t.Errorf("the table of credentials has %d names", n)
	}
	for _, name := range allowedNames() {
		value := "/x"
		if isProxy(name) {
			value = "x"
		}
		if d := one(t, Options{}, name+"="+value); !d.Pass {
			t.Errorf("%s is on the allow-list and does not pass: %s", name, d.Rule)
		}
	}
}

func TestProxy(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"HTTP_PROXY", "http://proxy:3128", "http://proxy:3128"},
		{"https_proxy", "http://proxy.example.org:3128/", "http://proxy.example.org:3128/"},
		{"http_proxy", "http://me:pw@proxy:3128", "http://proxy:3128"},
		{"http_proxy", "http://me:p@w@proxy:3128", "http://proxy:3128"},
		{"http_proxy", "http://me:p:w@proxy:3128", "http://proxy:3128"},
		{"http_proxy", "http://token@proxy:3128/", "http://proxy:3128/"},
		{"http_proxy", "http://@proxy:3128", "http://proxy:3128"},
		{"http_proxy", "me:pw@proxy:3128", "proxy:3128"},
		{"ALL_PROXY", "socks5h://me:pw@[::1]:1080", "socks5h://[::1]:1080"},
		{"all_proxy", "proxy", "proxy"},
		{"http_proxy", "http://user%40corp:p%23w@proxy:1", "http://proxy:1"},
		// what cannot be read may hold a password: dropped
		{"http_proxy", "http://me:pa/ss@proxy:3128", ""},
		{"http_proxy", "http://me:pa#ss@proxy:3128", ""},
		{"http_proxy", "http://me:pa?ss@proxy:3128", ""},
		{"http_proxy", "http://me:pw", ""},
		{"http_proxy", "http:me:pw@proxy", "proxy"},
		{"http_proxy", "http://proxy:3128/?token=x", ""},
		{"http_proxy", "http://me:pw@", ""},
		{"http_proxy", "://me:pw@proxy", ""},
		{"http_proxy", "http://a b:c@proxy:1", "http://proxy:1"},
		{"http_proxy", "http://proxy:1 me:pw", ""},
		{"http_proxy", "http=me:pw@a:1;https=me:pw@b:1", "b:1"},
		{"http_proxy", "http://me:pw@proxy:99999999", ""},
		{"http_proxy", "http://me\\pw@proxy:1", ""},
		{"http_proxy", "me%3Apw%40proxy", ""},
		{"NO_PROXY", "localhost,127.0.0.1,.example.org,10.0.0.0/8,[::1]", "localhost,127.0.0.1,.example.org,10.0.0.0/8,[::1]"},
		{"no_proxy", "*", "*"},
		{"no_proxy", "me:pw@host", ""},
	} {
		d := one(t, Options{}, c.name+"="+c.in)
		if d.Value != c.want || d.Pass != (c.want != "") || d.Changed != (c.want != "" && c.want != c.in) {
			t.Errorf("%s=%s: %+v; want %q", c.name, c.in, d, c.want)
		}
		if strings.Contains(d.Reason, "pw") {
			t.Errorf("%s=%s: the reason shows it: %s", c.name, c.in, d.Reason)
		}
	}
	for _, c := range []struct{ entry, want string }{
		{"npm_config_proxy=http://me:pw@proxy:1", "http://proxy:1"},
		{"USE_PROXY=yes please", "yes please"},
		{"PIP_PROXY=me:p/w@x", ""},
	} {
		if d := one(t, Options{Wide: true}, c.entry); d.Value != c.want {
			t.Errorf("wide %s: %+v; want %q", c.entry, d, c.want)
		}
	}
	// Who names a proxy wants it with its password.
	in := "http://me:pw@proxy:3128"
	if d := one(t, Options{Passthrough: []string{"http_proxy"}}, "http_proxy="+in); d.Value != in || d.Changed {
		t.Errorf("passthrough: %+v", d)
	}
}

// TestPath: an empty entry and "." mean the working directory.
func TestPath(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/bin:/bin":            "/usr/bin:/bin",
		":/usr/bin::/bin:":         "/usr/bin:/bin",
		".:/usr/bin:./x:../y:rel":  "/usr/bin",
		"/a:/b:/a":                 "/a:/b:/a",
		"":                         "",
		".":                        "",
		":":                        "",
		"/with space:/usr/bin":     "/with space:/usr/bin",
		"~/bin:/home/u/bin:$X/bin": "/home/u/bin",
	} {
		for _, opt := range []Options{{}, {Wide: true}, {Passthrough: []string{"PATH"}}} {
			d := one(t, opt, "PATH="+in)
			if d.Value != want || d.Pass != (want != "") || d.Changed != (d.Pass && in != want) {
				t.Errorf("PATH=%s: %+v; want %q", in, d, want)
			}
			if !d.Pass && d.Rule != RulePath {
				t.Errorf("PATH=%s dropped by %s", in, d.Rule)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	ds := Filter([]string{"USER=a", "HOME=/1", "junk", "USER=b", "=x", "LANG=C", "HOME=/2"}, Options{})
	var got []string
	for _, d := range ds {
		got = append(got, d.Name)
	}
	if want := []string{"", "HOME", "LANG", "USER"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if env, want := Environ(ds), []string{"HOME=/2", "LANG=C", "USER=b"}; !slices.Equal(env, want) {
		t.Errorf("Environ = %q, want %q", env, want)
	}
	if ds := Filter(nil, Options{}); len(ds) != 0 || len(Environ(ds)) != 0 {
		t.Errorf("of nothing: %v", ds)
	}
}
