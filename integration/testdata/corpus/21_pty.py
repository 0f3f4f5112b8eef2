import os, pty, sys
out = []
def read(fd):
    data = os.read(fd, 1024)
    out.append(data)
    return b""
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "test -t 0 && test -t 1 && stty size <&0 2>/dev/null | tr -d '\\n' >/dev/null; echo a terminal"])
data = b""
while True:
    try:
        part = os.read(fd, 1024)
    except OSError:
        break
    if not part:
        break
    data += part
os.waitpid(pid, 0)
print(data.decode().strip())
