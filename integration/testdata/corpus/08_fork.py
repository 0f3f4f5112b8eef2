import multiprocessing
from hermes_tools import read_file
def work(i):
    return read_file("data/a.txt")["total_lines"] + i
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(work, range(6)))
