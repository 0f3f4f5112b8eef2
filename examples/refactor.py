"""Rename functions all over a source tree, and prove that it still works.

Usage: hermes-exec run examples/refactor.py [DIRECTORY [OLD NEW]]

Works on a temporary copy of DIRECTORY, a Go module or a tree of Python source:
search_files() finds every use, patch() changes them, with one replacement
where a file has several and one V4A patch for all files that have one, and the
copy is built, checked and tested. Without OLD and NEW it renames the functions
that the most files use, as far as the call limit goes, in packages that are
quick to check. A model that did this by hand would have read every match and
every diff; this script prints a table, and exits with 1 when the copy no
longer works.
"""
import collections
import os
import re
import sys
import time

from hermes_tools import patch, read_file, search_files, shell_quote, terminal

BUDGET = 26  # calls for renaming; finding, copying and checking take some 12 more
PACKAGES = 2  # that are changed: each has to be built and checked
COPY = """
cd {root} && (git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -type f -not -path '*/.git/*' -print0) |
    tar --null -T - -cf - 2>/dev/null | tar -xf - -C {copy}"""
DEFINITION = {".go": r"^func ([a-z]\w{4,})\(", ".py": r"^def ([a-z]\w{4,})\("}
NOT_A_CANDIDATE = re.compile(r"(test|main$|init$)")
calls = collections.Counter()


class Failed(Exception):
    pass


def call(tool, **arguments):
    """Calls a tool, counts it, and takes an error for one."""
    calls[tool.__name__] += 1
    result = tool(**arguments)
    if result.get("error"):
        raise Failed(f"{tool.__name__}: {result['error']}")
    return result


def shell(command, where=None, wanted=(0,)):
    started = time.time()
    result = call(terminal, command=command, workdir=where, timeout=300)
    if result["exit_code"] not in wanted:
        raise Failed(f"{command}: exit code {result['exit_code']}\n{result['output'][-2000:]}")
    return result["output"], time.time() - started


def search(pattern, copy, suffix):
    """All matches, page by page."""
    found, offset = [], 0
    while True:
        page = call(search_files, pattern=pattern, path=copy, file_glob="*" + suffix, limit=2000, offset=offset)
        found += page.get("matches", [])
        if not page.get("truncated"):
            return found
        offset = page["next_offset"]


def scope(path, suffix):
    """Where a function's name means that function: its package, in Go."""
    return os.path.dirname(path) if suffix == ".go" else ""


def candidates(copy, suffix):
    """Functions with a name that stands for nothing else, most used first."""
    defined = collections.Counter()
    for match in search(DEFINITION[suffix], copy, suffix):
        defined[scope(match["path"], suffix), re.match(DEFINITION[suffix], match["content"]).group(1)] += 1
    names = {name for (_, name), times in defined.items() if times == 1 and not NOT_A_CANDIDATE.search(name)}
    files, spoiled = collections.defaultdict(set), set()
    for match in search(r"\b(" + "|".join(sorted(names)) + r")\b", copy, suffix) if names else ():
        text = match["content"]
        for word in re.finditer(r"\w+", text):
            where = scope(match["path"], suffix), word.group()
            if defined[where] == 1:
                files[where].add(match["path"])
                # In a path, a string, prose or behind a dot it may be another's.
                if text[:word.start()][-1:] in tuple("/.-\"'`") or not re.match(r"[(),\]})]|$", text[word.end():]):
                    spoiled.add(where)
    quick = leaves(copy, suffix)
    return sorted((c for c in files if c[1] in names and c not in spoiled), key=lambda c: (not quick(c[0]), -len(files[c]), c))


def leaves(copy, suffix):
    """Tells the Go packages that need no other one of the module: they build in no time."""
    if suffix != ".go":
        return lambda directory: True
    module = re.search(r"^module\s+(\S+)", call(read_file, path=os.path.join(copy, "go.mod"))["content"], re.M).group(1)
    busy = {os.path.dirname(match["path"]) for match in search('"' + re.escape(module) + "/", copy, suffix)}
    return lambda directory: directory not in busy


