//go:build !linux

package filestest

func systemLaws() []law { return nil }
