package pdftext

import (
	"bytes"
	"compress/lzw"
	"compress/zlib"
	"encoding/ascii85"
	"io"
)

const (
	maxFilters = 4
	minStream  = 256 // what a stream counts for at least
)

// stream is an object's dictionary and unpacked data. What is damaged is as
// long as it could be read.
func (f *file) stream(o object) (d dict, data []byte, ok bool) {
	r, is := o.(ref)
	if !is {
		return nil, nil, false
	}
	for range maxLinks {
		at, known := f.where[int(r)]
		if !known || at.stream >= 0 || f.room <= 0 {
			return nil, nil, false
		}
		l := lexer{b: f.data, pos: at.pos, work: &f.work}
		o, _ = l.next(0)
		if next, is := o.(ref); is {
			r = next
			continue
		}
		if d, is = o.(dict); !is {
			return nil, nil, false
		}
		raw, ok := f.raw(&l, d)
		if !ok {
			return nil, nil, false
		}
		if f.room -= len(raw) + minStream; f.room <= 0 {
			return nil, nil, false
		}
		data, ok = f.unpack(d, raw)
		return d, data, ok
	}
	return nil, nil, false
}

// raw is what stands between "stream" and "endstream".
func (f *file) raw(l *lexer, d dict) ([]byte, bool) {
	l.skipSpace()
	rest, ok := bytes.CutPrefix(f.data[l.pos:], []byte("stream"))
	if !ok {
		return nil, false
	}
	rest = bytes.TrimPrefix(rest, []byte("\r"))
	rest = bytes.TrimPrefix(rest, []byte("\n"))
	if n, is := f.follow(d["Length"]).(float64); is && n >= 0 && int(n) <= len(rest) {
		if bytes.HasPrefix(bytes.TrimLeft(rest[int(n):min(int(n)+32, len(rest))], " \r\n\t\x00"), []byte("endstream")) {
			return rest[:int(n)], true
		}
	}
	if end := bytes.Index(rest, []byte("endstream")); end >= 0 {
		rest = rest[:end]
	}
	return rest, true
}

// unpack applies the filters.
func (f *file) unpack(d dict, raw []byte) ([]byte, bool) {
	filters, is := f.follow(d["Filter"]).(array)
	if one := f.follow(d["Filter"]); !is && one != nil {
		filters = array{one}
	}
	if len(filters) > maxFilters {
		return nil, false
	}
	params := f.array(d["DecodeParms"])
	for i, filter := range filters {
		var param dict
		if i < len(params) {
			param = f.dict(params[i])
		} else if i == 0 {
			param = f.dict(d["DecodeParms"])
		}
		var from io.Reader
		kind, _ := f.follow(filter).(name)
		switch kind {
		case "FlateDecode", "Fl":
			z, err := zlib.NewReader(bytes.NewReader(raw))
			if err != nil {
				return nil, false
			}
			from = z
		case "LZWDecode", "LZW":
			from = lzw.NewReader(bytes.NewReader(raw), lzw.MSB, 8)
			if param["EarlyChange"] != 0.0 {
				return nil, false // the usual kind, but of the 1990s
			}
		case "ASCII85Decode", "A85":
			raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("<~"))
			if end := bytes.IndexByte(raw, '~'); end >= 0 {
				raw = raw[:end]
			}
			from = ascii85.NewDecoder(bytes.NewReader(raw))
		case "ASCIIHexDecode", "AHx":
			l := lexer{b: append([]byte("<"), raw...)}
			from = bytes.NewReader([]byte(l.hex()))
		default: // pictures
			return nil, false
		}
		out, _ := io.ReadAll(io.LimitReader(from, int64(f.room))) // damaged: what there is
		if f.room -= len(out); f.room <= 0 {
			return nil, false
		}
		if p := number64(f.follow(param["Predictor"])); p >= 10 {
			out = f.predict(out, param)
		}
		raw = out
	}
	return raw, true
}

// predict undoes the row filters of PNG.
func (f *file) predict(b []byte, param dict) []byte {
	get := func(key name, otherwise int) int {
		if n, is := f.follow(param[key]).(float64); is && n >= 1 && n <= 1<<16 {
			return int(n)
		}
		return otherwise
	}
	pixel := max(1, get("Colors", 1)*get("BitsPerComponent", 8)/8)
	width := (get("Columns", 1)*get("Colors", 1)*get("BitsPerComponent", 8) + 7) / 8
	var out []byte
	above := make([]byte, width)
	for len(b) > width {
		kind, row := b[0], b[1:width+1]
		b = b[width+1:]
		for i := range row {
			var left, corner byte
			if i >= pixel {
				left, corner = row[i-pixel], above[i-pixel]
			}
			switch kind {
			case 1:
				row[i] += left
			case 2:
				row[i] += above[i]
			case 3:
				row[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				row[i] += paeth(int(left), int(above[i]), int(corner))
			}
		}
		above = row
		out = append(out, row...)
	}
	return out
}

func paeth(a, b, c int) byte {
	abs := func(n int) int { return max(n, -n) }
	p := a + b - c
	switch pa, pb, pc := abs(p-a), abs(p-b), abs(p-c); {
	case pa <= pb && pa <= pc:
		return byte(a)
	case pb <= pc:
		return byte(b)
	}
	return byte(c)
}
