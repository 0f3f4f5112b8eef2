// Package approval says what a shell command would do that it should not:
// advice for people and programs before a command runs. It is no wall; the
// sandbox is the wall.
//
// A command is taken apart by a shell parser, not by patterns over its text:
// every simple command in it is found, whatever stands around it (quotes,
// groups, sudo, env, xargs, find -exec, bash -c, eval, here-documents), and
// rules judge names and arguments. So `echo reboot` and a commit message that
// quotes `rm -rf /` pass, and `r”m -f -r "//"` does not. What the parser
// refuses, and what is too long or too deeply nested for it, is split roughly
// and judged by the same rules.
//
// What only a running shell knows, such as the value of $X, is not guessed:
// it is reported with the verdict Ask and never forbids anything.
//
// The package is pure: no state, no files, no environment. Everything in it
// is safe for concurrent use, does not panic, and takes time linear in the
// length of the command.
package approval
