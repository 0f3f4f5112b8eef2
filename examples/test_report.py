"""Run a project's Go tests, package by package, and report what matters.

Usage: hermes-exec run examples/test_report.py PACKAGE…

Each package is listed, tested in JSON mode and, where something failed, the
failing test's source is read. A model that did this by hand would have read
every line of output; this script prints one table.
"""
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from hermes_tools import json_parse, read_file, shell_quote, terminal


def describe(package):
    listing = terminal(f"go list -json {shell_quote(package)}", timeout=120)
    return json_parse(listing["output"]) if listing["exit_code"] == 0 else None


def tests_of(package):
    listing = terminal(f"go test -list . {shell_quote(package)}", timeout=300)
    return [name for name in listing["output"].split() if name.startswith(("Test", "Example", "Fuzz"))]


def run(package, pattern):
    out = terminal(f"go test -json -short -count=1 -run {shell_quote(pattern)} {shell_quote(package)}", timeout=300)["output"]
    passed, failed, slowest = 0, [], (0.0, "-")
    for line in out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        name = event.get("Test", "")
        if not name or "/" in name:
            continue
        if event["Action"] == "pass":
            passed += 1
        elif event["Action"] == "fail":
            failed.append(name)
        if event["Action"] in ("pass", "fail"):
            slowest = max(slowest, (event["Elapsed"], name))
    return passed, failed, slowest


def show_failure(directory, files, name):
    for file in files:
        text = read_file(f"{directory}/{file}", limit=0).get("content", "")
        match = re.search(rf"^func {name}\(", text, re.M)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            return f"{file}:{line}"
    return "?"


def main(packages):
    broken = 0
    print(f"{'package':<24}{'tests':>7}{'passed':>8}{'failed':>8}  slowest")
    with ThreadPoolExecutor(2) as pool:  # tool calls may be made from threads
        infos = list(pool.map(describe, packages))
        names = list(pool.map(tests_of, packages))
    for package, info, tests in zip(packages, infos, names):
        if info is None:
            print(f"{package:<24} is not a Go package", file=sys.stderr)
            broken += 1
            continue
        passed, failed, slowest = 0, [], (0.0, "-")
        half = max(1, (len(tests) + 1) // 2)
        for part in (tests[:half], tests[half:]):
            if part:
                p, f, s = run(package, f"^({'|'.join(part)})$")
                passed, failed, slowest = passed + p, failed + f, max(slowest, s)
        print(f"{package:<24}{len(tests):>7}{passed:>8}{len(failed):>8}  {slowest[1]} {slowest[0]:.2f}s")
        for name in failed:
            broken += 1
            where = show_failure(info["Dir"], info.get("TestGoFiles", []) + info.get("XTestGoFiles", []), name)
            print(f"  FAIL {name} ({where})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["./..."]))
