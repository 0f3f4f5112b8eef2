from hermes_tools import patch, read_file
print(patch(mode="replace", path="data/a.txt", old_string="hay\nneedle one", new_string="hay\nneedle 1")["success"])
print(read_file("data/a.txt")["content"], end="")
