import base64, os
from hermes_tools import read_file
data = bytes(range(256)) * 40
open("blob.bin", "wb").write(data)
r = read_file("blob.bin")
print({k: v for k, v in r.items() if k in ("error", "encoding", "is_binary", "file_size")})
c = r.get("content") or r.get("base64_content") or ""
print(base64.b64decode(c) == data if c else "no content")
