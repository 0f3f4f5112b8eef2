package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What every configuration has, and what the terminal section makes of it.
func TestBackendsThatAreAlwaysThere(t *testing.T) {
	reference := Docker{
		Image: "nikolaik/python-nodejs:python3.11-nodejs20", CPU: 1, Memory: 5120 << 20, Disk: 51200 << 20,
		Persistent: true, OrphanReaper: true,
	}
	full := Docker{
		Image: "python:3.13", Volumes: []string{"/data:/data:ro", "cache:/root/.cache", "~/x:/x"},
		Env: []string{"A=1", "EMPTY=", "TOKEN=s3cr3t=x\n"}, ForwardEnv: []string{"GH_TOKEN"}, MountCwd: true, RunAsHostUser: true,
		CPU: 0.5, Memory: 512 << 20, Pool: 2, Network: "bridge", Runtime: "runsc", Host: "ssh://me@box",
	}
	host := SSH{
		Host: "box.example", User: "me", Port: 2222, Key: "~/.ssh/k", Config: "none", KnownHosts: "/k", AcceptNew: true, Keepalive: 20 * time.Second,
	}
	want := func(d Docker, s SSH) map[string]Backend {
		return map[string]Backend{
			"local":  {Name: "local", Type: "local"},
			"docker": {Name: "docker", Type: "docker", Docker: d},
			"ssh":    {Name: "ssh", Type: "ssh", SSH: s},
		}
	}
	for name, c := range map[string]struct {
		yaml    string
		environ []string
		want    map[string]Backend
	}{
		"defaults": {"", nil, want(reference, SSH{})},
		"file": {`
terminal:
  docker_image: python:3.13
  docker_volumes: ["/data:/data:ro", "cache:/root/.cache", "~/x:/x"]
  docker_env: {TOKEN: "s3cr3t=x\n", A: "1", EMPTY: ""}
  docker_forward_env: [GH_TOKEN]
  docker_extra_args: []
  docker_mount_cwd_to_workspace: yes
  docker_run_as_host_user: true
  docker_persist_across_processes: false
  docker_orphan_reaper: false
  docker_pool: 2
  docker_network: true
  docker_runtime: runsc
  docker_host: ssh://me@box
  container_cpu: 0.5
  container_memory: 512
  container_disk: 0
  container_persistent: false
  ssh_host: box.example
  ssh_user: me
  ssh_port: 2222
  ssh_key: ~/.ssh/k
  ssh_config: none
  ssh_known_hosts: /k
  ssh_accept_new: true
  ssh_keepalive: 20
`, nil, want(full, host)},
		"environment": {"terminal: {docker_image: other, docker_env: {B: x}, docker_volumes: [a_b:/c]}", []string{
			"TERMINAL_DOCKER_IMAGE=python:3.13",
			`TERMINAL_DOCKER_VOLUMES=["/data:/data:ro", "cache:/root/.cache", "~/x:/x"]`,
			`TERMINAL_DOCKER_ENV={"TOKEN": "s3cr3t=x\n", "A": "\u0031", "EMPTY": ""}`,
			`TERMINAL_DOCKER_FORWARD_ENV=["GH_TOKEN"]`, "TERMINAL_DOCKER_EXTRA_ARGS=[]",
			"TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE=True", "TERMINAL_DOCKER_RUN_AS_HOST_USER=1",
			"TERMINAL_DOCKER_ORPHAN_REAPER=no",
			"TERMINAL_DOCKER_POOL=2", "TERMINAL_DOCKER_NETWORK=true", "TERMINAL_DOCKER_RUNTIME=runsc", "TERMINAL_DOCKER_HOST=ssh://me@box",
			"TERMINAL_CONTAINER_CPU=0.5", "TERMINAL_CONTAINER_MEMORY=512", "TERMINAL_CONTAINER_DISK=0", "TERMINAL_CONTAINER_PERSISTENT=False",
			"TERMINAL_SSH_HOST=box.example", "TERMINAL_SSH_USER=me", "TERMINAL_SSH_PORT=2222", "TERMINAL_SSH_KEY=~/.ssh/k",
			"TERMINAL_SSH_CONFIG=none", "TERMINAL_SSH_KNOWN_HOSTS=/k", "TERMINAL_SSH_ACCEPT_NEW=on", "TERMINAL_SSH_KEEPALIVE=20",
		}, want(full, host)},
		"what the reference exports": {"", []string{
			"TERMINAL_DOCKER_VOLUMES=[]", "TERMINAL_DOCKER_ENV={}", "TERMINAL_DOCKER_FORWARD_ENV=[]", "TERMINAL_DOCKER_EXTRA_ARGS=[]",
			"TERMINAL_CONTAINER_CPU=1.0", "TERMINAL_SSH_HOST=", "TERMINAL_SSH_KEY=", "TERMINAL_DOCKER_NETWORK=false",
		}, want(func() Docker {
			d := reference
			d.Volumes, d.Env, d.ForwardEnv, d.Network = []string{}, []string{}, []string{}, "off"
			return d
		}(), SSH{})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, c.yaml, c.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Backends, c.want) {
				t.Errorf("got  %+v\nwant %+v", got.Backends, c.want)
			}
		})
	}
	if got := Default().Backends; !reflect.DeepEqual(got, want(reference, SSH{})) {
		t.Errorf("the default has %+v", got)
	}
}

