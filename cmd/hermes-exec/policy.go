package main

import (
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// policyOf turns a policy's name into a Policy; "" is unset (nil). A name a
// backend cannot keep is refused by the backend, before anything starts.
func policyOf(name string) *sandbox.Policy {
	switch name {
	case "":
		return nil
	case "open":
		return &sandbox.Policy{Name: name, Unconfined: true}
	}
	return &sandbox.Policy{Name: name}
}
