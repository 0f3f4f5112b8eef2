"""A script that fails: its traceback and exit code are the result."""
from hermes_tools import json_parse, read_file

settings = read_file("no/such/settings.json")
print("read_file says:", settings["error"])
print(json_parse(settings["content"])["depth"])
