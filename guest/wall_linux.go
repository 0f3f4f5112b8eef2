package guest

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/landlock"
	"github.com/hermes-exec/hermes-exec/guest/seccomp"
)

// private are the places every box may write, where there are namespaces.
var private = [...]string{"/run", "/tmp", "/var/tmp", "/dev/shm"}

// wall makes the Landlock ruleset and the seccomp filter commands and the file
// server are put under.
func (g *inside) wall() error {
	var err error
	if LandlockABI() > 0 {
		g.ruleset, err = landlock.New(landlock.Options{DenyTCP: g.c.NetworkOff && !g.c.Namespaces})
		if err != nil {
			return at("landlock", err)
		}
		allow := func(name string, access landlock.Access) error {
			err := g.ruleset.Allow(name, access)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
				return nil // not there, so not allowed
			}
			return err
		}
		write := g.c.Write
		if g.c.Namespaces {
			write = append(write[:len(write):len(write)], private[:]...)
		}
		for _, name := range g.c.Read {
			err = errors.Join(err, allow(name, landlock.Read))
		}
		for _, name := range write {
			err = errors.Join(err, allow(name, landlock.Write))
		}
		for _, name := range g.c.Devices {
			err = errors.Join(err, allow(name, landlock.Write|landlock.Ioctl))
		}
		if g.c.Namespaces { // its own, in which nothing can be made
			err = errors.Join(err, allow("/dev", landlock.Write|landlock.Ioctl))
		} else {
			for _, name := range devices {
				err = errors.Join(err, allow("/dev/"+name, landlock.Write|landlock.Ioctl))
			}
		}
		if err != nil {
			return at("landlock", err)
		}
	}
	offline := g.c.NetworkOff && !g.c.Namespaces
	if g.server == nil || offline {
		g.server = g.serverFilter(offline)
	}
	options := seccomp.Options{NoNetwork: offline, Shared: !g.c.Namespaces}
	if g.filter = g.usual; g.usual == nil || options != (seccomp.Options{}) {
		if g.filter, err = seccomp.Program(options); err != nil {
			return at("seccomp", err)
		}
	}
	g.prog = &unix.SockFprog{Len: uint16(len(g.filter)), Filter: &g.filter[0]}
	return nil
}

// serverFilter makes the filter of the file server, when it is asked for.
func (g *inside) serverFilter(offline bool) func() ([]unix.SockFilter, error) {
	return sync.OnceValues(func() ([]unix.SockFilter, error) {
		return seccomp.Program(seccomp.Options{NoNetwork: offline, Openat2: true})
	})
}

// LandlockABI is the version of Landlock guests can use, 0 for none.
func LandlockABI() int {
	if noLandlock {
		return 0
	}
	return landlock.ABI()
}

// raiseLoopback brings up the loopback of a new network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// keepCapability drops every capability of this thread but one, and all of
// them from what a program it executes could get.
func keepCapability(keep int) error {
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if keep >= 0 {
		data[keep/32].Permitted = 1 << (keep % 32)
		data[keep/32].Effective = data[keep/32].Permitted
	}
	return unix.Capset(&header, &data[0])
}
