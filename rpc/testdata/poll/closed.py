# The engine says that it is over: nobody waits for a sign of life.
import asyncio
import os
import threading

from hermes_tools import Disconnected, aio, echo, wait

seen = []


def plain():
    try:
        wait("thread")
    except Disconnected as exc:
        seen.append(str(exc))


async def coroutines():
    results = await asyncio.gather(*(aio.wait(str(i)) for i in range(3)), return_exceptions=True)
    assert all(isinstance(exc, Disconnected) for exc in results), results
    seen.extend(map(str, results))


threads = [threading.Thread(target=plain) for _ in range(3)]
for t in threads:
    t.start()
asyncio.run(coroutines())
for t in threads:
    t.join()
try:
    echo(1)
except Disconnected as exc:
    seen.append(str(exc))
assert seen == ["the run has ended; calls are no longer served"] * 7, seen
assert os.listdir(os.environ["HERMES_RPC_DIR"]) == ["engine"]
print("ok")
