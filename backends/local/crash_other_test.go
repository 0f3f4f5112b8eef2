//go:build unix && !linux

package local_test

func play(string) int { return 2 }
