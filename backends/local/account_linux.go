package local

import (
	"fmt"
	"os"
	"strings"

	"github.com/hermes-exec/hermes-exec/guest"
)

// account gives the box's user a name where the machine knows none: programs
// that ask who they are (ssh, node, Java) fail without one. Of the accounts
// that exist it changes nothing.
func (pl *plan) account() {
	const name = "sandbox"
	home := pl.home
	if home == "" || strings.ContainsAny(home, ":\n") {
		home = "/"
	}
	pl.append("/etc/passwd", pl.user.uid, fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", name, pl.user.uid, pl.user.gid, home))
	pl.append("/etc/group", pl.user.gid, fmt.Sprintf("%s:x:%d:\n", name, pl.user.gid))
}

// append adds a line to a database of accounts as the box sees it, unless an
// id is in there already.
func (pl *plan) append(database string, id int, line string) {
	const most = 32 << 10 // of both, and the mounts, a packet has to take
	text, err := os.ReadFile(database)
	if err != nil || len(text)+len(line) > most || !pl.visible(database) {
		return
	}
	mark := fmt.Sprint(id)
	for entry := range strings.Lines(string(text)) {
		if fields := strings.SplitN(entry, ":", 4); len(fields) > 2 && strings.TrimSpace(fields[2]) == mark {
			return
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	pl.c.Mounts = append(pl.c.Mounts, guest.Mount{Kind: guest.MountFile, Target: database, Text: string(text) + line, Optional: true})
}
