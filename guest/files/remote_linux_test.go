package files

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote returns a client of servers of its own, each on a thread of its own,
// as a guest has them.
func remote(t testing.TB, f *Files) *Client {
	t.Helper()
	var serving sync.WaitGroup
	c := NewClient(func(context.Context) (*os.File, error) { return serve(t, &serving, f) })
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return c
}

func serve(t testing.TB, serving *sync.WaitGroup, f *Files) (*os.File, error) {
	client, server, err := Pair()
	if err != nil {
		return nil, err
	}
	serving.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer server.Close()
		if err := Serve(int(server.Fd()), f); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return client, nil
}
