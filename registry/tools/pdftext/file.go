package pdftext

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
)

// Bounds on a file. What lies beyond them is left out.
const (
	maxObjects  = 1 << 20
	maxUnpacked = 64 << 20 // bytes of all streams together
	maxPages    = 5000
	// maxWork is what reading objects, page trees and fonts may cost, in bytes
	// read and objectWork for each object: the same bytes can be read as many.
	maxWork    = 48 << 20
	objectWork = 16
	maxLinks   = 32 // references that lead to references; levels of the page tree
)

var (
	// ErrFormat means that the data is no PDF, or that no page is left of it.
	ErrFormat = errors.New("not a PDF that can be read")
	// ErrEncrypted means that the text cannot be read without a key.
	ErrEncrypted = errors.New("the PDF is encrypted")
)

// file is a PDF in memory.
type file struct {
	ctx    context.Context
	data   []byte
	where  map[int]place
	room   int // bytes that streams may still be, packed and unpacked
	draws  int // forms and pictures drawn so far
	work   int // what may still be spent, of maxWork
	loaded map[ref]object
	fonts  map[ref]*font
	root   object
	info   object
	inside map[int][]byte // unpacked object streams
}

// place is where an object is: in the file, or in an object stream.
type place struct{ pos, stream int }

// open finds the objects. A later one of the same number replaces an earlier.
func open(ctx context.Context, data []byte) (*file, error) {
	if !bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")) {
		return nil, ErrFormat
	}
	f := &file{ctx: ctx, data: data, where: map[int]place{}, room: maxUnpacked, work: maxWork, loaded: map[ref]object{}, fonts: map[ref]*font{}, inside: map[int][]byte{}}
	var streams []int
	for p := 0; ; {
		at := bytes.Index(data[p:], []byte("obj"))
		if at < 0 || len(f.where) >= maxObjects {
			break
		}
		at += p
		p = at + 3
		number, ok := numberBefore(data, at)
		if !ok {
			continue
		}
		f.where[number] = place{pos: p, stream: -1}
		if window := data[p:min(p+400, len(data))]; bytes.Contains(window, []byte("ObjStm")) {
			streams = append(streams, number)
		}
	}
	for _, trailer := range f.trailers() {
		if trailer["Encrypt"] != nil {
			return nil, ErrEncrypted
		}
		if trailer["Root"] != nil {
			f.root, f.info = trailer["Root"], trailer["Info"]
		}
	}
	for _, number := range streams {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		f.openStream(number)
	}
	return f, nil
}

// numberBefore reads the number in "12 0 obj" backwards from "obj".
func numberBefore(b []byte, p int) (int, bool) {
	back := func(is func(byte) bool, most int) int {
		n := 0
		for p > 0 && n < most && is(b[p-1]) {
			p--
			n++
		}
		return n
	}
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	back(isSpace, 8)
	if back(isDigit, 5) == 0 || back(isSpace, 8) == 0 {
		return 0, false
	}
	end := p
	if back(isDigit, 8) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(string(b[p:end]))
	return n, err == nil
}

// trailers are the dictionaries that say where the document begins: behind the
// word "trailer", and those of cross-reference streams.
func (f *file) trailers() []dict {
	var out []dict
	for _, mark := range []string{"/XRef", "trailer"} {
		for p := 0; len(out) < 64; {
			at := bytes.Index(f.data[p:], []byte(mark))
			if at < 0 {
				break
			}
			at += p
			p = at + len(mark)
			if mark == "/XRef" {
				start := bytes.LastIndex(f.data[max(0, at-2000):at], []byte("obj"))
				if start < 0 {
					continue
				}
				at = max(0, at-2000) + start - len(mark) + 3
			}
			l := lexer{b: f.data, pos: at + len(mark), work: &f.work}
			if o, ok := l.next(0); ok {
				if d, ok := o.(dict); ok {
					out = append(out, d)
				}
			}
		}
	}
	return out
}

// openStream adds the objects that are packed into a stream.
func (f *file) openStream(number int) {
	d, data, ok := f.stream(ref(number))
	if !ok || d["Type"] != name("ObjStm") {
		return
	}
	count, first := int(number64(f.follow(d["N"]))), int(number64(f.follow(d["First"])))
	if first < 0 || first > len(data) {
		return
	}
	f.inside[number] = data
	head := lexer{b: data[:first], operators: true, work: &f.work}
	for range min(max(count, 0), maxObjects) {
		a, ok1 := head.next(0)
		b, ok2 := head.next(0)
		id, isID := a.(float64)
		pos, isPos := b.(float64)
		if !ok1 || !ok2 || !isID || !isPos || len(f.where) >= maxObjects {
			return
		}
		if at := first + int(pos); id >= 0 && id < 1e8 && at >= 0 && at < len(data) {
			if _, known := f.where[int(id)]; !known {
				f.where[int(id)] = place{pos: at, stream: number}
			}
		}
	}
}

func number64(o object) float64 { n, _ := o.(float64); return n }

// follow is the object behind references.
func (f *file) follow(o object) object {
	for range maxLinks {
		r, is := o.(ref)
		if !is {
			return o
		}
		o = f.load(r)
	}
	return nil
}

func (f *file) load(r ref) object {
	if o, known := f.loaded[r]; known {
		return o
	}
	at, ok := f.where[int(r)]
	if !ok {
		return nil
	}
	l := lexer{b: f.data, pos: at.pos, work: &f.work}
	if at.stream >= 0 {
		l.b = f.inside[at.stream]
	}
	o, _ := l.next(0)
	f.loaded[r] = o
	return o
}

func (f *file) dict(o object) dict   { d, _ := f.follow(o).(dict); return d }
func (f *file) array(o object) array { a, _ := f.follow(o).(array); return a }

// page is a page with what it inherits.
type page struct {
	dict      dict
	resources dict
}

// pages are the pages in order: along the tree, or, where that is broken, as
// their objects are numbered.
func (f *file) pages() []page {
	var out []page
	seen := map[ref]bool{}
	var walk func(o object, resources dict, depth int)
	walk = func(o object, resources dict, depth int) {
		f.work -= objectWork
		if r, is := o.(ref); is {
			if seen[r] || f.work <= 0 {
				return
			}
			seen[r] = true
		}
		d := f.dict(o)
		if d == nil || f.work <= 0 || depth > maxLinks || len(out) >= maxPages {
			return
		}
		if own := f.dict(d["Resources"]); own != nil {
			resources = own
		}
		if kids, is := f.follow(d["Kids"]).(array); is {
			for _, kid := range kids {
				walk(kid, resources, depth+1)
			}
			return
		}
		out = append(out, page{d, resources})
	}
	walk(f.dict(f.root)["Pages"], nil, 0)
	if len(out) > 0 {
		return out
	}
	var numbers []int
	for number := range f.where {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		if f.ctx.Err() != nil || len(out) >= maxPages {
			break
		}
		if d := f.dict(ref(number)); d["Type"] == name("Page") {
			out = append(out, page{d, f.dict(d["Resources"])})
		}
	}
	return out
}
