from hermes_tools import search_files
for kind in ("content", "files_only", "count"):
    found = search_files("needle", path=".", output_mode=kind)
    found.pop("engine", None)
    print(kind, sorted(map(str, found.get("matches") or found.get("files") or found.get("counts", {}).items())))
names = search_files("*.txt", target="files", path=".")
print(sorted(names["files"]))
