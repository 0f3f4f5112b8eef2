package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// failingBox is a box whose files fail once: at the n-th change.
type failingBox struct {
	sandbox.Sandbox
	mu    sync.Mutex
	n     int // changes left until the failure; 0 has failed, below never will
	err   error
	fails int
	then  func() // called at the failure
}

func (b *failingBox) Files() sandbox.Files { return &failingFiles{b.Sandbox.Files(), b} }

func (b *failingBox) change() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n != 0 {
		return nil
	}
	b.fails++
	if b.then != nil {
		b.then()
	}
	return b.err
}

type failingFiles struct {
	sandbox.Files
	box *failingBox
}

type failingFile struct {
	sandbox.AtomicFile
	box *failingBox
}

func (f *failingFiles) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	if err := f.box.change(); err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	w, err := f.Files.Create(ctx, name, opt)
	if err != nil {
		return nil, err
	}
	return &failingFile{w, f.box}, nil
}

func (f *failingFiles) MkdirAll(ctx context.Context, name string, perm os.FileMode) error {
	if err := f.box.change(); err != nil {
		f.Files.MkdirAll(ctx, filepath.Dir(name), perm) // half of it
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return f.Files.MkdirAll(ctx, name, perm)
}

func (f *failingFiles) Rename(ctx context.Context, old, fresh string) error {
	if err := f.box.change(); err != nil {
		return &os.PathError{Op: "rename", Path: old, Err: err}
	}
	return f.Files.Rename(ctx, old, fresh)
}

func (f *failingFiles) Remove(ctx context.Context, name string) error {
	if err := f.box.change(); err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return f.Files.Remove(ctx, name)
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.box.change(); err != nil {
		return 0, err
	}
	return f.AtomicFile.Write(p)
}

func (f *failingFile) Commit() error {
	if err := f.box.change(); err != nil {
		f.AtomicFile.Discard()
		return err
	}
	return f.AtomicFile.Commit()
}

// Whichever step of applying a patch fails, everything is as before: bytes,
// modes, directories, and no file more.
func TestPatchRollsBack(t *testing.T) {
	in := v4a(
		"*** Update File: a", "@@", "-1", "+one",
		"*** Add File: new/deep/n1", "+n",
		"*** Add File: new/n2", "+n",
		"*** Delete File: d/gone",
		"*** Update File: moved", "*** Move to: elsewhere/moved", "@@", "-m", "+M",
		"*** Move File: plain -> elsewhere/plain",
		"*** Delete File: d/gone2",
		"*** Update File: b", "@@", "-2", "+two",
	)
	for _, cancel := range []bool{false, true} {
		for n := 1; ; n++ {
			box := &failingBox{n: n, err: syscall.ENOSPC}
			b := patchSetup(t, nil, func(real sandbox.Sandbox) sandbox.Sandbox { box.Sandbox = real; return box })
			for name, content := range map[string]string{"a": "1\n", "b": "2", "d/gone": "g\n", "d/gone2": "", "moved": "m\r\n", "plain": "\xff"} {
				f := b.file(name, content)
				if err := os.Chmod(f, 0o751); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, b.dir)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			if cancel {
				box.err, box.then = context.Canceled, stop
			}
			answer := string(b.reg.Dispatch(ctx, script, "patch", mustJSON(t, in)))
			if box.fails == 0 {
				if !strings.Contains(answer, `"success":true`) {
					t.Fatalf("nothing failed, and yet: %s", answer)
				}
				if n < 15 {
					t.Fatalf("only %d steps seen", n-1)
				}
				break
			}
			if strings.Contains(answer, `"success":true`) || !cancel && !strings.Contains(answer, "Apply phase failed (all changes were rolled back)") {
				t.Errorf("step %d failed: %s", n, answer)
			}
			sameTree(t, fmt.Sprintf("step %d failed (%v)", n, box.err), tree(t, b.dir), before)
			if t.Failed() {
				return
			}
		}
	}
}

// When the way back fails too, the answer says what is not as it was.
func TestPatchSaysWhatIsLost(t *testing.T) {
	box := &brokenBox{}
	b := patchSetup(t, nil, func(real sandbox.Sandbox) sandbox.Sandbox { box.Sandbox = real; return box })
	b.file("a", "1\n")
	b.file("b", "2\n")
	got := b.call(script, "patch", v4a("*** Update File: a", "-1", "+one", "*** Delete File: b"))
	matches(t, "lost", got, args{"success": false, "error": "Apply phase failed (state may be inconsistent — run `git diff` to assess; not restored: " + b.path("a") + "…"})
}

// brokenBox cannot rename, and can create one file only.
type brokenBox struct {
	sandbox.Sandbox
	created int
}

type brokenFiles struct {
	sandbox.Files
	box *brokenBox
}

func (b *brokenBox) Files() sandbox.Files { return &brokenFiles{b.Sandbox.Files(), b} }

func (f *brokenFiles) Rename(context.Context, string, string) error { return syscall.EIO }

func (f *brokenFiles) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	if f.box.created++; f.box.created > 1 {
		return nil, syscall.ENOSPC
	}
	return f.Files.Create(ctx, name, opt)
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// randomLines is a small file that is not easy to patch.
func randomLines(r *rand.Rand) string {
	pool := []string{"a", "b", "b", "}", "", "  x = 1", "\ty", "ä “q”", "\xff\x80", "-- d", "++ p", "*** Update File: f", "@@ h"}
	ends := []string{"\n", "\n", "\n", "\r\n"}
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(pool[r.IntN(len(pool))] + ends[r.IntN(len(ends))])
	}
	if r.IntN(3) == 0 {
		b.WriteString("last")
	}
	return b.String()
}

