package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func doctorCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that scripts can run here, and say how to fix what cannot",
		Long: `Check the configuration, each backend and the Python interpreter, and print what
a session would really enforce. Exit code 1 when something fails.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := a.diagnose(cmd.Context())
			failed := false
			for _, section := range report {
				for _, f := range section.Findings {
					failed = failed || f.Severity == sandbox.Failure
				}
			}
			if asJSON {
				if err := printJSON(a.stdout, report); err != nil {
					return err
				}
			} else {
				a.printReport(report)
			}
			if failed {
				return exitCode(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// probe is what doctor runs: it tells which Python answered.
const probe = "import platform; print('Python', platform.python_version(), end='')"

// section is one heading of doctor's report.
type section struct {
	Title    string            `json:"title"`
	Findings []sandbox.Finding `json:"findings"`
}

// diagnose looks at everything a run needs, in the order a run needs it.
func (a *app) diagnose(ctx context.Context) []section {
	var report []section
	add := func(title string, findings ...sandbox.Finding) {
		report = append(report, section{title, findings})
	}
	e, granted, err := a.declarations()
	if err != nil {
		add("Configuration", sandbox.Finding{Severity: sandbox.Failure, Subject: "configuration", Detail: err.Error()})
		return report
	}
	add("Configuration", a.configFindings()...)
	for _, name := range a.wanted() {
		add("Backend "+name, a.backends[name].Check(ctx)...)
	}

	start := time.Now()
	s, err := a.open(ctx, true, "")
	if err != nil {
		add("Session", sandbox.Finding{Severity: sandbox.Failure, Subject: "session", Detail: err.Error(), Fix: "see the findings above"})
		return report
	}
	var session []sandbox.Finding
	for _, w := range s.Warnings() {
		session = append(session, sandbox.Finding{Severity: sandbox.Warning, Subject: "policy", Detail: w})
	}
	for _, c := range s.Info().Enforcement {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: string(c.Clause), Detail: string(c.State)}
		if c.State != sandbox.Enforced {
			f.Severity = sandbox.Warning
		}
		if c.Mechanism != "" {
			f.Detail += " by " + c.Mechanism
		}
		if c.Why != "" {
			f.Detail += ": " + c.Why
		}
		session = append(session, f)
	}
	session = append(session, sandbox.Finding{Severity: sandbox.OK, Subject: "tools", Detail: fmt.Sprintf("%d known, scripts may call %d", len(e.Tools().Names()), len(granted))})
	r, err := s.Run(ctx, engine.Script{Code: probe})
	took := time.Since(start).Round(time.Millisecond)
	switch {
	case err != nil:
		session = append(session, sandbox.Finding{Severity: sandbox.Failure, Subject: "script", Detail: err.Error()})
	case r.Status != "success":
		session = append(session, sandbox.Finding{Severity: sandbox.Failure, Subject: "script", Detail: r.Error})
	default:
		session = append(session, sandbox.Finding{Severity: sandbox.OK, Subject: "script", Detail: fmt.Sprintf("%s ran in %s with %s", r.Output, took, r.Interpreter)})
	}
	add("Session", session...)
	return report
}

// wanted names the backends somebody means to use: local, the chosen one, those
// the configuration names, docker and ssh if it says anything of them.
func (a *app) wanted() (names []string) {
	for name := range a.cfg.Backends {
		prefix := map[string]string{"docker": "terminal.docker_", "ssh": "terminal.ssh_"}[name]
		if prefix == "" || name == a.backendName() || a.mentions(prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mentions tells whether a setting with this prefix was made.
func (a *app) mentions(prefix string) bool {
	return slices.ContainsFunc(a.cfg.Show(), func(s config.Setting) bool {
		return strings.HasPrefix(s.Key, prefix) && s.Origin != "default"
	})
}

// configFindings are about the files in HERMES_HOME.
func (a *app) configFindings() []sandbox.Finding {
	var findings []sandbox.Finding
	if err := a.checkPolicies(); err != nil {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Failure, Subject: "config.yaml", Detail: err.Error()})
	} else {
		findings = append(findings, sandbox.Finding{Severity: sandbox.OK, Subject: "config.yaml", Detail: a.configState()})
	}
	for _, w := range a.warnings {
		findings = append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: ".env", Detail: w, Fix: "chmod 600 " + filepath.Join(a.home, ".env")})
	}
	return findings
}

func (a *app) printReport(report []section) {
	marks := map[sandbox.Severity][2]string{
		sandbox.OK: {"✓", green}, sandbox.Warning: {"!", yellow}, sandbox.Failure: {"✗", red},
	}
	for i, s := range report {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintln(a.stdout, s.Title)
		for _, f := range s.Findings {
			m := marks[f.Severity]
			fmt.Fprintf(a.stdout, "  %s %-14s %s\n", paint(a.stdout, m[1], m[0]), f.Subject, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(a.stdout, "    %-14s fix: %s\n", "", f.Fix)
			}
		}
	}
}
