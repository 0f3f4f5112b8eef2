package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/envfilter"
)

// windowsEssentials are the names the reference keeps on Windows.
const windowsEssentials = `SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT OS PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS PUBLIC ALLUSERSPROFILE
	PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 APPDATA LOCALAPPDATA USERPROFILE USERDOMAIN USERNAME HOMEDRIVE HOMEPATH COMPUTERNAME`

// decides wants a rule of the filter for each of some names; their value is
// an absolute path.
func decides(rule, names string, passthrough ...string) func(*testing.T) {
	return func(t *testing.T) {
		for name := range strings.FieldsSeq(names) {
			ds := envfilter.Filter([]string{name + "=/x"}, envfilter.Options{Passthrough: passthrough})
			if len(ds) != 1 || ds[0].Rule != rule {
				t.Errorf("%s with passthrough %q: %+v, want %s", name, passthrough, ds, rule)
			}
		}
	}
}

// environRows are those of section 1.6.
func environRows() []row {
	return []row{
		{id: "1.6/1 passthrough first", beaten: "it opens no provider's key and nothing that runs other code", test: all(
			decides(envfilter.RulePassthrough, "MY_SETTING MY_API_KEY TERMINAL_X", "MY_SETTING", "MY_API_KEY", "TERMINAL_X"),
			decides(envfilter.RuleProvider, "OPENAI_API_KEY", "OPENAI_API_KEY"),
			decides(envfilter.RuleInjection, "LD_PRELOAD BASH_ENV", "LD_PRELOAD", "BASH_ENV"),
			printsWith(func(c *Config, task *Task, _ *Script) { // of the configuration and of the task, say a skill's
				c.Environ = testEnviron("OPENAI_API_KEY=sk-a", "ANTHROPIC_API_KEY=sk-b", "MY_SETTING=1", "SKILL_SETTING=2", "NOT_NAMED=3", "LD_PRELOAD=/evil.so")
				c.Passthrough, task.Passthrough = []string{"MY_SETTING", "OPENAI_API_KEY"}, []string{"SKILL_SETTING", "ANTHROPIC_API_KEY"}
				task.Env = []string{"EXTRA=4"}
			}, `
import os
print([os.environ.get(n) for n in "MY_SETTING SKILL_SETTING EXTRA NOT_NAMED OPENAI_API_KEY ANTHROPIC_API_KEY LD_PRELOAD".split()])
`, "['1', '2', '4', None, None, None, None]\n"))},

		{id: "1.6/2 secret words drop", test: all(
			decides(envfilter.RuleSecret, "MY_KEY my_token LC_SECRET HOME_PASSWORD XDG_AUTH CONDA_TOKEN"),
			decides(envfilter.RuleProvider, "LANGSMITH_API_KEY"))},

		{id: "1.6/3 safe names pass", test: decides(envfilter.RuleListed, "PATH HOME USER LANG LC_ALL TERM TMPDIR SHELL LOGNAME XDG_CONFIG_HOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX")},

		{id: "1.6/4 HERMES names pass", test: all(
			decides(envfilter.RuleListed, "HERMES_HOME"),
			decides(envfilter.RuleEngine, "HERMES_RPC_TOKEN HERMES_SESSION_ID HERMES_YOLO_MODE hermes_home"))},

		{id: "1.6/5 Windows names", beaten: "no place on Windows yet: they are not kept, but can be passed through", test: all(
			decides(envfilter.RuleUnlisted, "SYSTEMROOT systemroot WINDIR"),
			decides(envfilter.RulePassthrough, "SYSTEMROOT", "SYSTEMROOT"))},

		{id: "1.6/6 the rest is dropped", test: decides(envfilter.RuleUnlisted, "MY_SETTING EDITOR GOPATH home path")},

		{id: "1.6/7 list of secret words", beaten: "and more words; what only looks like one is none", test: all(
			func(t *testing.T) {
				for word := range strings.FieldsSeq("KEY TOKEN SECRET PASSWORD CREDENTIAL PASSWD AUTH DSN WEBHOOK CREDS BEARER APIKEY") {
					decides(envfilter.RuleSecret, "MY_"+word+" "+word+"_X my_"+strings.ToLower(word)+" X"+word)(t)
				}
			},
			decides(envfilter.RuleUnlisted, "BYPASS_CACHE COMPASS_HOME"))},

		{id: "1.6/8 list of safe prefixes", beaten: "S3: exact names; what only begins like one does not pass", test: func(t *testing.T) {
			for prefix := range strings.FieldsSeq("PATH HOME USER LANG LC_ TERM TMPDIR TMP TEMP SHELL LOGNAME XDG_ PYTHONPATH VIRTUAL_ENV CONDA") {
				if ds := envfilter.Filter([]string{prefix + "ZEBRA=/x"}, envfilter.Options{}); ds[0].Pass {
					t.Errorf("%sZEBRA passes, as in the reference", prefix)
				}
			}
			decides(envfilter.RuleListed, "TMP TEMP LC_CTYPE XDG_RUNTIME_DIR VIRTUAL_ENV_PROMPT CONDA_DEFAULT_ENV")(t)
		}},

		{id: "1.6/9 list of HERMES names", test: decides(envfilter.RuleListed, "HERMES_HOME HERMES_PROFILE HERMES_CONFIG HERMES_ENV")},

		{id: "1.6/10 list of Windows essentials", beaten: "Windows runs no scripts yet, and says so; the module builds for it", test: all(
			decides(envfilter.RuleUnlisted, windowsEssentials),
			decides(envfilter.RulePassthrough, windowsEssentials, strings.Fields(windowsEssentials)...),
			buildsForWindows)},

		{id: "1.6/11 what is injected", beaten: "a token for the socket; the project, not the agent's own code, is importable", test: shows(`
import os
for name in sorted(os.environ): print(name + "=" + os.environ[name])
`, func(c *Config, _ *Task, _ *Script) {
			c.Environ = testEnviron("HERMES_TIMEZONE=UTC", "TZ=Mars", "PYTHONPATH=/their/lib", "HERMES_RPC_TOKEN=old")
			c.Timezone, c.ShowSecrets = "Europe/Berlin", true
		}, func(t *testing.T, r Result) {
			for _, want := range []string{`PYTHONDONTWRITEBYTECODE=1`, `PYTHONIOENCODING=utf-8`, `PYTHONUTF8=1`, `TZ=Europe/Berlin`,
				`HERMES_RPC_SOCKET=/\S+`, `HERMES_RPC_TOKEN=[A-Z0-9]{20,}`, `PYTHONPATH=(/\S+?):(/\S+?):/their/lib`} {
				if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(r.Output) {
					t.Errorf("missing %s in\n%s", want, r.Output)
				}
			}
			if strings.Contains(r.Output, "Mars") || strings.Contains(r.Output, "HERMES_TIMEZONE") {
				t.Error(r.Output)
			}
		})},

		{id: "1.6/12 HOME contract", test: homeContract},

		{id: "1.6/13 what scripts miss", beaten: "proxies and authorities pass; the rest can be named in a passthrough", test: all(
			decides(envfilter.RuleListed, "NO_PROXY SSL_CERT_FILE REQUESTS_CA_BUNDLE"),
			func(t *testing.T) {
				ds := envfilter.Filter([]string{"HTTPS_PROXY=http://me:pw@proxy:3128"}, envfilter.Options{})
				equals(ds[0].Value, "http://proxy:3128")(t)
			},
			decides(envfilter.RuleUnlisted, "DISPLAY CUDA_VISIBLE_DEVICES GOPATH"),
			decides(envfilter.RuleLoader, "LD_LIBRARY_PATH"),
			decides(envfilter.RuleSecret, "SSH_AUTH_SOCK"),
			decides(envfilter.RulePassthrough, "DISPLAY CUDA_VISIBLE_DEVICES GOPATH LD_LIBRARY_PATH SSH_AUTH_SOCK", "DISPLAY", "CUDA_VISIBLE_DEVICES", "GOPATH", "LD_LIBRARY_PATH", "SSH_AUTH_SOCK"),
			decides(envfilter.RuleEngine, "HERMES_SESSION_ID"))},

		{id: "1.6/14 same in both modes, none remotely", beaten: "no remote place yet", test: all(refusesRemote(nil), func(t *testing.T) {
			seen := map[Mode]string{}
			for _, mode := range []Mode{Project, Strict} {
				r := run(t, `
import os
print([n + "=" + v for n, v in sorted(os.environ.items()) if n not in ("PYTHONPATH", "HERMES_RPC_SOCKET", "HERMES_RPC_TOKEN")])
`, func(c *Config, task *Task, _ *Script) {
					c.Environ, task.Mode = testEnviron("MY_SETTING=x", "LD_PRELOAD=/evil.so", "LC_ALL=C.UTF-8"), mode
				})
				seen[mode] = r.Output
			}
			if !strings.Contains(seen[Strict], "LC_ALL=C.UTF-8") || strings.Contains(seen[Strict], "MY_SETTING") {
				t.Error(seen[Strict])
			}
			equals(seen[Project], seen[Strict])(t)
		})},
	}
}

