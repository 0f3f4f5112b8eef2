# calls: 3
from hermes_tools import read_file
for i in range(5):
    try:
        print(i, "content" in read_file("data/a.txt"))
    except Exception as e:
        print(i, type(e).__name__)
