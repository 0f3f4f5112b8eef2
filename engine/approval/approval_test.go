package approval

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Every rule is held to the examples it carries.
func TestRulesKeepTheirExamples(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range hardline {
		if seen[r.id] || r.id == "" || r.description == "" || len(r.hits) == 0 || len(r.misses) == 0 {
			t.Errorf("rule %q: id taken, or without description or examples", r.id)
		}
		seen[r.id] = true
		for _, cmd := range r.hits {
			if !hit(Command(cmd, Options{}), r.id) {
				t.Errorf("rule %s misses %q", r.id, cmd)
			}
		}
		for _, cmd := range r.misses {
			if got := Command(cmd, Options{}); Worst(got) == Forbid {
				t.Errorf("rule %s: %q is forbidden: %+v", r.id, cmd, got)
			}
		}
	}
}

func hit(matches []Match, rule string) bool {
	for _, m := range matches {
		if m.Rule == rule && m.Verdict == Forbid {
			return true
		}
	}
	return false
}

// What slipped past a list of patterns must not slip past a parser.
func TestForbidden(t *testing.T) {
	for _, cmd := range []string{
		// quoting
		`r''m -rf /`, `r\m -rf /`, `"r"m -rf /`, `$'rm' -rf /`, `$'\x72\155' -rf /`, `'rm' '-rf' '/'`, "rm \\\n-rf /", "r\\\nm -rf /",
		"rm${IFS}-rf${IFS}/", "rm$IFS-rf$IFS/", `rm -rf "/"`, `rm -rf '/'`, `rm -rf $'\057'`, "ｒｍ -rf ／", "{rm,-rf,/}", "r$@m -rf /", "RM -rf /",
		"$(echo rm) -rf /", "$(printf 'r%s' m) -rf $(echo /)", "`echo reboot`", `\reboot`, "rm -rf /!(tmp)",
		// flags
		"rm -f -r /", "rm -v -rf /", "rm -rf --no-preserve-root /", "rm /", "rm -rf x y /", "rm -rf / > /dev/null 2>&1",
		// names of directories
		"rm -rf //", "rm -rf /.", "rm -rf /;", "rm -rf /./", "rm -rf /etc/", "rm -rf /root/", "rm -rf /etc/.", "rm -rf /tmp/..", `rm -rf "$HOME"`, "rm -rf ${HOME}",
		`rm -rf "${HOME}/"`, "rm -rf ~/", "rm -rf ~/.", "rm -rf ${HOME:?}", "rm -rf ${HOME%/}/*", "rm -rf /opt", "rm -rf /lib64", "rm -rf /Users", "rm -rf /???", "rm -rf /etc/*",
		// places
		"/sbin/shutdown", "sudo -u root reboot", "(reboot)", "{ reboot; }", "if true; then reboot; fi", "x=1 reboot", "command reboot", "doas reboot",
		"systemctl --force reboot", "! reboot", "while :; do reboot; done", "for i in 1; do reboot; done", "case x in x) reboot;; esac", "true && reboot", "false || reboot",
		"reboot &", "echo `reboot`", "echo $(reboot)", `echo "$(reboot)"`, "diff <(reboot) x", "f() { reboot; }; f", "export X=$(reboot)", "x=$(reboot)",
		"[[ -n $(reboot) ]]", "echo ${x:-$(reboot)}", "cat <<E\n$(reboot)\nE", "time reboot", "time -p reboot", "coproc reboot", "ls | reboot", "echo a; # x\nreboot",
		// wrappers
		"sudo reboot", "sudo -u root -E FOO=1 reboot", "sudo -- reboot", "env -i A=b reboot", "env -u X reboot", "env -S 'rm -rf /'", "exec reboot", "exec -a x reboot",
		"nohup reboot", "setsid -f reboot", "nice -n 5 reboot", "nice -5 reboot", "ionice -c 3 reboot", "timeout -k 5 10 reboot", "timeout --signal=KILL 1 reboot", "stdbuf -oL reboot",
		"xargs reboot", "xargs -n 1 -I {} rm -rf /", "echo / | xargs rm -rf", "find . -exec rm -rf / \\;", "find . -name x -execdir reboot ';'", "find / -exec reboot {} +",
		"bash -c reboot", "bash -lc 'rm -rf /'", "sh -x -c 'reboot'", "bash -o pipefail -c reboot", "bash --norc -c reboot", "eval reboot", `eval "rm -rf" /`, "eval 'rm' '-rf' '/'",
		`bash -c "bash -c 'rm -rf /'"`, "sudo bash -c 'env X=1 reboot'", "bash <<E\nreboot\nE", "bash <<'E'\nrm -rf /\nE", "sh <<< reboot", "bash -s <<E\nreboot\nE", "echo reboot | sh",
		"printf 'rm -rf /' | bash", "echo reboot | sudo sh", "cat <<E | bash\nreboot\nE", "source /dev/stdin <<< reboot", "trap reboot EXIT", "su -c reboot", "su root -c 'rm -rf /'",
		"busybox reboot", "watch -n 1 reboot", "flock /tmp/l reboot", "flock /tmp/l -c reboot", "script -c reboot", "chroot /mnt rm -rf /", "sudo timeout 5 nice bash -c 'reboot'",
		// fork bombs
		":(){ :|:& };:", "f(){ f|f& };f", "bomb() { bomb & bomb & }; bomb", ": () ( : | : & ) ; :",
		// before a syntax error, and inside what the parser refuses
		"rm -rf /\n)", "reboot\nif", "rm -rf / ; ((", `ls ) ; r''m -rf "/"`,
		// NUL and control characters
		"r\x00m -rf /", "rm -rf /\x00",
	} {
		if Worst(Command(cmd, Options{})) != Forbid {
			t.Errorf("not forbidden: %q: %+v", cmd, Command(cmd, Options{}))
		}
	}
}

