package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/backends/docker"
)

func reapCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reap",
		Short: "Remove what a killed engine left in docker",
		Long: `Remove containers, volumes and state whose engine is dead. Sessions do so as
they start; this is for a machine on which none starts any more. What another
live engine owns is never touched. Prints what was removed, a line each.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := a.start(); err != nil {
				return err
			}
			var errs []error
			for _, name := range a.wanted() {
				backend, ok := a.backends[name].(*docker.Backend)
				if !ok {
					continue
				}
				removed, err := backend.Reap(cmd.Context())
				slices.Sort(removed)
				for _, what := range removed {
					fmt.Fprintf(a.stdout, "%s: %s\n", name, what)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}
