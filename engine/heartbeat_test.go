package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		exited := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			heartbeat(exited, func(s string) { told = append(told, s) })
		}()
		time.Sleep(25 * time.Second)
		close(exited)
		<-done
		time.Sleep(time.Minute)
		if want := []string{"execute_code running (10s elapsed)", "execute_code running (20s elapsed)"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
