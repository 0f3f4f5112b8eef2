"""Times tool calls in turns with their baselines; prints medians in ms."""
import json
import os
import socket
import statistics
import sys
import time

from hermes_tools import megabyte, noop, read_file, terminal, write_file

echo, directory = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX)
sock.connect(echo)
line = json.dumps({"id": 1, "token": "t" * 43, "tool": "noop", "args": {}}).encode() + b"\n"


def ping():
    sock.sendall(line)
    sock.recv(4096)


def bash():
    os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], {}), 0)


WORK = {
    "ping": (ping, 100),
    "noop": (noop, 100),
    "read": (lambda: read_file(directory + "/small.txt"), 25),
    "write": (lambda: write_file(directory + "/out.txt", "a line of text\n" * 100), 25),
    "bash": (bash, 3),
    "terminal": (lambda: terminal("true"), 3),
    "megabyte": (megabyte, 3),
}
times = {name: [] for name in WORK}
for turn in range(21):
    for name, (work, repeat) in WORK.items():
        for _ in range(repeat):
            start = time.perf_counter()
            work()
            if turn:  # the first turn warms up
                times[name].append((time.perf_counter() - start) * 1e3)
print(json.dumps({name: statistics.median(samples) for name, samples in times.items()}))
