// Package policy turns what a user says (sealed, workspace, open, or a policy
// file) into a sandbox.Policy for one work dir on this machine.
//
// Every policy but open starts from guards: named groups of places that are
// hidden (keys, password stores, histories, the engine's own state) or, inside
// what may be written, read-only (what somebody else will run or trust later: git
// hooks, an editor's tasks). A guard is closed unless its name is in
// open_guards. What a user denies adds to them; deny beats allow, always.
//
// Paths are made real where they exist. A denied place that is a link is denied
// twice: the link and what it leads to. Where a script could replace a link on the
// way, the policy is refused. A readable place that is a link (/bin) is listed as
// itself and as what it leads to.
//
// A policy file is strict YAML:
//
//	extends: workspace           # or sealed; without it nothing is allowed but what is named
//	read: [~/data, /srv/models]  # absolute, ~/…, or . and ./… for the work dir
//	write: [~/out]
//	deny_read: [./secrets]
//	deny_write: [./vendor]
//	network: off                 # or host
//	open_guards: [npm]
//	best_effort: [resources]
//
// Without extends not even the interpreter can be read: such a file has to name
// the system too, which extends: sealed does.
package policy
