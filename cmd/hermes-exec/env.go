package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
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
			decisions := e.EnvDecisions()
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
