package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/config"
)

// group makes of a command one that has others below it: alone it shows its
// help, and a word that names none of them is a mistake.
func group(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
}

// groups does that for the root and all that is below it, what cobra adds
// included: its own help and completion take any word.
func groups(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	group(root)
	for _, cmd := range root.Commands() {
		switch {
		case cmd.HasSubCommands():
			group(cmd)
		case cmd.Name() == "help":
			cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 && about.HasSubCommands() {
					err = unknownCommand(about, rest[0])
				}
				if err != nil {
					return err
				}
				about.InitDefaultHelpFlag() // so that it is listed
				return about.Help()
			}
		}
	}
}

// arguments says what is missing or too much, and how it is written.
func arguments(least, most int, missing string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		switch {
		case len(args) < least:
			return fmt.Errorf("%s: want a %s; usage: %s", name, missing, cmd.UseLine())
		case len(args) > most:
			return fmt.Errorf("%s: %q is one argument too many; usage: %s", name, clip(args[most]), cmd.UseLine())
		}
		return nil
	}
}

func unknownCommand(under *cobra.Command, word string) error {
	path := strings.TrimPrefix(under.CommandPath()+" ", under.Root().Name()+" ")
	msg := fmt.Sprintf("unknown command %q", path+clip(word))
	var known []string
	for _, cmd := range under.Commands() {
		if cmd.IsAvailableCommand() || cmd.Name() == "help" {
			known = append(known, cmd.Name())
		}
	}
	if near := config.Nearest(word, known); near != "" {
		msg += fmt.Sprintf(", did you mean %q?", path+near)
	}
	return errors.New(msg + fmt.Sprintf(" (%s --help lists them)", under.CommandPath()))
}
