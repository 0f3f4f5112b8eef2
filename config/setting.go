package config

import (
	"strings"
	"time"
)

// setting ties a key of the file and a variable to a field.
type setting struct {
	key   string // dotted
	env   string // "" for none
	value value
}

// settings is the one list of what can be configured. The values point into c.
func (c *Config) settings() []setting {
	code, term, out := &c.CodeExecution, &c.Terminal, &c.ToolOutput
	sec, block := &c.Security, &c.Security.WebsiteBlocklist
	const day, gib = 24 * time.Hour, 1 << 30
	all := []setting{
		{"code_execution.mode", "", choice{&code.Mode, []string{"project", "strict"}, nil}},
		{"code_execution.timeout", "", seconds{&code.Timeout, 7 * day}},
		{"code_execution.max_tool_calls", "", whole{&code.MaxToolCalls, 1, 1_000_000, ""}},
		{"code_execution.max_stdout_bytes", "", whole{&code.MaxStdoutBytes, 1, gib, "bytes"}},
		{"code_execution.max_stderr_bytes", "", whole{&code.MaxStderrBytes, 1, gib, "bytes"}},
		{"code_execution.max_frame_bytes", "", whole{&code.MaxFrameBytes, 4 << 10, gib, "bytes"}},
		{"code_execution.python", "", word{&code.Python}},
		{"code_execution.policy", "", word{&code.Policy}},
		{"code_execution.allowed_tools", "", list{&code.AllowedTools, nil}},
		{"code_execution.deny_read", "", list{&code.DenyRead, nil}},
		{"code_execution.open_guards", "", list{&code.OpenGuards, nil}},
		{"code_execution.memory", "", size{&code.Memory, 16 << 20, 1 << 50, "no limit"}},
		{"code_execution.pids", "", whole{&code.PIDs, 0, 1 << 22, "processes, 0 for the 4096 of every box,"}},
		{"code_execution.cpu", "", cores{&code.CPU, 0.01, 10_000}},
		{"code_execution.disk", "", size{&code.Disk, 1 << 20, 1 << 50, "the usual 4G"}},

		{"terminal.backend", "TERMINAL_ENV", word{&term.Backend}},
		{"terminal.cwd", "TERMINAL_CWD", word{&term.Cwd}},
		{"terminal.timeout", "TERMINAL_TIMEOUT", seconds{&term.Timeout, 7 * day}},
		{"terminal.max_foreground_timeout", "TERMINAL_MAX_FOREGROUND_TIMEOUT", seconds{&term.MaxForegroundTimeout, 7 * day}},
		{"terminal.env_passthrough", "", list{&term.EnvPassthrough, variableName}},
		{"terminal.home_mode", "TERMINAL_HOME_MODE", choice{&term.HomeMode, []string{"auto", "real", "profile"}, map[string]string{
			"host": "real", "user": "real", "real_home": "real", "real-home": "real",
			"isolated": "profile", "profile_home": "profile", "profile-home": "profile",
		}}},
		{"terminal.shell_init_files", "", list{&term.ShellInitFiles, nil}},
		{"terminal.auto_source_bashrc", "", flag{&term.AutoSourceBashrc}},
		{"terminal.policy", "", word{&term.Policy}},
	}
	all = append(all, term.backends()...)
	all = append(all, []setting{
		{"tool_output.max_bytes", "", whole{&out.MaxBytes, 1, gib, "bytes"}},
		{"tool_output.max_lines", "", whole{&out.MaxLines, 1, gib, "lines"}},
		{"tool_output.max_line_length", "", whole{&out.MaxLineLength, 1, gib, "characters"}},

		{"security.redact_secrets", "HERMES_REDACT_SECRETS", flag{&sec.RedactSecrets}},
		{"security.allow_private_urls", "HERMES_ALLOW_PRIVATE_URLS", flag{&sec.AllowPrivateURLs}},
		{"security.website_blocklist.enabled", "", flag{&block.Enabled}},
		{"security.website_blocklist.domains", "", list{&block.Domains, nil}},
		{"security.website_blocklist.shared_files", "", list{&block.SharedFiles, nil}},

		{"approvals.mode", "", choice{&c.Approvals.Mode, []string{"manual", "smart", "off"}, nil}},
		{"approvals.timeout", "", seconds{&c.Approvals.Timeout, day}},
		{"approvals.gateway_timeout", "", seconds{&c.Approvals.GatewayTimeout, day}},
		{"approvals.cron_mode", "", choice{&c.Approvals.CronMode, []string{"deny", "approve"}, nil}},

		{"file.fsync", "", flag{&c.File.Fsync}},
		{"file.write_safe_root", "HERMES_WRITE_SAFE_ROOT", word{&c.File.WriteSafeRoot}},
		{"file_read_max_chars", "", whole{&c.FileReadMaxChars, 1, gib, "characters"}},

		{"web.backend", "", word{&c.Web.Backend}},
		{"web.search_backend", "", word{&c.Web.SearchBackend}},
		{"web.extract_backend", "", word{&c.Web.ExtractBackend}},

		{"timezone", "HERMES_TIMEZONE", word{&c.Timezone}},
	}...)
	for _, b := range c.named {
		all = append(all, b.settings()...)
	}
	return all
}

// foreignKeys are those the reference has in a section and this program does
// not read. Users bring an existing file, so they are no mistakes.
func foreignKeys(section string) []string {
	switch section {
	case "terminal":
		return strings.Fields(`modal_mode credential_files modal_image daytona_image singularity_image persistent_shell
			sudo_password env_type docker_persist_across_processes`)
	case "security":
		return strings.Fields(`tirith_enabled tirith_path tirith_timeout tirith_fail_open acked_advisories allow_lazy_installs`)
	case "approvals":
		return strings.Fields(`mcp_reload_confirm destructive_slash_confirm deny`)
	case "web":
		return strings.Fields(`use_gateway xai`)
	}
	return nil
}

// foreignSections are well-known top-level keys that are nobody's misspelling.
const foreignSections = ` model models provider providers agent tools toolsets platform_toolsets known_plugin_toolsets
 mcp_servers plugins checkpoints command_allowlist hooks hooks_auto_accept delegation auxiliary lsp display memory
 skills browser compression gateway cron tts stt voice logging privacy tool_loop_guardrails `
