package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Status tells how a run ended.
type Status string

// The values of Result.Status.
const (
	Success     Status = "success"
	Failed      Status = "error"
	TimedOut    Status = "timeout"
	Interrupted Status = "interrupted"
)

// Result is what a run gave. Its JSON starts with the five keys agents know
// (status, output, tool_calls_made, duration_seconds, error), in that order;
// what hermes-exec adds follows.
type Result struct {
	Status          Status  `json:"status"`
	Output          string  `json:"output"`
	ToolCallsMade   int     `json:"tool_calls_made"`
	DurationSeconds float64 `json:"duration_seconds"`
	Error           string  `json:"error,omitempty"`

	ExitCode    *int              `json:"exit_code"` // nil when the script never ran; -N when signal N ended it
	Stderr      string            `json:"stderr"`    // its own window, on success too
	StdoutBytes int64             `json:"stdout_bytes"`
	StderrBytes int64             `json:"stderr_bytes"`
	Truncated   bool              `json:"truncated"`
	ToolCalls   []ToolCall        `json:"tool_calls"`
	Usage       Usage             `json:"usage"`
	Limit       sandbox.Limit     `json:"limit,omitempty"` // the resource limit that ended the script
	Backend     string            `json:"backend"`
	Mode        Mode              `json:"mode"`
	Policy      string            `json:"policy"`
	Rung        string            `json:"rung,omitempty"` // which level of mechanisms holds it; "" when none does
	Enforcement map[string]string `json:"enforcement"`    // clause → enforced, partial, unsupported
	Interpreter string            `json:"interpreter,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`

	// Denials are what the policy can be seen to have kept the script from, at
	// most five.
	Denials []Denial `json:"denials,omitempty"`
	// FutureInputs are the files the script made or changed that somebody will
	// run or trust later. FutureInputsComplete is false when there may be
	// more, else nil.
	FutureInputs         []sandbox.FutureInput `json:"future_inputs,omitempty"`
	FutureInputsComplete *bool                 `json:"future_inputs_complete,omitempty"`

	StdoutLost error `json:"-"` // why Script.Stdout did not get everything
	StderrLost error `json:"-"`
}

// Usage is what the script's process tree consumed.
type Usage struct {
	CPUSeconds  float64 `json:"cpu_seconds"`
	WallSeconds float64 `json:"wall_seconds"`
	MaxRSSBytes int64   `json:"max_rss_bytes"` // the largest process

	PeakMemoryBytes int64 `json:"peak_memory_bytes,omitempty"` // the whole tree; 0: unknown
}

// JSON is the result as one compact object.
func (r Result) JSON() json.RawMessage {
	if r.ToolCalls == nil {
		r.ToolCalls = []ToolCall{}
	}
	return marshal(r)
}

// CompatJSON is the result with the five keys alone.
func (r Result) CompatJSON() json.RawMessage {
	return marshal(struct {
		Status          Status  `json:"status"`
		Output          string  `json:"output"`
		ToolCallsMade   int     `json:"tool_calls_made"`
		DurationSeconds float64 `json:"duration_seconds"`
		Error           string  `json:"error,omitempty"`
	}{r.Status, r.Output, r.ToolCallsMade, r.DurationSeconds, r.Error})
}

// Causes of a run's end; the run's context carries them.
var (
	errTimeout = errors.New("timeout")
	errRunOver = errors.New("the run is over")

	// ErrNewMessage as the cause of a cancelled context says that the user
	// sent another message; it is also what a cause-less cancellation means.
	ErrNewMessage = errors.New("user sent a new message")
)

// settle derives status, output and error from how the script ended. stdout
// and stderr are clean and cut already.
func (r *Result) settle(exit sandbox.Exit, cause error, timeout time.Duration, stdout, stderr string) {
	code := exit.Code
	if exit.Signal != 0 {
		code = -int(exit.Signal)
	}
	r.ExitCode = &code
	r.Output, r.Stderr = stdout, stderr
	switch {
	case cause != nil:
		r.stop(cause, timeout)
	case code == 0:
		r.Status = Success
	case stderr != "":
		r.Status = Failed
		r.Error = stderr
		r.Output += "\n--- stderr ---\n" + stderr
	default:
		r.Status = Failed
		r.Error = "Script exited with code " + strconv.Itoa(code)
	}
}

// stop says that a run was ended from outside, and why.
func (r *Result) stop(cause error, timeout time.Duration) {
	if !errors.Is(cause, errTimeout) {
		r.Status = Interrupted
		r.Output += "\n[execution interrupted — " + interruptReason(cause) + "]"
		return
	}
	r.Status = TimedOut
	r.Error = fmt.Sprintf("Script timed out after %ss and was killed.", formatSeconds(timeout))
	if r.Output != "" {
		r.Output += "\n\n"
	}
	r.Output += "⏰ " + r.Error
}

func interruptReason(cause error) string {
	if isPlainCancel(cause) {
		return ErrNewMessage.Error()
	}
	return cause.Error()
}

// formatSeconds prints 300 s as "300" and 1.5 s as "1.5".
func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// seconds rounds to two decimals, as results show durations.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*100) / 100 }

// marshal encodes without HTML escapes and without a final newline. The types
// given to it cannot fail to encode.
func marshal(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(`{"error":` + strconv.Quote(err.Error()) + `}`)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
