# The engine goes away in the middle of calls, and stays away.
import asyncio
import threading

from hermes_tools import Disconnected, aio, echo, wait

seen = []


def plain():
    try:
        wait("thread")
    except RuntimeError as exc:
        seen.append((type(exc), str(exc)))


async def coroutines():
    results = await asyncio.gather(*(aio.wait(str(i)) for i in range(3)), return_exceptions=True)
    seen.extend((type(exc), str(exc)) for exc in results)
    try:
        await aio.echo(1)
    except Disconnected as exc:
        seen.append((type(exc), str(exc)))


threads = [threading.Thread(target=plain) for _ in range(3)]
for t in threads:
    t.start()
asyncio.run(coroutines())
for t in threads:
    t.join()
try:
    echo(1)
except Disconnected as exc:
    seen.append((type(exc), str(exc)))
assert seen == [(Disconnected, "Agent process disconnected")] * 8, seen
print("ok")
