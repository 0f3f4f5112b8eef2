package rpc

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Dir is a directory that scripts and engine share where no socket joins them.
// It belongs to one run, and nobody but the script's user and the engine can
// enter it. Names are base names. All methods are called from many goroutines
// at once, and return soon after ctx is done.
type Dir interface {
	// List returns the names of all entries, in any order, temporary ones of
	// Write too. An implementation should bound their number itself, and fail
	// when there are more.
	List(ctx context.Context) ([]string, error)
	// Read returns the first max bytes of a regular file. It refuses a link
	// and whatever else is not regular, and never blocks on one. Its error
	// wraps fs.ErrNotExist when there is nothing.
	Read(ctx context.Context, name string, max int) ([]byte, error)
	// Write makes a file of mode 0600 with the whole content, or replaces it, in
	// one step: nobody sees a part of it under the name.
	Write(ctx context.Context, name string, content io.WriterTo) error
}

// The names in a Dir; doc.go says what they hold.
const (
	beatName     = "engine"
	requestName  = "req-"
	responseName = "res-"
)

// A callName is what the names of a call's request and response have in common.
type callName struct{ client, id uint64 }

func (n callName) String() string { return fmt.Sprintf("%016x-%d", n.client, n.id) }

// parseRequestName takes a name apart. There is one name for each call.
func parseRequestName(name string) (n callName, ok bool) {
	name, ok = strings.CutPrefix(name, requestName)
	if !ok || len(name) < 18 || len(name) > 16+1+16 || name[16] != '-' || name[17] == '0' {
		return n, false
	}
	for _, c := range name[:16] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return n, false
		}
	}
	client, err := strconv.ParseUint(name[:16], 16, 64)
	n.client = client
	n.id, ok = parseID([]byte(name[17:]))
	return n, ok && err == nil
}

// A window remembers which of a client's ids have been taken: exactly those of
// the last windowSize, and all before as taken. So a request that reappears is
// never taken again, however often and late, and nothing grows.
type window struct {
	top  uint64 // the largest id taken
	bits [windowSize / 64]uint64
}

// windowSize is how far behind its largest id a client may still send one. The
// order in which a listing shows requests is not quite that of their making.
const windowSize = 256

func (w *window) taken(id uint64) bool {
	return id <= w.top && (w.top-id >= windowSize || w.bits[id%windowSize/64]&(1<<(id%64)) != 0)
}

func (w *window) take(id uint64) {
	if id > w.top+windowSize {
		w.top, w.bits = id, [windowSize / 64]uint64{}
	}
	for w.top < id {
		w.top++
		w.bits[w.top%windowSize/64] &^= 1 << (w.top % 64)
	}
	w.bits[id%windowSize/64] |= 1 << (id % 64)
}
