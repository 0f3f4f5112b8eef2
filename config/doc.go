// Package config reads $HERMES_HOME/config.yaml and $HERMES_HOME/.env.
//
// Load merges default < file < .env < environment into one typed Config and
// remembers where each value came from; flags are applied by the caller on
// top. The file is an existing one of Hermes Agent: what belongs to other
// programs in it is ignored, whole sections at the top level and, in the
// sections read here, the keys the reference has and this program has no use
// for. Everything else is strict. A wrong type, a value out of bounds, a
// misspelt or doubled key is an error that names file, line and key and, where
// there is one, the nearest thing that would have been right; all mistakes are
// reported at once.
//
// A file that does not exist means the defaults. A file that exists but cannot
// be read or understood is an error, never the defaults.
//
// The section backends names places to run, each with a type, docker or ssh,
// and the keys of that type; the terminal section's docker_…, container_… and
// ssh_… make the backends docker and ssh. A named backend takes nothing from
// the terminal section: what it does not say is the default.
//
// Secrets belong into .env, which LoadDotEnv reads without running or expanding
// anything, and docker_forward_env names those a container gets. The only key
// that may hold some is docker_env (env of a named backend): neither Show nor
// an error has a value of it.
package config
