package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func configCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "path",
			Short: "Print where config.yaml is looked for",
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				if err := a.load(); err != nil {
					return err
				}
				_, err := fmt.Fprintln(a.stdout, a.cfg.Path)
				return err
			},
		},
		configShowCommand(a),
		&cobra.Command{
			Use:   "check",
			Short: "Check config.yaml and .env; exit code 125 and every mistake when there is one",
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				if err := a.load(); err != nil {
					return err
				}
				a.warn(a.warnings...)
				if err := a.checkPolicies(); err != nil {
					return fmt.Errorf("%v", err) // 125 as for every mistake, where run has 126
				}
				_, err := fmt.Fprintln(a.stdout, a.configState())
				return err
			},
		},
	)
	return cmd
}

// configState says what there is of config.yaml, once it is loaded.
func (a *app) configState() string {
	if a.cfg.Path == "" {
		return "there is no home directory to look for config.yaml in (set HOME or HERMES_HOME): defaults apply"
	}
	if _, err := os.Stat(a.cfg.Path); errors.Is(err, fs.ErrNotExist) {
		return a.cfg.Path + " does not exist: defaults apply"
	}
	return a.cfg.Path + " is valid"
}

func configShowCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, its value and where it comes from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := a.load(); err != nil {
				return err
			}
			settings := a.cfg.Show()
			if asJSON {
				return printJSON(a.stdout, settings)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tVALUE\tFROM")
			for _, s := range settings {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, s.Value, s.Origin)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
