"""The collectives, one after the other, between the workers of a job; every result is checked.

    tutti run --workers 3 -- python3 examples/python/collectives.py [--elements N]

The same program stands in examples/c, examples/java and examples/go. All of them make the same
calls, so that the workers of one job may be of different languages.
"""

import argparse
import sys

import numpy as np

import tutti

LAYERS = 8


def check(what, found, expected):
    if not np.array_equal(found, expected):
        sys.exit(f"collectives: {what}: found {found}, expected {expected}")


def numbers(count, value):
    return np.full(count, value, np.float32)


def show(communicator, elements):
    rank, size = communicator.rank, communicator.size
    total = size * (size + 1) // 2  # 1 + 2 + ... + size

    def say(text):
        if rank == 0:
            print(text, flush=True)

    # Many tensors in one call.
    inputs = [numbers(count, rank + 1) for count in (1, 4, elements)]
    for found in communicator.all_reduce_many(inputs):
        check("all_reduce_many", found, numbers(len(found), total))
    say(f"all_reduce_many: three tensors summed over {size} workers")

    # An all_reduce in two halves: everybody has a part of the sum in between.
    rows = np.arange(2 * size, dtype=np.float32)
    part = communicator.reduce_scatter(rows * (rank + 1))
    check("reduce_scatter", part, rows[2 * rank:2 * rank + 2] * total)
    check("all_gather", communicator.all_gather(part), rows * total)
    say("reduce_scatter and all_gather: the parts of the sum, and the sum")

    # A different number of rows for everybody.
    send_rows = [1 + (rank + to) % size for to in range(size)]
    parts = [numbers(count, 100 * rank + to) for to, count in enumerate(send_rows)]
    came, came_rows = communicator.all_to_all(np.concatenate(parts), send_rows)
    expected = [1 + (source + rank) % size for source in range(size)]
    check("all_to_all: rows", came_rows, expected)
    check("all_to_all", came, np.concatenate(
        [numbers(count, 100 * source + rank) for source, count in enumerate(expected)]))
    say("all_to_all: uneven rows to everybody")

    # Round in a ring; who is odd receives first.
    came = np.zeros(4, np.float32)
    if rank % 2 == 1:
        communicator.receive(came, (rank - 1) % size)
    communicator.send(numbers(4, rank), (rank + 1) % size)
    if rank % 2 == 0:
        communicator.receive(came, (rank - 1) % size)
    check("receive", came, numbers(4, (rank - 1) % size))
    say("send and receive: round in a ring")

    # Groups of the even and of the odd ones.
    with communicator.split(rank % 2, key=rank) as group:
        mine = range(rank % 2, size, 2)
        check("split: size", group.size, len(mine))
        check("all_reduce of a group", group.all_reduce(numbers(4, rank)), numbers(4, sum(mine)))
    say("split: sums of the even ones and of the odd ones")

    # Three calls under way, the last one waited for first.
    futures = [communicator.all_reduce_async(numbers(elements, rank * factor))
               for factor in (1, 2, 3)]
    for factor, future in reversed(list(zip((1, 2, 3), futures))):
        check("all_reduce_async", future.result(), numbers(elements, (total - size) * factor))
    say("futures: three sums, waited for in another order")

    # Gradients are summed while the backward pass makes more of them, last layer first. The plan
    # makes them, like these, in memory that all workers of a machine map.
    layers = [np.empty(elements, np.float32) for _ in range(LAYERS)]
    plan = tutti.BucketPlan(communicator, layers, op="sum", own_tensors=True)
    gradients = [np.asarray(tensor) for tensor in plan.tensors]
    for step in range(2):
        for i, gradient in enumerate(gradients):
            gradient[:] = (rank + 1) * (i + step)  # what a backward pass would compute here
            plan.ready(i)
        plan.wait()
        for i, gradient in enumerate(gradients):
            check("bucket plan", gradient, numbers(elements, total * (i + step)))
    say(f"bucket plan: {LAYERS} gradients, two steps")


def main():
    parser = argparse.ArgumentParser(description="The collectives, one after the other.")
    parser.add_argument("--elements", type=int, default=1000, help="of a gradient")
    arguments = parser.parse_args()
    if not 1 <= arguments.elements <= 1000000:
        parser.error(f"--elements {arguments.elements}: expected 1 to 1000000")
    try:
        with tutti.Cluster.join() as cluster:
            if cluster.num_workers < 2:
                sys.exit("collectives: needs two workers or more: tutti run --workers 2 -- ...")
            with tutti.Communicator.create(cluster, name="collectives") as communicator:
                show(communicator, arguments.elements)
                print(f"worker {communicator.rank} of {communicator.size} (Python): all right",
                      flush=True)
    except tutti.errors.Error as error:
        sys.exit(f"collectives: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
