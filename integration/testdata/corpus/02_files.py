from hermes_tools import read_file, write_file
print(write_file("made/deep/note.txt", "one\ntwo\nthree\n")["bytes_written"])
back = read_file("made/deep/note.txt")
print(back["content"], end="")
print(back["total_lines"])
print(open("made/deep/note.txt").read(), end="")
