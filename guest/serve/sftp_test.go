package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// serveSFTP runs SFTP at the other end of the stream it returns.
func serveSFTP(t testing.TB) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { SFTP(far, far); far.Close() })
	t.Cleanup(func() { near.Close(); serving.Wait() })
	return near
}

func tempTree(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Another's client does what SFTP is commonly used for.
func TestSFTPOtherClient(t *testing.T) {
	conn, dir := serveSFTP(t), tempTree(t)
	c, err := sftp.NewClientPipe(conn, conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := bytes.Repeat([]byte("0123456789"), 50_000)
	w, err := c.OpenFile(dir+"/file", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("visible before it was closed")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := c.Open(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := r.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	if info, err := r.Stat(); err != nil || info.Size() != int64(len(want)) {
		t.Errorf("Stat: %v, %v", info, err)
	}
	r.Close()
	if err := c.Mkdir(dir + "/sub"); err != nil {
		t.Error(err)
	}
	if err := c.PosixRename(dir+"/file", dir+"/sub/moved"); err != nil {
		t.Error(err)
	}
	list, err := c.ReadDir(dir + "/sub")
	if err != nil || len(list) != 1 || list[0].Name() != "moved" || list[0].Size() != int64(len(want)) {
		t.Errorf("ReadDir: %v, %v", list, err)
	}
	if _, err := c.Lstat(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat: %v", err)
	}
	if _, err := c.OpenFile(dir+"/sub/moved", os.O_WRONLY); err == nil {
		t.Error("a file was opened to be changed in place")
	}
	if err := c.Mkdir(dir + "/other"); err != nil {
		t.Error(err)
	}
	if err := c.Rename(dir+"/other", dir+"/sub"); err == nil {
		t.Error("a plain rename replaced what was there")
	}
	if err := c.Rename(dir+"/other", dir+"/another"); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("moved", dir+"/sub/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(dir + "/sub/link"); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link was opened: %v", err)
	}
	if info, err := c.Stat(dir + "/sub/link"); err != nil || info.Size() != int64(len(want)) {
		t.Errorf("Stat of a link: %v, %v", info, err)
	}
	if info, err := c.Lstat(dir + "/sub/link"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat of a link: %v, %v", info, err)
	}
	if err := errors.Join(c.Remove(dir+"/sub/link"), c.RemoveDirectory(dir+"/another")); err != nil {
		t.Error(err)
	}
	if err := c.Remove(dir + "/sub/moved"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveDirectory(dir + "/sub"); err != nil {
		t.Error(err)
	}
	if wd, err := c.Getwd(); err != nil || !filepath.IsAbs(wd) {
		t.Errorf("Getwd: %q, %v", wd, err)
	}
}

// What comes in any order becomes the whole file, and what is cut off nothing.
func TestSFTPOtherClientConcurrent(t *testing.T) {
	conn, dir := serveSFTP(t), tempTree(t)
	c, err := sftp.NewClientPipe(conn, conn, sftp.UseConcurrentWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i >> 12)
	}
	create := func(name string) *sftp.File {
		f, err := c.OpenFile(dir+name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	whole := create("/whole")
	if _, err := whole.ReadFromWithConcurrency(bytes.NewReader(want), 16); err != nil {
		t.Fatal(err)
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dir + "/whole"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := create("/cut").Write(want); err != nil {
		t.Fatal(err)
	}
	bad := create("/bad")
	if _, err := bad.WriteAt([]byte("x"), 1<<62); err == nil {
		t.Error("a write beyond every file")
	}
	if err := bad.Close(); err == nil {
		t.Error("a file appeared of which a write failed")
	}
	conn.Close()
	c.Wait()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		list, err := os.ReadDir(dir)
		if err == nil && len(list) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("left: %v, %v", list, err)
		}
	}
}

// speak sends raw bytes to a server and reads what it answers until it ends.
func speak(t *testing.T, packets ...[]byte) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	err := SFTP(bytes.NewReader(slices.Concat(packets...)), &out)
	return out.Bytes(), err
}

func hello() []byte { return sshwire.NewPacket(nil, sshwire.SFTPInit, 3).Frame() }

// A malformed packet ends the connection, and what was begun on it.
func TestSFTPMalformed(t *testing.T) {
	dir := tempTree(t)
	create := sshwire.Extended(nil, sshwire.SFTPCreate, 1).Text(dir + "/file").U32(0o600).U32(0).Frame()
	for what, bad := range map[string][]byte{
		"no length":         make([]byte, 4),
		"a huge length":     {0xff, 0xff, 0xff, 0xff, 3},
		"a second hello":    hello(),
		"a cut name":        sshwire.NewPacket(nil, sshwire.SFTPLstat, 2).U32(100).Frame(),
		"a cut write":       sshwire.NewPacket(nil, sshwire.SFTPWrite, 2).Text("1").U64(0).U32(7).Frame(),
		"another cut write": sshwire.NewPacket(nil, sshwire.SFTPWrite, 2).Text("@1").U64(0).U32(7).Frame(),
		"a cut read":        sshwire.NewPacket(nil, sshwire.SFTPRead, 2).Text("@1").U64(0).Frame(),
		"half a packet":     sshwire.NewPacket(nil, sshwire.SFTPLstat, 2).Text("/").Frame()[:8],
		"cut permissions":   sshwire.Extended(nil, sshwire.SFTPMake, 2).Text(dir + "/x").Frame(),
		"an unknown kind":   sshwire.NewPacket(nil, 77, 2).Text("/").Frame(),
		"a cut extension":   sshwire.NewPacket(nil, sshwire.SFTPExtended, 2).U32(9).Frame(),
	} {
		if _, err := speak(t, hello(), create, bad); err == nil {
			t.Errorf("%s was accepted", what)
		}
		if list, _ := os.ReadDir(dir); len(list) != 0 {
			t.Errorf("%s: left %v", what, list)
		}
	}
	if _, err := speak(t, create); err == nil {
		t.Error("no hello was needed")
	}
	if _, err := speak(t, hello(), create); err != nil {
		t.Errorf("an end after whole packets: %v", err)
	}
}

// Handles are bounded, unknown ones refused, and what is no link, no directory
// and no file is opened by nobody.
func TestSFTPBounds(t *testing.T) {
	dir := tempTree(t)
	if err := os.WriteFile(dir+"/file", make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	conn := serveSFTP(t)
	send := func(p sshwire.Packet) { conn.Write(p.Frame()) }
	answer := func() (kind byte, b *sshwire.Body) {
		t.Helper()
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, binary.BigEndian.Uint32(head[:])-5)
		if _, err := io.ReadFull(conn, buf); err != nil {
			t.Fatal(err)
		}
		return head[4], &sshwire.Body{Rest: buf}
	}
	status := func(want error) {
		t.Helper()
		kind, b := answer()
		if _, f := b.Status(); kind != sshwire.SFTPStatus || want != nil && !f.Is(want) {
			t.Errorf("answered %d %v, want %v", kind, f, want)
		}
	}
	conn.Write(hello())
	answer()
	opened := 0
	for range maxSFTPHandles + 1 {
		send(sshwire.NewPacket(nil, sshwire.SFTPOpenFile, 9).Text(dir + "/file").U32(sshwire.SFTPFlagRead).U32(0))
		if kind, _ := answer(); kind == sshwire.SFTPHandle {
			opened++
		}
	}
	if opened != maxSFTPHandles {
		t.Errorf("%d handles", opened)
	}
	send(sshwire.NewPacket(nil, sshwire.SFTPClose, 1).Text("1"))
	status(nil)
	for _, kind := range []byte{sshwire.SFTPClose, sshwire.SFTPFstat, sshwire.SFTPReaddir} {
		send(sshwire.NewPacket(nil, kind, 1).Text("none"))
		status(nil)
	}
	send(sshwire.NewPacket(nil, sshwire.SFTPRead, 1).Text("2").U64(1 << 63).U32(1))
	status(fs.ErrInvalid)
	send(sshwire.NewPacket(nil, sshwire.SFTPRead, 1).Text("2").U64(0).U32(0xffffffff))
	if kind, b := answer(); kind != sshwire.SFTPData || len(b.Bytes(100)) != 10 {
		t.Errorf("a read of 4 GiB: %d", kind)
	}
	send(sshwire.NewPacket(nil, sshwire.SFTPLstat, 1).Text("/" + strings.Repeat("x", 2*maxSFTPPath)))
	status(syscall.ENAMETOOLONG)
	send(sshwire.NewPacket(nil, sshwire.SFTPOpenFile, 1).Text(dir).U32(sshwire.SFTPFlagRead).U32(0))
	status(sandbox.ErrNotRegular)
	send(sshwire.Extended(nil, "unknown@nowhere", 1).Text("/"))
	status(nil)
	// Writes go front to back.
	send(sshwire.NewPacket(nil, sshwire.SFTPClose, 1).Text("2"))
	status(nil)
	send(sshwire.Extended(nil, sshwire.SFTPCreate, 1).Text(dir + "/new").U32(0o600).U32(0))
	kind, b := answer()
	handle := b.Text(100)
	if kind != sshwire.SFTPHandle {
		t.Fatal(kind)
	}
	send(sshwire.NewPacket(nil, sshwire.SFTPWrite, 1).Text(handle).U64(1 << 40).Text("x"))
	status(fs.ErrInvalid)
	send(sshwire.Extended(nil, sshwire.SFTPCommit, 1).Text("3")) // a file that is read
	status(nil)
	send(sshwire.NewPacket(nil, sshwire.SFTPClose, 1).Text(handle))
	status(nil)
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}

// Whatever follows the type of a packet, the server answers or ends. Only
// packets are sent that change nothing, for the names are anybody's.
func FuzzSFTP(f *testing.F) {
	kinds := []byte{sshwire.SFTPClose, sshwire.SFTPRead, sshwire.SFTPWrite, sshwire.SFTPLstat, sshwire.SFTPFstat, sshwire.SFTPFsetstat,
		sshwire.SFTPOpendir, sshwire.SFTPReaddir, sshwire.SFTPRealpath, sshwire.SFTPStat, sshwire.SFTPReadlink, 0, 99, 255}
	f.Add(uint8(3), []byte(sshwire.Packet(nil).Text("/")), uint8(1), []byte(sshwire.Packet(nil).Text("1").U64(0).U32(1)))
	f.Add(uint8(6), []byte(sshwire.Packet(nil).Text(tempTree(f))), uint8(7), []byte(sshwire.Packet(nil).Text("1")))
	f.Add(uint8(2), []byte(sshwire.Packet(nil).Text("1").U64(0).Text("x")), uint8(0), []byte(sshwire.Packet(nil).Text("1")))
	f.Fuzz(func(t *testing.T, first uint8, a []byte, second uint8, b []byte) {
		packets := append(sshwire.NewPacket(nil, kinds[int(first)%len(kinds)], 1), a...).Frame()
		packets = append(packets, append(sshwire.NewPacket(nil, kinds[int(second)%len(kinds)], 2), b...).Frame()...)
		var out bytes.Buffer
		SFTP(io.MultiReader(bytes.NewReader(hello()), bytes.NewReader(packets)), &out)
	})
}

func FuzzAttrs(f *testing.F) {
	f.Add([]byte(sshwire.Packet(nil).Attrs(sshwire.Attrs{Has: 0xf | sshwire.AttrExact, Size: 1, Mode: 0o100644, Mtime: 1e18, Ino: 7})))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := sshwire.Body{Rest: in}
		a := b.Attrs()
		if !b.End() {
			return
		}
		again := sshwire.Body{Rest: sshwire.Packet(nil).Attrs(a)}
		if got := again.Attrs(); got != a && a.Has&sshwire.AttrExact == 0 {
			t.Errorf("%+v became %+v", a, got)
		}
	})
}