// What a list of patterns over the text refuses without a reason.
func TestNotForbidden(t *testing.T) {
	for _, cmd := range []string{
		"", "#", "man mkfs.ext4", "grep mkfs /etc/fstab", "git commit -m 'fix rm -rf / bug'", "kill -1 1234", "reboot.sh", "halt-build.sh", "echo reboot",
		"rm -rf /tmp/foo", "dd of=./b.img", "rm -rf /home/user/x", "echo 'rm -rf /'", `echo "rm -rf /"`, "printf 'rm -rf /\\n' > notes", "cat <<E > doc.md\nrm -rf /\nreboot\nE",
		"# rm -rf /", "ls # reboot", "grep -c reboot /var/log/syslog", "python3 -c 'print(\"rm -rf /\")'", "$X -rf /", `rm -rf "$X"`, "rm -rf $X/", "rm -rf ${X}/*",
		"rm -rf /$X", "rm -rf ~/x", "rm -rf -- -x", "rm -rf ./*", "rm -rf *", "git rm -r --cached .", "docker run x reboot", "ssh host reboot", "alias r=reboot",
		"make reboot", "echo a > reboot", "cat reboot", "./shutdown.sh", "x=reboot", "systemctl status", "rm -rf build/ dist/ *.egg-info", "rm -rf '$HOME'", `rm -rf "~"`,
		"walk() { for f in *; do walk $f & done; }", "f() { [ $1 -lt 1 ] && f | f; }", "f() { f; }; f", "find . -name reboot", "find . -exec grep reboot {} +", "xargs grep reboot",
		"f() { rm -rf \"/$1\"; }", "bash -c 'rm -rf \"/$1\"' _ x", "sudo apt install x", "command -v halt", "type shutdown", "sudo -l reboot", "env", "sudo", "nice", "exec 3>&1",
		"rm -rf /{tmp/a,tmp/b}", "rm -rf /tmp/{1..9}", "echo 'a & b' | tee f", "init", "telinit q", "kill -9 $(pgrep x)", "dd if=/dev/sda1 | gzip > x.gz",
		"while read l; do echo \"$l\"; done < reboot", "echo ${#x} ${x/rm -rf \\//}", "[[ reboot == halt ]]", "(( reboot = 1 ))",
	} {
		if got := Command(cmd, Options{}); Worst(got) == Forbid {
			t.Errorf("forbidden: %q: %+v", cmd, got)
		}
	}
}

