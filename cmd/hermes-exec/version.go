package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release this source belongs to.
const version = "0.1.0-dev"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " (" + s.Value[:min(12, len(s.Value))] + ")"
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "hermes-exec %s%s %s/%s %s\n", version, revision, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}

// printJSON prints v indented, for people and programs alike.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
