package integration

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// station is a backend the program is tested on, with the configuration that
// reaches it.
type station struct {
	backend string
	config  string            // of $HERMES_HOME/config.yaml
	facts   map[string]string // what its script printed
}

// stations are the backends that can be had here. Each is brought up by its
// script, which is quick when all is there.
func stations(t *testing.T) []station {
	t.Helper()
	all := []station{{backend: "local"}}
	if facts := bringUp(t, "docker"); facts != nil {
		all = append(all, station{backend: "docker", facts: facts, config: "terminal:\n  docker_image: " + facts["HERMES_EXEC_TEST_DOCKER_IMAGE"] +
			"\n  docker_host: " + facts["HERMES_EXEC_TEST_DOCKER_HOST"] + "\n"})
	}
	if facts := bringUp(t, "ssh"); facts != nil {
		all = append(all, station{backend: "ssh", facts: facts, config: "terminal:\n  ssh_host: hermes-test\n  ssh_config: " +
			facts["HERMES_EXEC_TEST_SSH_CONFIG"] + "\n"})
	}
	return all
}

// bringUp starts what a backend needs and returns what its script says of it;
// nil, and the reason in the log, where it cannot be had and need not be.
func bringUp(t *testing.T, backend string) map[string]string {
	t.Helper()
	script := map[string]string{"docker": "./docker.sh", "ssh": "./sshd.sh"}[backend]
	args := map[string][]string{"ssh": {"start"}}[backend]
	cmd := exec.Command(script, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), backend) {
			t.Fatalf("%s is required here: %v: %s", backend, err, errOut.String())
		}
		t.Logf("without %s: %v: %s", backend, err, strings.TrimSpace(errOut.String()))
		return nil
	}
	facts := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			facts[name] = value
		}
	}
	return facts
}
