package rpc

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
)

// lineCount counts the lines written to it.
type lineCount struct{ atomic.Int64 }

func (n *lineCount) Write(p []byte) (int, error) {
	n.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

// What a script can do any number of times fills no log.
func TestWarnsOnce(t *testing.T) {
	var lines lineCount
	cfg := Config{Handler: echoArgs, Log: slog.New(slog.NewTextHandler(&lines, nil))}
	s := serve(t, cfg)
	for range 5 {
		p := s.peer(t)
		p.token = "wrong"
		p.call("1", "a", "{}")
		p.want(`{"id":1,"error":{"code":"unauthorized","message":"missing or wrong token"}}`)
	}
	if n := lines.Swap(0); n != 1 {
		t.Errorf("5 wrong tokens: %d lines of log", n)
	}
	cfg.MaxConns = 1
	s = serve(t, cfg)
	s.peer(t)
	for range 5 {
		s.peer(t).want(`{"id":null,"error":{"code":"busy","message":"too many connections (limit 1)"}}`)
	}
	if n := lines.Load(); n != 1 {
		t.Errorf("5 connections too many: %d lines of log", n)
	}
}
