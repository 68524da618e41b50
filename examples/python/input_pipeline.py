"""An input pipeline that prepares its data once: shards of records are read several at a time,
parsed, mapped to lists of different lengths, kept on disk and in memory, shuffled and padded.

    PYTHONPATH=build/release/bindings/python python3 examples/python/input_pipeline.py
        SNAPSHOT_FOLDER [DATA_FOLDER]

Of each digit the list of its inked pixels is wanted. The function that makes it is called in the
first epoch alone: later epochs have the cache, and a definition that is made anew, as by the next
run of the program, has the snapshot. The same program stands in examples/c, java and go.
"""

import sys

import numpy as np

import tutti

BATCH = 32
PADDING = -1
calls = 0


def read_shard(name):
    """The records of one file."""
    return tutti.data.TFRecordDataset(name)


def ink(digit):
    """The numbers of the pixels that are at least half black, as many as there are; the label."""
    global calls  # pylint: disable=global-statement
    calls += 1
    return np.flatnonzero(digit["image"] >= 8), digit["label"]


def pipeline(data, snapshot):
    """Batches ([n, longest], [n]) of int64."""
    digits = tutti.data.Dataset.list_files(f"{data}/digits-*.tfrecord", shuffle=False)
    digits = digits.interleave(read_shard, cycle_length=4, block_length=16, num_parallel_calls=4)
    digits = digits.map(
        tutti.data.parse_example({"image": ([64], np.float32), "label": ([], np.int64)}))
    digits = digits.map(ink, output_signature=(tutti.TensorSpec([None], np.int64),
                                               tutti.TensorSpec([], np.int64)))
    digits = digits.snapshot(snapshot).cache().shuffle(500, seed=1)
    return digits.padded_batch(BATCH, padding_values=np.int64(PADDING)).prefetch(2)


def main():
    global calls  # pylint: disable=global-statement
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: input_pipeline.py SNAPSHOT_FOLDER [DATA_FOLDER]")
    snapshot, data = sys.argv[1], (sys.argv[2:] or ["examples/data"])[0]
    for definition in (1, 2):
        batches = pipeline(data, snapshot)
        for epoch in (1, 2):
            count = digits = inked = calls = 0
            for pixels, labels in batches:
                count += 1
                digits += len(labels)
                inked += int((pixels != PADDING).sum())
            print(f"definition {definition}, epoch {epoch}: {count} batches, {digits} digits, "
                  f"{inked} inked pixels, {calls} calls")


try:
    main()
except tutti.errors.Error as error:
    sys.exit(f"input_pipeline: {error}")
