"""The tools of this run, as functions.

    from hermes_tools import read_file, terminal       # plain calls
    from hermes_tools import aio                       # await aio.read_file(...)

A tool that fails returns a dict with "error". An exception means that the call
could not be made or its answer could not be had: see HermesError. Calls may be
made from any thread, task and child process of the script at once.
"""

# How this file works, for whoever changes it. The engine writes it, followed by
# one generated function per tool, as hermes_tools.py:
#
#     @_tool
#     def read_file(path: str, offset: int = 1, limit: int = 500):
#         """Read a file. ..."""
#         return _call("read_file", {"path": path, "offset": offset, "limit": limit})
#
# A generated function is exactly that: the decorator, a docstring, and one
# return of _call with every parameter in the payload. It uses no other global
# name, since its coroutine twin is the same code with _call replaced by _acall.
# Names that start with an underscore, those in __all__ below, and sandbox are taken.
#
# The wire is described in doc.go beside this file's source. The file is compiled
# in every run that imports it, so it is short, and what only some scripts need
# (asyncio, shlex) is imported when it is needed.

import json as _json
import os as _os
import sys as _sys
from _thread import _local
from time import monotonic as _now, sleep as _sleep

try:  # the C module alone: the socket module costs milliseconds and adds nothing here
    import _socket
except ImportError:
    import socket as _socket

__all__ = ["HermesError", "RPCError", "Disconnected", "Unauthorized", "FrameTooLarge",
           "aio", "json_parse", "shell_quote", "retry"]


class HermesError(Exception):
    """What this module raises derives from it."""


class RPCError(HermesError, RuntimeError):
    """The engine did not take the call; nothing was done."""


class Disconnected(RPCError):
    """The engine is gone. Whether the call was carried out is unknown."""


class Unauthorized(RPCError):
    """The engine does not accept this process or its token."""


class FrameTooLarge(RPCError):
    """The arguments are larger than the engine accepts in one call."""


def json_parse(text):
    """Parse JSON, tolerating control characters inside strings."""
    return _json.loads(text, strict=False)


def shell_quote(s):
    """Quote a string for use as one word of a shell command."""
    from shlex import quote
    return quote(s)


def retry(fn, max_attempts=3, delay=2):
    """Call fn until it returns, at most max_attempts times, sleeping delay,
    2*delay, 4*delay ... seconds in between. The last exception is raised."""
    for attempt in range(max_attempts - 1):
        try:
            return fn()
        except Exception:
            _sleep(delay * 2 ** attempt)
    return fn()


_LOST = "Agent process disconnected"
_ERRORS = {"unauthorized": Unauthorized, "too_large": FrameTooLarge, "closed": Disconnected}


def _encoder():
    # Not ASCII-only, so that text takes no more room than it has bytes, and a lone
    # surrogate, which no file or command could take, fails as UnicodeEncodeError.
    json = _json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    make = getattr(_json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value: json.encode(value).encode()
    # What json.encode would make anew for every value: half of its time.
    chunks = make(None, json.default, _json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0)).encode()


_encode = _encoder()
_decoder = _json.JSONDecoder()
_scan = getattr(_decoder, "scan_once", _decoder.raw_decode)  # text, index -> value, index after it


def _variable(name):
    value = _os.environ.get(name)
    if not value:
        raise RPCError(name + " is not set: tools can only be called from a script that hermes-exec runs")
    return value


def _answer(line):
    """Take one line from the engine apart: (id, result, None) or (id or None, None, exception)."""
    reply, _ = _decoder.raw_decode(line)
    if "error" in reply:
        error = reply["error"]
        return reply.get("id"), None, _ERRORS.get(error["code"], RPCError)(error["message"])
    return reply["id"], reply["result"], None


def _value(text):
    """A tool may answer with JSON in a string."""
    try:
        return _json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Asker:
    """One client of the engine. Its user sees to it that nobody else uses it meanwhile."""

    def __init__(self):
        self.id = 0
        self.token = _encode(_variable("HERMES_RPC_TOKEN"))
        self.middles = {}  # tool -> what stands between id and arguments

    def frame(self, tool, payload):
        self.id += 1
        middle = self.middles.get(tool)
        if middle is None:
            middle = self.middles[tool] = b',"token":%s,"tool":%s,"args":' % (self.token, _encode(tool))
        return b'{"id":%d%s%s}\n' % (self.id, middle, payload)

    def result(self, line):
        line = line.decode()
        head = '{"id":%d,"result":' % self.id
        if line.startswith(head):  # as it should be: no need to build the envelope
            result, end = _scan(line, len(head))
            if line[end:] == "}\n":
                return result
        _, _, error = _answer(line)
        raise error or RPCError("unexpected answer: " + line[:80])


