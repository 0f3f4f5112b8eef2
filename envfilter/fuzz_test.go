package envfilter

import (
	"slices"
	"strings"
	"testing"
)

func FuzzFilter(f *testing.F) {
	f.Add("PATH=/bin\nHOME=/h\nOPENAI_API_KEY=sk-1", "OPENAI_API_KEY,MY_*", "X", false)
	f.Add("http_proxy=http://a:b@c:1\nA=() { :; }\n=x\njunk", "A,http_proxy", "", true)
	f.Add("LD_LIBRARY_PATH=/c\nGIT_DIR=/g\nHERMES_HOME=/h\nhermes_x=1\nTZ=UTC", "LD_*,LD_LIBRARY_PATH,GIT_DIR", "TZ", true)
	f.Add("PATH=:.:/a\x00b\nDATABASE_URL=x\nA\xff=1", "DATABASE_URL", "", false)
	f.Fuzz(func(t *testing.T, environ, passthrough, declared string, wide bool) {
		entries := strings.Split(environ, "\n")
		opt := Options{Passthrough: strings.Split(passthrough, ","), Declared: strings.Split(declared, ","), Wide: wide}
		ds := Filter(entries, opt)
		for i, d := range ds {
			if i > 0 && ds[i-1].Name >= d.Name {
				t.Fatalf("%q is not before %q", ds[i-1].Name, d.Name)
			}
			if !d.Pass && (d.Value != "" || d.Changed) {
				t.Fatalf("a dropped variable shows its value: %+v", d)
			}
			if d.Rule == "" || d.Reason == "" || d.Pass && d.Name == "" {
				t.Fatalf("no answer: %+v", d)
			}
			if d.Pass && !d.Changed && !slices.Contains(entries, d.Name+"="+d.Value) {
				t.Fatalf("%+v was not in the environment", d)
			}
			upper := strings.ToUpper(d.Name)
			for _, c := range credentials {
				if d.Pass && slices.Contains(strings.Fields(c.names), upper) {
					t.Fatalf("a provider's name passes: %+v", d)
				}
			}
			for _, n := range opt.Declared {
				if d.Pass && n == d.Name {
					t.Fatalf("a declared name passes: %+v", d)
				}
			}
			if d.Pass && !slices.Contains(opt.Passthrough, d.Name) && isProxy(d.Name) && strings.Contains(d.Value, "@") {
				t.Fatalf("a proxy with a user passes: %+v", d)
			}
		}
		env := Environ(ds)
		if again := Environ(Filter(env, opt)); !slices.Equal(env, again) {
			t.Fatalf("not idempotent: %q, then %q", env, again)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	var env []string
	for _, name := range allowedNames() {
		env = append(env, name+"=/some/value")
	}
	for b.Loop() {
		Filter(env, Options{})
	}
}
