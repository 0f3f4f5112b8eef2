// Package registry holds tools: what can be called, by whom, with which
// arguments, and what the world is told about it.
//
// A tool is declared once, as a Go function with a typed argument struct; New
// derives the JSON schema a model sees, the Python function a script imports
// and the doc line from that one declaration. A Registry is an immutable set
// of tools that dispatches calls and always answers with valid JSON.
//
// The package knows nothing of sandboxes or of the engine: tools are bound to
// a sandbox by whoever makes them.
package registry