class _Link(_Asker):
    """One connection."""

    def __init__(self):
        path = _variable("HERMES_RPC_SOCKET")
        _Asker.__init__(self)
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.socket.settimeout(None)  # whatever the script's default is: the engine owns the clock
        try:
            self.socket.connect(path)
        except OSError as exc:
            raise Disconnected(_LOST) from exc
        self.send, self.recv = self.socket.sendall, self.socket.recv

    def __del__(self):
        if hasattr(self, "socket"):
            self.socket.close()

    def exchange(self, tool, payload):
        lost = None
        try:
            self.send(self.frame(tool, payload))
        except OSError as exc:  # the engine may have said why before it hung up
            lost = exc
        try:
            line = self.recv(65536)
            if line[-1:] != b"\n":
                line = self.rest(line, lost)
        except OSError as exc:
            raise Disconnected(_LOST) from (lost or exc)
        return self.result(line)

    def rest(self, line, lost):
        parts = [line]
        while parts[-1][-1:] != b"\n":
            if not parts[-1]:
                raise Disconnected(_LOST) from lost
            parts.append(self.recv(262144))
        return b"".join(parts)


_mine = _local()  # .link: this thread's connection, absent while a call uses it


def _call(tool, args):
    payload = _encode(args)
    # Taken out while in use: if the call is interrupted half-way (Ctrl-C, an
    # exception from a signal handler) the connection is dropped, and a call made
    # by a signal handler in the middle of this one gets a connection of its own.
    link = _mine.__dict__.pop("link", None) or _way()[0]()
    result = link.exchange(tool, payload)
    _mine.link = link
    return _value(result) if type(result) is str else result


class _Stream:
    """The connection of one event loop: many calls in flight, matched by id. It
    uses the loop's callbacks and no task, so nothing is left over when it ends."""

    def __init__(self, loop):
        self.loop = loop
        self.link = _Link()
        self.socket = self.link.socket
        self.socket.setblocking(False)
        self.waiting = {}
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.lost = None
        loop.add_reader(self.socket.fileno(), self.readable)

    def start(self, tool, payload):
        frame = self.link.frame(tool, payload)
        future = self.waiting[self.link.id] = self.loop.create_future()
        writing = bool(self.outbox)
        self.outbox += frame
        if not writing:
            self.writable()
            if self.outbox:
                self.loop.add_writer(self.socket.fileno(), self.writable)
        return self.link.id, future

    def writable(self):
        try:
            while self.outbox:
                with memoryview(self.outbox) as view:
                    sent = self.socket.send(view)
                del self.outbox[:sent]
        except BlockingIOError:
            return
        except OSError as exc:  # readable() will see the end, and why if the engine said so
            self.lost = exc
            self.outbox.clear()
        self.loop.remove_writer(self.socket.fileno())

    def readable(self):
        try:
            data = self.socket.recv(262144)
            if not data:
                raise Disconnected(_LOST) from self.lost
            scanned = len(self.inbox)
            self.inbox += data
            begin, end = 0, self.inbox.find(b"\n", scanned)
            while end >= 0:
                number, result, error = _answer(self.inbox[begin:end].decode())
                if number is None:
                    raise error
                future = self.waiting.pop(number, None)
                if future is not None and not future.done():
                    if error is None:
                        future.set_result(result)
                    else:
                        future.set_exception(error)
                begin, end = end + 1, self.inbox.find(b"\n", end + 1)
            del self.inbox[:begin]
        except BlockingIOError:
            pass
        except RPCError as exc:
            self.end(exc)
        except OSError as exc:
            error = Disconnected(_LOST)
            error.__cause__ = exc
            self.end(error)
        except BaseException:  # interrupted half-way: what was read is lost
            self.end(Disconnected(_LOST))
            raise

    def forget(self, number):
        self.waiting.pop(number, None)

    def close(self, forked=False):
        self.socket.close()

    def end(self, error):
        _streams.pop(self.loop, None)
        self.loop.remove_reader(self.socket.fileno())
        self.loop.remove_writer(self.socket.fileno())
        self.close()
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)


