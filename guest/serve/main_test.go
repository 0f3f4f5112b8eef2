package serve_test

import (
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/guest"
)

func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}
