package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// size is a number of bytes: a whole number, with a unit of 1024 or a power of
// it behind: 512M, 4GiB. What 0 is for is said by zero.
type size struct {
	to       *int64
	min, max int64
	zero     string
}

func (v size) wanted() string { return "a size such as 512M or 4G, 0 for " + v.zero }

func (v size) set(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!int", "!!str"}, n.ShortTag()) {
		return fmt.Errorf("want %s, got %s", v.wanted(), describe(n))
	}
	return v.parse(n.Value)
}

func (v size) parse(s string) error {
	digits := strings.TrimRight(s, "KMGTiB")
	shift, ok := map[string]int{"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[s[len(digits):]]
	n, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), 10, 63)
	tooLarge := errors.Is(err, strconv.ErrRange) || n > math.MaxInt64>>shift
	switch {
	case !ok, err != nil && !tooLarge, len(digits) > 1 && digits[0] == '0':
		return fmt.Errorf("want %s, got %q", v.wanted(), clip(s))
	case tooLarge, n != 0 && (int64(n)<<shift < v.min || int64(n)<<shift > v.max):
		return fmt.Errorf("want a size from %s to %s, or 0 for %s, got %s", sizeText(v.min), sizeText(v.max), v.zero, clip(s))
	}
	*v.to = int64(n) << shift
	return nil
}

func (v size) show() string { return sizeText(*v.to) }

// sizeText writes a size with the largest unit that divides it.
func sizeText(n int64) string {
	unit := 0
	for n != 0 && n%1024 == 0 && unit < 4 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + []string{"", "K", "M", "G", "T"}[unit]
}

// cores is a number of processors; 0 is for no limit.
type cores struct {
	to       *float64
	min, max float64
}

const coresWanted = "a number of cores such as 0.5 or 2, 0 for no limit"

func (v cores) set(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!int", "!!float"}, n.ShortTag()) {
		return fmt.Errorf("want %s, got %s", coresWanted, describe(n))
	}
	return v.parse(n.Value)
}

func (v cores) parse(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Trim(s, "0123456789.") != "" {
		return fmt.Errorf("want %s, got %q", coresWanted, clip(s))
	}
	if n != 0 && !(n >= v.min && n <= v.max) {
		return fmt.Errorf("want from %g to %g cores, or 0 for no limit, got %s", v.min, v.max, clip(s))
	}
	*v.to = n
	return nil
}

func (v cores) show() string { return strconv.FormatFloat(*v.to, 'g', -1, 64) }
