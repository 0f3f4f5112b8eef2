# Forked, spawned and started children call for themselves. In the reference
# a forked child shares its parent's connection and the replies are mixed.
import asyncio
import multiprocessing
import os
import subprocess
import sys

from hermes_tools import aio, echo


less = bool(os.environ["SHORT"])


def work(number):
    return [echo([os.getpid(), number, i]) == [os.getpid(), number, i] for i in range(20)]


def work_async(number):
    async def go():
        return await asyncio.gather(*(aio.echo([number, i]) for i in range(20)))
    return asyncio.run(go()) == [[number, i] for i in range(20)]


def main():
    assert echo("parent") == "parent"  # the parent's connection is open
    children = []
    for number in range(3 if less else 8):
        pid = os.fork()
        if pid == 0:
            ok = all(echo(["child", number, i]) == ["child", number, i] for i in range(20 if less else 50))
            os._exit(0 if ok else 1)
        children.append(pid)
        for i in range(20):
            assert echo(["parent", number, i]) == ["parent", number, i]
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)

    async def fork_in_a_loop():
        assert await aio.echo("loop") == "loop"
        pid = os.fork()
        if pid == 0:
            ok = echo("child of a loop") == "child of a loop"
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert await aio.echo("still") == "still"

    asyncio.run(fork_in_a_loop())

    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(3) as pool:
            assert all(map(all, pool.map(work, range(6)))), method
            assert all(pool.map(work_async, range(3))), method
            assert pool.map(echo, range(10)) == list(range(10)), method
            pool.close()
            pool.join()

    out = subprocess.run([sys.executable, "-c", "from hermes_tools import echo; print(echo('from a child'))"],
                         stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    assert out == "from a child\n"
    assert echo("parent") == "parent"
    print("ok")


if __name__ == "__main__":
    main()
