"""Writing TFRecords: examples that this library, TensorFlow and others read.

    write_tfrecords.py FOLDER
"""

import os
import sys

import numpy as np

import tutti


def main(folder):
    generator = np.random.default_rng(0)
    for shard in range(2):
        path = os.path.join(folder, f"train-{shard}-of-2.tfrecord")
        with tutti.data.ExampleWriter(path) as examples:  # whole, or not there
            for i in range(3):
                examples.write({"image": generator.random((8, 8), np.float32),
                                "label": 3 * shard + i, "source": "generated"})
    features = {"image": tutti.data.FixedLenFeature((8, 8), np.float32),
                "label": tutti.data.FixedLenFeature((), np.int64),
                "source": tutti.data.FixedLenFeature((), bytes)}
    files = tutti.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"), shuffle=False)
    dataset = tutti.data.TFRecordDataset(files).map(tutti.data.parse_example(features))
    for example in dataset:
        print(int(example["label"]), example["image"].shape, example["source"].decode())


if __name__ == "__main__":
    main(sys.argv[1])
