package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// home makes a $HERMES_HOME with this config.yaml.
func home(t testing.TB, yaml string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t testing.TB, yaml string, environ ...string) (*Config, error) {
	t.Helper()
	return Load(Options{Home: home(t, yaml), Environ: append([]string{}, environ...)})
}

func TestDefaults(t *testing.T) {
	for name, opt := range map[string]Options{
		"no file":   {Home: t.TempDir(), Environ: []string{}},
		"no home":   {Home: filepath.Join(t.TempDir(), "missing"), Environ: []string{}},
		"nothing":   {Environ: []string{}},
		"empty":     {Home: home(t, ""), Environ: []string{}},
		"comment":   {Home: home(t, "# nothing\n"), Environ: []string{}},
		"only ---":  {Home: home(t, "---\n"), Environ: []string{}},
		"null":      {Home: home(t, "null\n"), Environ: []string{}},
		"foreign":   {Home: home(t, "model: {default: x}\nmcp_servers:\n  a: {url: b}\nmodel: twice\n? [1, 2]\n: x\n"), Environ: []string{}},
		"nulls":     {Home: home(t, "terminal:\nsecurity: ~\napprovals: {timeout: null}\ncode_execution: {mode: , allowed_tools: }\n"), Environ: []string{}},
		"empty env": {Home: t.TempDir(), Environ: []string{"TERMINAL_TIMEOUT=", "TERMINAL_ENV= ", "HERMES_REDACT_SECRETS="}},
		"BOM, CRLF": {Home: home(t, "\uFEFFmodel: x\r\nterminal:\r\n"), Environ: []string{}},
		"reference's": {Home: home(t, `
terminal: {modal_image: x, docker_volumes: , credential_files: [a], persistent_shell: true, sudo_password: x}
backends:
approvals: {mcp_reload_confirm: true, destructive_slash_confirm: true}
security: {tirith_enabled: true, acked_advisories: []}
web: {use_gateway: false, xai: {}}
`), Environ: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(opt)
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			want.Home, want.Path = c.Home, c.Path
			if !reflect.DeepEqual(c, want) {
				t.Errorf("got  %+v\nwant %+v", c, want)
			}
		})
	}
}

