// Package sandboxtest holds what the interfaces of package sandbox promise, as
// laws that run against a real backend, and Fake, a backend for tests that
// need failures which are hard to have for real.
//
// A backend's own test is a few lines:
//
//	func TestMain(m *testing.M) { guest.Main(); os.Exit(m.Run()) }
//
//	func TestLaws(t *testing.T) {
//		sandboxtest.Run(t, sandboxtest.Options{
//			New: func(t testing.TB) sandbox.Backend { return mine.New(mine.Config{}) },
//		})
//	}
//
// The laws start real processes and look at them from outside: whether one
// lives is told by a connection it holds, never by a number or a pause. They
// need /bin/sh and python3 inside the box.
package sandboxtest