func TestHomeIsProtectedByItsName(t *testing.T) {
	opt := Options{Home: "/srv/people/ann"}
	for _, cmd := range []string{"rm -rf /srv/people/ann", "rm -rf /srv/people/ann/", "rm -rf /srv/people/ann/*", "rm -rf ~", "rm -rf ~/../ann", "rm -rf ~/../../../etc"} {
		if Worst(Command(cmd, opt)) != Forbid {
			t.Errorf("not forbidden: %s", cmd)
		}
	}
	for _, cmd := range []string{"rm -rf /srv/people/ann/x", "rm -rf ~/../bob", "rm -rf /srv/people/anna"} {
		if Worst(Command(cmd, opt)) == Forbid {
			t.Errorf("forbidden: %s", cmd)
		}
	}
}

func TestSudoStdin(t *testing.T) {
	const cmd = "echo pw | sudo -S id"
	if got := Refusal(Command(cmd, Options{})); !strings.HasPrefix(got, "BLOCKED: sudo password guessing") {
		t.Errorf("refusal: %q", got)
	}
	if got := Command(cmd, Options{SudoPassword: true}); Worst(got) != Allow {
		t.Errorf("with a password: %+v", got)
	}
	// The hard line is stricter than the guess.
	if got := Refusal(Command("echo pw | sudo -S reboot", Options{SudoPassword: true})); !strings.HasPrefix(got, "BLOCKED (hardline): ") {
		t.Errorf("refusal: %q", got)
	}
}

// A list that stops at its first match lets a grant for one thing cover another.
func TestEveryMatchIsReported(t *testing.T) {
	got := Command("rm -rf /; reboot && mkfs /dev/sda > /dev/sdb; rm -rf /etc; reboot", Options{})
	want := []string{"rm -rf /", "reboot", "mkfs /dev/sda", "rm -rf /etc", "> /dev/sdb"}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i].Text != want[i] || got[i].Verdict != Forbid {
			t.Errorf("match %d: %+v, want %s", i, got[i], want[i])
		}
	}
	if text := Refusal(got); strings.Count(text, "shutdown or reboot") != 1 || !strings.Contains(text, "formatting") {
		t.Errorf("refusal: %q", text)
	}
	if Refusal(nil) != "" || Refusal(Command("$X", Options{})) != "" {
		t.Error("a refusal of what is allowed")
	}
}

func TestUnclear(t *testing.T) {
	for _, cmd := range []string{"$X -rf /", "`cat x` a", "if", "echo 'open", strings.Repeat("(", 5000), strings.Repeat("x", maxSource+1), nested(20)} {
		if got := Worst(Command(cmd, Options{})); got != Ask {
			t.Errorf("%.40q: %v, want ask", cmd, got)
		}
	}
}

// nested quotes reboot in bash -c n times.
func nested(n int) string {
	cmd := "true"
	for range n {
		cmd = "eval " + quoteWord(cmd)
		if len(cmd) > maxSource/8 {
			break
		}
	}
	return cmd
}

