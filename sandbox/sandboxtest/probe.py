"""What runs inside the box for the laws: python3 -c <this> PART ARGS...

A life line is a connection to the socket SOCK. Whoever holds one answers each
byte with the same byte, so the other side can tell a process that lives (it
answers), one that is stopped (it does not) and one that is dead (end of file).
The first byte says whether the process will stop itself: lines made one after
the other may arrive in any order.
"""
import json, os, signal, socket, sys, time


def connect(path, hello=b"+"):
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    line.sendall(hello)
    return line


def answer(line):
    while True:
        try:
            data = line.recv(1)
        except InterruptedError:
            continue
        if not data:
            os._exit(0)
        line.sendall(data)


def deaf():
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass


def descend(how, path):
    """Start a descendant that holds a life line; return when it does."""
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        if "setsid" in how:
            os.setsid()
        if "group" in how:
            os.setpgid(0, 0)
        if "double" in how and os.fork():
            os._exit(0)
        if "deaf" in how:
            deaf()
        if "closed" in how:
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
        line = connect(path, b"-" if "stop" in how else b"+")
        os.write(tell, b"+")
        os.close(tell)
        if "stop" in how:
            os.kill(os.getpid(), signal.SIGSTOP)
        if "chatter" in how:
            line.setblocking(False)
            while True:
                os.write(1, b"chatter\n")  # a broken pipe ends it, a full one stops it
                try:
                    data = line.recv(1)
                    if not data:
                        os._exit(0)
                    line.sendall(data)
                except BlockingIOError:
                    time.sleep(0.001)
        answer(line)
    os.close(tell)
    os.read(told, 1)
    os.close(told)


part, args = sys.argv[1], sys.argv[2:]
if part == "args":
    print(json.dumps([os.fsencode(a).hex() for a in args]))
elif part == "fds":
    found = []
    for fd in range(4096):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    print(json.dumps(found))
elif part == "live":  # SOCK: hold a life line
    answer(connect(args[0]))
elif part == "leave":  # SOCK TEXT HOW...: leave descendants behind
    for how in args[2:]:
        descend(how.split("+"), args[0])
    sys.stdout.write(args[1])
    sys.stdout.flush()
    os._exit(0)
elif part == "stay":  # SOCK TEXT HOW...: stay with descendants
    for how in args[2:]:
        descend(how.split("+"), args[0])
    sys.stdout.write(args[1])
    sys.stdout.flush()
    answer(connect(args[0]))
elif part == "trap":  # SOCK CODE: exit so when asked to end
    def on(number, frame):
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        os._exit(int(args[1]))
    signal.signal(signal.SIGTERM, on)
    answer(connect(args[0]))
elif part == "deaf":  # SOCK: hear nothing
    deaf()
    answer(connect(args[0]))
elif part == "killgroup":  # SOCK HOW...: kill the own process group
    for how in args[1:]:
        descend(how.split("+"), args[0])
    os.kill(0, signal.SIGKILL)
elif part == "storm":  # SOCK N: N processes that fork and exit for ever
    line = connect(args[0])
    for _ in range(int(args[1])):
        if os.fork() == 0:
            deaf()
            while True:
                try:
                    if os.fork():
                        os._exit(0)
                except OSError:
                    time.sleep(0.001)
    answer(line)
elif part == "echo":  # SOCK TEXT: send a line, print what comes back
    line = socket.socket(socket.AF_UNIX)
    line.connect(args[0])
    line.sendall(args[1].encode())
    line.shutdown(socket.SHUT_WR)
    while True:
        data = line.recv(65536)
        if not data:
            break
        sys.stdout.write(data.decode())
elif part == "usage":  # spend cpu time, 64 MiB
    block = bytearray(64 << 20)
    for i in range(0, len(block), 4096):
        block[i] = 1
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
else:
    sys.exit("unknown part " + part)