func TestNamedBackends(t *testing.T) {
	c, err := load(t, `
host: &host {type: ssh, user: me, port: 2222, accept_new: true}
terminal: {backend: gpu-box, docker_env: {SECRET: x}, docker_image: other, container_cpu: 4, cwd: /here}
backends:
  gpu-box: {<<: *host, host: 10.0.0.7, key: ~/.ssh/gpu, config: ~/c, known_hosts: ~/k, keepalive: 5, cwd: ~/work}
  other.box: {<<: *host, host: "fe80::1%eth0", user: you, port: ~}
  ci:
    type: docker
    cwd: /src
    image: golang:1.26
    volumes: [mod-cache:/go/pkg/mod, "/srv/x:/x:ro"]
    env: {CI: "true"}
    forward_env: [GOPROXY]
    run_as_host_user: true
    mount_cwd: on
    runtime: runsc
    network: off
    pool: 1
    cpu: 2
    memory: 2G
    disk: 0
    pids: 64
    host: tcp://build:2376
    persistent: no
    orphan_reaper: false
  9_plain: {type: docker}
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Backend{
		"gpu-box": {Name: "gpu-box", Type: "ssh", Cwd: "~/work", SSH: SSH{
			Host: "10.0.0.7", User: "me", Port: 2222, Key: "~/.ssh/gpu", Config: "~/c", KnownHosts: "~/k", AcceptNew: true, Keepalive: 5 * time.Second,
		}},
		"other.box": {Name: "other.box", Type: "ssh", SSH: SSH{Host: "fe80::1%eth0", User: "you", AcceptNew: true}},
		"ci": {Name: "ci", Type: "docker", Cwd: "/src", Docker: Docker{
			Image: "golang:1.26", Volumes: []string{"mod-cache:/go/pkg/mod", "/srv/x:/x:ro"}, Env: []string{"CI=true"}, ForwardEnv: []string{"GOPROXY"},
			RunAsHostUser: true, MountCwd: true, Runtime: "runsc", Network: "off", Pool: 1, CPU: 2, Memory: 2 << 30, PIDs: 64, Host: "tcp://build:2376",
		}},
		// Nothing of the terminal section: neither its secrets nor its image.
		"9_plain": {Name: "9_plain", Type: "docker", Docker: defaultDocker()},
		"local":   {Name: "local", Type: "local"},
	} {
		if got := c.Backends[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", name, got, want)
		}
	}
	if n := len(c.Backends); n != 7 {
		t.Errorf("there are %d backends", n)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
	for key, want := range map[string]string{
		"backends.ci.image": c.Path + ":10", "backends.ci.pool": c.Path + ":18", "backends.gpu-box.user": c.Path + ":2",
		"backends.other.box.host": c.Path + ":6", "backends.other.box.port": "default", "backends.9_plain.memory": "default",
		"backends.9_plain.type": c.Path + ":26", "backends.ci.accept_new": "", "backends.none.type": "",
	} {
		if got := c.Origin(key); got != want {
			t.Errorf("origin of %s is %q, want %q", key, got, want)
		}
	}
}

// terminal.cwd is of the place that terminal.backend names, and of no other.
func TestCwdOfBackends(t *testing.T) {
	for _, c := range []struct{ yaml, name, want string }{
		{"terminal: {cwd: /w}", "local", "/w"},
		{"terminal: {cwd: /w}", "docker", ""},
		{"terminal: {cwd: .}", "local", ""},
		{"terminal: {backend: ssh, cwd: ~/w}", "ssh", "~/w"},
		{"terminal: {backend: ssh, cwd: ~/w}", "local", ""},
		{"terminal: {backend: box, cwd: /w}\nbackends: {box: {type: docker}}", "box", "/w"},
		{"terminal: {backend: box, cwd: /w}\nbackends: {box: {type: docker, cwd: /own}}", "box", "/own"},
	} {
		got, err := load(t, c.yaml)
		if err != nil {
			t.Fatal(err)
		}
		if got := got.Backends[c.name].Cwd; got != c.want {
			t.Errorf("%s: %s has %q, want %q", c.yaml, c.name, got, c.want)
		}
	}
}

func TestMistakesAboutBackends(t *testing.T) {
	const docker, ssh = "backends: {ci: {type: docker, %s}}", "backends: {box: {type: ssh, host: h, %s}}"
	for _, c := range []struct{ form, yaml, want string }{
		{"", "backends: [a]", `:1: backends: want a mapping of names to backends, got a list`},
		{"", "backends: docker", `:1: backends: want a mapping of names to backends, got the string "docker"`},
		{"", "backends: {ci: }", `:1: backends.ci: want a mapping with a type, docker or ssh, got nothing`},
		{"", "backends:\n  ci: docker", `:2: backends.ci: want a mapping with a type, docker or ssh, got the string "docker"`},
		{"", "backends:\n  ci: {image: a}", `:2: backends.ci.type: missing: want docker or ssh`},
		{"", "backends: {ci: {type: }}", `:1: backends.ci.type: missing: want docker or ssh`},
		{"", "backends:\n  ci:\n    type: dokcer\n    image: a", `:3: backends.ci.type: want docker or ssh, got "dokcer"; did you mean "docker"?`},
		{"", "backends: {ci: {type: podman-ish}}", `backends.ci.type: want docker or ssh, got "podman-ish"`},
		{"", "backends: {ci: {type: modal}}", `backends.ci.type: want docker or ssh, got "modal", which is not built yet`},
		{"", "backends: {ci: {type: local}}", `got "local", which is always there under its own name`},
		{"", "backends: {ci: {type: Docker}}", `got "Docker"; did you mean "docker"?`},
		{"", "backends: {ci: {type: 5}}", `backends.ci.type: want a string, got the number 5`},
		{"", "backends: {ci: {type: ''}}", `backends.ci.type: want docker or ssh, got ""`},
		{"", "backends: {docker: {type: docker}}", `:1: backends.docker: the name is taken by the backend that terminal.docker_… configure; choose another`},
		{"", "backends: {ssh: {type: ssh, host: a}}", `backends.ssh: the name is taken by the backend that terminal.ssh_…`},
		{"", "backends: {local: {type: docker}}", `backends.local: the name is taken by a place to run`},
		{"", "backends: {kubernetes: {type: docker}}", `backends.kubernetes: the name is taken by a place to run`},
		{"", "backends: {GPU: {type: docker}}", `backends.GPU: want a name of a-z, 0-9, '.', '_' and '-', at most 63, a letter or digit first`},
		{"", "backends: {-a: {type: docker}}", `backends.-a: want a name of`},
		{"", "backends: {.a: {type: docker}}", `backends..a: want a name of`},
		{"", "backends: {a b: {type: docker}}", `backends.a b: want a name of`},
		{"", "backends: {'': {type: docker}}", `backends.: want a name of`},
		{"", "backends: {é: {type: docker}}", `want a name of`},
		{"", "backends: {" + strings.Repeat("a", 64) + ": {type: docker}}", `want a name of`},
		{"", "backends: {? [a] : {type: docker}}", `backends: want a word as key, got a list`},
		{"", "backends:\n  a: {type: docker}\n  a: {type: docker}", `:3: backends.a: the key is already in line 2`},
		{"", "backends: {}\nbackends: {}", `:2: backends: the key is already in line 1`},
		{"", "backends:\n  a:\n    type: docker\n    image: x\n    image: y", `:5: backends.a.image: the key is already in line 4`},
		{"", "backends: &b {a: *b}", `backends.a.type: missing`},
		{"", "backends: {a: &a {<<: *a}}", `too many merge keys, or one that merges itself`},
		{"", "backends:\n  box:\n    type: ssh\n    user: me", `:2: backends.box.host: missing: want the host to reach`},
		{"", "backends: {box: {type: ssh, host: ''}}", `backends.box.host: want a host's name or address, got ""`},

		{docker, "imgae: a", `:1: backends.ci.imgae: unknown key; did you mean "image"?`},
		{docker, "docker_image: a", `backends.ci.docker_image: unknown key; did you mean "image"?`},
		{docker, "container_memory: 1", `backends.ci.container_memory: unknown key; did you mean "memory"?`},
		{docker, "zzzzzz: a", `unknown key; known are type, cwd, image, volumes,`},
		{docker, "user: a", `backends.ci.user: a backend of type docker has no such key, one of type ssh has`},
		{docker, "privileged: true", `backends.ci.privileged: unknown key`},
		{docker, "image: ''", `backends.ci.image: want the name of an image, got ""`},
		{docker, "image: --privileged", `want the name of an image, got "--privileged"`},
		{docker, "image: a b", `want the name of an image, got "a b"`},
		{docker, "image: 3.11", `want a string, got the number 3.11: put it in quotes`},
		{docker, "cwd: src", `backends.ci.cwd: want an absolute path in the container, got "src"`},
		{docker, "volumes: /a:/b", `backends.ci.volumes: want a list, got the string "/a:/b"`},
		{docker, "volumes: [/a]", `backends.ci.volumes: item 1: want /host/dir:/dir or name:/dir, with :ro for read-only, got "/a"`},
		{docker, "volumes: [a_b:/b, './a:/b']", `item 2: want /host/dir:/dir or name:/dir, with :ro for read-only, got the source "./a"`},
		{docker, "volumes: ['a/b:/b']", `got the source "a/b"`},
		{docker, "volumes: ['..:/b']", `got the source ".."`},
		{docker, "volumes: ['/a:b']", `got the place inside "b"`},
		{docker, "volumes: ['/a:']", `got the place inside ""`},
		{docker, "volumes: [':/b']", `got the source ""`},
		{docker, "volumes: ['/a:/b:ro:x']", `got "/a:/b:ro:x"`},
		{docker, "volumes: ['/a:/b:']", `got "/a:/b:"`},
		{docker, "volumes: ['~other:/b']", `got the source "~other"`},
		{docker, "volumes: [\"/a\\0:/b\"]", `item 1: want text without NUL bytes`},
		{docker, "network: host", `backends.ci.network: want off or bridge, got "host"`},
		{docker, "network: ''", `want off or bridge, got ""`},
		{docker, "network: brigde", `did you mean "bridge"?`},
		{docker, "runtime: /bin/sh", `backends.ci.runtime: want a runtime's name as the daemon knows it, such as runsc, got "/bin/sh"`},
		{docker, "pool: -1", `backends.ci.pool: want a whole number of containers from 0 to 64, got -1`},
		{docker, "cpu: many", `backends.ci.cpu: want a number of cores`},
		{docker, "memory: 512", `backends.ci.memory: want a size from 16M to 1024T, or 0 for no limit, got 512`},
		{docker, "pids: 0", `backends.ci.pids: want a whole number of processes from 1 to 4194304, got 0`},
		{docker, "host: /run/docker.sock", `backends.ci.host: want a URL such as unix:///run/docker.sock,`},
		{docker, "host: 'unix://run/docker.sock'", `want a URL such as`},
		{docker, "host: 'tcp://'", `want a URL such as`},
		{docker, "host: 'file:///etc'", `want a URL such as`},
		{docker, "mount_cwd: 1", `backends.ci.mount_cwd: want true or false, got the number 1`},
		{docker, "env: [A=1]", `backends.ci.env: want a mapping of names to strings, got a list`},
		{docker, "env: {A: [b]}", `backends.ci.env: A: want a string, got a list`},
		{docker, "env: {A: }", `backends.ci.env: A: want a string, got nothing`},
		{docker, "env: {A B: x}", `backends.ci.env: name 1: want the name of a variable`},
		{docker, "env: {A: x, A: y}", `backends.ci.env: A: the name is there twice`},
		{docker, "env: {A: yes}", `A: want a string, got a boolean: put it in quotes`},
		{docker, "env: {<<: {B: x}}", `a merge key cannot stand here`},
		{docker, "env: {A: \"a\\0b\"}", `A: want text without NUL bytes`},
		{docker, "env: &e {A: *e}", `A: want a string, got a mapping`},
		{docker, "forward_env: ['']", `backends.ci.forward_env: item 1: want a string, got an empty one`},

		{ssh, "user: '-oProxyCommand=x'", `backends.box.user: want a user's name, got "-oProxyCommand=x"`},
		{ssh, "user: a@b", `want a user's name, got "a@b"`},
		{ssh, "port: 0", `backends.box.port: want a whole number from 1 to 65535, got 0`},
		{ssh, "port: 65536", `want a whole number from 1 to 65535, got 65536`},
		{ssh, "port: '22'", `want a whole number, got the string "22"`},
		{ssh, "accept_new: maybe", `want true or false, got the string "maybe"`},
		{ssh, "keepalive: 0", `want a whole number of seconds from 1 to 3600, got 0`},
		{ssh, "cwd: work", `backends.box.cwd: want an absolute path or one below ~ on the host, got "work"`},
		{ssh, "image: a", `backends.box.image: a backend of type ssh has no such key, one of type docker has`},
		{ssh, "ssh_key: a", `backends.box.ssh_key: unknown key; did you mean "key"?`},
		{ssh, "known_host: a", `did you mean "known_hosts"?`},
		{"", "backends: {box: {type: ssh, host: me@h}}", `backends.box.host: want a host's name or address, got "me@h"; the user has a key of its own`},
		{"", "backends: {box: {type: ssh, host: 'h:22'}}", `got "h:22"; the port has a key of its own`},
		{"", "backends: {box: {type: ssh, host: 'ssh://h'}}", `want a host's name or address, got "ssh://h"`},
		{"", "backends: {box: {type: ssh, host: '-h'}}", `want a host's name or address, got "-h"`},

		{"", "terminal:\n  docker_extra_args: [--privileged]", `:2: terminal.docker_extra_args: item 1, "--privileged", is refused: arguments for docker run could undo the container's hardening; no key does the same`},
		{"", "terminal: {docker_extra_args: ['-v/:/host']}", `item 1, "-v", is refused: arguments for docker run could undo the container's hardening; use docker_volumes`},
		{"", "terminal: {docker_extra_args: ['--network=host']}", `item 1, "--network", is refused: arguments for docker run could undo the container's hardening; use docker_network`},
		{"", "terminal: {docker_extra_args: [5]}", `item 1 is refused`},
		{"", "terminal: {docker_extra_args: --gpus}", `terminal.docker_extra_args: want a list, got a string`},
		{"", "terminal: {docker_volumes: [a]}", `terminal.docker_volumes: item 1: want /host/dir:/dir`},
		{"", "terminal: {docker_image: ''}", `terminal.docker_image: want the name of an image`},
		{"", "terminal: {container_memory: 1}", `terminal.container_memory: want from 16 to 1073741824 megabytes, or 0 for no limit, got 1`},
		{"", "terminal: {container_memory: -1}", `want from 16 to 1073741824 megabytes`},
		{"", "terminal: {container_memory: 5G}", `terminal.container_memory: want a whole number of megabytes, got the string "5G"`},
		{"", "terminal: {container_disk: 99999999999999999999}", `terminal.container_disk: want a whole number of megabytes`},
		{"", "terminal: {container_cpu: all}", `terminal.container_cpu: want a number of cores`},
		{"", "terminal: {ssh_port: 70000}", `terminal.ssh_port: want a whole number from 1 to 65535, got 70000`},
		{"", "terminal: {ssh_hots: a}", `terminal.ssh_hots: unknown key; did you mean "ssh_host"?`},
		{"", "terminal: {lifetime_seconds: 0}", `terminal.lifetime_seconds: want a whole number of seconds from 1`},

		{"", "terminal:\n  backend: dokcer", `:2: terminal.backend: unknown backend "dokcer"; did you mean "docker"?`},
		{"", "terminal: {backend: gpu-bxo}\nbackends: {gpu-box: {type: docker}}", `:1: terminal.backend: unknown backend "gpu-bxo"; did you mean "gpu-box"?`},
		{"", "terminal: {backend: zzzzzzzzz}\nbackends: {gpu-box: {type: docker}}", `terminal.backend: unknown backend "zzzzzzzzz"; have docker, gpu-box, local, ssh`},
		{"", "terminal: {backend: ''}", `terminal.backend: unknown backend ""`},
		{"", "terminal: {backend: Docker}", `did you mean "docker"?`},
	} {
		yaml := c.yaml
		if c.form != "" {
			yaml = fmt.Sprintf(c.form, yaml)
		}
		t.Run(fmt.Sprintf("%.60q", yaml), func(t *testing.T) {
			got, err := load(t, yaml)
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if !strings.HasPrefix(err.Error(), "config: ") || !strings.Contains(err.Error(), "config.yaml:") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant …%s", err, c.want)
			}
		})
	}
}

