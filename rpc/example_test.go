package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/hermes-exec/hermes-exec/rpc"
)

// A server for one run, and a client that does not wait between two requests.
func ExampleServer() {
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		fmt.Println(err)
		return
	}
	token := rpc.NewToken()
	server, err := rpc.NewServer(rpc.Config{
		Token:   token,
		PeerUID: os.Getuid(),
		Handler: func(_ context.Context, c rpc.Call) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"tool":%q,"args":%s}`, c.Tool, c.Args))
		},
		MaxInFlight: 1, // so that the order of the answers is certain
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(l)
	defer server.Close()

	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Fprintf(client, `{"id":1,"token":%q,"tool":"read_file","args":{"path":"a.txt"}}`+"\n", token)
	fmt.Fprintf(client, `{"id":2,"token":%q,"tool":"noop"}`+"\n", token)
	answers := bufio.NewScanner(client)
	for range 2 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	// Output:
	// {"id":1,"result":{"tool":"read_file","args":{"path":"a.txt"}}}
	// {"id":2,"result":{"tool":"noop","args":{}}}
}