_ways = {"HERMES_RPC_SOCKET": (_Link, _Stream)}


def _way():
    """How this process reaches the engine: the classes for plain calls and for a loop."""
    for variable, way in _ways.items():
        if _os.environ.get(variable):
            return way
    return _Link, _Stream  # which say what is missing


# HERMES_RPC_DIR begins. A module for sockets alone is made without this part.


def _private(path, flags):
    return _os.open(path, flags, 0o600)


def _remove(*paths):
    for path in paths:
        try:
            _os.unlink(path)
        except OSError:
            pass


class _Files(_Asker):
    """A client that asks and is answered by files, where no socket joins it with the engine."""

    def __init__(self):
        _Asker.__init__(self)
        self.dir = _os.environ["HERMES_RPC_DIR"]
        self.name = _os.urandom(8).hex()

    def paths(self, number):
        end = "%s-%d" % (self.name, number)
        return self.dir + "/req-" + end, self.dir + "/res-" + end

    def ask(self, tool, payload):
        frame = self.frame(tool, payload)
        request, answer = self.paths(self.id)
        draft = answer + ".tmp"
        try:
            with open(draft, "xb", opener=_private) as file:
                file.write(frame)
            _os.rename(draft, request)
        except OSError as exc:
            _remove(draft)
            if _os.path.isdir(self.dir):
                raise RPCError("the request could not be written: %s" % exc) from exc
            raise Disconnected(_LOST) from exc
        except BaseException:  # interrupted: what has not been taken yet will not be
            _remove(draft, request)
            raise

    def take(self, number):
        try:
            with open(self.paths(number)[1], "rb") as file:
                return file.read()
        except OSError:
            return None

    def exchange(self, tool, payload):
        # No loop here: when a signal handler raises at the jump of one, some Pythons
        # (3.13) pass over the finally around it.
        try:
            self.ask(tool, payload)
            line = self.wait()
        finally:  # a call at work whose request is gone is cancelled
            _remove(*self.paths(self.id))
        return self.result(line)

    def wait(self):
        watch = _Watch(self.dir)
        while True:
            line = self.take(self.id)
            if line is not None:
                return line
            try:
                pause = watch.pause()
            except Disconnected:
                line = self.take(self.id)  # it may have come at the last moment
                if line is None:
                    raise
                return line
            _sleep(pause)


class _Watch:
    """Tells whether the engine lives: then its file changes. Only what passes
    between two looks close together counts, so that a frozen script misjudges nobody."""

    dead = None  # the file as it was when an engine was found dead

    def __init__(self, dir):
        self.dir, self.beat, self.limit, self.quiet = dir, b"", 30, 0
        self.start()

    def start(self):
        self.since = _now()
        self.looked = self.since - 0.9

    def pause(self):
        """How long to wait for an answer before the next look: an eighth of the time waited."""
        now = _now()
        if now - self.looked >= 1:
            self.look(now)
        return min(0.05, max(0.0005, (now - self.since) / 8))

    def look(self, now):
        self.quiet += min(now - self.looked, 2)
        self.looked = now
        try:
            with open(self.dir + "/engine", "rb") as file:
                beat = file.read()
        except OSError as exc:
            if not _os.path.isdir(self.dir):
                raise Disconnected(_LOST) from exc
            beat = b""
        if beat != self.beat:
            self.beat, self.quiet = beat, 0
            told = _json.loads(beat.decode()) if beat else {}
            self.limit = told.get("dead_after", self.limit)
            if "closed" in told:
                raise Disconnected(told["closed"])
        if self.quiet > self.limit or beat == _Watch.dead:
            _Watch.dead = beat
            raise Disconnected(_LOST)


