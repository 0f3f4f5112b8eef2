package files

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// impostor returns a client whose servers are answer: it gets each request
// with its socket.
func impostor(t *testing.T, answer func(sock int, r request)) *Client {
	t.Helper()
	var serving sync.WaitGroup
	c := NewClient(func(context.Context) (*os.File, error) {
		client, server, err := Pair()
		if err != nil {
			return nil, err
		}
		serving.Go(func() {
			defer server.Close()
			in := make([]byte, maxRequest)
			for {
				n, err := unix.Read(int(server.Fd()), in)
				if err == unix.EINTR {
					continue
				}
				if err != nil || n == 0 {
					return
				}
				r, err := parseRequest(in[:n])
				if err != nil {
					t.Errorf("a request of our own: %v", err)
					return
				}
				answer(int(server.Fd()), r)
			}
		})
		return client, nil
	})
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
	})
	return c
}

// opened opens a file for as long as the test runs.
func opened(t *testing.T, name string, flags int) int {
	t.Helper()
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestHostileServer: no answer does harm, none is mistaken for success, and no
// descriptor that comes with one stays.
func TestHostileServer(t *testing.T) {
	dir := filestest.TempTree(t)
	regular := dir + "/regular"
	filestest.MustWrite(t, regular, "x")
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	r, w, rw := opened(t, regular, unix.O_RDONLY), opened(t, regular, unix.O_WRONLY), opened(t, regular, unix.O_RDWR)
	folder, null, path := opened(t, dir, unix.O_RDONLY), opened(t, "/dev/null", unix.O_RDONLY), opened(t, regular, unix.O_PATH)
	kernel := opened(t, "/proc/self/comm", unix.O_WRONLY) // a regular file that acts on who writes it
	var size syscall.Stat_t
	size.Size = -1

	done := func(tail ...byte) func(uint32) packet {
		return func(seq uint32) packet { return append(newReply(nil, replyDone, seq), tail...) }
	}
	as := func(kind byte, tail ...byte) func(uint32) packet {
		return func(seq uint32) packet { return append(newReply(nil, kind, seq), tail...) }
	}
	ctx := context.Background()
	open := func(c *Client) error { return second(c.Open(ctx, regular)) }
	create := func(c *Client) error { return second(c.Create(ctx, regular, sandbox.CreateOptions{})) }
	list := func(c *Client) error { return second(c.ReadDir(ctx, dir)) }
	stat := func(c *Client) error { return second(c.Stat(ctx, dir)) }
	resolve := func(c *Client) error { return second(c.Resolve(ctx, dir)) }
	mkdir := func(c *Client) error { return c.Mkdir(ctx, dir+"/d", 0o700) }
	find := func(c *Client) error { _, _, _, err := c.Find(ctx, []string{regular, dir}); return err }
	stage := func(c *Client) error {
		return second(c.Stage(ctx, dir+"/s", []sandbox.StagedFile{{Name: "a"}}, []string{regular, dir}))
	}
	there := func(i byte, name string) []byte {
		return packet{i, 0}.text(name).stat(&syscall.Stat_t{Mode: syscall.S_IFREG})
	}
	for name, tt := range map[string]struct {
		call  func(*Client) error
		reply func(seq uint32) packet
		fds   []int
	}{
		"open: no descriptor":          {open, done(), nil},
		"open: two descriptors":        {open, done(), []int{r, r}},
		"open: many descriptors":       {open, done(), []int{r, r, r, r, r, r, r, r}},
		"open: for writing":            {open, done(), []int{w}},
		"open: for both":               {open, done(), []int{rw}},
		"open: a path":                 {open, done(), []int{path}},
		"open: a directory":            {open, done(), []int{folder}},
		"open: a device":               {open, done(), []int{null}},
		"open: a pipe":                 {open, done(), pipe[:1]},
		"open: and more":               {open, done(1), []int{r}},
		"open: an error with it":       {open, as(replyError, packet(nil).error(unix.EPERM)...), []int{r}},
		"open: another kind":           {open, as('?'), []int{r}},
		"create: no descriptor":        {create, done(0, 0, 0, 1), nil},
		"create: for reading":          {create, done(0, 0, 0, 1), []int{r}},
		"create: for both":             {create, done(0, 0, 0, 1), []int{rw}},
		"create: a pipe":               {create, done(0, 0, 0, 1), pipe[1:]},
		"create: a file of the kernel": {create, done(0, 0, 0, 1), []int{kernel}},
		"create: no handle":            {create, done(), []int{w}},
		"mkdir: a descriptor":          {mkdir, done(), []int{r}},
		"mkdir: and more":              {mkdir, done(1), nil},
		"mkdir: another kind":          {mkdir, as('?'), nil},
		"mkdir: no errors":             {mkdir, as(replyError, 0), nil},
		"mkdir: errno 0":               {mkdir, as(replyError, 1, shapePlain, causeErrno, 0, 0, 0, 0), nil},
		"mkdir: a huge errno":          {mkdir, as(replyError, 1, shapePlain, causeErrno, 0xff, 0xff, 0xff, 0xff), nil},
		"mkdir: an unknown sentinel":   {mkdir, as(replyError, 1, shapePlain, causeSentinel, 200), nil},
		"mkdir: an unknown shape":      {mkdir, as(replyError, 1, 9, causeSentinel, 0), nil},
		"mkdir: a text past the end":   {mkdir, as(replyError, 1, shapePlain, causeText, 0xff, 0xff, 'a'), nil},
		"mkdir: nothing":               {mkdir, func(uint32) packet { return packet{} }, nil},
		"mkdir: half a header":         {mkdir, func(uint32) packet { return packet{replyDone, 0} }, nil},
		"mkdir: an answer to come":     {mkdir, func(seq uint32) packet { return newReply(nil, replyDone, seq+1) }, nil},
		"mkdir: an answer of before":   {mkdir, func(seq uint32) packet { return newReply(nil, replyDone, seq-1) }, nil},
		"mkdir: too much":              {mkdir, done(make([]byte, maxReply)...), nil},
		"mkdir: far too much":          {mkdir, done(make([]byte, 3*maxReply)...), nil},
		"readdir: an empty part":       {list, as(replyPart), nil},
		"readdir: a slash":             {list, as(replyPart, 0, 3, 'a', '/', 'b'), nil},
		"readdir: the parent":          {list, as(replyPart, 0, 2, '.', '.'), nil},
		"readdir: NUL":                 {list, as(replyPart, 0, 1, 0), nil},
		"readdir: no name":             {list, as(replyPart, 0, 0), nil},
		"readdir: past the end":        {list, as(replyPart, 0, 9, 'a'), nil},
		"readdir: an unknown type":     {list, as(replyPart, 99, 1, 'a'), nil},
		"readdir: a descriptor":        {list, as(replyPart, 0, 1, 'a'), []int{r}},
		"find: nothing":                {find, done(), nil},
		"find: one too many":           {find, done(there(2, "/a")...), nil},
		"find: relative":               {find, done(there(0, "a")...), nil},
		"find: not clean":              {find, done(there(0, "/a/../b")...), nil},
		"find: no stat":                {find, done(packet{0, 0}.text("/a")...), nil},
		"find: neither":                {find, done(0, 2), nil},
		"find: no error":               {find, done(0, 1, 0), nil},
		"find: an error of none":       {find, done(packet{3, 1}.error(unix.EPERM)...), nil},
		"find: and more":               {find, done(append(there(0, "/a"), 1)...), nil},
		"find: a descriptor":           {find, done(there(0, "/a")...), []int{r}},
		"stage: nothing found":         {stage, done(), nil},
		"stage: one too many":          {stage, done(there(2, "/a")...), nil},
		"stage: a descriptor":          {stage, done(there(1, "/a")...), []int{r}},
		"stat: too short":              {stat, done(1, 2, 3), nil},
		"stat: too long":               {stat, done(make([]byte, 500)...), nil},
		"stat: a negative size":        {stat, done(packet(nil).stat(&size)...), nil},
		"resolve: relative":            {resolve, done(packet(nil).text("a")...), nil},
		"resolve: not clean":           {resolve, done(packet(nil).text("/a/../b")...), nil},
		"resolve: too long":            {resolve, done(packet(nil).text("/" + strings.Repeat("a", maxName))...), nil},
		"resolve: empty":               {resolve, done(0, 0), nil},
	} {
		before := openFDs(t)
		t.Run(name, func(t *testing.T) {
			c := impostor(t, func(sock int, req request) {
				var rights []byte
				if tt.fds != nil {
					rights = unix.UnixRights(tt.fds...)
				}
				if err := unix.Sendmsg(sock, tt.reply(req.seq), rights, nil, 0); err != nil {
					t.Error(err)
				}
			})
			filestest.Within(t, 10*time.Second, name, func() {
				if err := tt.call(c); !errors.Is(err, sandbox.ErrLost) {
					t.Errorf("%v, want ErrLost", err)
				}
			})
		})
		if after := openFDs(t); after != before {
			t.Errorf("%s: %d descriptors before, %d after", name, before, after)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestHostileServerFloods: a directory without end ends.
func TestHostileServerFloods(t *testing.T) {
	c := impostor(t, func(sock int, r request) {
		part := newReply(nil, replyPart, r.seq)
		for len(part)+2 <= maxReply-1 {
			part = append(part, 0, 1, 'a')
		}
		for unix.Sendmsg(sock, part, nil, nil, unix.MSG_NOSIGNAL) == nil {
		}
	})
	if _, err := c.ReadDir(context.Background(), "/"); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
}

// TestSilentServer: a call ends when its context is done or the client closes,
// whatever the server does.
func TestSilentServer(t *testing.T) {
	c := impostor(t, func(int, request) {})
	why := errors.New("enough")
	calls := func(ctx context.Context) map[string]func() error {
		return map[string]func() error{
			"Resolve": func() error { return second(c.Resolve(ctx, "/a")) },
			"Open":    func() error { return second(c.Open(ctx, "/a")) },
			"Create":  func() error { return second(c.Create(ctx, "/a", sandbox.CreateOptions{})) },
			"ReadDir": func() error { return second(c.ReadDir(ctx, "/a")) },
			"Stat":    func() error { return second(c.Stat(ctx, "/a")) },
			"Mkdir":   func() error { return c.Mkdir(ctx, "/a", 0o700) },
			"Rename":  func() error { return c.Rename(ctx, "/a", "/b") },
			"Remove":  func() error { return c.Remove(ctx, "/a") },
		}
	}
	for _, wait := range []time.Duration{0, time.Millisecond} {
		ctx, cancel := context.WithCancelCause(context.Background())
		var all sync.WaitGroup
		for what, call := range calls(ctx) { // twice as many as there are connections
			all.Go(func() {
				if err := call(); !errors.Is(err, why) {
					t.Errorf("%s: %v, want %v", what, err, why)
				}
			})
		}
		time.AfterFunc(wait, func() { cancel(why) })
		filestest.Within(t, 10*time.Second, "a cancelled call", all.Wait)
	}
	var all sync.WaitGroup
	for what, call := range calls(context.Background()) {
		all.Go(func() {
			if err := call(); !errors.Is(err, sandbox.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", what, err)
			}
		})
	}
	time.AfterFunc(time.Millisecond, func() { c.Close() })
	filestest.Within(t, 10*time.Second, "a call of a closed client", all.Wait)
}

// TestHostileClient: a server ends at the first thing it does not understand,
// and what was begun is gone.
func TestHostileClient(t *testing.T) {
	null := opened(t, "/dev/null", unix.O_RDONLY)
	for name, tt := range map[string]struct {
		packet packet
		fds    []int
	}{
		"an unknown operation":    {packet{'?', 0, 0, 0, 9}, nil},
		"half a header":           {packet{opStat, 0}, nil},
		"no name":                 {packet{opStat, 0, 0, 0, 9}, nil},
		"a name past the end":     {packet{opStat, 0, 0, 0, 9, 0xff, 0xff, '/'}, nil},
		"too long a name":         {(&request{op: opStat, name: "/" + strings.Repeat("a", maxName)}).append(nil), nil},
		"and more":                {append((&request{op: opStat, name: "/"}).append(nil), 0), nil},
		"set-id bits":             {(&request{op: opMkdir, name: "/", perm: 0o4755}).append(nil), nil},
		"unknown flags":           {(&request{op: opCreate, name: "/x", flags: 4}).append(nil), nil},
		"a handle nobody has":     {(&request{op: opCommit, handle: 77}).append(nil), nil},
		"a message without bound": {make(packet, 100<<10), nil},
		"a descriptor":            {(&request{op: opStat, name: "/"}).append(nil), []int{null}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filestest.TempTree(t)
			client, server, err := Pair()
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ended := make(chan error)
			go func() {
				defer server.Close()
				ended <- Serve(int(server.Fd()), New())
			}()
			sock := int(client.Fd())
			begin := (&request{op: opCreate, seq: 1, name: dir + "/file"}).append(nil)
			if err := unix.Sendmsg(sock, begin, nil, nil, 0); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Read(sock, make([]byte, 100)); err != nil || n == 0 {
				t.Fatal(n, err)
			}
			if got := filestest.Names(t, dir); len(got) != 1 {
				t.Fatalf("begun: %q", got)
			}
			before := openFDs(t)
			var rights []byte
			if tt.fds != nil {
				rights = unix.UnixRights(tt.fds...)
			}
			if err := unix.Sendmsg(sock, tt.packet, rights, nil, 0); err != nil {
				t.Fatal(err)
			}
			filestest.Within(t, 10*time.Second, "Serve", func() {
				if err := <-ended; !errors.Is(err, errRequest) {
					t.Errorf("Serve: %v", err)
				}
			})
			if got := filestest.Names(t, dir); len(got) != 0 {
				t.Errorf("left behind: %q", got)
			}
			if after := openFDs(t); after >= before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func TestServeWantsMessages(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	if err := Serve(fds[0], New()); err == nil {
		t.Error("served a stream")
	}
	c := NewClient(func(context.Context) (*os.File, error) { return os.NewFile(uintptr(fds[0]), "stream"), nil })
	defer c.Close()
	if _, err := c.Stat(context.Background(), "/"); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("a client on a stream: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the stream is still open: %v", err)
	}
}
