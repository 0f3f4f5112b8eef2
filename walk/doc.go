// Package walk finds and searches files: which files of a tree a search should
// see (ignore rules, hidden files, globs), and which lines of them match.
//
// It answers as ripgrep does with its default settings, so that a search gives
// the same result whether or not ripgrep is installed: .gitignore (inside a
// repository), .ignore, .rgignore and .git/info/exclude with ripgrep's
// precedence, those of the parents included; hidden files left out; links never
// followed; a file with a NUL byte is binary and has no lines; UTF-16 and
// UTF-8 byte order marks understood. Two things differ on purpose: the user's
// global ignore file is not read, and a file with a line of more than 16 MiB
// counts as binary.
//
// Patterns have the syntax of Go's regexp (RE2): no look-around and no
// backreferences, \d \w \s \b are ASCII. They are matched by a lazy DFA over
// bytes in linear time and bounded memory, whatever pattern and file are.
// Ripgrep says how to make ripgrep itself find the same lines, for where it is
// there and files are far away.
//
// A walk works over an FS: Disk is this machine's, and anything with
// directories and files can be another.
package walk
