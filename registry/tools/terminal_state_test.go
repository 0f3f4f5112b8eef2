package tools

import (
	"maps"
	"strings"
	"testing"
)

func TestParseExports(t *testing.T) {
	const end = "END\n"
	for _, row := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"declare -x A=\"1\"\ndeclare -x B\n", map[string]string{"A": "1"}},
		{"declare -rx A=\"a\nb\\\"\\$\\`\\\\\"\n", map[string]string{"A": "a\nb\"$`\\"}},
		{"declare -x A=$'\\E[0m\\001\\377\\'\\n'\n", map[string]string{"A": "\x1b[0m\x01\xff'\n"}},
		{"declare -ax A=([0]=\"1\" [1]=$'\\n' [2]=')')\nexport B='2'\n", map[string]string{"B": "2"}},
		{"export -i A=\"7\"\nexport -a B=([0]=\"1\")\nexport C='it'\"'\"'s'\nexport D=''\nexport E\n", map[string]string{"A": "7", "C": "it's", "D": ""}},
		{"export A='END\n'\n", map[string]string{"A": "END\n"}},
	} {
		got, ok := parseExports(row.text+end, end)
		if !ok || !maps.Equal(got, row.want) {
			t.Errorf("%q: %q, %v", row.text, got, ok)
		}
	}
	for _, text := range []string{
		"export A='1", "export A=\"1", "export A=$'1", "export A=1;2\n", "export A=$(id)\n", "export A=\"$x\"\n", "export A=\"`id`\"\n", "export A=a b\n", "export 1A='x'\n", "export A B='x'\n",
		"export =x\n", "declare A=\"1\"\n", "declare -r A=\"1\"\n", "A=1\n", "rm -rf x\n", "export A=$'\\x41'\n", "export A=$'\\000'\n", "export A=$'\\9'\n", "export A=(1 2)\n", "\n", "export A='1'", "declare -x",
	} {
		if got, ok := parseExports(text+end, end); ok {
			t.Errorf("%q was believed: %q", text, got)
		}
	}
	if _, ok := parseExports("export A='1'\n", end); ok {
		t.Error("a report without an end was believed")
	}
}

func TestParseRecord(t *testing.T) {
	for _, row := range []struct {
		report     string
		ok         bool
		start, end string
		exports    bool
	}{
		{"", false, "", "", false},
		{"bash: warning\nM\n/a\nM\n/b\nM\nM\n", true, "/a", "/b", true},
		{"M\n/a\nM\n/b\nc\nM\nexport A='1'\nM\nbash: noise\n", true, "/a", "/b\nc", true},
		{"M\n/a\nM\n\nM\nM\n", true, "/a", "", true}, // the directory is gone
		{"M\n/a\n", false, "", "", false},            // killed
		{"M\n/a\nM\n/b\n", false, "", "", false},
		{"M\n/a\nM\n/b\nM\nexport A='1", true, "/a", "/b", false}, // killed, or too long
		{"M\n/a\nM\nrelative\nM\nM\n", true, "/a", "", true},
		{"M\n/a\nM\n/" + strings.Repeat("x", maxPath) + "\nM\nM\n", true, "/a", "", true},
		{"M\n/a\nM\n/b\x00\nM\nM\n", true, "/a", "", true},
	} {
		got, ok := parseRecord([]byte(row.report), "M")
		if ok != row.ok || got.start != row.start || got.end != row.end || (got.exports != nil) != row.exports {
			t.Errorf("%.60q: %+v, %v", row.report, got, ok)
		}
	}
}

func TestApplyKeepsOnlyWhatACommandChanged(t *testing.T) {
	var st shellState
	base := []string{"A=1", "B=2", "PWD=/x", "BASH_ENV=/evil", "SHLVL=3"}
	_, before := st.environ(modelEnv, base)
	_, late := st.environ(modelEnv, base)
	if note := st.apply(modelEnv, before, map[string]string{"A": "1", "B": "3", "C": "4", "PWD": "/y"}); note != "" {
		t.Error(note)
	}
	if note := st.apply(modelEnv, late, map[string]string{"B": "2"}); note != "" { // unsets A, knows nothing of B and C
		t.Error(note)
	}
	env, _ := st.environ(modelEnv, base)
	if got := strings.Join(env, " "); got != "PWD=/x SHLVL=3 B=3 C=4" {
		t.Errorf("model: %s", got)
	}
	if env, _ := st.environ(scriptEnv, base); strings.Join(env, " ") != "PWD=/x SHLVL=3 A=1 B=2" {
		t.Errorf("script: %s", env)
	}
	if note := st.apply(modelEnv, late, nil); !strings.Contains(note, "not kept") {
		t.Errorf("unreadable: %q", note)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("M\n/a\nM\n/b\nM\ndeclare -x A=\"1\\\"\"\nM\n"))
	f.Add([]byte("M\n/a\nM\n/b\nM\nexport A='x'\"'\"$'\\n'\nexport -a B=([0]=\"1\")\nM\n"))
	f.Fuzz(func(t *testing.T, report []byte) {
		r, _ := parseRecord(report, "M")
		for _, dir := range []string{r.start, r.end} {
			if dir != "" && (dir[0] != '/' || len(dir) > maxPath || strings.Contains(dir, "\x00")) {
				t.Errorf("directory %q", dir)
			}
		}
		for name := range r.exports {
			if !variableName(name) {
				t.Errorf("variable %q", name)
			}
		}
	})
}

// Whatever a value is, the two ways of quoting bring it back.
func FuzzShellValue(f *testing.F) {
	for _, value := range []string{"", "a b", "'\"\\$`\n", "\xff", "END\n"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.Contains(value, "\x00") {
			t.Skip()
		}
		single := "'" + strings.ReplaceAll(value, "'", `'"'"'`) + "'"
		double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
		for _, quoted := range []string{single, double} {
			got, ok := parseExports("export A="+quoted+"\nexport Z='1'\nEND\n", "END\n")
			if !ok || got["A"] != value || got["Z"] != "1" {
				t.Errorf("%q as %s came back as %q, %v", value, quoted, got["A"], ok)
			}
		}
	})
}
