# What a call returns, the helpers, and what `import *` brings.
import hermes_tools
from hermes_tools import *

assert noop() == {"ok": True}
assert echo(None) is None and echo([1, 2.5, "x", {"a": None}]) == [1, 2.5, "x", {"a": None}]
assert echo({"error": "no such file"}) == {"error": "no such file"}, "a tool's failure is data"

# A string that is JSON is decoded once more, any other is as it came.
assert echo('{"a": [1]}') == {"a": [1]}
assert echo('"\\"x\\""') == '"x"'
assert echo("17") == 17 and echo("plain text") == "plain text" and echo("") == ""
assert echo("[" * 100000) == "[" * 100000

for text in ("é", "😀", "\x00\x1f\x7f", "\u2028\u2029", "</script>", "a\nb\r\n", "\ufeff", "\ufffd", '"\\'):
    assert echo(["x", text]) == ["x", text], text

assert sandbox() == {"tool": "_sandbox", "args": {}} and "sandbox" in hermes_tools.aio.__all__

names = set(hermes_tools.__all__)
assert {"noop", "echo", "aio", "sandbox", "json_parse", "shell_quote", "retry", "HermesError", "RPCError",
        "Disconnected", "Unauthorized", "FrameTooLarge"} <= names
assert all(not name.startswith("_") for name in names)
for name in names:
    assert globals()[name] is getattr(hermes_tools, name)
assert issubclass(Disconnected, RuntimeError) and issubclass(Disconnected, HermesError)
for kind in (Disconnected, Unauthorized, FrameTooLarge):
    assert issubclass(kind, RPCError)

assert json_parse('{"a": "x\ny"}') == {"a": "x\ny"}
assert shell_quote("it's; rm -rf /") == "'it'\"'\"'s; rm -rf /'"

calls, naps = [], []
hermes_tools._sleep = naps.append


def fails(times):
    def fn():
        calls.append(1)
        if len(calls) <= times:
            raise ValueError(len(calls))
        return "done"
    calls.clear()
    naps.clear()
    return fn


assert retry(fails(0)) == "done" and naps == []
assert retry(fails(2)) == "done" and naps == [2, 4]
assert retry(fails(3), max_attempts=4, delay=0.5) == "done" and naps == [0.5, 1.0, 2.0]
try:
    retry(fails(3))
except ValueError as exc:
    assert exc.args == (3,) and naps == [2, 4], "no sleep after the last"
else:
    raise AssertionError("not raised")
try:
    retry(fails(1), max_attempts=1)
except ValueError:
    assert naps == []
else:
    raise AssertionError("not raised")
print("ok")
