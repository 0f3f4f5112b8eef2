// Package patchtext changes texts the way a model asks for it: by naming a
// passage and what takes its place (Replace), or by a patch (Parse, Op.Apply),
// and it renders what was changed as a diff that git applies (Diff).
//
// A model seldom remembers a passage to the last blank. So a passage is looked
// for by nine strategies, from exact to similar; the first that finds anything
// decides, and the answer names it. What was not asked for is never changed:
// a passage found twice is refused, a line that merely resembles the one
// wanted is not a match by itself, and a line that is the same in the old and
// the new passage keeps the file's own spelling.
//
// Texts are bytes: outside of what is replaced every byte stays, whatever the
// encoding, the line endings (mixed ones too) and the end of the last line.
//
// Everything here is a pure function of its arguments and bounded: the exact
// and the normalising strategies take linear time, the similarity ones stop at
// a fixed amount of work and then find nothing.
package patchtext
