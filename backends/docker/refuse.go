package docker

import (
	"fmt"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// instead are arguments of docker run with why they are refused, or what to use.
var instead = map[string]string{
	"--privileged":            "it gives the container the whole machine",
	"--cap-add":               "boxes have no capabilities",
	"--security-opt":          "it would weaken what confines the box",
	"--device":                "boxes have no devices",
	"--device-cgroup-rule":    "boxes have no devices",
	"--gpus":                  "boxes have no devices",
	"--pid":                   "boxes share no namespace",
	"--ipc":                   "boxes share no namespace",
	"--uts":                   "boxes share no namespace",
	"--userns":                "boxes share no namespace",
	"--cgroupns":              "boxes share no namespace",
	"--cgroup-parent":         "limits are set by container_cpu, container_memory and terminal.pids",
	"--network":               "the policy says whether there is a network",
	"--net":                   "the policy says whether there is a network",
	"--publish":               "boxes open no ports on this machine",
	"-p":                      "boxes open no ports on this machine",
	"-P":                      "boxes open no ports on this machine",
	"--volume":                "use docker_volumes",
	"-v":                      "use docker_volumes",
	"--mount":                 "use docker_volumes",
	"--volumes-from":          "use docker_volumes",
	"--tmpfs":                 "/tmp, home and scratch are in memory already",
	"--env":                   "use docker_env or docker_forward_env",
	"-e":                      "use docker_env or docker_forward_env",
	"--env-file":              "use docker_env or docker_forward_env",
	"--user":                  "the user is the work directory's owner, or yours with docker_run_as_host_user",
	"-u":                      "the user is the work directory's owner, or yours with docker_run_as_host_user",
	"--memory":                "use container_memory",
	"-m":                      "use container_memory",
	"--cpus":                  "use container_cpu",
	"--storage-opt":           "use container_disk",
	"--pids-limit":            "use the limit of processes",
	"--runtime":               "use docker_runtime",
	"--restart":               "a box ends with its session",
	"--entrypoint":            "the first process of a box is the guest",
	"--init":                  "the first process of a box is the guest",
	"--label":                 "labels tell whose container it is",
	"-l":                      "labels tell whose container it is",
	"--name":                  "names are given by the engine",
	"--oom-kill-disable":      "memory limits are kept by the killer",
	"--sysctl":                "it would change what all boxes rely on",
	"--ulimit":                "limits are set by container_memory and the limit of processes",
	"--disable-content-trust": "use an image you trust by its digest",
}

// refuseArgs refuses arguments of docker run, each with its reason.
func refuseArgs(args []string) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		why, known := instead[name]
		if !known && len(name) > 2 && name[0] == '-' && name[1] != '-' { // -v/a:/b
			why, known = instead[name[:2]]
		}
		if !known {
			if !strings.HasPrefix(arg, "-") {
				continue // the value of the one before, which was or will be refused
			}
			why = "arguments of docker run are not passed on: use the keys docker_image, docker_volumes, docker_env, docker_runtime and container_*"
		}
		return fmt.Errorf("docker_extra_args: %.80q is refused: %s: %w", name, why, sandbox.ErrPolicy)
	}
	if len(args) > 0 {
		return fmt.Errorf("docker_extra_args: %.80q is refused: arguments of docker run are not passed on: %w", args[0], sandbox.ErrPolicy)
	}
	return nil
}

// refuseRuntime refuses a runtime the daemon does not have.
func refuseRuntime(name string, f facts) error {
	if name == "" {
		return nil
	}
	for _, has := range f.runtimes {
		if has == name {
			return nil
		}
	}
	return fmt.Errorf("docker_runtime: the docker engine has no runtime %.80q, only %s; add it to the daemon's configuration: %w", name, strings.Join(f.runtimes, ", "), sandbox.ErrUnavailable)
}

// clean drops what would not be a variable.
func checkEnv(key string, env []string) error {
	for _, v := range env {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" || strings.ContainsRune(v, 0) {
			return fmt.Errorf("%s: want NAME=value, not %.40q", key, name)
		}
	}
	return nil
}
