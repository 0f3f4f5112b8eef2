// Package files opens, writes and lists files for tools, the way a process
// inside a box would.
package files