class _Poll:
    """What _Stream is, by files: one look for all calls of a loop."""

    def __init__(self, loop):
        self.loop = loop
        self.files = _Files()
        self.watch = _Watch(self.files.dir)
        self.queue = {}  # ticket -> (future, tool, payload), not yet asked
        self.asked = {}  # ticket -> (future, number)
        self.ticket = 0
        self.timer = None

    def start(self, tool, payload):
        self.ticket += 1
        future = self.loop.create_future()
        self.queue[self.ticket] = future, tool, payload
        self.watch.start()
        self.go_on()
        return self.ticket, future

    def go_on(self):
        """Ask what waits to be asked, and look again soon."""
        try:
            self.ask()
            if self.asked:
                self.again()
        except Disconnected as exc:
            self.collect()  # what came at the last moment
            self.end(exc)
        except BaseException:  # interrupted half-way
            self.end(Disconnected(_LOST))
            raise

    def ask(self):
        while self.queue and len(self.asked) < 64:  # the engine takes no more at a time
            ticket = next(iter(self.queue))
            future, tool, payload = self.queue.pop(ticket)
            if future.done():  # cancelled
                continue
            try:
                self.files.ask(tool, payload)
            except RPCError as exc:
                future.set_exception(exc)
            else:
                self.asked[ticket] = future, self.files.id

    def again(self):
        pause = self.watch.pause()
        if self.timer is not None:
            if self.timer.when() <= self.loop.time() + pause:
                return
            self.timer.cancel()
        self.timer = self.loop.call_later(pause, self.look)

    def look(self):
        self.timer = None
        self.collect()
        self.go_on()

    def collect(self):
        for ticket, (future, number) in list(self.asked.items()):
            line = self.files.take(number)
            if line is not None:
                self.forget(ticket)
                _, result, error = _answer(line.decode())
                if future.done():
                    continue
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
                self.watch.start()

    def forget(self, ticket):
        self.queue.pop(ticket, None)
        _, number = self.asked.pop(ticket, (None, None))
        if number is not None:
            _remove(*self.files.paths(number))

    def close(self, forked=False):
        for ticket in [] if forked else list(self.asked):
            self.forget(ticket)
        self.asked, self.queue = {}, {}

    def end(self, error):
        _streams.pop(self.loop, None)
        waiting = list(self.asked.values()) + list(self.queue.values())
        self.close()
        for entry in waiting:
            if not entry[0].done():
                entry[0].set_exception(error)


_ways["HERMES_RPC_DIR"] = _Files, _Poll

# HERMES_RPC_DIR ends.


_streams = {}  # event loop -> its _Stream, or _Poll


async def _acall(tool, args):
    from asyncio import get_running_loop
    payload = _encode(args)
    loop = get_running_loop()
    stream = _streams.get(loop)
    if stream is None:
        for other in list(_streams):  # of loops that ended without a word
            if other.is_closed():
                gone = _streams.pop(other, None)  # another thread may be at it too
                if gone is not None:
                    gone.close()
        stream = _streams[loop] = _way()[1](loop)
    number, future = stream.start(tool, payload)
    try:
        result = await future
        return _value(result) if type(result) is str else result
    finally:
        stream.forget(number)


class _Aio(type(_sys)):
    """Every tool as a coroutine function, made when it is first asked for."""

    def __getattr__(self, name):
        if name not in self.__all__:
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        plain = globals()[name]
        start = type(plain)(plain.__code__, {"_call": _acall}, name, plain.__defaults__)
        start.__kwdefaults__ = plain.__kwdefaults__

        async def twin(*args, **kwargs):
            return await start(*args, **kwargs)

        twin.__name__ = twin.__qualname__ = name
        twin.__module__ = self.__name__
        twin.__doc__ = plain.__doc__
        twin.__wrapped__ = plain  # inspect.signature and help show its parameters
        setattr(self, name, twin)
        return twin


aio = _Aio(__name__ + ".aio", "The tools as coroutines, under the same names.")
aio.__all__ = []
_sys.modules[aio.__name__] = aio


def _tool(function):
    """Make a generated function public, here and in aio."""
    __all__.append(function.__name__)
    aio.__all__.append(function.__name__)
    return function


@_tool
def sandbox():
    """What this run may do, as the engine enforces it; asking costs no tool call.
    A dict: mode, policy, rung ("" if nothing confines), cwd, scratch, network
    ("off" or "host"), limits (timeout_seconds, seconds_left, max_tool_calls, memory,
    pids, cpu, disk; None for none), calls_left, enforcement (clause -> state and
    mechanism), readable and writable (directories whose trees are, but for what the
    policy denies inside them)."""
    return _call("_sandbox", {})


def _forget():
    """A forked child must not share its parent's connections."""
    _mine.__dict__.clear()
    for stream in _streams.values():
        stream.close(forked=True)
    _streams.clear()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forget)
