import hermes_tools
from hermes_tools import json_parse, retry, shell_quote
print(json_parse('{"a": [1, 2]}'), shell_quote("it's"), retry(lambda: 42, max_attempts=2))
s = hermes_tools.sandbox()
print(s["mode"], s["calls_left"] if "calls_left" in s else s["limits"])
