// Package filestest holds what sandbox.Files promises, as laws that run over
// files of this machine, by whatever way they are reached.
package filestest