func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Length and depth must not be a way past the rules, nor a way to be slow.
func TestHostileSizes(t *testing.T) {
	big := strings.Repeat("echo a b c; ", 100_000)
	for name, cmd := range map[string]string{
		"long":           big + "rm -rf /",
		"long, quoted":   big + `r''m -rf "/"`,
		"deep":           strings.Repeat("(", 5000) + "reboot" + strings.Repeat(")", 5000),
		"deep, balanced": strings.Repeat("$(", 2000) + "reboot" + strings.Repeat(")", 2000),
		"open brackets":  strings.Repeat("((", 20_000) + ";reboot",
		"many ifs":       strings.Repeat("if ", 10_000) + ";reboot",
		"backquotes":     strings.Repeat("`a`", 60_000) + ";reboot",
		"braces":         "echo " + strings.Repeat("{a,b}", 5000) + ";reboot",
		"echoes":         strings.Repeat("$(echo ", 400) + "x" + strings.Repeat(")", 400) + ";reboot",
		"one word":       "echo " + strings.Repeat("a", 200_000) + ";reboot",
		"heredocs":       strings.Repeat("cat <<E\nx\nE\n", 10_000) + "reboot",
		"functions":      strings.Repeat("f() { f; }; ", 10_000) + "reboot",
		"pipes":          strings.Repeat("a|", 20_000) + "reboot",
		"one heredoc":    "{ " + strings.Repeat("sh; xargs a; eval 'sh; sh'; ", 3000) + "} <<E\n" + strings.Repeat("a b c; ", 10_000) + "\nE\nreboot",
		"long braces":    "echo " + strings.Repeat("{a,b}", 8) + strings.Repeat("'x'", 50_000) + ";reboot",
		"wrappers":       strings.Repeat("nice ", 30) + "reboot",
	} {
		start := time.Now()
		if Worst(Command(cmd, Options{})) != Forbid {
			t.Errorf("%s: not forbidden", name)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// Rewrites that mean the same to a shell mean the same to the rules.
func TestQuotingIsNeutral(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	commands := [][]string{{"rm", "-rf", "/"}, {"rm", "-r", "-f", "/etc"}, {"reboot"}, {"sudo", "-u", "root", "reboot"}, {"mkfs.ext4", "/dev/sda1"},
		{"dd", "if=x", "of=/dev/sda"}, {"kill", "-9", "-1"}, {"init", "0"}, {"systemctl", "reboot"}, {"bash", "-c", "reboot"}, {"env", "A=b", "halt"}, {"sudo", "-S", "id"}}
	for range 3000 {
		cmd := commands[rng.IntN(len(commands))]
		var b strings.Builder
		b.WriteString([]string{"", " ", "true; ", "true && ", "( ", "{ ", "! ", "X=1 ", "echo $( "}[rng.IntN(9)])
		opened := b.String()
		for i, word := range cmd {
			if i > 0 {
				b.WriteString([]string{" ", "\t", "  ", " \\\n"}[rng.IntN(4)])
			}
			b.WriteString(requote(rng, word))
		}
		b.WriteString(map[string]string{"( ": " )", "{ ": "; }", "echo $( ": " )"}[opened])
		if got := Command(b.String(), Options{}); Worst(got) != Forbid {
			t.Fatalf("not forbidden: %q: %+v", b.String(), got)
		}
	}
}

// requote spells a word in another way.
func requote(rng *rand.Rand, word string) string {
	var b strings.Builder
	for i := range len(word) {
		ch := word[i : i+1]
		switch rng.IntN(8) {
		case 0:
			b.WriteString("'" + ch + "'")
		case 1:
			b.WriteString(`"` + ch + `"`)
		case 2:
			b.WriteString(`\` + ch)
		case 3:
			b.WriteString("''" + ch)
		case 4:
			b.WriteString(ch + "\\\n")
		case 5:
			const hex = "0123456789abcdef"
			b.WriteString(`$'\x` + string(hex[ch[0]>>4]) + string(hex[ch[0]&15]) + "'")
		default:
			b.WriteString(ch)
		}
	}
	return b.String()
}

func FuzzCommand(f *testing.F) {
	for _, r := range hardline {
		f.Add(r.hits[0])
		f.Add(r.misses[0])
	}
	f.Add("bash -c \"$(echo 'rm -rf /')\" <<E\n${IFS}\nE")
	f.Add(":(){ :|:& };:")
	f.Add("{a,b{c,d}}$'\\x41\\U0010ffff' ~/x ${HOME%/} !(a|b)")
	f.Fuzz(func(t *testing.T, cmd string) {
		if len(cmd) > 1<<14 {
			t.Skip()
		}
		start := time.Now()
		first := Command(cmd, Options{Home: "/home/u"})
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
		if second := Command(cmd, Options{Home: "/home/u"}); len(first) != len(second) {
			t.Fatalf("two answers: %+v, %+v", first, second)
		}
		for _, m := range first {
			if m.Rule == "" || m.Verdict == Allow || strings.ContainsAny(m.Text, "\x00\x01") {
				t.Fatalf("bad match %+v", m)
			}
		}
		// Whatever stands before it, a command on a line of its own is seen
		// when the shell would get to it.
		if Parse(cmd).Err == nil && Worst(Command("rm -rf /\n"+cmd, Options{})) != Forbid {
			t.Fatalf("hidden by %q", cmd)
		}
	})
}

func BenchmarkCommand(b *testing.B) {
	for b.Loop() {
		Command("cd /tmp && FOO=bar make -j4 test 2>&1 | grep -v ok > out.txt", Options{Home: "/home/u"})
	}
}