// A backend that has a mistake is there, so that naming it is not a second one.
func TestOneMistakeIsToldOnce(t *testing.T) {
	for _, yaml := range []string{
		"terminal: {backend: box}\nbackends: {box: {type: shh}}",
		"terminal: {backend: Box}\nbackends: {Box: {type: ssh, host: a}}",
		"terminal: {backend: box}\nbackends: {box: {type: ssh, host: a, prot: 5}}",
		"terminal: {backend: box}\nbackends: {box: {type: ssh, host: me@a}}",
	} {
		if _, err := load(t, yaml); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", yaml, err)
		}
	}
}

// What is not built yet is for the engine to refuse, with its own exit code.
func TestLaterBackendsPass(t *testing.T) {
	for _, name := range []string{"singularity", "modal", "daytona", "kubernetes"} {
		if c, err := load(t, "", "TERMINAL_ENV="+name); err != nil || c.Terminal.Backend != name || c.Backends[name].Name != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMistakesInVariables(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"TERMINAL_ENV=dokcer", `config: env TERMINAL_ENV (terminal.backend): unknown backend "dokcer"; did you mean "docker"?`},
		{"TERMINAL_DOCKER_VOLUMES=/a:/b", `config: env TERMINAL_DOCKER_VOLUMES (terminal.docker_volumes): want a list as JSON, such as ["a", "b"]: not JSON at byte 1`},
		{"TERMINAL_DOCKER_VOLUMES=['/a:/b']", `want a list as JSON, such as ["a", "b"]: not JSON at byte 2`},
		{"TERMINAL_DOCKER_VOLUMES=None", `not JSON at byte 1`},
		{`TERMINAL_DOCKER_VOLUMES=["/a:/b"`, `not JSON at byte 8`},
		{`TERMINAL_DOCKER_VOLUMES=["/a:/b"] x`, `not JSON at byte`},
		{`TERMINAL_DOCKER_VOLUMES={"/a": "/b"}`, `want a list, got a mapping`},
		{`TERMINAL_DOCKER_VOLUMES="/a:/b"`, `want a list, got the string "/a:/b"`},
		{`TERMINAL_DOCKER_VOLUMES=null`, `want a list, got nothing`},
		{`TERMINAL_DOCKER_VOLUMES=["/a:/b", 5]`, `item 2: want a string, got the number 5`},
		{`TERMINAL_DOCKER_VOLUMES=[["/a:/b"]]`, `item 1: want a string, got a list`},
		{"TERMINAL_DOCKER_VOLUMES=[\"/a\xff:/b\"]", `not valid UTF-8`},
		{`TERMINAL_DOCKER_FORWARD_ENV=A B`, `want a list as JSON`},
		{`TERMINAL_DOCKER_FORWARD_ENV=["A B"]`, `item 1: want the name of a variable, got "A B"`},
		{`TERMINAL_DOCKER_EXTRA_ARGS=["--cap-add", "ALL"]`, `config: env TERMINAL_DOCKER_EXTRA_ARGS (terminal.docker_extra_args): item 1, "--cap-add", is refused`},
		{`TERMINAL_DOCKER_ENV=["A"]`, `want a mapping of names to strings, got a list`},
		{`TERMINAL_DOCKER_ENV=A=1`, `want a mapping as JSON, such as {"NAME": "value"}: not JSON at byte 1`},
		{`TERMINAL_DOCKER_ENV={"A": "x", "A": "y"}`, `A: the name is there twice`},
		{`TERMINAL_DOCKER_ENV={"A": true}`, `A: want a string, got a boolean: put it in quotes`},
		{`TERMINAL_DOCKER_ENV={"A": null}`, `A: want a string, got nothing`},
		{`TERMINAL_DOCKER_ENV={"A": {"B": "x"}}`, `A: want a string, got a mapping`},
		{`TERMINAL_DOCKER_ENV={"": "x"}`, `name 1: want the name of a variable`},
		{`TERMINAL_DOCKER_ENV=` + strings.Repeat("[", 20_000), `not JSON`},
		{"TERMINAL_CONTAINER_MEMORY=5G", `want a whole number of megabytes, got "5G"`},
		{"TERMINAL_CONTAINER_CPU=-1", `want a number of cores`},
		{"TERMINAL_CONTAINER_PERSISTENT=maybe", `want true or false, got "maybe"`},
		{"TERMINAL_DOCKER_NETWORK=host", `want off or bridge, got "host"`},
		{"TERMINAL_SSH_PORT=ssh", `want a whole number, got "ssh"`},
		{"TERMINAL_SSH_HOST=a b", `want a host's name or address, got "a b"`},
	} {
		t.Run(fmt.Sprintf("%.60q", c.variable), func(t *testing.T) {
			got, err := load(t, "", c.variable)
			if err == nil {
				t.Fatalf("accepted: %+v", got.Terminal)
			}
			if !strings.HasPrefix(err.Error(), "config: env TERMINAL_") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant …%s", err, c.want)
			}
		})
	}
}

