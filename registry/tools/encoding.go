package tools

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/saintfish/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// sniffSize is how much of a file decides what it is.
const sniffSize = 64 << 10

// bom is the byte order mark of UTF-8.
const bom = "\xef\xbb\xbf"

// textForm is how a file's bytes become text.
type textForm struct {
	name   string // as told to the caller; "" for plain UTF-8
	bom    bool   // UTF-8 with a byte order mark
	codec  encoding.Encoding
	binary bool
}

// sniff judges a file by its first bytes. A file that looks like UTF-8 so far
// may turn out not to be: then legacy judges again.
func sniff(head []byte) textForm {
	switch {
	case bytes.HasPrefix(head, []byte(bom)):
		return textForm{name: "utf-8-sig", bom: true}
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}):
		return textForm{name: "utf-32-le", codec: utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)}
	case bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}):
		return textForm{name: "utf-32-be", codec: utf32.UTF32(utf32.BigEndian, utf32.UseBOM)}
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return textForm{name: "utf-16-le", codec: unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)}
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return textForm{name: "utf-16-be", codec: unicode.UTF16(unicode.BigEndian, unicode.UseBOM)}
	}
	if even, odd := zeros(head); even+odd > 0 && len(head) < 8 {
		return textForm{binary: true}
	} else if even+odd > 0 {
		// Western text in UTF-16 has a zero in every second byte, nowhere else.
		switch half := len(head) / 2; {
		case even == 0 && odd > half*7/10:
			return textForm{name: "utf-16-le", codec: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)}
		case odd == 0 && even > half*7/10:
			return textForm{name: "utf-16-be", codec: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)}
		}
		return textForm{binary: true}
	}
	if mostlyControl(head) {
		return textForm{binary: true}
	}
	if !validSoFar(head) {
		return legacy(head)
	}
	return textForm{}
}

// legacy guesses an encoding from before UTF-8. A weak guess is none: then the
// bytes that are not text are shown as U+FFFD.
func legacy(sample []byte) textForm {
	best, err := chardet.NewTextDetector().DetectBest(sample)
	if err != nil {
		best = &chardet.Result{}
	}
	charset := strings.Replace(best.Charset, "GB-18030", "gb18030", 1)
	latin := strings.Contains(" ISO-8859-1 ISO-8859-2 ISO-8859-9 windows-1250 windows-1252 windows-1254 ", " "+charset+" ")
	switch accented := mostlyAccents(sample); {
	case accented && !(latin && best.Confidence >= 30):
		charset = "windows-1252" // letters here and there among ASCII: the detector sees KOI8 in an "é"
	case !accented && best.Confidence < 20:
		charset = ""
	}
	if codec, err := htmlindex.Get(charset); err == nil {
		if name, err := htmlindex.Name(codec); err == nil && name != "utf-8" {
			return textForm{name: name, codec: codec}
		}
	}
	return textForm{name: "unknown-8bit", codec: encoding.Nop}
}

// mostlyAccents reports a text whose letters are ASCII but for one here and
// there, as in the languages of western Europe.
func mostlyAccents(b []byte) bool {
	high, alone := 0, 0
	for i, c := range b {
		switch {
		case c < 0x80:
			continue
		case c < 0xa0 && strings.IndexByte("\x81\x8d\x8f\x90\x9d", c) >= 0: // nothing in windows-1252
			return false
		}
		high++
		if (i == 0 || b[i-1] < 0x80) && (i == len(b)-1 || b[i+1] < 0x80) {
			alone++
		}
	}
	return alone*4 >= high*3
}

// reader gives r's text as UTF-8.
func (f textForm) reader(r io.Reader) io.Reader {
	switch {
	case f.bom:
		return &skipReader{r: r, skip: len(bom)}
	case f.codec == nil || f.codec == encoding.Nop:
		return r
	}
	return f.codec.NewDecoder().Reader(r)
}

// skipReader drops the first bytes of r.
type skipReader struct {
	r    io.Reader
	skip int
}

func (s *skipReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	drop := min(s.skip, n)
	s.skip -= drop
	copy(p, p[drop:n])
	return n - drop, err
}

func zeros(b []byte) (even, odd int) {
	if bytes.IndexByte(b, 0) < 0 {
		return 0, 0
	}
	for i, c := range b {
		if c == 0 {
			if i%2 == 0 {
				even++
			} else {
				odd++
			}
		}
	}
	return even, odd
}

// mostlyControl reports bytes that no text has: more than 30 in 100 of the
// first 1,000.
func mostlyControl(head []byte) bool {
	head = head[:min(len(head), 1000)]
	n := 0
	for _, c := range head {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' && c != 0x1b || c == 0x7f {
			n++
		}
	}
	return n*10 > len(head)*3
}

// validSoFar is utf8.Valid of a text that may end within a rune.
func validSoFar(b []byte) bool {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if at := len(b) - 1 - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				b = b[:at]
			}
			break
		}
	}
	return utf8.Valid(b)
}

// Extensions of files that are never text, and of those that are pictures. A
// name that says little (.dat, .bin, .db) is judged by the content.
const (
	imageExts  = " .png .jpg .jpeg .gif .bmp .webp .ico .tiff .tif .heic .heif .avif .psd "
	binaryExts = " .mp3 .mp4 .m4a .m4v .avi .mov .mkv .webm .wav .flac .ogg .aac .wma .wmv .flv" +
		" .zip .tar .gz .tgz .bz2 .xz .zst .7z .rar .jar .war .whl .egg .deb .rpm .dmg .iso .apk .cab" +
		" .exe .dll .so .dylib .o .a .lib .obj .class .pyc .pyo .pyd .wasm .elf .msi" +
		" .doc .xls .ppt .pptx .odt .ods .odp .epub .mobi" +
		" .ttf .otf .woff .woff2 .eot .sqlite .sqlite3 .mdb .parquet .npy .npz .pkl .pickle .onnx .safetensors "
)

func hasExt(list, ext string) bool {
	return len(ext) > 1 && strings.Contains(list, " "+strings.ToLower(ext)+" ")
}
