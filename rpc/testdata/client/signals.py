# A call that is interrupted half-way never gives its answer to a later one. In
# the reference a late reply is read by the next call.
import asyncio
import signal
import socket
import warnings

from hermes_tools import aio, echo, noop, wait


# An exception can strike between the making of a socket and its assignment: it
# is closed all the same, only Python says so.
warnings.simplefilter("ignore", ResourceWarning)


class Alarm(Exception):
    pass


def alarm(signum, frame):
    raise Alarm


signal.signal(signal.SIGALRM, alarm)
for number in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 * (number % 5 + 1))
        while True:
            assert echo(["before", number]) == ["before", number]
    except Alarm:
        pass
    assert echo(["after", number]) == ["after", number]

try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    wait("interrupted")
except Alarm:
    pass
else:
    raise AssertionError("not interrupted")
assert echo("after the wait") == "after the wait"

# A handler that returns does not disturb the call (EINTR), one that calls a
# tool itself does neither.
ticks = []


def tick(signum, frame):
    ticks.append(echo("tick"))
    if len(ticks) < 20:
        signal.setitimer(signal.ITIMER_REAL, 0.001)


signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.001)
while len(ticks) < 20:
    assert echo(["main", "x" * 100000]) == ["main", "x" * 100000]
assert ticks == ["tick"] * 20

# The engine owns the clock, not the script's default for its own sockets.
socket.setdefaulttimeout(0.01)




for _ in range(5):
    assert noop() == {"ok": True}
assert echo("slow:0.2") == "slow:0.2"
assert asyncio.run(aio.echo("slow:0.2")) == "slow:0.2"
print("ok")
