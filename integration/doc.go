// Package integration holds the tests that run the built binary, as a user
// would: testscript files in testdata, one per subject, run under the
// default policy; those in testdata/both without confinement as well. It imports
// nothing of the module. HERMES_EXEC_BIN names a binary to test instead of building one;
// HERMES_EXEC_SOAK=1 adds the long runs.
package integration
