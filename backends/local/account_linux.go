package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

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
	pl.append(&users, pl.user.uid, fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", name, pl.user.uid, pl.user.gid, home))
	pl.append(&groups, pl.user.gid, fmt.Sprintf("%s:x:%d:\n", name, pl.user.gid))
}

// append adds a line to a database of accounts as the box sees it, unless an
// id is in there already.
func (pl *plan) append(d *database, id int, line string) {
	const most = 32 << 10 // of both, and the mounts, a packet has to take
	text, ids, err := d.read()
	if _, known := ids[strconv.Itoa(id)]; err != nil || known || len(text)+len(line) > most || !pl.visible(d.name) {
		return
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	pl.c.Mounts = append(pl.c.Mounts, guest.Mount{Kind: guest.MountFile, Target: d.name, Text: text + line, Optional: true})
}

// The databases of accounts.
var users, groups = database{name: "/etc/passwd"}, database{name: "/etc/group"}

// database is a file of accounts, read again when it has changed.
type database struct {
	name string

	mu   sync.Mutex
	was  os.FileInfo // nil when it was not read, or so soon after a change that the next would not show
	text string
	ids  map[string]struct{}
}

func (d *database) read() (text string, ids map[string]struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is, err := os.Stat(d.name)
	if err != nil || d.was != nil && unchanged(d.was, is) {
		return d.text, d.ids, err
	}
	raw, err := os.ReadFile(d.name)
	if err != nil {
		return "", nil, err
	}
	d.text, d.ids, d.was = string(raw), map[string]struct{}{}, nil
	for entry := range strings.Lines(d.text) {
		if fields := strings.SplitN(entry, ":", 4); len(fields) > 2 {
			d.ids[strings.TrimSpace(fields[2])] = struct{}{}
		}
	}
	if changed := is.Sys().(*syscall.Stat_t).Ctim; time.Since(time.Unix(changed.Unix())) > time.Second {
		d.was = is
	}
	return d.text, d.ids, nil
}
