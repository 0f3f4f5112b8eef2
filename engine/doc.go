// Package engine runs scripts: it joins places to run (sandbox) and things to
// call (registry) over rpc.
//
// An Engine is made once and opens sessions. A Session is one task: one
// sandbox, one set of tools bound to it, one ledger of calls. Run stages a
// script in a scratch directory, starts it with a scrubbed environment, serves
// its tool calls through a gate (granted? within budget?), enforces the
// timeout and the output windows, and gives one Result.
//
// What goes wrong in the script is a Result; what goes wrong in the engine is
// an error. The package names no backend and no tool: both are handed in.
package engine
