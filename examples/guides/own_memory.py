"""Own memory: what a call may use without a copy, and what must be copied.

    own_memory.py
"""

import numpy as np

import tutti


def main():
    ranks, = tutti.Communicator.create_local(1)

    # Results go into memory of yours: a NumPy array, or what has __dlpack__ (PyTorch, JAX's CPU).
    mine = np.zeros(4, np.float32)
    ranks.all_reduce(np.ones(4, np.float32), out=mine)
    print("in place:", mine)

    # Elements belong to the dataset, which another pass reads again: they are read-only.
    dataset = tutti.data.Dataset.from_tensor_slices(np.arange(4.0)).batch(2)
    print("of the dataset:", next(iter(dataset)).flags.writeable)
    print("your own copy:", next(dataset.as_numpy_iterator(writable=True)).flags.writeable)

    # Memory that all ranks of a machine map: large calls need no copy into shared memory.
    shared = ranks.create_tensor((1 << 16,), np.float32)
    np.asarray(shared)[:] = 1
    ranks.all_reduce(shared, out=shared)
    print("shared:", np.asarray(shared)[0])


if __name__ == "__main__":
    main()