// randomPatch makes a patch that will often apply: of lines that are there,
// and of files that mostly are.
func randomPatch(r *rand.Rand, files map[string]string) args {
	there, fresh := []string{"f", "g", "d/h", "d e/ü"}, []string{"n1", "d/n2", "deep/er/n3"}
	pick := func() string {
		if r.IntN(12) == 0 {
			return fresh[r.IntN(len(fresh))]
		}
		return there[r.IntN(len(there))]
	}
	place := func() string {
		if r.IntN(12) == 0 {
			return there[r.IntN(len(there))]
		}
		return fresh[r.IntN(len(fresh))]
	}
	if r.IntN(3) == 0 {
		name := pick()
		ls := strings.SplitAfter(files[name], "\n")
		i := r.IntN(len(ls))
		old := strings.Join(ls[i:min(len(ls), i+1+r.IntN(3))], "")
		return args{"path": name, "old_string": old, "new_string": []string{"", "new", "new\nlines\n", old + "more"}[r.IntN(4)], "replace_all": r.IntN(3) == 0}
	}
	var p []string
	for range 1 + r.IntN(3) {
		name := pick()
		switch r.IntN(6) {
		case 0:
			p = append(p, "*** Add File: "+place(), "+x", "+", "+y")
		case 1:
			p = append(p, "*** Delete File: "+name)
		case 2:
			p = append(p, "*** Move File: "+name+" -> "+place())
		default:
			p = append(p, "*** Update File: "+name)
			if r.IntN(4) == 0 {
				p = append(p, "*** Move to: "+place())
			}
			p = append(p, "@@")
			ls := strings.Split(strings.ReplaceAll(files[name], "\r\n", "\n"), "\n")
			i := r.IntN(len(ls))
			for _, l := range ls[i:min(len(ls), i+1+r.IntN(4))] {
				p = append(p, []string{" ", " ", "-", "+new "}[r.IntN(4)]+l)
			}
			if r.IntN(2) == 0 {
				p = append(p, "+added")
			}
			if r.IntN(5) == 0 {
				p = append(p, "*** End of File")
			}
		}
	}
	return v4a(p...)
}

