package approval

import (
	"path"
	"strconv"
	"strings"
)

// rule judges simple commands or the targets of redirections. Its examples
// are part of it: a test holds every rule to them.
type rule struct {
	id, description string
	verdict         Verdict
	call            func(*Call, Options) bool
	write           func(target string) bool
	hits, misses    []string
}

const (
	ruleForkBomb  = "fork-bomb"
	ruleSudoStdin = "sudo-stdin"
	ruleUnclear   = "unclear"
)

// hardline are the rules no setting opens.
var hardline = [...]rule{
	{
		id: "delete-system", description: "deletion of the root, a system or the home directory", verdict: Forbid,
		call: func(c *Call, opt Options) bool {
			if c.Name != "rm" {
				return false
			}
			for _, arg := range c.Args {
				if protected(arg, opt.Home) {
					return true
				}
			}
			return false
		},
		hits: []string{"rm -rf /", "rm -rf /*", "rm -r -f /etc/", "rm / -rf", "rm --no-preserve-root -rf /", "rm -rf ~", "rm -rf ~/*",
			`rm -rf "$HOME"`, "rm -rf ${HOME}/", "rm -rf //", "rm -rf /.", "rm -rf /usr/../etc", "rm -rf /opt /lib64 /Users", "rm -rf /home/*",
			"rm -rf /{bin,tmp/x}", "rm -rf /e*", "rm -rf -- /", "rm -rf /root/.", "rm -rf ~root", "rm -rf /*/", "rm -rf ~/.[!.]*"},
		misses: []string{"rm -rf /tmp/foo", "rm -rf /home/user/x", "rm -rf ~/Downloads/old", "rm -rf ./etc", "rm -rf etc", "rm -rf '~'",
			"rm -rf /tmp*", "rm -rf /tmp/*", "echo rm -rf /", "grep -r 'rm -rf /' .", "git rm -r /", "rm -rf $DIR/", "rm -rf /var/tmp/x", "rm -rf /homework"},
	},
	{
		id: "format", description: "formatting of a filesystem", verdict: Forbid,
		call:   func(c *Call, _ Options) bool { return c.Name == "mkfs" || strings.HasPrefix(c.Name, "mkfs.") },
		hits:   []string{"mkfs.ext4 /dev/sda1", "mkfs -t xfs /dev/sdb", "sudo /sbin/mkfs.vfat /dev/sdc1"},
		misses: []string{"mkfs_helper --version", "man mkfs.ext4", "grep mkfs /etc/fstab", "./mkfs.sh"},
	},
	{
		id: "copy-to-disk", description: "raw copy onto a disk", verdict: Forbid,
		call: func(c *Call, _ Options) bool {
			for _, arg := range c.Args {
				if to, ok := strings.CutPrefix(arg, "of="); c.Name == "dd" && ok && disk(to) || c.Name == "tee" && disk(arg) {
					return true
				}
			}
			return false
		},
		hits:   []string{"dd if=/dev/zero of=/dev/sda", "dd of=/dev/nvme0n1 if=x bs=1M", "dd if=a of=/dev//mmcblk0", "cat x | tee /dev/vda"},
		misses: []string{"dd if=a of=./b.img", "dd if=/dev/sda of=backup.img", "dd if=/dev/zero of=/dev/null", "tee /dev/stderr"},
	},
	{
		id: "write-to-disk", description: "raw write onto a disk", verdict: Forbid,
		write:  disk,
		hits:   []string{"cat x > /dev/sda", "echo x >| /dev/nvme0n1p2", "> /dev/xvda", "{ cat x; } >>/dev/hda", "cat x 1<>/dev/vdb"},
		misses: []string{"echo x > /dev/null", "cat < /dev/sda", "echo '> /dev/sda'", "echo x > sda", "ls 2>/dev/stdout"},
	},
	{
		id: "kill-all", description: "a signal to every process", verdict: Forbid,
		call:   func(c *Call, _ Options) bool { return c.Name == "kill" && killsAll(c.Args) },
		hits:   []string{"kill -9 -1", "kill -KILL -1", "kill -s KILL -1", "kill -- -1", "kill -1 -1", "kill -n 9 -1", "kill -9 -- -1", "kill -9 -01"},
		misses: []string{"kill -9 123", "kill -1 1234", "kill -HUP 1", "kill -1", "kill -9 -123", "kill -l -1", "kill %1"},
	},
	{
		id: "power", description: "shutdown or reboot of the machine", verdict: Forbid,
		call: func(c *Call, _ Options) bool {
			switch c.Name {
			case "shutdown", "reboot", "halt", "poweroff":
				return true
			}
			return false
		},
		hits: []string{"ls; reboot", "env X=1 reboot", "/sbin/shutdown -h now", "sudo -u root reboot", "(reboot)", "{ reboot; }", "if true; then reboot; fi",
			"x=1 reboot", "command reboot", "doas reboot", "echo $(halt)", "sleep 1 && poweroff", "timeout 5 reboot", "bash -c reboot", "echo reboot | sh"},
		misses: []string{"echo reboot", "grep 'shutdown' log", "reboot.sh", "./reboot.sh", "halt-build.sh", "./halt", "man reboot", "command -v reboot", "which halt",
			"npm run reboot", "git commit -m reboot", "reboot=1 true", "echo a | grep poweroff"},
	},
	{
		id: "runlevel", description: "change of the runlevel to halt or reboot", verdict: Forbid,
		call: func(c *Call, _ Options) bool {
			if c.Name != "init" && c.Name != "telinit" {
				return false
			}
			rest, _ := options("t", nil, "", c.Args)
			return len(rest) > 0 && (rest[0] == "0" || rest[0] == "6")
		},
		hits:   []string{"init 0", "telinit 6", "sudo init 6", "/sbin/telinit -t 5 0"},
		misses: []string{"echo '# init 0'", "git init 0", "init 3", "terraform init", "./init 0"},
	},
	{
		id: "systemctl-power", description: "shutdown or reboot through systemd", verdict: Forbid,
		call: func(c *Call, _ Options) bool {
			if c.Name != "systemctl" {
				return false
			}
			rest, _ := options("HMtpnos", []string{"host", "machine", "type", "state", "property", "lines", "output", "signal", "root", "job-mode"}, "", c.Args)
			if len(rest) == 0 {
				return false
			}
			verb, units := rest[0], rest[1:]
			if verb == "start" || verb == "isolate" {
				for _, unit := range units {
					if stem, ok := strings.CutSuffix(unit, ".target"); ok && powerVerb(stem) {
						return true
					}
				}
			}
			return powerVerb(verb)
		},
		hits:   []string{"systemctl reboot", "systemctl --force reboot", "systemctl -q poweroff", "sudo systemctl kexec", "systemctl isolate halt.target"},
		misses: []string{"systemctl restart nginx", "systemctl status reboot.target", "systemctl start myhalt", "man systemctl reboot"},
	},
	{
		id: ruleSudoStdin, description: "a password guessed for sudo", verdict: Forbid,
		call: func(c *Call, opt Options) bool {
			if c.Name != "sudo" || opt.SudoPassword {
				return false
			}
			w := wrappers["sudo"]
			rest, _ := options(w.short, w.long, "", c.Args)
			own := c.Args[:len(c.Args)-len(rest)]
			_, asks := options(w.short, w.long, "S", own)
			return asks || hasFlag(own, "", "stdin")
		},
		hits:   []string{"echo pw | sudo -S id", "sudo -nS ls", "sudo --stdin ls", "sudo -u root -S ls", "/usr/bin/sudo -S true"},
		misses: []string{"sudo -u root whoami", "sudo ls -S", "sudo -uS ls", "echo sudo -S", "ls -S"},
	},
}

