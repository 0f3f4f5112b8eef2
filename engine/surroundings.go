package engine

import (
	"encoding/json"
	"math"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// surroundings answers hermes_tools.sandbox(): what holds for a run, as far as
// the engine knows; rpc/doc.go describes it.
type surroundings struct {
	Mode        Mode                           `json:"mode"`
	Policy      string                         `json:"policy"`
	Rung        string                         `json:"rung"`
	Cwd         string                         `json:"cwd"`
	Scratch     string                         `json:"scratch"`
	Network     string                         `json:"network"`
	Limits      surroundingLimits              `json:"limits"`
	CallsLeft   int64                          `json:"calls_left"`
	Enforcement map[sandbox.ClauseName]holding `json:"enforcement"`
	Readable    []string                       `json:"readable"`
	Writable    []string                       `json:"writable"`
}

type surroundingLimits struct {
	TimeoutSeconds float64 `json:"timeout_seconds"`
	SecondsLeft    float64 `json:"seconds_left"`
	MaxToolCalls   int64   `json:"max_tool_calls"`

	Memory *int64   `json:"memory"` // null: none
	PIDs   *int     `json:"pids"`
	CPU    *float64 `json:"cpu"`
	Disk   *int64   `json:"disk"`
}

// holding is how a clause holds.
type holding struct {
	State     sandbox.ClauseState `json:"state"`
	Mechanism string              `json:"mechanism"`
}

func (g *gate) surroundings() json.RawMessage {
	s := g.place.session
	p, resources := s.spec.Policy, s.spec.Resources
	a := surroundings{
		Mode: s.mode, Policy: s.policy, Rung: g.place.info.Rung, Cwd: g.cwd, Scratch: g.scratch,
		Network: "off",
		Limits: surroundingLimits{
			TimeoutSeconds: g.timeout.Seconds(),
			SecondsLeft:    math.Round(max(0, time.Until(g.deadline).Seconds())*1000) / 1000,
			MaxToolCalls:   g.max,
			Memory:         known(resources.Memory), PIDs: known(resources.PIDs), CPU: known(resources.CPU), Disk: known(resources.Disk),
		},
		CallsLeft:   max(0, g.max-g.made.Load()),
		Enforcement: map[sandbox.ClauseName]holding{},
		Readable:    append([]string{}, p.Read...),
		Writable:    append(append([]string{}, p.Write...), p.Private...),
	}
	if p.Network != sandbox.NetworkOff {
		a.Network = string(p.Network)
	}
	if p.Unconfined {
		a.Network, a.Readable, a.Writable = string(sandbox.NetworkHost), []string{"/"}, []string{"/"}
	}
	for _, c := range g.place.info.Enforcement {
		a.Enforcement[c.Clause] = holding{c.State, c.Mechanism}
	}
	return marshal(a)
}

// known is nil for a limit that is not set.
func known[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}
