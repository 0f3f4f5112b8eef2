package docker

import (
	"context"
	"os/exec"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// BenchmarkCommand is a command in a box that is there.
func BenchmarkCommand(b *testing.B) {
	w := docker(b)
	for name, profileName := range map[string]string{"open": "open", "workspace": "workspace"} {
		b.Run(name, func(b *testing.B) {
			box := create(b, backend(b, w.config(b)), profile(profileName))
			for b.Loop() {
				p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDockerExec is the same by the docker command.
func BenchmarkDockerExec(b *testing.B) {
	w := docker(b)
	if _, err := exec.LookPath("docker"); err != nil {
		b.Skip(err)
	}
	id := containerOf(create(b, backend(b, w.config(b)), profile("open")))
	for b.Loop() {
		if out, err := exec.Command("docker", "-H", w.host, "exec", id, "/bin/true").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

// BenchmarkBox is a container made and ended.
func BenchmarkBox(b *testing.B) {
	w := docker(b)
	back := backend(b, w.config(b))
	create(b, back, profile("workspace")) // what is done once
	for b.Loop() {
		box, err := back.Create(b.Context(), profile("workspace"))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := box.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
