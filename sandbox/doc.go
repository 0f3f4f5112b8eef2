// Package sandbox holds the nouns every other package speaks in: a Backend is
// a place that makes sandboxes, a Sandbox is one box, a Process is one command
// with everything it starts, and Files are the box's files.
//
// The package imports nothing of this module, so that backends, tools and the
// engine can all build on it without knowing each other. The laws the
// interfaces promise are executable: see sandboxtest.
package sandbox
