package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func selftestCommand(a *app) *cobra.Command {
	var asJSON bool
	var witness string
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Attack a session on this host, and say what held",
		Long: `Open a session as run would, attack it from the inside with a bundled set of
probes, look from the outside at what they did, and print a scorecard. A probe
held, is broken, or cannot be judged here (with the reason).

Nothing the probes do changes the host where confinement fails: what they write
to was made for them. Exit code 1 when one is broken.`,
		Example: `  hermes-exec selftest
  hermes-exec selftest --policy sealed --json
  hermes-exec selftest --policy open      # what an unconfined script could do here`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if witness != "" { // a process outside, for the probes to look for
				_, err := io.Copy(io.Discard, a.stdin)
				return err
			}
			if !cmd.Flags().Changed("log-level") {
				a.flags.logLevel = "error" // that attacks are refused is no news here
			}
			card, err := a.selftest(cmd.Context(), asJSON)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(a.stdout, card)
			} else {
				a.printCard(card)
			}
			if err != nil {
				return err
			}
			if card.Broken > 0 {
				return exitCode(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&witness, "witness", "", "")
	cmd.Flags().MarkHidden("witness")
	return cmd
}

// verdict is what came of a probe.
type verdict string

const (
	held          verdict = "held"
	broken        verdict = "broken"
	notApplicable verdict = "na"
)

// attack is one probe and what came of it.
type attack struct {
	ID      string             `json:"id"`
	Clause  sandbox.ClauseName `json:"clause"`
	What    string             `json:"what"`
	Verdict verdict            `json:"verdict"`
	Detail  string             `json:"detail,omitempty"`
}

// scorecard is the result of a selftest.
type scorecard struct {
	Policy      string              `json:"policy"`
	Backend     string              `json:"backend"`
	Enforcement sandbox.Enforcement `json:"enforcement"`
	Warnings    []string            `json:"warnings,omitempty"`
	Held        int                 `json:"held"`
	Broken      int                 `json:"broken"`
	NA          int                 `json:"na"`
	Probes      []attack            `json:"probes"`
}

// The clauses of probes that are not about what a policy says: the engine keeps
// them in every session, confined or not.
const (
	clauseEnvironment sandbox.ClauseName = "environment"
	clauseRPC         sandbox.ClauseName = "rpc"
)

// clauseOrder is the order they are shown in.
func clauseOrder() []sandbox.ClauseName {
	return []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseSyscalls,
		sandbox.ClauseResources, sandbox.ClauseKill, clauseEnvironment, clauseRPC}
}

// selftest attacks a session and returns the scorecard.
func (a *app) selftest(ctx context.Context, quiet bool) (scorecard, error) {
	t, err := a.newSiege(ctx)
	if err != nil {
		return scorecard{}, err
	}
	defer t.close()
	card := scorecard{
		Policy: t.policy, Backend: t.info.Backend, Enforcement: t.info.Enforcement, Warnings: t.session.Warnings(),
	}
	if !quiet {
		a.printIntroduction(t, card)
	}
	if card.Probes, err = t.run(ctx); err != nil {
		return card, err
	}
	for i := range card.Probes {
		p := &card.Probes[i]
		t.qualify(p)
		switch p.Verdict {
		case held:
			card.Held++
		case notApplicable:
			card.NA++
		default:
			card.Broken++
		}
	}
	return card, nil
}

// qualify says what a verdict means under the session's enforcement: where
// nothing is confined, what failed was refused by the host itself.
func (t *siege) qualify(p *attack) {
	kept := slices.Contains([]sandbox.ClauseName{sandbox.ClauseKill, clauseEnvironment, clauseRPC}, p.Clause)
	if t.unconfined && !kept && p.Verdict == held {
		p.Verdict, p.Detail = notApplicable, "the host itself refuses: "+p.Detail
	}
	if t.unconfined || p.Verdict != broken {
		return
	}
	for _, c := range t.info.Enforcement {
		if c.Clause == p.Clause && c.State != sandbox.Enforced {
			p.Detail += fmt.Sprintf(" (%s: %s", c.Clause, c.State)
			if c.Why != "" {
				p.Detail += ", " + c.Why
			}
			p.Detail += ")"
		}
	}
}

// printIntroduction says what is about to be attacked.
func (a *app) printIntroduction(t *siege, card scorecard) {
	if t.unconfined {
		a.warn("policy open confines nothing: what is broken below is what any script run this way can do")
		return
	}
	fmt.Fprintf(a.stdout, "policy %s on %s\n", card.Policy, card.Backend)
	for _, c := range card.Enforcement {
		fmt.Fprintf(a.stdout, "  %-11s %s", c.Clause, c.State)
		if c.Mechanism != "" {
			fmt.Fprintf(a.stdout, " by %s", c.Mechanism)
		}
		if c.Why != "" {
			fmt.Fprintf(a.stdout, ": %s", c.Why)
		}
		fmt.Fprintln(a.stdout)
	}
	fmt.Fprintln(a.stdout)
}

func (a *app) printCard(card scorecard) {
	marks := map[verdict][2]string{held: {"✓", green}, broken: {"✗", red}, notApplicable: {"-", dim}}
	for _, clause := range clauseOrder() {
		title := strings.ToUpper(string(clause[:1])) + string(clause[1:])
		if clause == clauseRPC {
			title = "Tool calls"
		}
		fmt.Fprintln(a.stdout, title)
		for _, p := range card.Probes {
			if p.Clause != clause {
				continue
			}
			m := marks[p.Verdict]
			detail := p.Detail
			if p.Verdict == notApplicable {
				detail = "not applicable: " + detail
			}
			fmt.Fprintf(a.stdout, "  %s %-25s %s %s\n", paint(a.stdout, m[1], m[0]), p.ID, p.What, paint(a.stdout, dim, "· "+detail))
		}
		fmt.Fprintln(a.stdout)
	}
	colour := green
	if card.Broken > 0 {
		colour = red
	}
	fmt.Fprintln(a.stdout, paint(a.stdout, colour,
		fmt.Sprintf("%d held · %d broken · %d not applicable", card.Held, card.Broken, card.NA))+" of "+fmt.Sprint(len(card.Probes))+" probes")
}
