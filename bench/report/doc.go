// Command report prints the table of package bench. Exit code 0 also when a
// bound is missed: a miss is printed as a miss.
package main
