// Package hermesexec is the map of the module; it holds no code.
//
// hermes-exec runs scripts written by an AI agent and serves the tools they
// call. Two plugs and one trunk:
//
//	sandbox  ← backends/*        places to run
//	registry ← registry/tools    things to call
//	engine                       joins the two over rpc: stage, gate, run, result
//	cmd/hermes-exec              the only place that names concrete things
//
// The packages, from the ground up:
//
//	sandbox/         the nouns: Backend, Sandbox, Process, Files, Spec, Cmd, Exit, Policy
//	  sandboxtest/   the laws every backend must pass, and Fake
//	  policy/        named policies, resolved for one work dir
//	  guards/        what must not appear in a work dir
//	  sshbox/        a Sandbox over one SSH connection; sshwire/ its messages
//	guest/           the code that acts inside a sandbox: it supervises process trees
//	  serve/         the guest as an SSH server, for boxes elsewhere
//	backends/        local: this machine; docker: containers; ssh: other hosts
//	rpc/             the wire between a script and the engine, and client.py, the script's side
//	envfilter/       which variables may pass, and why
//	output/          windows, ANSI stripping, redaction
//	registry/        Tool, Registry, dispatch; one declaration gives stub, schema and doc line
//	  tools/         the tools themselves, one file each
//	engine/          Engine, Session, Run
//	  approval/      what is dangerous: pure rules
//	config/          $HERMES_HOME/config.yaml and .env
//	cmd/hermes-exec/ the command
//	integration/     tests that run the built binary
//	bench/           what performance claims rest on
//
// house_test.go enforces which package may import which. ARCHITECTURE.md tells
// the story.
package hermesexec
