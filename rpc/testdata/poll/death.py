# The engine gives no sign any more, in the middle of calls.
import asyncio
import threading
from time import monotonic

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
for _ in range(20):  # once it is known, no further call waits for long
    try:
        echo(1)
    except Disconnected as exc:
        seen.append((type(exc), str(exc)))
assert seen == [(Disconnected, "Agent process disconnected")] * 27, seen
print("ok")
