# 64 threads count to exactly 64 * 50.
import threading
from concurrent.futures import ThreadPoolExecutor

from hermes_tools import count, echo

seen = []
start = threading.Barrier(64)


def work(number):
    start.wait()
    mine = [count() for _ in range(50)]
    assert echo([number]) == [number]
    seen.extend(mine)


threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert sorted(seen) == list(range(1, 64 * 50 + 1))

with ThreadPoolExecutor(16) as pool:
    assert list(pool.map(echo, range(500))) == list(range(500))
print("ok")