// Values of docker_env are shown nowhere, nor is what is in the wrong place.
func TestValuesOfEnvAreNotShown(t *testing.T) {
	c, err := load(t, "terminal: {docker_env: {TOKEN: hunter2, A: 'hunter2=x'}}\nbackends: {ci: {type: docker, env: {KEY: hunter2}}}")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(c.Show())
	if err != nil || strings.Contains(string(shown), "hunter2") {
		t.Errorf("shown: %s, %v", shown, err)
	}
	values := map[string]string{}
	for _, s := range c.Show() {
		if _, twice := values[s.Key]; twice {
			t.Errorf("%s is shown twice", s.Key)
		}
		values[s.Key] = s.Value
	}
	for key, want := range map[string]string{
		"terminal.docker_env": "{A: ***, TOKEN: ***}", "backends.ci.env": "{KEY: ***}", "backends.ci.type": `"docker"`,
		"backends.ci.memory": "5G", "backends.ci.pids": "unset", "backends.ci.network": "unset",
	} {
		if values[key] != want {
			t.Errorf("%s is shown as %s, want %s", key, values[key], want)
		}
	}

	for _, bad := range []string{
		"terminal: {docker_env: hunter2}", "terminal: {docker_env: {A: [hunter2]}}", "terminal: {docker_env: [A=hunter2]}",
		"terminal: {docker_env: {A: 748123}}", "terminal: {docker_env: {A: 2748-12-03}}", "terminal: {docker_env: {A: !!binary aHVudGVyMg==}}",
		"terminal: {docker_env: {A=hunter2: x}}", "terminal: {docker_forward_env: [A=hunter2]}",
		"terminal: {docker_extra_args: [-eA=hunter2]}", "terminal: {docker_extra_args: ['--env=A=hunter2']}", "terminal: {docker_extra_args: hunter2}",
		"terminal: {docker_host: 'tcp://me:hunter2@box'}", "terminal: {docker_host: 'tcp://me:hunter2@box:x'}",
		`TERMINAL_DOCKER_ENV={"A": "hunter2"`, `TERMINAL_DOCKER_ENV=hunter2`, `TERMINAL_DOCKER_ENV="hunter2"`, `TERMINAL_DOCKER_ENV={"A": 748123}`,
		`TERMINAL_DOCKER_ENV={'A': 'hunter2'}`, `TERMINAL_DOCKER_ENV=748123`, `TERMINAL_DOCKER_FORWARD_ENV=A=hunter2`,
	} {
		yaml, environ := bad, []string(nil)
		if strings.HasPrefix(bad, "TERMINAL_") {
			yaml, environ = "", []string{bad}
		}
		_, err := load(t, yaml, environ...)
		if err == nil {
			t.Errorf("%s: accepted", bad)
		} else if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "48123") || strings.Contains(text, "2748") || strings.Contains(text, "aHVu") {
			t.Errorf("%s: the error tells it: %v", bad, err)
		}
	}
}

// What JSON says is what the program that wrote it meant.
func FuzzVariables(f *testing.F) {
	for _, seed := range []string{`{"A": "b"}`, `{"A": "\ud83d\ude00"}`, `{"A":"x","A":"y"}`, `[]`, `{"A":{"B":[1,{}]}}`, `{"a b":""}`, "{\"A\":\"\u2028\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got []string
		if (variables{&got}).parse(s) != nil {
			return
		}
		var want map[string]string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatalf("%q is accepted as %q, but: %v", s, got, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %q, want %q", s, got, want)
		}
		for _, entry := range got {
			if name, value, _ := strings.Cut(entry, "="); want[name] != value {
				t.Errorf("%q: got %q, want %q", s, got, want)
			}
		}
	})
}
