"""Times tool calls in turns with their baselines; prints medians in ms."""
import itertools
import json
import os
import socket
import statistics
import sys
import time

from hermes_tools import megabyte, noop, read_file, terminal, write_file

echo, directory, turns = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX)
sock.connect(echo)
line = json.dumps({"id": 1, "token": "t" * 43, "tool": "noop", "args": {}}).encode() + b"\n"


def ping():
    sock.sendall(line)
    sock.recv(4096)


def bash():
    os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], {}), 0)


def raw():
    """What write_file has to do at the least."""
    fd = os.open(directory + "/raw.tmp", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    os.write(fd, TEXT)
    os.close(fd)
    os.rename(directory + "/raw.tmp", directory + "/raw.txt")


TEXT = b"a line of text\n" * 100
MEGABYTE = json.dumps("x" * (1 << 20))
names = itertools.count()
WORK = {
    "ping": (ping, 100),
    "noop": (noop, 100),
    "read": (lambda: read_file(directory + "/small.txt"), 25),
    "write": (lambda: write_file("%s/%d.txt" % (directory, next(names)), TEXT.decode()), 25),
    "replace": (lambda: write_file(directory + "/out.txt", TEXT.decode()), 25),
    "raw": (raw, 25),
    "bash": (bash, 3),
    "terminal": (lambda: terminal("true"), 3),
    "megabyte": (megabyte, 3),
    "loads": (lambda: json.loads(MEGABYTE), 3),
}
times = {name: [] for name in WORK}
for turn in range(int(turns) + 1):
    for name, (work, repeat) in WORK.items():
        for _ in range(repeat):
            start = time.perf_counter()
            work()
            if turn:  # the first turn warms up
                times[name].append((time.perf_counter() - start) * 1e3)
print(json.dumps({name: statistics.median(samples) for name, samples in times.items()}))
