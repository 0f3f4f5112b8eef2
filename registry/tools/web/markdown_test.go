package web

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func render(t testing.TB, source string) (title, text string) {
	t.Helper()
	base, _ := url.Parse("https://example.com/dir/page?q=1")
	title, text, err := markdown(t.Context(), source, base)
	if err != nil {
		t.Fatal(err)
	}
	return title, text
}

func TestMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"paragraphs":   {"<p>One\n  two<p>Three<br>four</p>five", "One two\n\nThree\nfour\n\nfive"},
		"headings":     {"<h1>A <b>b</b></h1><h2><a href='#x'>C</a><a href='#x'>¶</a></h2><h6>D</h6>", "# A b\n\n## C\n\n###### D"},
		"inline":       {"<p>a <b> bold </b>b <em>it</em> <code>x*y</code> <code>a`b</code> <del>no</del> <strong></strong>end", "a **bold** b *it* `x*y` `` a`b `` ~~no~~ end"},
		"entities":     {"<p>&lt;a&gt; &amp; &eacute;&nbsp;&#128512;", "<a> & é\u00a0😀"},
		"links":        {"<p><a href='/x y?(z)'>text [1]</a> <a href='other'>o</a> <a href='#f'>f</a> <a href='javascript:x'>j</a> <a href='mailto:a@b.c'>m</a> <a href='//h.example/'>h</a> <a href='/'></a>", "[text \\[1\\]](https://example.com/x%20y?%28z%29) [o](https://example.com/dir/other) f j [m](mailto:a@b.c) [h](https://h.example/)"},
		"base":         {"<base href='https://other.example/sub/'><p><a href='x'>x</a>", "[x](https://other.example/sub/x)"},
		"images":       {"<p><img src='a.png' alt='A [pic]'> <img src='b.png'> <img alt='inline' src='data:image/png;base64,iVBORw0KGgo='> <a href='/l'><img alt='in' src='/i.png'></a>", "![A (pic)](https://example.com/dir/a.png) ![inline][BASE64_IMAGE_REMOVED] [![in](https://example.com/i.png)](https://example.com/l)"},
		"lists":        {"<ul><li>a<li>b<ul><li>c</ul><li><p>d</p><p>e</p></ul><ol start=9><li>x<li>y<br>z</ol>", "- a\n- b\n  - c\n- d\n\n  e\n\n9. x\n10. y\n    z"},
		"empty item":   {"<ul><li></li><li><div></div>a</ul>", "- a"},
		"quotation":    {"<blockquote><p>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"},
		"code":         {"<pre><code class='language-go'>func main() {\n\tx := a[\"b\"] &lt;- 1\n}\n</code></pre>", "```go\nfunc main() {\n\tx := a[\"b\"] <- 1\n}\n```"},
		"code, marked": {"<pre class='lang-py'>\n<span class=k>def</span> <b>f</b>():\n    pass</pre>", "```py\ndef f():\n    pass\n```"},
		"code, fenced": {"<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"},
		"definitions":  {"<dl><dt>Term<dd>What<dd>Else</dl>", "Term\n\n: What\n: Else"},
		"rule":         {"a<hr>b", "a\n\n---\n\nb"},
		"table":        {"<table><caption>Cap</caption><thead><tr><th>A<th>B|C</thead><tr><td>1<td><a href=/x>2</a><tr><td>3<br>x</table>", "Cap\n\n| A | B\\|C |\n| --- | --- |\n| 1 | [2](https://example.com/x) |\n| 3 x |  |"},
		"spans":        {"<table><tr><td rowspan=2>a<td colspan=2>b<td>c<tr><td>d<td>e<td>f<tr><td>1<td>2<td>3<td>4</table>", "| a | b |  | c |\n| --- | --- | --- | --- |\n|  | d | e | f |\n| 1 | 2 | 3 | 4 |"},
		"table, list":  {"<ul><li>x<table><tr><td>1<td>2</table></ul>", "- x\n\n  | 1 | 2 |\n  | --- | --- |"},
		"layout":       {"<table><tr><td><h1>H</h1><table><tr><td>a<td>b<tr><td>c<td>d</table></td><td><p>x</td></tr></table>", "# H\n\n| a | b |\n| --- | --- |\n| c | d |\n\nx"},
		"one column":   {"<table><tr><td>a<tr><td>b</table>", "a\n\nb"},
		"left out":     {"<head><style>p{}</style><title>T</title></head><script>var x='<p>no'</script><nav>menu</nav><p>a<svg><text>s</text></svg><noscript>n</noscript><button>b</button><p hidden>h<p style='display: none'>n<div class='a sidebar'>s</div><p>end", "a\n\nend"},
		"unclosed":     {"<div><p>a<b>b<i>c</div>d", "a**b*c***\n\n***d***"},
		"stray ends":   {"</div></p></table><p>a</b></li></td>b", "ab"},
		"no markup":    {"just text", "just text"},
		"cut off":      {"<p>text <a href='/x", "text"},
		"nothing":      {"", ""},
		"comment":      {"a<!-- no -->b<![CDATA[c]]><?php d ?>", "ab"},
		"link, blocks": {"<a href=/x><h3>Head</h3><p>text</p></a>", "### [Head](https://example.com/x)\n\n[text](https://example.com/x)"},
	} {
		if _, got := render(t, c.in); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestTitle(t *testing.T) {
	for in, want := range map[string]string{
		"<title> A &amp;\n B </title><h1>no</h1>":           "A & B",
		"<meta property='og:title' content='O'><h1>no</h1>": "O",
		"<p>x<h1>The <i>head</i></h1>":                      "The *head*",
		"<svg><title>no</title></svg><title>yes</title>":    "yes",
		"<title>" + strings.Repeat("ä", 2000) + "</title>":  strings.Repeat("ä", 500) + "…",
		"<p>nothing": "",
		"<title><script>alert(1)</script></title>":                              "<script>alert(1)</script>",
		"<title>first</title><title>second</title>":                             "first",
		"<title>data:image/png;base64,AAAA</title>":                             "data:image/png;base64,AAAA",
		"<meta name='og:title' content=''><title>after an empty one</title>":    "after an empty one",
		"<title></title><meta property='og:title' content='after nothing'><p>x": "after nothing",
	} {
		if got, _ := render(t, in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestMainContent(t *testing.T) {
	long := func(word string) string { return "<p>" + strings.Repeat(word+" ", 120) + "</p>" }
	links := strings.Repeat("<li><a href='/x'>linklinklink linklink</a></li>", 60)
	has := func(text, word string) bool { return strings.Contains(text, word) }
	for name, in := range map[string]string{
		"main":      "<div>junk junk</div><main>" + long("good") + "</main><div>junk</div>",
		"article":   "<div>junk</div><div><article><h1>good</h1>" + long("good") + "</article></div><ul>" + links + "</ul>",
		"densest":   "<div class=x>junk</div><div><div><ul>" + links + "</ul></div><div class=y>" + long("good") + long("good") + "</div></div>",
		"table":     "<table><tr><td><ul>" + links + "</ul></td><td>" + long("good") + long("good") + "</td></tr></table>",
		"footer":    "<header>junk</header>" + long("good") + "<footer>junk</footer>",
		"role":      "<div role=navigation>junk</div><div id=Sidebar>junk</div>" + long("good"),
		"unclosed":  "<div>junk<div><div>" + long("good") + long("good") + long("good"),
		"two parts": "<div>" + long("good") + "</div><div>" + long("other") + "</div>",
	} {
		_, text := render(t, in)
		if !has(text, "good good") || has(text, "junk") && name != "unclosed" || has(text, "linklink") {
			t.Errorf("%s: %.300q … (%d bytes)", name, text, len(text))
		}
		if name == "two parts" && !has(text, "other") {
			t.Errorf("half of the page is gone: %.100q", text)
		}
	}
	// What looks like boilerplate may be all there is.
	for _, in := range []string{"<nav>" + long("good") + "</nav>", "<header><p>x</header><aside>" + long("good"), "<body style='display:none'><div hidden>" + long("good")} {
		if _, text := render(t, in); !has(text, "good good") {
			t.Errorf("%.60s: got %q", in, text)
		}
	}
}

// A tree of these would be hundreds of times their size, and the usual
// converters take minutes for some.
func TestHostileHTML(t *testing.T) {
	times := func(s string) string { return strings.Repeat(s, (1<<20)/len(s)) }
	for name, in := range map[string]string{
		"formatting": func() string {
			var b strings.Builder
			for i := range 400 {
				b.WriteString("<b a=" + strings.Repeat("x", i) + ">")
			}
			return b.String()
		}() + times("<p>x"),
		"tables":      times("<table><tr><td>a<td>b"),
		"spans":       "<table>" + times("<tr><td colspan=100000 rowspan=100000>x"),
		"cells":       "<table><tr>" + times("<td>a"),
		"depth":       times("<div>") + "x",
		"lists":       times("<ul><li>x"),
		"quotations":  times("<blockquote>x<br>"),
		"links":       "<a href='" + strings.Repeat("y", 1900) + "'>" + times("<p>x"),
		"attributes":  "<div " + times("a=b ") + ">x",
		"breaks":      times("x<br>"),
		"regions":     times("<main>x</main>"),
		"stray ends":  strings.Repeat("<div>", 300) + times("</x>"),
		"fences":      "<pre>" + times("`"),
		"open":        times("<"),
		"images":      times("<img alt=a src=data:image/png;base64,>"),
		"data":        times("data:image/"),
		"data, parts": "data:image/png" + times(";a=b"),
	} {
		start := time.Now()
		_, text := render(t, in)
		text = dropImages(text)
		if took := time.Since(start); took > time.Minute || len(text) > maxText+(1<<20) || !utf8.ValidString(text) {
			t.Errorf("%s: %v, %d bytes", name, took, len(text))
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, _, err := markdown(ctx, times("<p>x"), &url.URL{}); !errors.Is(err, why) {
		t.Errorf("after cancelling: %v", err)
	}
}

func TestDropImages(t *testing.T) {
	const gone = "[BASE64_IMAGE_REMOVED]"
	for in, want := range map[string]string{
		"a ![x](data:image/png;base64,iVBOR/+==) b":            "a ![x]" + gone + " b",
		"src=\"data:image/jpeg;base64,AAAA\" x":                "src=\"" + gone + "\" x",
		"DATA:IMAGE/PNG;BASE64,AAAA":                           gone,
		"data:image/svg+xml;charset=utf-8;base64,AAAA":         gone,
		"(data:image/png;base64,AA AA)":                        "(" + gone + " AA)",
		"data:image/png,plain data:image/gif;base64,R0lG done": "data:image/png,plain " + gone + " done",
		"data:image/":                        "data:image/",
		"data:image/png;base64":              "data:image/png;base64",
		"database: data, dad":                "database: data, dad",
		strings.Repeat("d", 10) + "ata:imag": strings.Repeat("d", 10) + "ata:imag",
	} {
		if got := dropImages(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"<table><tr><td>a<td>b</table>", "<ul><li><b>x</ul>", "<pre>```<a href=x>y", "<a><table><td><a></table>", "<dl><dd><blockquote><h1>x<br><img alt=a src=b>", "<td><tr></table><ol start=5><li>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		in = strings.ToValidUTF8(in, "\uFFFD") // as decode leaves it
		title, text := render(t, in)
		if !utf8.ValidString(title) || !utf8.ValidString(text) {
			t.Fatalf("%q became %q, %q", in, title, text)
		}
		if len(text) > 200*len(in)+1000 {
			t.Fatalf("%d bytes became %d", len(in), len(text))
		}
	})
}
