"""Resume: a program that is killed goes on where it was, at the very next element.

    resume.py FOLDER [STEPS]
"""

import sys

import numpy as np

import tutti


def main(folder, steps):
    numbers = tutti.data.Dataset.range(1000).shuffle(100, seed=7).batch(4)
    iterator = iter(numbers)
    total = np.zeros((), np.int64)
    # In a job of several processes without a strategy: Checkpoint(communicator=ranks, ...).
    checkpoint = tutti.train.Checkpoint(total=total, position=iterator)
    manager = tutti.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    manager.restore_or_initialize()  # values and the position, or nothing the first time
    while checkpoint.save_counter < steps:
        total += next(iterator).sum()
        manager.save()
    print(f"step {checkpoint.save_counter}: {total}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20)