// homeContract: HERMES_REAL_HOME is always the user's own home, HOME follows
// terminal.home_mode.
func homeContract(t *testing.T) {
	hermes := t.TempDir()
	profile := filepath.Join(hermes, "home")
	if err := os.Mkdir(profile, 0o755); err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir() // without a home in it
	for _, c := range []struct {
		mode, hermes string
		container    bool
		home, real   string // of the engine
		want         string // HOME
		wantReal     string
	}{
		{"auto", hermes, false, "/h", "", "/h", "/h"},
		{"auto", hermes, true, "/h", "", profile, "/h"},
		{"auto", bare, true, "/h", "", "/h", "/h"},
		{"auto", hermes, false, profile, "/h", "/h", "/h"}, // repaired
		{"real", hermes, true, "/h", "", "/h", "/h"},
		{"real", hermes, true, profile, "/h", "/h", "/h"},
		{"profile", hermes, false, "/h", "", profile, "/h"},
		{"profile", bare, false, "/h", "", "/h", "/h"},
		{"profile", hermes, false, profile, "/h", profile, "/h"},
		{"profile", hermes, false, "/other", "/h", profile, "/h"},
		{"auto", "", false, "/h", "", "/h", "/h"},
	} {
		environ := []string{"HOME=" + c.home}
		if c.real != "" {
			environ = append(environ, "HERMES_REAL_HOME="+c.real)
		}
		env := homeEnv(slices.Clone(environ[:1]), c.mode, c.hermes, getenv(environ, "HERMES_REAL_HOME"), c.container)
		if home, real := getenv(env, "HOME"), getenv(env, "HERMES_REAL_HOME"); home != c.want || real != c.wantReal {
			t.Errorf("%+v: HOME=%s HERMES_REAL_HOME=%s", c, home, real)
		}
	}
	// Nothing but the profile's home is known: the user's account, else /tmp.
	env := homeEnv([]string{"HOME=" + profile}, "auto", hermes, "", false)
	if home := getenv(env, "HOME"); home == profile || home == "" || home != getenv(env, "HERMES_REAL_HOME") {
		t.Errorf("%q", env)
	}
	for alias, want := range map[string]string{"isolated": "profile", "profile_home": "profile", "profile-home": "profile",
		"host": "real", "user": "real", "real_home": "real", "real-home": "real", "auto": "auto"} {
		equals(configured(t, "", "TERMINAL_HOME_MODE="+alias).Terminal.HomeMode, want)(t)
	}
	printsWith(func(c *Config, _ *Task, _ *Script) {
		c.Environ, c.HomeDir, c.HomeMode = append(testEnviron(), "HOME=/h", "HERMES_REAL_HOME=/r"), hermes, "profile"
	}, `import os; print(os.environ["HOME"], os.environ["HERMES_REAL_HOME"])`, fmt.Sprintln(profile, "/r"))(t)
}