func TestFile(t *testing.T) {
	c, err := load(t, `
defaults: &common
  timeout: 7
  max_tool_calls: 1_000
timezone: Europe/Berlin
file_read_max_chars: 1000
code_execution:
  <<: *common
  mode: " STRICT "
  max_tool_calls: 9
  python: "3.11"
  allowed_tools: []
  deny_read: [.env, "no"]
  open_guards: [npm]
  memory: 512M
  pids: 64
  cpu: 0.5
  disk: 1_048_576
  policy: ./mine.yaml
terminal:
  timeout: !!int "12"
  home_mode: profile-home
  env_passthrough: &names [A, B_C]
  shell_init_files: *names
  auto_source_bashrc: off
security:
  redact_secrets: No
  website_blocklist: {enabled: yes, domains: [a.example]}
approvals:
  mode: off
file: {fsync: ON}
web: {backend: ''}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Home, want.Path, want.origins = c.Home, c.Path, c.origins
	want.Timezone, want.FileReadMaxChars = "Europe/Berlin", 1000
	want.CodeExecution.Timeout = 7 * time.Second
	want.CodeExecution.Mode, want.CodeExecution.MaxToolCalls, want.CodeExecution.Python = "strict", 9, "3.11"
	want.CodeExecution.AllowedTools, want.CodeExecution.DenyRead = []string{}, []string{".env", "no"}
	want.CodeExecution.OpenGuards, want.CodeExecution.Policy = []string{"npm"}, "./mine.yaml"
	want.CodeExecution.Memory, want.CodeExecution.PIDs, want.CodeExecution.CPU, want.CodeExecution.Disk = 512<<20, 64, 0.5, 1<<20
	want.Terminal.Timeout, want.Terminal.HomeMode, want.Terminal.AutoSourceBashrc = 12*time.Second, "profile", false
	want.Terminal.EnvPassthrough, want.Terminal.ShellInitFiles = []string{"A", "B_C"}, []string{"A", "B_C"}
	want.Security.RedactSecrets = false
	want.Security.WebsiteBlocklist = WebsiteBlocklist{Enabled: true, Domains: []string{"a.example"}}
	want.Approvals.Mode, want.File.Fsync = "off", true
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// A mistake is named with file, line and key, and what was wanted.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"code_execution:\n  timeout: \"2\"", `:2: code_execution.timeout: want a whole number of seconds, got the string "2"`},
		{"code_execution: {timeout: 0}", `:1: code_execution.timeout: want a whole number of seconds from 1 to 604800, got 0`},
		{"code_execution: {timeout: -1}", `code_execution.timeout: want a whole number of seconds from 1 to 604800, got -1`},
		{"code_execution: {timeout: 1.5}", `want a whole number of seconds, got the number 1.5`},
		{"code_execution: {timeout: 5:00}", `want a whole number of seconds, got the string "5:00"`},
		{"code_execution: {timeout: 017}", `got 017: write it in decimal, without a leading zero`},
		{"code_execution: {timeout: 0x10}", `got 0x10: write it in decimal`},
		{"code_execution: {timeout: 99999999999999999999}", `want a whole number of seconds`},
		{"code_execution: {timeout: yes}", `got the boolean yes`},
		{"code_execution: {timeout: [1]}", `got a list`},
		{"code_execution: {timeout: {a: 1}}", `got a mapping`},
		{"code_execution: {mode: banana}", `code_execution.mode: want project or strict, got "banana"`},
		{"code_execution: {mode: stirct}", `want project or strict, got "stirct"; did you mean "strict"?`},
		{"code_execution: {mode: [strict]}", `want project or strict, got a list`},
		{"code_execution: {timout: 5}", `:1: code_execution.timout: unknown key; did you mean "timeout"?`},
		{"code_execution: {zzzzzzzz: 5}", `unknown key; known are mode, timeout, max_tool_calls,`},
		{"terminal: {docker_volume: []}", `terminal.docker_volume: unknown key; did you mean "docker_volumes"?`},
		{"security: {website_blocklist: {enable: true}}", `security.website_blocklist.enable: unknown key; did you mean "enabled"?`},
		{"code_execution: {python: 3.11}", `code_execution.python: want a string, got the number 3.11: put it in quotes`},
		{"code_execution: {python: no}", `want a string, got the boolean no: put it in quotes`},
		{"timezone: 2020-01-01", `timezone: want a string, got the date 2020-01-01: put it in quotes`},
		{"terminal: {env_passthrough: FOO}", `terminal.env_passthrough: want a list, got the string "FOO"`},
		{"terminal: {env_passthrough: [A, 5]}", `item 2: want a string, got the number 5: put it in quotes`},
		{"terminal: {env_passthrough: [A=1]}", `item 1: want the name of a variable, got "A=1"`},
		{"terminal: {env_passthrough: [A, ~]}", `item 2: want a string, got nothing`},
		{"terminal: {env_passthrough: [[A]]}", `item 1: want a string, got a list`},
		{"code_execution: {open_guards: npm}", `code_execution.open_guards: want a list, got the string "npm"`},
		{"code_execution: {open_guard: []}", `code_execution.open_guard: unknown key; did you mean "open_guards"?`},
		{"code_execution: {policy: [sealed]}", `code_execution.policy: want a string, got a list`},
		{"code_execution: {memory: 512 M}", `code_execution.memory: want a size such as 512M or 4G, 0 for no limit, got "512 M"`},
		{"code_execution: {memory: 512MB}", `want a size such as 512M`},
		{"code_execution: {memory: 1.5G}", `want a size such as 512M`},
		{"code_execution: {memory: 0.5}", `got the number 0.5`},
		{"code_execution: {memory: -1}", `got "-1"`},
		{"code_execution: {memory: 010M}", `got "010M"`},
		{"code_execution: {memory: M}", `got "M"`},
		{"code_execution: {memory: ''}", `want a size`},
		{"code_execution: {memory: [1]}", `got a list`},
		{"code_execution: {memory: 1M}", `want a size from 16M to 1024T, or 0 for no limit, got 1M`},
		{"code_execution: {disk: 9000000T}", `want a size from 1M to 1024T`},
		{"code_execution: {disk: 99999999999999999999T}", `want a size from 1M to 1024T`},
		{"code_execution: {pids: 64K}", `want a whole number of processes`},
		{"code_execution: {cpu: half}", `code_execution.cpu: want a number of cores such as 0.5 or 2, 0 for no limit, got the string "half"`},
		{"code_execution: {cpu: .nan}", `want a number of cores`},
		{"code_execution: {cpu: .inf}", `want a number of cores`},
		{"code_execution: {cpu: -1}", `got "-1"`},
		{"code_execution: {cpu: 0.001}", `want from 0.01 to 10000 cores, or 0 for no limit, got 0.001`},
		{"terminal: {env_passthrough: ['']}", `item 1: want a string, got an empty one`},
		{"security: {redact_secrets: 'false'}", `security.redact_secrets: want true or false, got the string "false"`},
		{"security: {redact_secrets: 0}", `want true or false, got the number 0`},
		{"approvals: {cron_mode: off}", `want deny or approve, got "off"`},
		{"terminal:\n  timeout: 1\n  cwd: a\n  timeout: 2", `:4: terminal.timeout: the key is already in line 2`},
		{"terminal: {a: 1}\nterminal: {timeout: 2}", `:2: terminal: the key is already in line 1`},
		{"terminal: [a]", `:1: terminal: want a mapping of keys to values, got a list`},
		{"terminal: local", `terminal: want a mapping of keys to values, got the string "local"`},
		{"terminal: {? [a] : b}", `terminal: want a word as key, got a list`},
		{"- a", `:1: want a mapping of keys to values, got a list`},
		{"hello", `:1: want a mapping of keys to values, got the string "hello"`},
		{"terminal:\n\ttimeout: 5", `:2: not YAML: a tab cannot indent in YAML; use spaces`},
		{"a: b: c", `:1: not YAML: mapping values are not allowed`},
		{"a: \"x", `not YAML: found unexpected end of stream`},
		{"a: *nope", `:1: not YAML: unknown anchor 'nope'`},
		{"ok: 1\na: \xff", `:2: not valid UTF-8 (byte 0xff)`},
		{"ok: 1\n\na: \x00", `:3: a control character (0x00) is not allowed`},
		{"\xff\xfea\x00:\x00", `:1: not valid UTF-8`},
		{"a: 1\n---\nb: 2", `:3: want one YAML document, got 2`},
		{strings.Repeat("[", 20_000), `not YAML: exceeded max depth`},
		{"terminal: {<<: 5}", `terminal: want a mapping to merge, got the number 5`},
		{"terminal: &t {<<: *t}", `too many merge keys, or one that merges itself`},
		{laughs(30), `too many merge keys`},
		{wide(), `too many keys`},
		{"terminal: {a1: 1, " + strings.Repeat("a: 1, ", 50) + "}", `config.yaml: there are more mistakes`},
		{"terminal: {timeout: !!python/object:os.system x}", `got a value of type !!python/object:os.system`},
		{"terminal: {cwd: \"a\\0b\"}", `want text without NUL bytes`},
		{"code_execution: {mode: " + strings.Repeat("x", 200) + "}", `…"`},
	} {
		t.Run(fmt.Sprintf("%.40q", c.yaml), func(t *testing.T) {
			got, err := load(t, c.yaml)
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if !strings.Contains(err.Error(), "config.yaml:") && !strings.Contains(err.Error(), "config.yaml: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant …%s", err, c.want)
			}
		})
	}
}

