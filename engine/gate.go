package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
)

// ToolCall is one line of a run's ledger.
type ToolCall struct {
	Tool        string  `json:"tool"`
	ArgsPreview string  `json:"args_preview"` // the first 80 characters, redacted
	Duration    float64 `json:"duration"`     // seconds
	OK          bool    `json:"ok"`
}

// maxLedger bounds the calls a Result lists; all of them are counted.
const maxLedger = 1000

// gate stands between a run's script and the tools: granted? within budget?
// Refusals cost nothing; everything that reaches a tool counts, failures
// included.
type gate struct {
	place   *place
	run     string
	granted []string // sorted
	max     int64
	ctx     context.Context // the run's lifetime
	onCall  func(ToolCall)

	// What a script is told that asks.
	cwd, scratch string
	timeout      time.Duration
	deadline     time.Time

	made atomic.Int64
	mu   sync.Mutex
	log  []ToolCall
	said []complaint // of failed calls, at most maxComplaints
}

// handle is the run's rpc.Handler.
func (g *gate) handle(ctx context.Context, c rpc.Call) json.RawMessage {
	if c.Tool == rpc.SandboxCall { // no tool, hence neither granted nor counted
		return g.surroundings()
	}
	if _, ok := slices.BinarySearch(g.granted, c.Tool); !ok {
		return ErrorJSON(fmt.Sprintf("Tool '%s' is not available in execute_code. Available: %s",
			clip(c.Tool, 80), strings.Join(g.granted, ", ")))
	}
	if !g.take() {
		return ErrorJSON(fmt.Sprintf("Tool call limit reached (%d). No more tool calls allowed in this execution.", g.max))
	}
	start := time.Now()
	reply := g.place.tools().Dispatch(ctx, registry.Caller{
		Kind:     registry.Script,
		Session:  g.place.info.ID,
		Run:      g.run,
		Call:     g.run + "." + strconv.FormatUint(c.ID, 10),
		Lifetime: g.ctx,
	}, c.Tool, c.Args)
	g.record(c, time.Since(start), reply)
	return reply
}

// take takes one call off the budget. The count never passes max, not even for
// a moment, however many threads call.
func (g *gate) take() bool {
	for {
		n := g.made.Load()
		if n >= g.max {
			return false
		}
		if g.made.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) record(c rpc.Call, took time.Duration, reply json.RawMessage) {
	call := ToolCall{
		Tool:        c.Tool,
		ArgsPreview: clip(g.place.session.engine.redact(clip(string(c.Args), 400)), 80),
		Duration:    seconds(took),
		OK:          !isFailure(reply),
	}
	var said []complaint
	if p := g.place; !p.session.spec.Policy.Unconfined && mayComplain(reply, !call.OK) {
		said = callComplaints(c, reply, p.info.WorkDir)
	}
	g.mu.Lock()
	if len(g.log) < maxLedger {
		g.log = append(g.log, call)
	}
	g.said = append(g.said, said[:min(len(said), maxComplaints-len(g.said))]...)
	g.mu.Unlock()
	if g.onCall != nil {
		g.onCall(call)
	}
}

// ledger is what was called so far.
func (g *gate) ledger() []ToolCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

// complaints are those of the calls so far.
func (g *gate) complaints() []complaint {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.said)
}

// isFailure tells whether a reply is an object with a non-empty "error". The
// first bytes decide for most replies, which spares decoding large ones.
func isFailure(reply json.RawMessage) bool {
	if !bytes.Contains(reply, []byte(`"error"`)) {
		return false
	}
	var r struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(reply, &r) != nil {
		return false
	}
	switch string(bytes.TrimSpace(r.Error)) {
	case "", "null", `""`, "false", "0":
		return false
	}
	return true
}

// clip cuts s to at most n characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// validUTF8 reports the first byte of s that is not UTF-8, with its line.
func invalidUTF8(s string) (offset, line int, bad bool) {
	if utf8.ValidString(s) {
		return 0, 0, false
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i, 1 + strings.Count(s[:i], "\n"), true
		}
		i += n
	}
	return 0, 0, false
}
