// Package envfilter decides which environment variables a script or a command
// may inherit. It is one pure function that answers for every variable: does
// it pass, by which rule, and why. It reads no environment and keeps no state.
//
// The rules, first match wins:
//
//	malformed    no '=', an empty or unprintable name, a NUL byte       dropped
//	provider     well-known credentials of services (credentials.go)    dropped, whatever anyone says
//	declared     names that registered tools need for themselves        dropped, whatever anyone says
//	engine       HERMES_* but four names that say where things are      dropped, whatever anyone says
//	injection    variables that make a program load or run other code   dropped, whatever anyone says
//	loader       the same, but with an honest use (LD_LIBRARY_PATH)     dropped unless named by passthrough
//	passthrough  the user named it                                      passes
//	settings     TERMINAL_*, the engine's own settings                  dropped
//	wide         Options.Wide: anything not dropped above               passes
//	timezone     TZ: the engine sets it                                 dropped
//	secret       the name says that it holds a secret                   dropped
//	listed       the allow-list, exact names (names.go)                 passes
//	unlisted     everything else                                        dropped
//
// Names on the allow-list are exact: a bare prefix such as LANG or USER would
// let LANGSMITH_API_KEY or USERPASS through. Two kinds of value are cleaned on
// their way (Decision.Changed): a proxy loses its user and password, and PATH
// loses the entries that depend on the working directory. A variable named by
// passthrough keeps its value as it is, PATH excepted.
package envfilter