func powerVerb(verb string) bool {
	switch verb {
	case "poweroff", "reboot", "halt", "kexec", "shutdown", "soft-reboot":
		return true
	}
	return false
}

// systemDirs are the directories at the root that no command may delete.
var systemDirs = [...]string{"home", "root", "etc", "usr", "var", "bin", "sbin", "boot", "lib", "lib64", "opt", "users"}

// protected tells whether deleting name would delete the root, one of the
// system directories or the home directory, or everything in one of them.
func protected(name, homeDir string) bool {
	if homeDir == "" {
		homeDir = "/home/" + home
	}
	name = strings.ReplaceAll(name, home, homeDir)
	if !strings.HasPrefix(name, "/") || strings.Contains(name, Unknown) {
		return false
	}
	segments := split(name)
	for len(segments) > 0 && everything(segments[len(segments)-1]) {
		segments = segments[:len(segments)-1]
	}
	switch len(segments) {
	case 0:
		return true
	case 1:
		pattern := strings.ToLower(strings.ReplaceAll(segments[0], "[!", "[^"))
		for _, dir := range systemDirs {
			if ok, err := path.Match(pattern, dir); ok || err != nil && pattern == dir {
				return true
			}
		}
	}
	return strings.EqualFold(strings.Join(segments, "/"), strings.Join(split(homeDir), "/"))
}

// split takes an absolute path apart and resolves . and .. by their text.
func split(name string) []string {
	var segments []string
	for segment := range strings.SplitSeq(name, "/") {
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(len(segments)-1, 0)]
		default:
			segments = append(segments, segment)
		}
	}
	return segments
}

// everything tells a pattern that means all of a directory, or all that is
// hidden in it: * ** .* .[!.]* ?*
func everything(segment string) bool {
	if rest, ok := strings.CutPrefix(segment, "."); ok && len(rest) > 2 && rest[0] == '[' && (rest[1] == '!' || rest[1] == '^') {
		if _, after, ok := strings.Cut(rest[2:], "]"); ok {
			segment = after
		}
	}
	return strings.Contains(segment, "*") && strings.Trim(segment, "*?.") == ""
}

// disk tells the device of a disk or of a partition.
func disk(name string) bool {
	segments := split(name)
	if !strings.HasPrefix(name, "/") || len(segments) != 2 || segments[0] != "dev" {
		return false
	}
	for _, kind := range [...]string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk"} {
		if rest, ok := strings.CutPrefix(segments[1], kind); ok && rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789*?") == "" {
			return true
		}
	}
	return false
}

// killsAll reads the arguments of kill: -1 is every process where an id is
// meant, and SIGHUP where a signal is.
func killsAll(args []string) bool {
	if len(args) > 0 && args[0] != "--" && strings.HasPrefix(args[0], "-") {
		switch first := args[0]; {
		case first == "-s" || first == "-n" || first == "--signal":
			args = args[min(len(args), 2):]
		case first == "-l" || first == "-L" || first == "--list" || first == "--table":
			return false
		default:
			args = args[1:]
		}
	}
	for _, arg := range args {
		if pid, err := strconv.Atoi(arg); err == nil && pid == -1 {
			return true
		}
	}
	return false
}
