package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDotEnv(t *testing.T) {
	for _, c := range []struct{ in, want, problems string }{
		{"A=1\nB=2\n", "A=1@1 B=2@2", ""},
		{"A=1\r\nB=2\r\n", "A=1@1 B=2@2", ""},
		{"\uFEFFA=1", "A=1@1", ""},
		{"\n# c\n  # c\nA=1 # c\nB=a#b\nC=#c", "A=1@4 B=a#b@5 C=@6", ""},
		{"export A=1\nexport\tB = 2 \nexport=3\nexported=4", "A=1@1 B=2@2 export=3@3 exported=4@4", ""},
		{"A=\nB= \nC=''", "A=@1 B=@2 C=@3", ""},
		{"A=a=b", "A=a=b@1", ""},
		{`A='a\n"b" \'q\' \\'`, `A=a\n"b"_'q'_\@1`, ""},
		{`A="a\n\"b\" 'c' \\ \$X \q"  # c`, `A=a⏎"b"_'c'_\_$X_\q@1`, ""},
		{"A=\"one\ntwo\n\"\nB=2", "A=one⏎two⏎@1 B=2@4", ""},
		{"A='one\r\ntwo'\nB=2", "A=one⏎two@1 B=2@3", ""},
		{"A=\"a\\\nb\"\nB=2", "A=a\\⏎b@1 B=2@3", ""},
		{"A=1\nB=2\nA=3", "A=3@3 B=2@2", ""},
		{"A=$(touch x) `touch x` $HOME", "A=$(touch_x)_`touch_x`_$HOME@1", ""},
		{"A=${HOME}\nB='${HOME}'", "A=${HOME}@1 B=${HOME}@2", "1: ${…} is taken as it stands, not expanded"},
		{"sk-secret\nA=1", "A=1@2", "1: not an assignment; ignored"},
		{"1A=sk-secret\nA-B=sk-secret\n=sk-secret\nA=1", "A=1@4", "1: the name before = is no name of a variable; ignored|2: the name|3: the name"},
		{"A=\"sk-secret\nB=2", "B=2@2", "1: a quote is not closed; the line is ignored"},
		{"A='sk-secret' more\nB=2", "B=2@2", "1: something follows the closing quote; ignored"},
		{"A=sk-secret\x00\nB=\xff\nC=3", "C=3@3", "1: the value is not text|2: the value is not text"},
	} {
		t.Run(fmt.Sprintf("%.30q", c.in), func(t *testing.T) {
			vars, problems := parseDotEnv([]byte(c.in))
			var got []string
			for _, v := range vars {
				value := strings.NewReplacer(" ", "_", "\n", "⏎").Replace(v.Value)
				got = append(got, fmt.Sprintf("%s=%s@%d", v.Name, value, v.Line))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), c.want)
			}
			want := strings.Split(c.problems, "|")
			if c.problems == "" {
				want = nil
			}
			if len(problems) != len(want) {
				t.Fatalf("got the problems %v, want %q", problems, want)
			}
			for i, p := range problems {
				text := fmt.Sprintf("%d: %s", p.line, p.what)
				if !strings.HasPrefix(text, want[i]) || strings.Contains(text, "secret") {
					t.Errorf("got %q, want %q", text, want[i])
				}
			}
		})
	}
}

func TestLoadDotEnv(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	if vars, warnings, err := LoadDotEnv(path); vars != nil || warnings != nil || err != nil {
		t.Errorf("no file gave %v, %v, %v", vars, warnings, err)
	}
	if err := os.WriteFile(path, []byte("A=1\nsk-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars, warnings, err := LoadDotEnv(path)
	if err != nil || len(vars) != 1 || vars[0] != (Variable{"A", "1", path, 1}) {
		t.Errorf("got %+v, %v", vars, err)
	}
	if len(warnings) != 1 || warnings[0] != path+":2: not an assignment; ignored" {
		t.Errorf("got the warnings %q", warnings)
	}
	if runtime.GOOS != "windows" {
		for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o620: true} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			_, warnings, err = LoadDotEnv(path)
			if got := len(warnings) == 2 && strings.Contains(warnings[0], "can be read by others"); err != nil || got != want {
				t.Errorf("mode %04o: %q, %v", mode, warnings, err)
			}
		}
	}
	if _, _, err := LoadDotEnv(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory gave %v", err)
	}
}

func FuzzDotEnv(f *testing.F) {
	for _, seed := range []string{"A=1\nB='x\ny'", "export A=\"\\\n\\\"\" # c", "\uFEFF\r\nA", "=", "A='\\", "A=\"\n\n\nB=1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, problems := parseDotEnv(data)
		lines := strings.Count(string(data), "\n") + 1
		for _, v := range vars {
			if !identifier(v.Name) || strings.ContainsRune(v.Value, 0) || !utf8.ValidString(v.Value) || v.Line < 1 || v.Line > lines {
				t.Errorf("%q gave %+v", data, v)
			}
		}
		for _, p := range problems {
			if p.line < 1 || p.line > lines {
				t.Errorf("%q gave %+v", data, p)
			}
		}
	})
}
