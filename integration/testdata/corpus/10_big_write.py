import hashlib
from hermes_tools import write_file
text = "".join(chr(33 + i * 7 % 90) for i in range(1 << 20)) * 3
print(write_file("out.txt", text)["bytes_written"])
print(hashlib.sha256(open("out.txt").read().encode()).hexdigest())
