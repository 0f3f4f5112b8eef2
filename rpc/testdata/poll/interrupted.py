# Who gives up takes the request back: a call not yet begun is not made, one at
# work is cancelled, and no file stays.
import asyncio
import os
import signal
import time
import warnings

from hermes_tools import aio, echo, wait

# An exception can strike between the opening of a file and its assignment.
warnings.simplefilter("ignore", ResourceWarning)
place = os.environ["HERMES_RPC_DIR"]


class Alarm(Exception):
    pass


def alarm(signum, frame):
    raise Alarm


signal.signal(signal.SIGALRM, alarm)
for number in range(40):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 * (number + 1))
        wait("plain")
    except Alarm:
        assert not [name for name in os.listdir(place) if name.startswith("req-")], number
    else:
        raise AssertionError("not interrupted")


async def many():
    await asyncio.gather(*(aio.wait(str(i)) for i in range(200)))


async def cancelled():
    for call in (aio.wait("cancelled"), many()):
        try:
            await asyncio.wait_for(call, 0.1)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError("no timeout")
    assert await aio.echo("after") == "after"
    assert await asyncio.gather(*(aio.echo(i) for i in range(200))) == list(range(200))


asyncio.run(cancelled())
assert echo("after") == "after"
end = time.monotonic() + 20  # answers that were on their way
while os.listdir(place) != ["engine"]:
    assert time.monotonic() < end, os.listdir(place)
    time.sleep(0.01)
print("ok")
