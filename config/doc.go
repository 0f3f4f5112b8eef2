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
// No key of the file holds a secret, and none is ever shown; secrets are in
// .env, which LoadDotEnv reads without running or expanding anything.
package config
