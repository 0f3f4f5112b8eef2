package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/hermes-exec/hermes-exec/bench"
	"github.com/hermes-exec/hermes-exec/guest"
)

func main() {
	guest.Main()
	opt := bench.Options{}
	flag.IntVar(&opt.Rounds, "rounds", 40, "rounds of the rows that start processes")
	flag.StringVar(&opt.Binary, "binary", "bin/hermes-exec", "the command, for its own start")
	flag.StringVar(&opt.DockerHost, "docker-host", os.Getenv("HERMES_EXEC_TEST_DOCKER_HOST"), "the docker engine")
	flag.StringVar(&opt.DockerImage, "docker-image", os.Getenv("HERMES_EXEC_TEST_DOCKER_IMAGE"), "an image with python3; empty leaves docker out")
	flag.StringVar(&opt.SSHConfig, "ssh-config", os.Getenv("HERMES_EXEC_TEST_SSH_CONFIG"), "an ssh_config with a host hermes-test; empty leaves ssh out")
	flag.Parse()
	if _, err := os.Stat(opt.Binary); err != nil {
		opt.Binary = ""
	}
	before := bench.ReadProcessors()
	python, rows, err := bench.Measure(opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s/%s, %d CPUs of which others took %.1f %%, %s, %d rounds, medians\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), bench.ReadProcessors().Stolen(before), python, opt.Rounds)
	bench.Print(os.Stdout, rows)
}
