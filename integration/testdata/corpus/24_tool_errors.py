from hermes_tools import read_file, patch
print("error" in read_file("data/missing.txt"))
print("error" in patch(mode="replace", path="data/a.txt", old_string="not there at all", new_string="x"))
try:
    read_file()
except Exception as e:
    print(type(e).__name__)
