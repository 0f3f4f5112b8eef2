package walk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Ripgrep returns the arguments that make ripgrep count what Search counts; its
// output is for RipgrepHits. The pattern and the root stand where they cannot
// be taken for options, and no configuration file is read. ok is false when
// ripgrep cannot be told the pattern or the options. Of opt, Skip is not told
// and Globs only by and large: RipgrepHits sees to that.
func Ripgrep(p *Pattern, root string, opt Options) (args []string, ok bool) {
	text, ok := p.rust()
	if !ok || strings.ContainsRune(root, 0) {
		return nil, false
	}
	args = []string{"--no-config", "--count", "--null", "--with-filename", "--color=never", "--no-messages",
		"--no-ignore-global", "--case-sensitive", "--no-mmap"}
	if opt.Hidden {
		args = append(args, "--hidden", "--glob=!.git")
	}
	if opt.NoIgnore {
		args = append(args, "--no-ignore")
	}
	if opt.MaxDepth > 0 {
		args = append(args, "--max-depth="+strconv.Itoa(opt.MaxDepth))
	}
	// A type, unlike a --glob, does not bring back what is ignored.
	if names := basenames(opt.Globs); names != nil {
		for _, name := range names {
			args = append(args, "--type-add=wanted:"+name)
		}
		args = append(args, "--type=wanted")
	}
	return append(args, "--regexp="+text, "--", root), true
}

// basenames returns names that all files have that fit all globs, nil if such
// are not known.
func basenames(globs []*Glob) []string {
	for _, g := range globs {
		if names := g.basenames(); names != nil {
			return names
		}
	}
	return nil
}

// maxName bounds one path in ripgrep's output.
const maxName = 64 << 10

// RipgrepHits reads the output of ripgrep and calls fn for each hit that Search
// would have had, in no order. Its errors are those of r and of output that is
// not ripgrep's; what fn got until then is right.
func RipgrepHits(ctx context.Context, r io.Reader, fsys FS, root string, opt Options, fn func(Hit)) error {
	prefix := strings.TrimSuffix(root, "/") + "/"
	in := bufio.NewReaderSize(r, maxName)
	for {
		name, err := in.ReadSlice(0)
		if errors.Is(err, io.EOF) && len(name) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("walk: ripgrep's output: %w", err)
		}
		rel, below := strings.CutPrefix(string(name[:len(name)-1]), prefix)
		digits, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("walk: ripgrep's output: %w", err)
		}
		count, err := strconv.Atoi(string(digits[:len(digits)-1]))
		if err != nil || count < 0 || !below || !fs.ValidPath(validName(rel)) {
			return fmt.Errorf("walk: ripgrep's output: cannot make sense of %.100q", rel)
		}
		if count > 0 && opt.confirms(ctx, fsys, root, rel) {
			fn(Hit{rel, count})
		}
	}
}

// validName makes a name that is not UTF-8 acceptable to fs.ValidPath, which
// is asked about its components alone.
func validName(name string) string { return strings.ToValidUTF8(name, "_") }

// confirms decides what ripgrep was not told.
func (opt *Options) confirms(ctx context.Context, fsys FS, root, rel string) bool {
	if !opt.admits(root, rel) {
		return false
	}
	// A type brings hidden files back.
	if !opt.Hidden && basenames(opt.Globs) != nil && rel[strings.LastIndexByte(rel, '/')+1] == '.' {
		return shown(ctx, fsys, root, rel, *opt)
	}
	return true
}

// admits says what the globs and Skip say of a file that somebody else found.
func (opt *Options) admits(root, rel string) bool {
	for _, g := range opt.Globs {
		if !g.Match(rel) {
			return false
		}
	}
	if opt.Skip == nil {
		return true
	}
	// A directory that is left out takes all below with it.
	for i := range len(rel) {
		if rel[i] == '/' && opt.Skip(join(root, rel[:i]), true) {
			return false
		}
	}
	return !opt.Skip(join(root, rel), false)
}
