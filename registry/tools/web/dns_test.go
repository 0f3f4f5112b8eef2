package web

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer runs a real name server on loopback. It answers a name with its
// addresses one after the other, the last one again and again: an answer can
// hold several, separated by commas. A name it does not know does not exist.
func nameServer(t *testing.T, names map[string][]string) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := map[string]int{}
	next := func(name string) []string {
		mu.Lock()
		defer mu.Unlock()
		answers, ok := names[name]
		if !ok {
			return nil
		}
		n := min(asked[name], len(answers)-1)
		asked[name]++
		return strings.Split(answers[n], ",")
	}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var msg dnsmessage.Message
			if msg.Unpack(buf[:n]) != nil || len(msg.Questions) != 1 {
				continue
			}
			q := msg.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: msg.ID, Response: true, Authoritative: true}, Questions: msg.Questions}
			var ips []string
			if q.Type == dnsmessage.TypeA { // one turn a lookup, which asks for both types
				ips = next(strings.TrimSuffix(strings.ToLower(q.Name.String()), "."))
			}
			if _, known := names[strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")]; !known {
				reply.RCode = dnsmessage.RCodeNameError
			}
			for _, s := range ips {
				ip := netip.MustParseAddr(s)
				head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 0, Type: dnsmessage.TypeA}
				if ip.Is4() {
					reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: ip.As4()}})
				}
			}
			if out, err := reply.Pack(); err == nil {
				conn.WriteTo(out, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); done.Wait() })
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}
}
