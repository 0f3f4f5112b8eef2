package approval

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// stmts visits a list. Only its last statement can be the script's last.
func (s *Script) stmts(list []*syntax.Stmt, c context) {
	last := c.last
	for i, stmt := range list {
		c.last = last && i == len(list)-1
		s.stmt(stmt, c)
	}
}

func (s *Script) stmt(stmt *syntax.Stmt, c context) {
	if stmt == nil {
		return
	}
	c.background = c.background || stmt.Background || stmt.Coprocess || stmt.Disown
	c.last = c.last && !stmt.Negated && !stmt.Background
	for _, r := range stmt.Redirs {
		s.redirect(r, &c)
	}
	switch cmd := stmt.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		s.substitutions(cmd, c)
		var argv []string
		for _, w := range cmd.Args {
			argv = append(argv, s.fields(w, c)...)
		}
		s.command(argv, c)
	case *syntax.BinaryCmd:
		left := c
		left.last = false
		s.stmt(cmd.X, left)
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			c.stdin = s.output([]*syntax.Stmt{cmd.X}, c)
		}
		s.stmt(cmd.Y, c)
	case *syntax.Block:
		s.stmts(cmd.Stmts, c)
	case *syntax.Subshell:
		s.stmts(cmd.Stmts, c)
	case *syntax.TimeClause:
		s.stmt(cmd.Stmt, c)
	case *syntax.CoprocClause:
		c.background = true
		s.stmt(cmd.Stmt, c)
	case *syntax.FuncDecl:
		if name := cmd.Name; name != nil && forkBomb(name.Value, cmd.Body) {
			s.forkBombs = append(s.forkBombs, readable(name.Value+"()"))
		}
		c.function, c.last, c.stdin = true, false, nil
		s.stmt(cmd.Body, c)
	case *syntax.IfClause:
		c.last = false
		for clause := cmd; clause != nil; clause = clause.Else {
			s.stmts(clause.Cond, c)
			s.stmts(clause.Then, c)
		}
	case *syntax.WhileClause:
		c.last = false
		s.stmts(cmd.Cond, c)
		s.stmts(cmd.Do, c)
	case *syntax.ForClause:
		c.last = false
		s.substitutions(cmd.Loop, c)
		s.stmts(cmd.Do, c)
	case *syntax.CaseClause:
		c.last = false
		s.substitutions(cmd.Word, c)
		for _, item := range cmd.Items {
			for _, p := range item.Patterns {
				s.substitutions(p, c)
			}
			s.stmts(item.Stmts, c)
		}
	default: // declarations, tests, arithmetic
		s.substitutions(cmd, c)
	}
}

// substitutions visits the commands inside $( ), backquotes, <( ) and >( ) of
// a node that is not itself a list of commands.
func (s *Script) substitutions(node syntax.Node, c context) {
	inner := context{via: c.via, background: c.background, function: c.function, depth: c.depth}
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			s.stmts(n.Stmts, inner)
			return false
		case *syntax.ProcSubst:
			s.stmts(n.Stmts, inner)
			return false
		}
		return true
	})
}

func (s *Script) redirect(r *syntax.Redirect, c *context) {
	if r.Word != nil {
		s.substitutions(r.Word, *c)
	}
	if r.Hdoc != nil {
		s.substitutions(r.Hdoc, *c)
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc != nil {
			text := s.flat(r.Hdoc, *c, true)
			c.stdin = &text
		}
	case syntax.WordHdoc:
		text := s.flat(r.Word, *c, true)
		c.stdin = &text
	case syntax.RdrIn, syntax.DplIn:
		c.stdin = nil
	default:
		s.Writes = append(s.Writes, s.fields(r.Word, *c)...)
	}
}

// output is what a list prints, when that can be told without running it.
func (s *Script) output(list []*syntax.Stmt, c context) *string {
	if len(list) != 1 || c.depth > maxReparse {
		return nil
	}
	c.depth++
	stmt := list[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	var argv []string
	for _, w := range call.Args {
		argv = append(argv, s.fields(w, c)...)
	}
	if len(argv) == 0 {
		return nil
	}
	var text string
	switch name, args := programName(argv[0]), argv[1:]; name {
	case "echo":
		for len(args) > 0 && slices.Contains([]string{"-n", "-e", "-E", "-ne", "-en"}, args[0]) {
			args = args[1:]
		}
		text = joined(args)
	case "printf":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) == 0 {
			return nil
		}
		text = printf(args[0], args[1:])
	case "cat":
		if len(args) > 0 && !slices.Equal(args, []string{"-"}) {
			return nil
		}
		for _, r := range stmt.Redirs {
			if r.Hdoc != nil {
				text = s.flat(r.Hdoc, c, true)
				return &text
			}
			if r.Op == syntax.WordHdoc {
				text = s.flat(r.Word, c, true)
				return &text
			}
		}
		return nil
	default:
		return nil
	}
	return &text
}

// forkBomb: a function that starts itself at least twice, whatever happens,
// and does not wait for it.
func forkBomb(name string, body *syntax.Stmt) bool {
	calls, loose := 0, false
	var visit func(stmt *syntax.Stmt, apart bool, depth int)
	visit = func(stmt *syntax.Stmt, apart bool, depth int) {
		if stmt == nil || depth > maxNesting {
			return
		}
		apart = apart || stmt.Background
		switch cmd := stmt.Cmd.(type) {
		case *syntax.CallExpr:
			if len(cmd.Args) > 0 && cmd.Args[0].Lit() == name {
				calls++
				loose = loose || apart
			}
		case *syntax.BinaryCmd:
			pipe := cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll
			visit(cmd.X, apart || pipe, depth+1)
			if pipe { // what follows && and || may not run
				visit(cmd.Y, apart || pipe, depth+1)
			}
		case *syntax.Block:
			for _, inner := range cmd.Stmts {
				visit(inner, apart, depth+1)
			}
		case *syntax.Subshell:
			for _, inner := range cmd.Stmts {
				visit(inner, apart, depth+1)
			}
		}
	}
	visit(body, false, 0)
	return calls >= 2 && loose
}
