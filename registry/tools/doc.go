// Package tools holds the tools themselves. New is the one list.
//
// A set of tools is bound to one sandbox and shares one session: the live
// working directory, what was read and in which state, one writer a path.
// Every file is reached through Sandbox.Files, every command through
// Sandbox.Start, so the tools mean the same on every backend.
//
// One resolver serves guard and access alike. A path is expanded, joined with
// the working directory and freed of links once; the rules judge what came
// out; and that very path is opened, by methods that refuse links. The rules
// keep a model from secrets and from the engine's own state by mistake or by
// injection; they are no wall against a script, which has open(). The wall is
// the sandbox. So that nobody has to guess, they hold for every caller.
//
// Callers differ in what they get. A model reads numbered, capped, redacted
// views, and is told when nothing has changed. A script gets data: the exact
// text, as much as it asks for.
package tools
