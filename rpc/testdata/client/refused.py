# Nothing fails in silence. What cannot be sent fails before it is sent.
import asyncio
import os

import hermes_tools
from hermes_tools import (Disconnected, FrameTooLarge, HermesError, RPCError, Unauthorized, aio, echo)


def raised(kind, call, text=""):
    try:
        call()
    except kind as exc:
        assert type(exc) is kind, repr(exc)
        assert text in str(exc), str(exc)
    else:
        raise AssertionError("nothing raised")


def both(kind, *args, text=""):
    raised(kind, lambda: echo(*args), text)
    raised(kind, lambda: asyncio.run(aio.echo(*args)), text)


def connections():
    return hermes_tools._mine.__dict__.get("link")


assert echo(1) == 1
link = connections()
assert link is not None
both(UnicodeEncodeError, "\udc80", text="surrogates not allowed")
both(ValueError, float("nan"))
both(TypeError, object())
both(RecursionError, (lambda loop: loop.append(loop) or loop)([]))
assert echo(2) == 2 and connections() is link, "the connection was given up for nothing"

deep = []
for _ in range(400):
    deep = [deep]
assert echo(deep) == deep

assert "exceeds the frame limit" in echo("result:2000000")["error"]
both(FrameTooLarge, "x" * 2000000, text="1048576 bytes")
if not os.environ["SHORT"]:
    both(FrameTooLarge, "x" * 30000000)
assert echo(3) == 3


async def siblings():
    # One call too large takes the connection with it, but says so to all.
    results = await asyncio.gather(aio.echo("x" * 2000000), aio.wait("x"), return_exceptions=True)
    assert all(isinstance(r, RPCError) for r in results), results
    assert await aio.echo(4) == 4


asyncio.run(siblings())

token, socket = os.environ["HERMES_RPC_TOKEN"], os.environ["HERMES_RPC_SOCKET"]


def fresh():
    hermes_tools._forget()


for value in ("wrong", token + "x", token[:-1], '"', "é"):
    os.environ["HERMES_RPC_TOKEN"] = value
    fresh()
    both(Unauthorized, 1, text="token")
for name in ("HERMES_RPC_TOKEN", "HERMES_RPC_SOCKET"):
    for value in (None, ""):
        os.environ.update(HERMES_RPC_TOKEN=token, HERMES_RPC_SOCKET=socket)
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
        fresh()
        both(RPCError, 1, text=name + " is not set")
os.environ.update(HERMES_RPC_TOKEN=token, HERMES_RPC_SOCKET="/nonexistent/socket")
fresh()
both(Disconnected, 1, text="Agent process disconnected")
os.environ["HERMES_RPC_SOCKET"] = socket
fresh()
assert echo(5) == 5 and asyncio.run(aio.echo(6)) == 6
print("ok")
