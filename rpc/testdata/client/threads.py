# 64 threads count to exactly 64 * 50, or 64 * 10.
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from hermes_tools import count, echo

each = 10 if os.environ["SHORT"] else 50
seen = []
start = threading.Barrier(64)


def work(number):
    start.wait()
    mine = [count() for _ in range(each)]
    assert echo([number]) == [number]
    seen.extend(mine)


threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert sorted(seen) == list(range(1, 64 * each + 1))

with ThreadPoolExecutor(16) as pool:
    assert list(pool.map(echo, range(10 * each))) == list(range(10 * each))
print("ok")
