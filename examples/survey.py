"""Survey a source tree: what it is made of, where its weight lies.

Usage: hermes-exec run examples/survey.py [DIRECTORY [FILE]]

Lists the tree with one terminal() call, reads the largest source files with
read_file(), prints the survey and writes it to FILE with write_file().
Everything a model would have had to read stays in this script; only the
summary comes out.
"""
import collections
import os.path
import re
import sys

from hermes_tools import read_file, shell_quote, terminal, write_file

LANGUAGES = {".go": "Go", ".py": "Python", ".sh": "Shell", ".md": "Markdown", ".js": "JavaScript", ".c": "C", ".rs": "Rust"}
FUNCTION = {"Go": re.compile(r"^func\s+(?:\([^)]*\)\s*)?(\w+)"), "Python": re.compile(r"^\s*(?:async\s+)?def\s+(\w+)")}
LARGEST = 30


def list_files(root):
    quoted = shell_quote(root)
    listing = terminal(
        f"cd {quoted} && (git ls-files -z 2>/dev/null || find . -type f -not -path '*/.*' -print0) | xargs -0 -r stat -c '%s %n' 2>/dev/null"
    )
    for line in listing["output"].splitlines():
        size, _, name = line.partition(" ")
        if size.isdigit():
            yield int(size), name.removeprefix("./") if hasattr(name, "removeprefix") else name


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = [(size, name) for size, name in list_files(root) if os.path.splitext(name)[1] in LANGUAGES]
    if not files:
        sys.exit(f"no source files below {root}")

    weight = collections.Counter()
    count = collections.Counter()
    for size, name in files:
        language = LANGUAGES[os.path.splitext(name)[1]]
        weight[language] += size
        count[language] += 1

    lines = functions = notes = 0
    longest = []
    for size, name in sorted(files, reverse=True)[:LARGEST]:
        result = read_file(os.path.join(root, name), limit=0)  # 0: to the end
        if result.get("error"):
            print(f"skipped {name}: {result['error']}", file=sys.stderr)
            continue
        text = result["content"]
        body = text.splitlines()
        lines += len(body)
        notes += len(re.findall(r"\b(?:TODO|FIXME)\b", text))
        pattern = FUNCTION.get(LANGUAGES[os.path.splitext(name)[1]])
        starts = [(i, m.group(1)) for i, line in enumerate(body) if pattern and (m := pattern.match(line))]
        functions += len(starts)
        ends = [i for i, _ in starts[1:]] + [len(body)]
        longest += [(end - start, what, name) for (start, what), end in zip(starts, ends)]

    report = [f"# Survey of {os.path.basename(root)}", "", "| language | files | KiB |", "|---|---:|---:|"]
    report += [f"| {lang} | {count[lang]} | {kib / 1024:.0f} |" for lang, kib in weight.most_common()]
    report += ["", f"The {min(LARGEST, len(files))} largest files: {lines} lines, {functions} functions, {notes} notes to self.", "", "Longest functions:", ""]
    report += [f"- {what} ({n} lines) in {name}" for n, what, name in sorted(longest, reverse=True)[:5]]
    text = "\n".join(report) + "\n"

    print(text)
    if len(sys.argv) > 2:
        saved = write_file(sys.argv[2], text)
        print(f"Saved to {saved['resolved_path']}" if not saved.get("error") else f"Not saved: {saved['error']}")


main()
