package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "hermes-exec",
		Short: "Run scripts written by an AI agent, and serve the tools they call",
		Long: `hermes-exec runs a Python script in a process tree of its own with a scrubbed
environment, answers the tool calls it makes (from hermes_tools import
read_file, terminal, …) and gives one result.

Settings: flag > environment > $HERMES_HOME/config.yaml > default.

Exit codes: 0 success · the script's own code · 124 timeout · 125 hermes-exec
failed · 126 refused · 130 interrupted · 128+N ended by signal N`,
		Example: `  hermes-exec run script.py --depth 3
  hermes-exec run -c 'from hermes_tools import terminal; print(terminal("uname")["output"])'
  cat script.py | hermes-exec run --json -
  hermes-exec tools call read_file '{"path": "README.md", "limit": 5}'`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	flags := root.PersistentFlags()
	flags.Var((*text)(&a.flags.home), "home", "HERMES_HOME: where config.yaml and .env are (default $HERMES_HOME, else ~/.hermes)")
	flags.StringVar(&a.flags.logLevel, "log-level", "warn", "what to log to stderr: debug, info, warn or error")
	flags.StringVar(&a.flags.logFormat, "log-format", "text", "text or json")
	flags.Var((*text)(&a.flags.policy), "policy", "what the script may do: sealed, workspace, open, or a policy file (see hermes-exec policy)")
	flags.Var((*text)(&a.flags.backend), "backend", "where to run (default: terminal.backend, else local)")
	flags.Var((*text)(&a.flags.workdir), "workdir", "the session's working directory (default: terminal.cwd, else here)")
	flags.StringArrayVar(&a.flags.env, "env", nil, "set NAME=value in the script's environment; may be repeated")
	flags.StringArrayVar(&a.flags.pass, "pass-env", nil, "let variable NAME through to the script; may be repeated; provider keys never pass")
	flags.Var((*text)(&a.flags.mode), "mode", "project: the working directory and its Python; strict: a scratch directory and a fixed Python")
	flags.StringVar(&a.flags.tools, "tools", "", "tools the script may call, comma-separated; \"\" grants none (default: the script tools)")
	a.flags.given = flags.Changed
	root.AddCommand(
		runCommand(a), toolsCommand(a), stubCommand(a), envCommand(a),
		configCommand(a), policyCommand(a), doctorCommand(a), selftestCommand(a), reapCommand(a), versionCommand(),
	)
	groups(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	return root
}
