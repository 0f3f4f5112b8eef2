package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
)

func toolsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List, describe and call tools",
	}
	cmd.AddCommand(toolsListCommand(a), toolsSchemaCommand(a), toolsCallCommand(a))
	return cmd
}

func toolsListCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tools, and which of them scripts may call",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, granted, err := a.declarations()
			if err != nil {
				return err
			}
			type row struct {
				Name    string `json:"name"`
				Toolset string `json:"toolset"`
				Script  bool   `json:"script"`
				Doc     string `json:"doc"`
			}
			var rows []row
			for _, t := range e.Tools().Tools() {
				rows = append(rows, row{t.Name, t.Toolset, contains(granted, t.Name), t.Summary()})
			}
			if asJSON {
				return printJSON(a.stdout, rows)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TOOL\tTOOLSET\tSCRIPTS\tWHAT IT DOES")
			for _, r := range rows {
				may := "-"
				if r.Script {
					may = "yes"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Toolset, may, r.Doc)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, "\nhermes_tools has besides: sandbox() (what a script may do, free of charge), json_parse, shell_quote, retry, aio")
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func toolsSchemaCommand(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "schema [NAME…]",
		Short: "Print the tools' schemas for a model, execute_code included",
		Long: `Print tool declarations as one JSON array: in OpenAI's form (the default),
Anthropic's or MCP's. Descriptions state the limits and grants of this
configuration. Declarations need no sandbox.`,
		Example: `  hermes-exec tools schema
  hermes-exec tools schema --format anthropic read_file terminal`,
		RunE: func(cmd *cobra.Command, names []string) error {
			e, granted, err := a.declarations()
			if err != nil {
				return err
			}
			all, err := registry.NewRegistry(append(e.Tools().Tools(), e.ExecuteCode(granted, nil))...)
			if err != nil {
				return err
			}
			if len(names) > 0 {
				for _, name := range names {
					if !all.Has(name) {
						return unknownTool(name, all)
					}
				}
				if all, err = all.Subset(names...); err != nil {
					return err
				}
			}
			var out []json.RawMessage
			for _, t := range all.Tools() {
				form, err := t.Declaration(registry.Format(format))
				if err != nil {
					return err
				}
				out = append(out, form)
			}
			return printJSON(a.stdout, out)
		},
	}
	cmd.Flags().StringVar(&format, "format", "openai", "openai, anthropic or mcp")
	return cmd
}

func toolsCallCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "call NAME [JSON|-]",
		Short: "Call one tool in a session of its own and print its result",
		Long: `Call one tool with arguments given as a JSON object, or read from standard
input for -. The result is printed as the caller would get it. Exit code 1 when
the result is a failure.`,
		Example: `  hermes-exec tools call read_file '{"path": "go.mod", "limit": 3}'
  hermes-exec tools call terminal '{"command": "git status --short"}' --workdir ~/project`,
		Args: arguments(1, 2, "NAME (hermes-exec tools list has them)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := "{}"
			if len(args) == 2 {
				text = args[1]
			}
			if text == "-" {
				var err error
				if text, err = a.readScript(cmd.Context(), "-"); err != nil {
					return err
				}
			}
			if !json.Valid([]byte(text)) {
				return fmt.Errorf("tools call: the arguments are not JSON: %q", clip(text))
			}
			return a.call(cmd.Context(), args[0], json.RawMessage(text))
		},
	}
}

// unknownTool refuses a name as a session does that is to grant it.
func unknownTool(name string, known *registry.Registry) error {
	return fmt.Errorf("%w: unknown tool %q%s", engine.ErrRefused, clip(name), nearOf(name, known.Names()))
}

func (a *app) call(ctx context.Context, name string, args json.RawMessage) error {
	e, granted, err := a.declarations()
	if err != nil {
		return err
	}
	if name != "execute_code" && !e.Tools().Has(name) {
		return unknownTool(name, e.Tools())
	}
	s, err := a.open(ctx, false, name)
	if err != nil {
		return err
	}
	var reply json.RawMessage
	if name == "execute_code" {
		script, err := registry.NewRegistry(e.ExecuteCode(granted, func(context.Context) (*engine.Session, error) { return s, nil }))
		if err != nil {
			return err
		}
		reply = script.Dispatch(ctx, registry.Caller{Kind: registry.Shell}, name, args)
	} else {
		reply = s.Call(ctx, rpc.Call{ID: 1, Tool: name, Args: args})
	}
	fmt.Fprintf(a.stdout, "%s\n", reply)
	var failed struct {
		Error any `json:"error"`
	}
	if json.Unmarshal(reply, &failed) == nil && failed.Error != nil && failed.Error != "" {
		return exitCode(exitFailed)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

func stubCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stub",
		Short: "Print hermes_tools.py, the module scripts import their tools from",
		Long:  `Print the module a script of this configuration would import, for an editor's completion or a look inside. --tools chooses the grant.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, granted, err := a.declarations()
			if err != nil {
				return err
			}
			text, err := e.Stub(granted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// clip shortens what a user typed for an error message.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