// laughs is a mapping that merges 2^levels mappings.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("l0: &l0 {timeout: 5}\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "l%d: &l%d {<<: [*l%d, *l%d]}\n", i, i, i-1, i-1)
	}
	fmt.Fprintf(&b, "terminal: *l%d\n", levels)
	return b.String()
}

// wide merges a wide mapping again and again.
func wide() string {
	var b strings.Builder
	b.WriteString("w: &w {")
	for i := range 2000 {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	b.WriteString("}\nterminal: {<<: [" + strings.Repeat("*w, ", 900) + "]}\n")
	return b.String()
}

// Several mistakes are told at once.
func TestAllMistakesAreTold(t *testing.T) {
	_, err := load(t, "terminal: {timeout: x, cwd: 5}\nsecurity: {redact: true}\n", "TERMINAL_TIMEOUT=5m", "HERMES_REDACT_SECRETS=maybe")
	for _, want := range []string{
		`terminal.timeout: want`, `terminal.cwd: want`, `security.redact: unknown`,
		`config: env TERMINAL_TIMEOUT (terminal.timeout): want a whole number of seconds, got "5m"`,
		`config: env HERMES_REDACT_SECRETS (security.redact_secrets): want true or false, got "maybe"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "config.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	big := home(t, "")
	if err := os.Truncate(filepath.Join(big, "config.yaml"), 1<<20+1); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home(t, ""), "config.yaml")
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"directory":      {Options{Home: dir}, "config.yaml is a directory"},
		"too big":        {Options{Home: big}, "config.yaml is larger than 1 MiB"},
		"named, missing": {Options{Path: filepath.Join(dir, "none.yaml")}, "none.yaml"},
		"home is a file": {Options{Home: file}, "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.Environ = []string{}
			if _, err := Load(c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
	if os.Getuid() > 0 {
		closed := home(t, "")
		if err := os.Chmod(filepath.Join(closed, "config.yaml"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Options{Home: closed, Environ: []string{}}); err == nil || !strings.Contains(err.Error(), "config.yaml: permission denied") {
			t.Errorf("a file that cannot be read gave %v", err)
		}
	}
}

func TestPrecedenceAndOrigin(t *testing.T) {
	dir := home(t, "terminal:\n  timeout: 10\n  backend: docker\n  cwd: /file\n")
	env := filepath.Join(dir, ".env")
	c, err := Load(Options{
		Home:    dir,
		Environ: []string{"TERMINAL_CWD=/first", "TERMINAL_CWD=/env", "TERMINAL_HOME_MODE=Host", "HERMES_TIMEZONE=UTC"},
		DotEnv:  []Variable{{"TERMINAL_CWD", "/dotenv", env, 1}, {"TERMINAL_ENV", "ssh", env, 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yaml")
	got := map[string]Setting{}
	for _, s := range c.Show() {
		got[s.Key] = s
	}
	for _, want := range []Setting{
		{"terminal.timeout", "10", file + ":2"},
		{"terminal.backend", `"ssh"`, env + ":2 TERMINAL_ENV"},
		{"terminal.cwd", `"/env"`, "env TERMINAL_CWD"},
		{"terminal.home_mode", "real", "env TERMINAL_HOME_MODE"},
		{"terminal.env_passthrough", "unset", "default"},
		{"timezone", `"UTC"`, "env HERMES_TIMEZONE"},
		{"code_execution.timeout", "300", "default"},
	} {
		if got[want.Key] != want {
			t.Errorf("got %+v, want %+v", got[want.Key], want)
		}
		if origin := c.Origin(want.Key); origin != want.Origin {
			t.Errorf("origin of %s is %q, want %q", want.Key, origin, want.Origin)
		}
	}
	if got := c.Origin("no.such.key"); got != "" {
		t.Errorf("an unknown key has the origin %q", got)
	}
}

// What only its reader finds wrong with a value is told as any other mistake.
func TestMistakeFoundLater(t *testing.T) {
	c, err := load(t, "code_execution:\n  policy: nope\n", "TERMINAL_CWD=/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"code_execution.policy": "config: " + c.Path + ":2: code_execution.policy: wrong",
		"terminal.cwd":          "config: env TERMINAL_CWD (terminal.cwd): wrong",
		"terminal.policy":       "config: terminal.policy: wrong",
	} {
		if got := c.Mistake(key, errors.New("wrong")).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	c, err := load(t, "code_exection: {mode: strict}\nskills: {}\n")
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "config.yaml:1: code_exection is ignored; did you mean code_execution?") {
		t.Errorf("got %v, %q", err, c.Warnings)
	}
	if runtime.GOOS == "windows" {
		return
	}
	dir := home(t, "")
	if err := os.Chmod(filepath.Join(dir, "config.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	if c, err = Load(Options{Home: dir, Environ: []string{}}); err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "can be written by others (mode 0666)") {
		t.Errorf("got %v, %q", err, c.Warnings)
	}
}

func TestHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Unix")
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ environ, want string }{
		{"HOME=/home/u", "/home/u/.hermes"},
		{"HOME=/home/u HERMES_HOME=/h", "/h"},
		{"HOME=/home/u HERMES_HOME=", "/home/u/.hermes"},
		{"HOME=/home/u HERMES_HOME=~/x", "/home/u/x"},
		{"HOME=/home/u HERMES_HOME=~other", filepath.Join(wd, "~other")},
		{"HERMES_HOME=rel", filepath.Join(wd, "rel")},
		{"PATH=/bin", ""},
	} {
		if got := Home(strings.Fields(c.environ)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.environ, got, c.want)
		}
	}
}

// The reference's defaults, which scripts and users rely on.
func TestShowDefaults(t *testing.T) {
	want := map[string]string{
		"code_execution.mode": "project", "code_execution.timeout": "300", "code_execution.max_tool_calls": "50",
		"terminal.backend": `"local"`, "terminal.cwd": `"."`, "terminal.timeout": "180", "terminal.home_mode": "auto",
		"terminal.auto_source_bashrc": "true", "terminal.max_foreground_timeout": "600",
		"tool_output.max_bytes": "50000", "tool_output.max_lines": "2000", "tool_output.max_line_length": "2000",
		"security.redact_secrets": "true", "security.allow_private_urls": "false", "security.website_blocklist.enabled": "false",
		"approvals.mode": "manual", "approvals.timeout": "60", "approvals.cron_mode": "deny", "approvals.gateway_timeout": "300",
		"code_execution.policy": `""`, "code_execution.open_guards": "unset", "terminal.policy": `""`,
		"code_execution.memory": "0", "code_execution.pids": "1024", "code_execution.cpu": "0", "code_execution.disk": "4G",
		"file_read_max_chars": "100000", "file.fsync": "false", "web.backend": `""`,
		"terminal.docker_image": `"nikolaik/python-nodejs:python3.11-nodejs20"`, "terminal.docker_volumes": "unset",
		"terminal.docker_env": "unset", "terminal.docker_forward_env": "unset", "terminal.docker_extra_args": "unset",
		"terminal.docker_mount_cwd_to_workspace": "false", "terminal.docker_run_as_host_user": "false",
		"terminal.docker_orphan_reaper": "true",
		"terminal.container_cpu":        "1", "terminal.container_memory": "5120", "terminal.container_disk": "51200",
		"terminal.container_persistent": "true", "terminal.ssh_host": `""`, "terminal.ssh_user": `""`,
		"terminal.ssh_port": "unset", "terminal.ssh_key": `""`, "terminal.sandbox_dir": `""`, "terminal.lifetime_seconds": "300",
		"terminal.docker_pool": "0", "terminal.docker_network": "unset", "terminal.docker_runtime": `""`, "terminal.docker_host": `""`,
		"terminal.ssh_config": `""`, "terminal.ssh_known_hosts": `""`, "terminal.ssh_accept_new": "false", "terminal.ssh_keepalive": "unset",
	}
	for _, s := range Default().Show() {
		if value, ok := want[s.Key]; ok && s.Value != value {
			t.Errorf("%s is %s, want %s", s.Key, s.Value, value)
		}
		delete(want, s.Key)
	}
	for key := range want {
		t.Errorf("%s is missing", key)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"terminal: {timeout: 5}", "a: &a [*a]\nterminal: *a", "terminal: &t {<<: *t}", "code_execution:\n  <<: [{mode: strict}]",
		"? ? a\n", "security: {website_blocklist: {domains: [a, b]}}", "%YAML 1.1\n---\napprovals: {mode: off}\n", "terminal: !!binary aGk=",
		"backends: {a: {type: docker, env: {A: b}}, b.c: &b {type: ssh, host: h}, d: {<<: *b}}", "terminal: {docker_env: &e {A: *e}}",
		"backends: &b {a: *b}", "terminal: {docker_volumes: [a:/b:ro, '~:/c'], docker_extra_args: [-v=a]}",
		"--- |\n x\n--- >\n", "\"terminal\": {'timeout': 0o17}",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "config.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{Home: dir, Environ: []string{}})
		if err == nil {
			c.Show()
			if c.CodeExecution.Timeout <= 0 || c.Terminal.Timeout <= 0 || c.CodeExecution.MaxToolCalls <= 0 {
				t.Errorf("%q gave %+v", data, c)
			}
			return
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.HasPrefix(line, "config: "+path) {
				t.Errorf("%q: an error does not name the file: %q", data, line)
			}
		}
	})
}
