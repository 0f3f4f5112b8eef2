package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// protect makes this process hard to look into: others of its user can neither
// trace it nor read its memory or environment, and what its environment said is
// kept by the Go runtime alone, no longer in the block the kernel shows. It is
// the first thing main does, before anything could refer to that block.
//
// The system's own root can still read its memory, and so can anybody between
// exec and this call.
func protect() error {
	return errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), hideEnviron())
}

// hideEnviron copies the environment out of the block it came in, to which
// strings of os.Environ refer, and overwrites the block.
func hideEnviron() error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	start, end, err := environBlock(stat)
	if err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	for _, entry := range os.Environ() {
		name, value, ok := strings.Cut(strings.Clone(entry), "=")
		if !ok || name == "" {
			continue
		}
		// Unset first: a name that is set twice is one afterwards, and its key
		// in the table is a copy too.
		if err := errors.Join(os.Unsetenv(name), os.Setenv(name, value)); err != nil {
			return fmt.Errorf("protect: %w", err)
		}
	}
	// The kernel's number is an address, of memory Go knows nothing of.
	block := *(*unsafe.Pointer)(unsafe.Pointer(&start))
	clear(unsafe.Slice((*byte)(block), end-start))
	return nil
}

// environBlock reads where the kernel has the environment: env_start and
// env_end, fields 50 and 51 of proc_pid_stat(5).
func environBlock(stat []byte) (start, end uintptr, err error) {
	_, rest, _ := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(" "))
	fields := bytes.Fields(rest)
	const first = 3 // the number of the field after the name
	if len(fields) <= 51-first {
		return 0, 0, errors.New("/proc/self/stat is too short")
	}
	a, err1 := strconv.ParseUint(string(fields[50-first]), 10, 64)
	b, err2 := strconv.ParseUint(string(fields[51-first]), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if a == 0 || b < a || b-a > 16<<20 {
		return 0, 0, errors.New("/proc/self/stat does not say where the environment is")
	}
	return uintptr(a), uintptr(b), nil
}
