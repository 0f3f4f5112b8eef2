package guest

// How what a guest is to make of itself is written: in the frames of commands, as
// a session waits while it is read.

// What a Confinement is, by bits.
const (
	flagMapped = 1 << iota
	flagNamespaces
	flagNetworkOff
	flagBase
	flagFiles
	flagMore
)

// What a Mount is.
const (
	flagWrite = 1 << iota
	flagOptional
)

func flag(set bool, bit uint64) uint64 {
	if set {
		return bit
	}
	return 0
}

func (c Confinement) message() frame {
	f := frame{}.number(flag(c.Mapped, flagMapped) | flag(c.Namespaces, flagNamespaces) | flag(c.NetworkOff, flagNetworkOff) |
		flag(c.Base, flagBase) | flag(c.Files, flagFiles) | flag(c.More, flagMore))
	for _, n := range [...]int{c.UID, c.GID, c.PIDs, c.Groups, c.Trees} {
		f = f.number(uint64(n))
	}
	f = f.number(uint64(c.Size)).text(c.Scratch)
	f = f.mounts(c.Mounts).number(uint64(len(c.Links)))
	for _, l := range c.Links {
		f = f.text(l.Path).text(l.Target)
	}
	return f.list(c.Read).list(c.Write).list(c.Devices)
}

func parseConfinement(b []byte) (c Confinement, err error) {
	p := payload{rest: b}
	flags := p.number()
	if flags >= flagMore<<1 {
		return c, errFrame
	}
	c.Mapped, c.Namespaces, c.NetworkOff = flags&flagMapped != 0, flags&flagNamespaces != 0, flags&flagNetworkOff != 0
	c.Base, c.Files, c.More = flags&flagBase != 0, flags&flagFiles != 0, flags&flagMore != 0
	for _, n := range [...]*int{&c.UID, &c.GID, &c.PIDs, &c.Groups, &c.Trees} {
		*n = int(p.number())
	}
	c.Size, c.Scratch = int64(p.number()), p.text()
	c.Mounts = p.mounts()
	for range p.count(8) {
		c.Links = append(c.Links, Link{p.text(), p.text()})
	}
	c.Read, c.Write, c.Devices = p.list(), p.list(), p.list()
	return c, p.end()
}

func (f frame) mounts(list []Mount) frame {
	f = f.number(uint64(len(list)))
	for _, m := range list {
		f = f.number(flag(m.Write, flagWrite) | flag(m.Optional, flagOptional)).number(uint64(m.Tree))
		f = f.text(string(m.Kind)).text(m.Source).text(m.Target).text(m.Text)
	}
	return f
}

func (p *payload) mounts() []Mount {
	n := p.count(2*8 + 4*4)
	list := make([]Mount, 0, n)
	for range n {
		flags, tree := p.number(), p.number()
		if flags > flagWrite|flagOptional {
			p.bad = true
		}
		list = append(list, Mount{
			Write: flags&flagWrite != 0, Optional: flags&flagOptional != 0, Tree: int(tree),
			Kind: MountKind(p.text()), Source: p.text(), Target: p.text(), Text: p.text(),
		})
	}
	return list
}

// count reads how many of at least a size follow.
func (p *payload) count(size int) int {
	n := p.number()
	if n > uint64(len(p.rest)/size) {
		p.bad = true
		return 0
	}
	return int(n)
}

func (s Setup) message() frame {
	return frame{}.number(uint64(s.Landlock)).number(uint64(s.Errno)).text(s.Error).text(s.Stage).text(s.UIDMap)
}

func parseSetup(b []byte) (s Setup, err error) {
	p := payload{rest: b}
	s = Setup{Landlock: int(p.number()), Errno: int(p.number()), Error: p.text(), Stage: p.text(), UIDMap: p.text()}
	return s, p.end()
}
