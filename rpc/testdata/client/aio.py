# The coroutines: names, many in flight, cancellation, loops that come and go.
import asyncio
import inspect
import os
import threading

import hermes_tools
import hermes_tools.aio as by_dotted_name
from hermes_tools import aio, count
from hermes_tools.aio import echo, noop, wait
from hermes_tools.aio import *

assert by_dotted_name is aio and aio.noop is noop and aio.echo is echo
assert set(aio.__all__) == {"noop", "page", "echo", "count", "wait", "sandbox"}
assert asyncio.iscoroutinefunction(noop) and not asyncio.iscoroutinefunction(hermes_tools.noop)
assert inspect.signature(noop) == inspect.signature(hermes_tools.noop)
assert noop.__doc__ == "Nothing at all." and noop.__name__ == "noop" and noop.__module__ == "hermes_tools.aio"
for name in ("nothing", "_call", "json_parse", "os"):
    assert not hasattr(aio, name), name


async def many():
    assert await noop() == await noop(x=5) == {"ok": True}
    values = await asyncio.gather(*(echo([i, "é" * i]) for i in range(300)))
    assert values == [[i, "é" * i] for i in range(300)]
    assert await echo('{"a": 1}') == {"a": 1}
    try:
        await noop(1, 2)
    except TypeError:
        pass
    else:
        raise AssertionError("arity not checked")
    # Large both ways at once: neither side may wait for the other to read.
    big = ["x" * (300000 if os.environ["SHORT"] else 2000000) + str(i) for i in range(8)]
    assert await asyncio.gather(*(echo([b]) for b in big)) == [[b] for b in big]


async def cancelled():
    task = asyncio.ensure_future(wait("cancelled"))
    await asyncio.sleep(0)
    await noop()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    else:
        raise AssertionError("not cancelled")
    try:
        await asyncio.wait_for(wait("timed out"), 0.05)
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("no timeout")
    assert await echo("after") == "after"


asyncio.run(many())
asyncio.run(cancelled())  # a second loop

loop = asyncio.new_event_loop()
assert loop.run_until_complete(echo("by hand")) == "by hand"
assert loop.run_until_complete(echo("again")) == "again"
pending = loop.create_task(wait("left over by the script"))
loop.run_until_complete(asyncio.sleep(0.01))
pending.cancel()
loop.run_until_complete(asyncio.gather(pending, return_exceptions=True))
loop.close()

results = []
threads = [threading.Thread(target=lambda: results.append(asyncio.run(asyncio.wait_for(echo("thread"), 30)))) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert results == ["thread"] * 8
assert len(hermes_tools._streams) <= 9
asyncio.run(many())
assert len(hermes_tools._streams) == 1, "closed loops are forgotten"


async def mixed():  # plain calls from a loop's executor, beside coroutines
    loop = asyncio.get_running_loop()
    plain = [loop.run_in_executor(None, hermes_tools.echo, i) for i in range(50)]
    assert await asyncio.gather(*plain, *(echo(i) for i in range(50))) == list(range(50)) * 2


asyncio.run(mixed())
print("ok")
