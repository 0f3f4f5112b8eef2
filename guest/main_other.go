//go:build !linux

package guest

// superviseOne has nothing to do here: only Linux has a child subreaper.
func superviseOne() int { return 2 }

// confineOne has nothing to do here either.
func confineOne() int { return 2 }
func holdOne() int    { return 2 }
