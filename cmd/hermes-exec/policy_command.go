package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

func policyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show, check and explain what a script may do",
		Long: `A policy is sealed, workspace, open, or a file in YAML with the keys extends,
read, write, deny_read, deny_write, network, open_guards and best_effort.
--policy, --mode and --workdir choose what these commands look at.`,
	}
	cmd.AddCommand(policyShowCommand(a), policyCheckCommand(a), policyExplainCommand(a))
	return cmd
}

// plan resolves a policy by name; "" is what a run would have here.
func (a *app) plan(name string) (policy.Plan, string, error) {
	if err := a.load(); err != nil {
		return policy.Plan{}, "", err
	}
	dir, err := a.workdir()
	if err != nil {
		return policy.Plan{}, "", err
	}
	from := ""
	if name == "" {
		name, from = a.policyName("")
	}
	if err := a.checkPolicy(name, from); err != nil {
		return policy.Plan{}, "", err
	}
	if name == "" {
		if _, _, err := a.policyOf(name, dir); err != nil {
			return policy.Plan{}, "", err
		}
		name = policy.Open // what unset means, until a mode has its own
	}
	p, err := policy.Make(name, a.policyContext(dir))
	return p, dir, err
}

func policyShowCommand(a *app) *cobra.Command {
	var asJSON, guards bool
	cmd := &cobra.Command{
		Use:   "show [NAME|FILE]",
		Short: "Print what a policy means for this work dir, as YAML",
		Long: `Print what a policy means here: paths in full, guards included. Without NAME it is
the policy a run would have. The YAML is itself a policy file, to start from.`,
		Example: `  hermes-exec policy show workspace
  hermes-exec policy show ./mine.yaml --json
  hermes-exec policy show --guards`,
		Args: arguments(0, 1, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if guards {
				return a.showGuards(asJSON)
			}
			name := ""
			if len(args) == 1 {
				if name = args[0]; name == "" || a.flags.given("policy") {
					return fmt.Errorf("policy show: a name (%q) and --policy %q: want one policy, a name or the flag", name, a.flags.policy)
				}
			}
			p, dir, err := a.plan(name)
			if err != nil {
				return err
			}
			shown := shownPolicy(p, dir)
			if asJSON {
				return printJSON(a.stdout, shown)
			}
			return shown.yaml(a.stdout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&guards, "guards", false, "list the guards that open_guards can name, and what they close")
	return cmd
}

func (a *app) showGuards(asJSON bool) error {
	if asJSON {
		return printJSON(a.stdout, policy.Guards())
	}
	for _, g := range policy.Guards() {
		how := ""
		if g.Fixed {
			how = "; nothing opens it"
		}
		fmt.Fprintf(a.stdout, "%s (%s%s): %s\n", g.Name, g.Clause, how, g.Why)
		for _, place := range g.Places {
			fmt.Fprintf(a.stdout, "  %s\n", place)
		}
	}
	return nil
}

// shown is a policy as it is printed.
type shown struct {
	Policy     string   `json:"policy"`
	WorkDir    string   `json:"workdir"`
	Unconfined bool     `json:"unconfined"`
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	DenyRead   []string `json:"deny_read"`
	DenyWrite  []string `json:"deny_write"`
	Private    []string `json:"private"`
	Network    string   `json:"network"`
	BestEffort []string `json:"best_effort"`
	Env        []string `json:"env"`
	Notes      []string `json:"notes"`
}

func shownPolicy(plan policy.Plan, dir string) shown {
	p := plan.Policy
	s := shown{
		Policy: p.Name, WorkDir: dir, Unconfined: p.Unconfined,
		Read: list(p.Read), Write: list(p.Write), DenyRead: list(p.DenyRead), DenyWrite: list(p.DenyWrite), Private: list(p.Private),
		Network: "off", Env: list(plan.Env), Notes: list(plan.Notes),
	}
	if p.Network == sandbox.NetworkHost || p.Unconfined {
		s.Network = "host"
	}
	for _, c := range p.BestEffort {
		s.BestEffort = append(s.BestEffort, string(c))
	}
	s.BestEffort = list(s.BestEffort)
	return s
}

// list makes an empty list of none, which JSON can tell from nothing.
func list(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

func (s shown) yaml(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# policy %s for %s\n", oneLine(s.Policy), oneLine(s.WorkDir))
	if s.Unconfined {
		b.WriteString("# no confinement: a script has all rights of the user who runs hermes-exec\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "# every box has of its own: scratch, %s\n", strings.Join(sandbox.Own(), ", "))
	for _, dir := range s.Private {
		fmt.Fprintf(&b, "# private caches: %s\n", oneLine(dir))
	}
	for _, kv := range s.Env {
		fmt.Fprintf(&b, "# sets %s\n", oneLine(kv))
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "# note: %s\n", oneLine(n))
	}
	fmt.Fprintf(&b, "network: %s\n", quoteYAML(s.Network))
	for _, l := range []struct {
		key   string
		items []string
	}{{"best_effort", s.BestEffort}, {"read", s.Read}, {"write", s.Write}, {"deny_read", s.DenyRead}, {"deny_write", s.DenyWrite}} {
		if len(l.items) == 0 {
			fmt.Fprintf(&b, "%s: []\n", l.key)
			continue
		}
		fmt.Fprintf(&b, "%s:\n", l.key)
		for _, item := range l.items {
			fmt.Fprintf(&b, "  - %s\n", quoteYAML(item))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// quoteYAML writes a string so that YAML reads it back: as it is when it is
// plain, else as JSON, which YAML contains.
func quoteYAML(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@", r))
	}) < 0
	if plain && (s[0] == '/' || s[0] >= 'a' && s[0] <= 'z') {
		return s
	}
	quoted, _ := json.Marshal(s)
	return string(quoted)
}

func policyCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a policy file; exit code 126 and every mistake when there is one",
		Example: `  hermes-exec policy check ./mine.yaml`,
		Args:    arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if err := policy.Check(name); err != nil {
				return err
			}
			if !policy.IsFile(name) {
				name = "./" + name
			}
			p, _, err := a.plan(name)
			if err != nil {
				return err
			}
			a.warn(p.Notes...)
			_, err = fmt.Fprintf(a.stdout, "%s is valid\n", args[0])
			return err
		},
	}
}

func policyExplainCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain PATH…",
		Short: "Tell what a script would get of a path, by which rule, and how to open it",
		Example: `  hermes-exec policy explain ~/.ssh .git/hooks
  hermes-exec policy explain --policy sealed ~/notes.txt`,
		Args: arguments(1, math.MaxInt, "PATH"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, _, err := a.plan("")
			if err != nil {
				return err
			}
			var all []policy.Explanation
			for _, name := range args {
				abs, err := filepath.Abs(name)
				if err != nil {
					return err
				}
				all = append(all, p.Explain(abs))
			}
			if asJSON {
				return printJSON(a.stdout, all)
			}
			for _, e := range all {
				a.explain(e)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) explain(e policy.Explanation) {
	fmt.Fprint(a.stdout, oneLine(e.Path))
	if e.Real != e.Path {
		fmt.Fprintf(a.stdout, " → %s", oneLine(e.Real))
	}
	fmt.Fprintln(a.stdout)
	line := func(what string, yes bool, rule sandbox.Rule) {
		answer := paint(a.stdout, red, "no ")
		if yes {
			answer = paint(a.stdout, green, "yes")
		}
		fmt.Fprintf(a.stdout, "  %-5s %s  %s\n", what, answer, rule)
	}
	line("read", e.Read, e.ReadRule)
	line("write", e.Write, e.WriteRule)
	if e.Guard != "" {
		fmt.Fprintf(a.stdout, "  guard %s\n", e.Guard)
	}
	if e.Hint != "" {
		fmt.Fprintf(a.stdout, "  %s\n", oneLine(e.Hint))
	}
}
