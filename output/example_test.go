package output_test

import (
	"fmt"
	"io"
	"os"

	"github.com/hermes-exec/hermes-exec/output"
)

// A window keeps the first 5 and the last 10 bytes of whatever a program
// prints, and shows them clean.
func ExampleWindow() {
	w := output.NewWindow(5, 10)
	io.WriteString(w, "first\x1b[31m a lot of text in between \x1b[0mthe end...")
	text, truncated := w.Render(output.NewRedactor())
	fmt.Println(text)
	fmt.Println(truncated, w.Total())
	// Output:
	// first
	//
	// ... [OUTPUT TRUNCATED - 35 bytes omitted out of 50 total] ...
	//
	// the end...
	// true 50
}

// A secret that comes in two writes is masked all the same.
func ExampleRedactor_Writer() {
	w := output.NewRedactor().Writer(os.Stdout)
	io.WriteString(w, "the key is sk-proj-0123456789")
	io.WriteString(w, "abcdefghij, MAX_TOKENS=100\n")
	w.Close()
	// Output: the key is sk-pro...ghij, MAX_TOKENS=100
}
