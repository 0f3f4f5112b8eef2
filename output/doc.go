// Package output turns what a hostile program printed into text that can be
// shown, logged or put in a JSON result. It is pure: no clocks, no files, no
// goroutines.
//
//	StripANSI   removes terminal control sequences
//	Redactor    masks secrets: whole texts, or a live stream through Writer
//	Window      keeps the head and the tail of a stream of any length
//
// Window.Render joins the three in the order that matters: it strips, then
// redacts, then cuts, so that neither an escape sequence in the middle of a
// secret nor an edge of the window lets a part of one slip through.
//
// Redaction is a backstop. It finds secrets by their form, which a program
// that wants to leak can always change; what keeps secrets from a script is
// that it is never given any. So the rules are made to leave alone whatever is
// more likely code, a number or a placeholder than a secret. There are no
// regular expressions in them: the scanner is written by hand, linear in its
// input, and costs nothing before its first use.
package output
