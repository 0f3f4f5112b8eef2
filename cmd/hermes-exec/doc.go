// Command hermes-exec runs scripts written by an AI agent and serves the tools
// they call. It is the only package that names concrete backends and tools;
// see backends.go for the one list of each.
//
// Exit codes: 0 success; the script's own code; 1 a tool call or health check
// that failed; 124 timeout; 125 hermes-exec itself failed; 126 refused; 130
// interrupted; 141 the reader of the output went away; 128+N a script ended by
// signal N.
package main
