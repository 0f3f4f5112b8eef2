package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-exec/hermes-exec/config"
)

func Example() {
	home, err := os.MkdirTemp("", "config-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)
	file := filepath.Join(home, "config.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}

	write("code_execution:\n  timeout: 60\nmodel: {default: ignored here}\n")
	cfg, err := config.Load(config.Options{Home: home, Environ: []string{"TERMINAL_TIMEOUT=30"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.CodeExecution.Timeout, cfg.Terminal.Timeout, cfg.Origin("terminal.timeout"))

	write("code_execution:\n  timeout: \"60\"\n  mod: strict\n")
	_, err = config.Load(config.Options{Home: home, Environ: []string{}})
	fmt.Println(strings.ReplaceAll(err.Error(), file, "config.yaml"))
	// Output:
	// 1m0s 30s env TERMINAL_TIMEOUT
	// config: config.yaml:2: code_execution.timeout: want a whole number of seconds, got the string "60"
	// config: config.yaml:3: code_execution.mod: unknown key; did you mean "mode"?
}