// checkReport runs one call and compares what it says with what happened to
// the files; the diff, taken back by git, restores every byte.
func checkReport(t testing.TB, b *bench, in args) (applied bool) {
	t.Helper()
	before := tree(t, b.dir)
	got := b.call(script, "patch", in)
	after := tree(t, b.dir)
	if got["success"] != true {
		if got["error"] == nil {
			t.Fatalf("neither success nor error: %v", got)
		}
		sameTree(t, fmt.Sprintf("after %v", got["error"]), after, before)
		return false
	}
	var modified, created, deleted []string
	regular := func(s string) bool { return strings.HasPrefix(s, "-") }
	for name, s := range after {
		if regular(s) && before[name] != s {
			modified = append(modified, b.path(name))
			if before[name] == "" {
				created = append(created, name)
			}
		}
	}
	for name, s := range before {
		if regular(s) && after[name] == "" {
			deleted = append(deleted, name)
		}
	}
	for key, want := range map[string][]string{"files_modified": modified, "files_created": created, "files_deleted": deleted} {
		var said []string
		for _, v := range asList(got[key]) {
			said = append(said, v.(string))
		}
		slices.Sort(said)
		slices.Sort(want)
		if !slices.Equal(said, want) {
			t.Fatalf("%s is %q, want %q\n%v", key, said, want, in)
		}
	}
	if diff := exactDiff(t, got); diff != "" {
		gitReverse(t, b.dir, diff)
		restored := tree(t, b.dir)
		for name, s := range before {
			// git knows the x bit alone, and leaves directories.
			if _, content, _ := strings.Cut(s, " "); regular(s) && !strings.HasSuffix(restored[name], " "+content) {
				t.Fatalf("git apply -R: %s is %q, want %q\n%s", name, restored[name], s, diff)
			}
		}
		for _, name := range created {
			if _, err := os.Lstat(b.path(name)); err == nil {
				t.Fatalf("git apply -R: %s is still there\n%s", name, diff)
			}
		}
	} else if len(modified)+len(deleted) > 0 {
		t.Fatalf("no diff of %q %q", modified, deleted)
	}
	return true
}

func asList(v any) []any { l, _ := v.([]any); return l }

// What patch reports is what is on disk, for patches of all kinds.
func TestPatchReportsWhatHappened(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	b := patchSetup(t, nil, nil)
	applied := 0
	for seed := range uint64(300) {
		applied += oracleRound(t, b, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if applied < 90 {
		t.Errorf("only %d of 300 patches applied: the test tests little", applied)
	}
}

func oracleRound(t testing.TB, b *bench, seed uint64) int {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(b.path(e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{}
	for _, name := range []string{"f", "g", "d/h", "d e/ü"} {
		files[name] = randomLines(r)
		b.file(name, files[name])
	}
	if checkReport(t, b, randomPatch(r, files)) {
		return 1
	}
	return 0
}

func FuzzPatchReport(f *testing.F) {
	if _, err := exec.LookPath("git"); err != nil {
		f.Skip("git is not installed")
	}
	f.Add("a\nb\n", "*** Update File: f\n@@\n-a\n+c\n*** Move File: g -> h\n")
	f.Add("a\r\nb", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n")
	f.Add("", "*** Delete File: f\n*** Add File: f\n+x\n*** Update File: f\n-x\n+y\n*** Delete File: g\n")
	f.Add("\xffa\n", "*** Update File: f\n*** Move to: d/f\n+n\n*** Add File: f\n+again\n")
	f.Fuzz(func(t *testing.T, text, patch string) {
		// A patch may name any path: none outside may be written.
		b := patchSetup(t, func(c *Config) { c.WriteRoot = filepath.Dir(c.Home) }, nil)
		b.file("f", text)
		b.file("g", "g\n")
		outside := tree(t, b.home)
		checkReport(t, b, args{"mode": "patch", "patch": patch})
		sameTree(t, "outside", tree(t, b.home), outside)
	})
}

// Many at once on the same files: each success is there in the end.
func TestPatchTogether(t *testing.T) {
	b := patchSetup(t, nil, nil)
	b.file("f", "")
	b.file("g", "")
	const n = 24
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			first, second := "f", "g"
			if i%2 == 1 {
				first, second = second, first
			}
			in := v4a("*** Update File: "+first, fmt.Sprintf("+%d", i), "*** Update File: "+second, fmt.Sprintf("+%d", i))
			caller := registry.Caller{Kind: registry.Script, Session: fmt.Sprint(i)}
			if got := b.call(caller, "patch", in); got["success"] != true {
				t.Errorf("%d: %v", i, got)
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"f", "g"} {
		if got := strings.Count(b.disk(name), "\n"); got != n {
			t.Errorf("%s has %d lines, want %d", name, got, n)
		}
	}
	if b.disk("f") != b.disk("g") {
		t.Error("the files saw the patches in different orders")
	}
}
