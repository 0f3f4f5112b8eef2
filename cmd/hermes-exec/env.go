package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/envfilter"
)

func envCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Show which environment variables a script would get, and why",
		Long: `Show, variable by variable, what passes into a script's environment, what does
not, and by which rule. Values of what is dropped are never shown.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, _, err := a.declarations()
			if err != nil {
				return err
			}
			a.warn(a.kept(e)...)
			decisions := a.withSet(e.EnvDecisions())
			if asJSON {
				return printJSON(a.stdout, decisions)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "VARIABLE\tPASSES\tRULE\tWHY")
			for _, d := range decisions {
				passes := "no"
				if d.Pass {
					passes = "yes"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", first(d.Name, "(malformed)"), passes, d.Rule, d.Reason)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// withSet adds the variables of --env to decisions, which stay in order.
func (a *app) withSet(decisions []envfilter.Decision) []envfilter.Decision {
	for _, kv := range a.flags.env {
		name, value, _ := strings.Cut(kv, "=")
		set := envfilter.Decision{Name: name, Value: value, Pass: true, Rule: "set", Reason: "Set by --env."}
		at, found := slices.BinarySearchFunc(decisions, name, func(d envfilter.Decision, name string) int { return strings.Compare(d.Name, name) })
		if found {
			decisions[at] = set
		} else {
			decisions = slices.Insert(decisions, at, set)
		}
	}
	return decisions
}

// checkEnvFlags refuses what --env and --pass-env cannot mean. What follows a =
// may be a secret, and is not repeated.
func (a *app) checkEnvFlags() error {
	for _, kv := range a.flags.env {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
			return fmt.Errorf("--env %q: want NAME=value", clip(kv))
		case name == "":
			return fmt.Errorf(`--env "=…": want NAME=value, there is no name before the =`)
		}
	}
	for _, name := range a.flags.pass {
		before, _, value := strings.Cut(name, "=")
		switch {
		case value:
			return fmt.Errorf(`--pass-env "%s=…": want the name of a variable; --env sets one`, clip(before))
		case strings.TrimSpace(name) == "":
			return fmt.Errorf("--pass-env %q: want the name of a variable", name)
		}
	}
	return nil
}

// kept says which variables --pass-env does not let through, and why.
func (a *app) kept(e *engine.Engine) (texts []string) {
	for _, name := range a.flags.pass {
		name = strings.TrimSpace(name)
		family, many := strings.CutSuffix(name, "*")
		why := "it is not set"
		if many {
			why = "no variable passes by it (a family is NAME_*)"
		}
		passes := slices.ContainsFunc(e.EnvDecisions(), func(d envfilter.Decision) bool {
			if d.Name == name && !d.Pass {
				why = strings.TrimSuffix(d.Reason, ".")
			}
			return d.Pass && (d.Name == name || many && d.Rule == envfilter.RulePassthrough && strings.HasPrefix(d.Name, family))
		})
		if !passes {
			texts = append(texts, fmt.Sprintf("--pass-env %s lets nothing through: %s", name, why))
		}
	}
	return texts
}
