package pdftext

import (
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

const (
	maxMapped = 1 << 17 // characters one font can map
	fontWork  = 4096
)

// font says what the codes of a string mean and how wide they are.
type font struct {
	wide   bool              // codes of two bytes
	toText map[uint32]string // by code and length; see mapped
	simple [256]string       // of one-byte codes that toText leaves open
	utf16  bool              // two-byte codes are UTF-16
	widths map[uint32]float64
	width  float64 // of other codes, in thousandths
}

func (f *file) font(o object) *font {
	if r, is := o.(ref); is {
		if known := f.fonts[r]; known != nil {
			return known
		}
		made := f.makeFont(f.dict(o))
		f.fonts[r] = made
		return made
	}
	return f.makeFont(f.dict(o))
}

func (f *file) makeFont(d dict) *font {
	ft := &font{toText: map[uint32]string{}, widths: map[uint32]float64{}, width: 500}
	if base, _ := f.follow(d["BaseFont"]).(name); strings.Contains(string(base), "Courier") {
		ft.width = 600
	}
	if f.work <= 0 {
		return ft
	}
	if _, data, ok := f.stream(d["ToUnicode"]); ok {
		ft.readMap(data, &f.work)
	}
	if d["Subtype"] == name("Type0") {
		ft.wide = true
		encoding, _ := f.follow(d["Encoding"]).(name)
		ft.utf16 = strings.Contains(string(encoding), "UCS2") || strings.Contains(string(encoding), "UTF16")
		ft.readWide(f, d)
		return ft
	}
	first := number64(f.follow(d["FirstChar"]))
	widths := f.array(d["Widths"])
	f.work -= fontWork + objectWork*len(widths)
	for i, w := range widths {
		if code := first + float64(i); code >= 0 && code < 256 {
			ft.widths[uint32(code)] = number64(f.follow(w))
		}
	}
	if d["Subtype"] == name("Type3") { // in units of its own
		matrix := f.array(d["FontMatrix"])
		if len(matrix) == 6 {
			for code := range ft.widths {
				ft.widths[code] *= 1000 * number64(f.follow(matrix[0]))
			}
		}
	}
	ft.readEncoding(f, f.follow(d["Encoding"]))
	return ft
}

// readEncoding fills in what one-byte codes mean.
func (ft *font) readEncoding(f *file, o object) {
	base, _ := o.(name)
	d, _ := o.(dict)
	if d != nil {
		base, _ = f.follow(d["BaseEncoding"]).(name)
	}
	table := charmap.Windows1252
	if base == "MacRomanEncoding" {
		table = charmap.Macintosh
	}
	for i := 32; i < 256; i++ {
		if r := table.DecodeByte(byte(i)); r != '\uFFFD' {
			ft.simple[i] = string(r)
		}
	}
	if base == "" { // the standard one, where it differs in what is used
		for code, s := range map[int]string{0x27: "’", 0x60: "‘", 0xae: "fi", 0xaf: "fl", 0xb1: "–", 0xd0: "—", 0xb7: "•", 0xaa: "“", 0xba: "”"} {
			ft.simple[code] = s
		}
	}
	code := 0
	differences := f.array(d["Differences"])
	f.work -= objectWork * len(differences)
	for _, o := range differences {
		switch o := f.follow(o).(type) {
		case float64:
			code = int(o)
		case name:
			if code >= 0 && code < 256 {
				ft.simple[code] = glyph(string(o))
			}
			code++
		}
	}
}

// readWide reads the widths of a composite font.
func (ft *font) readWide(f *file, d dict) {
	descendants := f.array(d["DescendantFonts"])
	if len(descendants) == 0 {
		return
	}
	inner := f.dict(descendants[0])
	ft.width = 1000
	if w, is := f.follow(inner["DW"]).(float64); is {
		ft.width = w
	}
	list := f.array(inner["W"])
	f.work -= fontWork + objectWork*len(list)
	for i := 0; i+1 < len(list) && len(ft.widths) < maxMapped && f.work > 0; {
		first := number64(f.follow(list[i]))
		if ws, is := f.follow(list[i+1]).(array); is {
			f.work -= objectWork * len(ws)
			for j, w := range ws[:min(len(ws), maxMapped)] {
				ft.widths[uint32(first)+uint32(j)] = number64(f.follow(w))
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			return
		}
		last, w := number64(f.follow(list[i+1])), number64(f.follow(list[i+2]))
		for code := first; code <= min(last, 65535) && code >= 0 && f.work > 0; code++ {
			f.work -= objectWork
			ft.widths[uint32(code)] = w
		}
		i += 3
	}
}

// mapped is the key of a code: codes of one and of two bytes differ.
func mapped(code uint32, bytes int) uint32 { return code | uint32(bytes)<<24 }

func codeOf(t text) (code uint32, ok bool) {
	if len(t) == 0 || len(t) > 3 {
		return 0, false
	}
	for i := range len(t) {
		code = code<<8 | uint32(t[i])
	}
	return code, true
}

// readMap reads a ToUnicode program: its ranges and single characters.
func (ft *font) readMap(data []byte, work *int) {
	l := lexer{b: data, operators: true}
	var stack []object
	set := func(code uint32, n int, s string) {
		if *work -= objectWork; len(ft.toText) < maxMapped && len(s) <= 64 {
			ft.toText[mapped(code, n)] = s
		}
	}
	for *work > 0 {
		o, ok := l.next(0)
		if !ok {
			return
		}
		w, is := o.(word)
		if !is {
			if len(stack) < 4096 {
				stack = append(stack, o)
			}
			continue
		}
		switch w {
		case "endbfchar":
			for i := 0; i+1 < len(stack); i += 2 {
				from, _ := stack[i].(text)
				to, isText := stack[i+1].(text)
				if code, ok := codeOf(from); ok && isText {
					set(code, len(from), utf16Text(to))
				}
			}
		case "endbfrange":
			for i := 0; i+2 < len(stack); i += 3 {
				from, _ := stack[i].(text)
				last, _ := stack[i+1].(text)
				lo, ok1 := codeOf(from)
				hi, ok2 := codeOf(last)
				if !ok1 || !ok2 || hi < lo || hi-lo > 65535 {
					continue
				}
				switch to := stack[i+2].(type) {
				case array:
					*work -= objectWork * len(to)
					for j, o := range to {
						if s, is := o.(text); is && lo+uint32(j) <= hi {
							set(lo+uint32(j), len(from), utf16Text(s))
						}
					}
				case text:
					b := []byte(to)
					for code := lo; code <= hi && len(b) > 1 && *work > 0; code++ {
						set(code, len(from), utf16Text(text(b)))
						if b[len(b)-1]++; b[len(b)-1] == 0 {
							b[len(b)-2]++
						}
					}
				}
			}
		}
		stack = stack[:0]
	}
}

// utf16Text is big-endian UTF-16 as text.
func utf16Text(t text) string {
	units := make([]uint16, 0, len(t)/2)
	for i := 0; i+1 < len(t); i += 2 {
		units = append(units, uint16(t[i])<<8|uint16(t[i+1]))
	}
	if len(t) == 1 {
		units = append(units, uint16(t[0]))
	}
	return string(utf16.Decode(units))
}

// each calls show for every character of a string.
func (ft *font) each(t text, show func(s string, width float64, space bool)) {
	step := 1
	if ft.wide {
		step = 2
	}
	for i := 0; i+step <= len(t); i += step {
		code, _ := codeOf(t[i : i+step])
		s, known := ft.toText[mapped(code, step)]
		switch {
		case known:
		case step == 1:
			s = ft.simple[code]
		case ft.utf16:
			s = utf16Text(t[i : i+2])
		}
		w, known := ft.widths[code]
		if !known {
			w = ft.width
		}
		show(s, w, step == 1 && code == ' ')
	}
}

// glyph is the text of a glyph's name.
func glyph(s string) string {
	s, _, _ = strings.Cut(s, ".") // a variant, such as a.sc
	if len(s) == 1 {
		return s
	}
	if at := strings.Index(glyphs, " "+s+"="); at >= 0 && s != "" && strings.IndexByte(s, '=') < 0 {
		rest := glyphs[at+len(s)+2:]
		return rest[:strings.IndexByte(rest, ' ')]
	}
	if s == "space" || s == "nbspace" {
		return " "
	}
	for _, prefix := range []string{"uni", "u"} {
		if hex, ok := strings.CutPrefix(s, prefix); ok && len(hex) >= 4 && len(hex) <= 6 {
			if n, err := strconv.ParseUint(hex, 16, 21); err == nil {
				return string(rune(n))
			}
		}
	}
	return ""
}

// glyphs are the names that fonts of western languages use.
const glyphs = ` exclam=! quotedbl=" numbersign=# dollar=$ percent=% ampersand=& quotesingle=' quoteright=’ parenleft=( parenright=) asterisk=*
 plus=+ comma=, hyphen=- minus=− period=. slash=/ zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 colon=: semicolon=;
 less=< equal== greater=> question=? at=@ bracketleft=[ backslash=\ bracketright=] asciicircum=^ underscore=_ grave=` + "`" + ` quoteleft=‘
 braceleft={ bar=| braceright=} asciitilde=~ exclamdown=¡ cent=¢ sterling=£ currency=¤ yen=¥ brokenbar=¦ section=§ dieresis=¨ copyright=©
 ordfeminine=ª guillemotleft=« logicalnot=¬ registered=® macron=¯ degree=° plusminus=± twosuperior=² threesuperior=³ acute=´ mu=µ
 paragraph=¶ periodcentered=· cedilla=¸ onesuperior=¹ ordmasculine=º guillemotright=» onequarter=¼ onehalf=½ threequarters=¾
 questiondown=¿ Agrave=À Aacute=Á Acircumflex=Â Atilde=Ã Adieresis=Ä Aring=Å AE=Æ Ccedilla=Ç Egrave=È Eacute=É Ecircumflex=Ê
 Edieresis=Ë Igrave=Ì Iacute=Í Icircumflex=Î Idieresis=Ï Eth=Ð Ntilde=Ñ Ograve=Ò Oacute=Ó Ocircumflex=Ô Otilde=Õ Odieresis=Ö
 multiply=× Oslash=Ø Ugrave=Ù Uacute=Ú Ucircumflex=Û Udieresis=Ü Yacute=Ý Thorn=Þ germandbls=ß agrave=à aacute=á acircumflex=â
 atilde=ã adieresis=ä aring=å ae=æ ccedilla=ç egrave=è eacute=é ecircumflex=ê edieresis=ë igrave=ì iacute=í icircumflex=î
 idieresis=ï eth=ð ntilde=ñ ograve=ò oacute=ó ocircumflex=ô otilde=õ odieresis=ö divide=÷ oslash=ø ugrave=ù uacute=ú
 ucircumflex=û udieresis=ü yacute=ý thorn=þ ydieresis=ÿ OE=Œ oe=œ Scaron=Š scaron=š Zcaron=Ž zcaron=ž Ydieresis=Ÿ florin=ƒ
 circumflex=ˆ tilde=˜ endash=– emdash=— quotesinglbase=‚ quotedblleft=“ quotedblright=” quotedblbase=„ dagger=† daggerdbl=‡ bullet=•
 ellipsis=… perthousand=‰ guilsinglleft=‹ guilsinglright=› fraction=⁄ Euro=€ trademark=™ fi=fi fl=fl ff=ff ffi=ffi ffl=ffl dotlessi=ı
 Lslash=Ł lslash=ł caron=ˇ breve=˘ dotaccent=˙ ring=˚ ogonek=˛ hungarumlaut=˝ alpha=α beta=β gamma=γ delta=δ epsilon=ε epsilon1=ϵ zeta=ζ eta=η
 theta=θ iota=ι kappa=κ lambda=λ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=φ phi1=ϕ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ
 Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω partialdiff=∂ summation=∑ product=∏ radical=√ infinity=∞ integral=∫ approxequal=≈
 notequal=≠ lessequal=≤ greaterequal=≥ element=∈ arrowright=→ arrowleft=← sfthyphen=- dotmath=⋅ asteriskmath=∗ braceleftbig={ bracerightbig=} 
`
