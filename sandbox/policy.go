package sandbox

// Policy says what a box may do. Its zero value permits nothing beyond the
// system and the scratch directory; every clause that a backend cannot enforce
// is refused at Create with ErrPolicy unless BestEffort names it.
type Policy struct {
	Name string // as the user knows it: "sealed", "workspace", "open", a file's path

	// Paths are absolute and literal; each stands for the whole tree below it.
	// Deny beats allow. The scratch directory and, where a box is confined, a
	// private /tmp are readable and writable without being named.
	Read      []string // may be read
	Write     []string // may be read and written
	DenyRead  []string // hidden
	DenyWrite []string // read-only even inside Write; what is missing cannot be made
	// Unsearched says what of Write was not looked through for what DenyWrite should
	// name, and why: where it says anything, the guards are partial.
	Unsearched []string
	// Private are directories of the box's own, such as caches: made for the
	// box's user, 0700, when missing, then as Write.
	Private []string
	Watch   []string // reported when changed
	Network Network

	// Unconfined asks for no operating system confinement at all. Every other
	// field is then without effect.
	Unconfined bool
	// BestEffort lists clauses that may be missing; the result names them.
	BestEffort []ClauseName
}

// Network says what a box can reach.
type Network string

// The networks a policy can name.
const (
	NetworkOff  Network = ""     // none, not even the host's loopback
	NetworkHost Network = "host" // as the host
)

// ClauseName names one promise of a policy.
type ClauseName string

// The clauses backends report on.
const (
	ClauseFiles     ClauseName = "files"
	ClauseGuards    ClauseName = "guards" // DenyWrite inside Write: what is run or trusted later
	ClauseNetwork   ClauseName = "network"
	ClauseProcesses ClauseName = "processes"
	ClauseSyscalls  ClauseName = "syscalls"
	ClauseResources ClauseName = "resources"
	ClauseKill      ClauseName = "kill"
)

// ClauseState says whether a clause holds.
type ClauseState string

// What a clause can be.
const (
	Enforced    ClauseState = "enforced"
	Partial     ClauseState = "partial"
	Unsupported ClauseState = "unsupported"
)

// Clause is one line of an Enforcement: by which mechanism a promise is kept,
// or why it is not.
type Clause struct {
	Clause    ClauseName  `json:"clause"`
	State     ClauseState `json:"state"`
	Mechanism string      `json:"mechanism,omitempty"`
	Why       string      `json:"why,omitempty"`
}

// Enforcement is what a box really enforces: data a user can print.
type Enforcement []Clause
