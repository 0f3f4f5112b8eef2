import threading
from hermes_tools import read_file
seen = []
def work(i):
    for _ in range(3):
        seen.append(read_file("data/a.txt")["total_lines"])
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(seen), set(seen))
