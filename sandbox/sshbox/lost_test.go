package sshbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// TestInnerBoxLost: a box that is lost behind a guest that goes on serving is
// lost for the engine too, and another can be had.
func TestInnerBoxLost(t *testing.T) {
	inner := &sandboxtest.Fake{}
	made := make(chan *sandboxtest.FakeBox, 2)
	near, there := net.Pipe()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- serve.Serve(context.Background(), there, serve.Config{Guest: exe, Open: func(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
			box, err := inner.Create(ctx, sandbox.Spec{ID: r.ID, Policy: sandbox.Policy{Name: "open", Unconfined: true}})
			if err == nil {
				made <- box.(*sandboxtest.FakeBox)
			}
			return box, err
		}})
	}()
	client, err := sshbox.Handshake(t.Context(), near)
	if err != nil {
		t.Fatal(err)
	}
	link := sshbox.New(client, sshbox.Config{})
	for _, id := range []string{"first", "second"} {
		box, err := link.Open(t.Context(), sshwire.BoxRequest{ID: id})
		if err != nil {
			t.Fatal(id, err)
		}
		select {
		case <-box.Lost():
			t.Fatal(id, "is lost from the beginning")
		default:
		}
		(<-made).Lose(io.ErrUnexpectedEOF)
		select {
		case <-box.Lost():
		case <-time.After(20 * time.Second):
			t.Fatal(id, "was lost, and nobody heard of it")
		}
		if err := box.WhyLost(); !errors.Is(err, sandbox.ErrLost) {
			t.Error(id, err)
		}
		_ = box.Close(t.Context())
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
	near.Close()
	<-served
}
