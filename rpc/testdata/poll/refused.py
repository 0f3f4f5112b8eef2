# Nothing fails in silence, and nothing is left behind in the directory.
import asyncio
import os

import hermes_tools
from hermes_tools import Disconnected, FrameTooLarge, RPCError, Unauthorized, aio, echo

place, token = os.environ["HERMES_RPC_DIR"], os.environ["HERMES_RPC_TOKEN"]


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


def fresh():
    hermes_tools._forget()


assert echo(1) == 1
both(UnicodeEncodeError, "\udc80", text="surrogates not allowed")
both(ValueError, float("nan"))
both(TypeError, object())
assert "exceeds the frame limit" in echo("result:2000000")["error"]
both(FrameTooLarge, "x" * 2000000, text="1048576 bytes")
assert echo(3) == 3


async def siblings():  # one that is refused disturbs no other
    results = await asyncio.gather(aio.echo("x" * 2000000), aio.echo("x"), return_exceptions=True)
    assert isinstance(results[0], FrameTooLarge) and results[1] == "x", results


asyncio.run(siblings())
assert os.listdir(place) == ["engine"], os.listdir(place)

old = os.umask(0)
assert echo("whatever the umask") == "whatever the umask"
os.umask(old)

for value in ("wrong", token + "x", token[:-1], '"', "é"):
    os.environ["HERMES_RPC_TOKEN"] = value
    fresh()
    both(Unauthorized, 1, text="token")
os.environ["HERMES_RPC_TOKEN"] = ""
fresh()
both(RPCError, 1, text="HERMES_RPC_TOKEN is not set")
os.environ["HERMES_RPC_TOKEN"] = token
del os.environ["HERMES_RPC_DIR"]
fresh()
both(RPCError, 1, text="HERMES_RPC_SOCKET is not set")
os.environ["HERMES_RPC_DIR"] = "/nonexistent/directory"
fresh()
both(Disconnected, 1, text="Agent process disconnected")
os.environ["HERMES_RPC_DIR"] = place
fresh()
assert echo(5) == 5 and asyncio.run(aio.echo(6)) == 6
assert os.listdir(place) == ["engine"], os.listdir(place)
print("ok")
