from hermes_tools import read_file
line = "x" * 99 + "\n"
open("big.txt", "w").write(line * 50000)
r = read_file("big.txt", limit=50000)
print(len(r["content"]), r["total_lines"], r["content"] == line * 50000)
