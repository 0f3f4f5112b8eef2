package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// lease is how long an engine at the end of a network may answer nothing. One
// that died at the end of a socket is noticed at once.
const lease = 30 * time.Second

// Command is a parsed command line of the hidden command guest.
type Command struct {
	Part string // "serve", "sftp" or "walk"
	Dial string // serve: the socket to connect to, "" for standard input and output
}

// Parse understands what follows the program's name; ok is false when it is not
// for this package.
func Parse(args []string) (c Command, ok bool, err error) {
	if len(args) == 0 || args[0] != "guest" {
		return Command{}, false, nil
	}
	args = args[1:]
	switch {
	case len(args) == 1 && (args[0] == "serve" || args[0] == "sftp" || args[0] == "walk"):
		return Command{Part: args[0]}, true, nil
	case len(args) == 2 && args[0] == "serve" && strings.HasPrefix(args[1], "--dial="):
		return Command{Part: "serve", Dial: args[1][len("--dial="):]}, true, nil
	case len(args) == 3 && args[0] == "serve" && args[1] == "--dial":
		return Command{Part: "serve", Dial: args[2]}, true, nil
	}
	return Command{}, true, fmt.Errorf("want guest serve [--dial SOCKET], guest sftp or guest walk; got %q", args)
}

// Run runs the command until its stream ends.
func (c Command) Run(ctx context.Context, config Config) error {
	switch c.Part {
	case "sftp":
		return SFTP(os.Stdin, os.Stdout)
	case "walk":
		return Walk(os.Stdin, os.Stdout)
	}
	if c.Dial == "" {
		config.Lease = lease
		return Serve(ctx, standard{}, config)
	}
	conn, err := (&net.Dialer{Timeout: greetWithin}).DialContext(ctx, "unix", c.Dial)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return Serve(ctx, conn, config)
}

// standard is the stream of standard input and output.
type standard struct{}

func (standard) Read(b []byte) (int, error) {
	n, err := os.Stdin.Read(b)
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (standard) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// Close closes output first: a read of a terminal or a file cannot be ended.
func (standard) Close() error {
	err := os.Stdout.Close()
	go os.Stdin.Close()
	return err
}
