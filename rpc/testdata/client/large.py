# Frames of every size near the places where a reader could go wrong.
import asyncio
import os

from hermes_tools import aio, echo

less = 5 if os.environ["SHORT"] else 1
for n in (1, 4000, 4095, 4096, 4097, 65500, 65535, 65536, 65537, 131072, 262144, 1 << 20, 5000000 // less):
    text = "".join(chr(97 + i % 26) for i in range(26)) * (n // 26) + "z" * (n % 26)
    assert len(text) == n and echo([text]) == [text], n
for n in range(65480, 65540, less):
    assert echo(["y" * n]) == ["y" * n], n

# The reference's client takes any chunk that ends in a newline for the end of
# the reply: a tool that answers with line breaks at a 64 KiB boundary puts it
# out of step.
assert echo("pretty:65536") == {"pad": "x" * 65536, "end": True}
for n in range(65400, 65536, 7 * less):
    assert echo("pretty:%d" % n) == {"pad": "x" * n, "end": True}
    assert echo(n) == n

euro = "€" * (2000000 // less)  # 6 MB as UTF-8, 12 MB if it were escaped
assert echo([euro]) == [euro]


async def main():
    for n in (65535, 65536, 262143, 262144, 262145, 3000000 // less):
        assert await aio.echo(["a" * n]) == ["a" * n]


asyncio.run(main())
print("ok")
