"""Each worker of a pool reads its own files, for every way to start the workers and to end the pool."""
#= on .bin: open=40 fstat=80 lseek=80 read=80 close=40
#= processes: >=4
#= endings: *
#= exit: 42
#= case: fork, context manager
#= run: fork with
#= case: fork, closed and joined
#= run: fork join
#= case: spawn, context manager
#= run: spawn with
#= case: spawn, closed and joined
#= run: spawn join
#= case: forkserver, context manager
#= run: forkserver with
#= case: forkserver, closed and joined
#= run: forkserver join
import multiprocessing
import os
import sys


def work(number):
    with open(f"{number}.bin", "rb") as file:
        return len(file.read())


def main():
    method, end = sys.argv[1:]
    for number in range(40):
        fd = os.open(f"{number}.dat", os.O_CREAT | os.O_WRONLY)
        os.write(fd, bytes(number + 1))
        os.close(fd)
        os.rename(f"{number}.dat", f"{number}.bin")
    context = multiprocessing.get_context(method)
    if end == "with":
        with context.Pool(3) as pool:
            sizes = pool.map(work, range(40), chunksize=4)
    else:
        pool = context.Pool(3)
        sizes = pool.map(work, range(40), chunksize=4)
        pool.close()
        pool.join()
    print(sum(sizes))
    sys.exit(42 if sizes == list(range(1, 41)) else 1)


if __name__ == "__main__":
    main()