def rename(directory, suffix, old, new):
    """Renames one function in every file; returns files, places and diffs."""
    uses, inside_another = collections.defaultdict(list), set()
    for match in search(rf"{old}|\b{new}\b", directory, suffix):
        if suffix == ".go" and os.path.dirname(match["path"]) != directory:
            continue
        words = re.findall(r"\w+", match["content"])
        if new in words:
            raise Failed(f"{new} is taken: {match['path']}:{match['line']}")
        if any(old in word and word != old for word in words):
            inside_another.add(match["path"])
        if old in words:
            uses[match["path"]].append(match["content"])
    v4a, places, diffs = [], 0, []
    for path, lines in uses.items():
        if path in inside_another or len(lines) == 1:
            if len(set(lines)) < len(lines) or max(map(len, lines)) >= 500:  # where search_files cuts
                raise Failed(f"{path}: cannot tell the uses of {old} apart")
            v4a.append(f"*** Update File: {path}")
            for line in lines:
                v4a += ["@@", "-" + line, "+" + re.sub(rf"\b{old}\b", new, line)]
                places += len(re.findall(rf"\b{old}\b", line))
        else:
            result = call(patch, path=path, old_string=old, new_string=new, replace_all=True)
            places += result.get("replacements", 1)
            diffs.append(result["diff"])
    if v4a:
        result = call(patch, mode="patch", patch="\n".join(["*** Begin Patch"] + v4a + ["*** End Patch"]))
        diffs.append(result["diff"])
    return sorted(uses), places, diffs


def checks(copy, suffix, changed):
    """What must work afterwards: name, command, exit codes that are fine."""
    if suffix == ".py":
        yield "compile", "python3 -m compileall -q .", (0,)
        yield "test", "python3 -m unittest discover -q", (0, 5)  # 5: there are none
        return
    packages = sorted({"./" + os.path.relpath(os.path.dirname(f), copy) for f in changed})
    quoted = " ".join(map(shell_quote, packages))  # nobody else can see the names
    yield "build", "GOPROXY=off go build " + quoted, (0,)
    yield "vet", "GOPROXY=off go vet " + quoted, (0,)
    # Of the tests, those of the package that has the least of them.
    weights = [(sum(map(os.path.getsize, tests)), p) for p in packages for tests in [test_files(os.path.join(copy, p))] if tests]
    if weights:
        yield "test", "GOPROXY=off go test -short -count=1 " + shell_quote(min(weights)[1]), (0,)


def test_files(directory):
    return [os.path.join(directory, f) for f in os.listdir(directory) if f.endswith("_test.go")]


def refactor(root, copy, wanted):
    shell(COPY.format(root=shell_quote(root), copy=shell_quote(copy)))
    shell("git init -q . && git add -A && git -c user.name=x -c user.email=x@localhost commit -qm before", copy)
    suffix = ".go" if os.path.exists(os.path.join(copy, "go.mod")) else ".py"
    changed, diffs, spent, most = set(), [], 0, 0
    print(f"{'function':<34}{'files':>6}{'places':>8}")
    for where, old in [(copy, wanted[0])] if wanted else candidates(copy, suffix):
        new = wanted[1] if wanted else old + ("Renamed" if suffix == ".go" else "_renamed")
        if spent + most > BUDGET:
            break
        if len({os.path.dirname(f) for f in changed} | {where}) > PACKAGES:
            continue
        before = sum(calls.values())
        files, places, some = rename(where or copy, suffix, old, new)
        cost = sum(calls.values()) - before
        spent, most = spent + cost, max(most, cost)
        changed.update(files)
        diffs += some
        print(f"{os.path.relpath(where or copy, copy) + ': ' + old:<34}{len(files):>6}{places:>8}")
    if not changed:
        raise Failed("there is nothing to rename")
    lines = [line for diff in diffs for line in diff.splitlines() if line[:1] in "+-" and line[:4] not in ("+++ ", "--- ")]
    print(f"\n{len(changed)} files changed, {sum(l[0] == '+' for l in lines)} insertions, {sum(l[0] == '-' for l in lines)} deletions by the diffs")
    print("git says: " + shell("git diff --shortstat", copy)[0].strip())
    for name, command, wanted_codes in checks(copy, suffix, changed):
        _, seconds = shell(command, copy, wanted_codes)
        print(f"{name:<8} ok  {seconds:5.1f} s  {command}")


def main(arguments):
    root = os.path.abspath(arguments[0] if arguments else ".")
    wanted = arguments[1:3] if len(arguments) > 2 else None
    copy = shell("mktemp -d")[0].strip()
    try:
        refactor(root, copy, wanted)
    except Failed as err:
        print(err, file=sys.stderr)
        return 1
    finally:
        shell("rm -rf " + shell_quote(copy))
        print(f"{sum(calls.values())} tool calls: " + ", ".join(f"{n} {tool}" for tool, n in calls.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
