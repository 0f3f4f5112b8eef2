import asyncio
from hermes_tools import aio
async def main():
    r = await asyncio.gather(*(aio.read_file("data/b.txt") for _ in range(10)))
    print(len(r), {x["content"] for x in r})
asyncio.run(main())
