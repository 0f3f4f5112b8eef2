// Package pdftext reads the text of a PDF.
//
// The file may come from anybody. Time and memory are bounded by what Extract
// is given and by constants here: nesting, objects, pages, and what streams
// unpack to, all of them together. Nothing in a file leads to a second look at
// the same bytes without end, and broken files give what can be read of them:
// objects are found by scanning, never by the file's own index.
//
// Text comes in the order in which the pages draw it, which is mostly the order
// of reading; lines and words are told apart by where they are drawn. Pictures
// of text give none. Encrypted files are refused.
package pdftext
