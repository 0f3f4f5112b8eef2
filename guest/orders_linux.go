package guest

import (
	"io"

	"golang.org/x/sys/unix"
)

// The guest's end of the wire uses plain blocking calls: no poller, no thread
// of the runtime's beyond the two that supervise.

func write(b []byte) error { return writeTo(control, b) }

func writeTo(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}

// receiveCommand reads the first order on a wire, which carries the command's
// descriptors.
func receiveCommand(wire int) (Command, []int, error) {
	var head [headerSize]byte
	rights := make([]byte, unix.CmsgSpace(3*4))
	n, rn, flags := 0, 0, 0
	for {
		var err error
		n, rn, flags, _, err = unix.Recvmsg(wire, head[:], rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Command{}, nil, err
		}
		break
	}
	if n == 0 {
		return Command{}, nil, io.EOF
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return Command{}, nil, errFrame
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(messages) != 1 {
		return Command{}, nil, errFrame
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 3 {
		return Command{}, nil, errFrame
	}
	if err := readFull(wire, head[n:]); err != nil {
		return Command{}, nil, err
	}
	kind, size, err := header(head[:])
	if err != nil || kind != kindCommand {
		return Command{}, nil, errFrame
	}
	body := make([]byte, size)
	if err := readFull(wire, body); err != nil {
		return Command{}, nil, err
	}
	cmd, err := parseCommand(body)
	return cmd, files, err
}

// readOrder reads one of the orders that are a single number.
func readOrder() (kind byte, n uint64, err error) {
	var b [headerSize + 8]byte
	if err := readFull(control, b[:]); err != nil {
		return 0, 0, err
	}
	kind, size, err := header(b[:])
	if err != nil || size != 8 || (kind != kindSignal && kind != kindEnd) {
		return 0, 0, errFrame
	}
	p := payload{rest: b[headerSize:]}
	return kind, p.number(), nil
}
