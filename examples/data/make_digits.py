#!/usr/bin/env python3
"""Writes the digits-*.tfrecord shards of this folder from scikit-learn's copy of the data.

    make_digits.py                    takes digits.csv.gz from the installed scikit-learn
    make_digits.py digits.csv.gz      takes the file named
    make_digits.py --out FOLDER ...   writes there instead of beside this script

The output depends on the input alone, byte for byte: SHA256SUMS lists it. Each record is a
tf.train.Example of an image, 64 floats, and its label. Needs Tutti's package and NumPy.
"""

import argparse
import gzip
import hashlib
import importlib.util
import pathlib

import numpy

import tutti

SHARDS = 8
ROWS = 1797
PIXELS = 64


def read_rows(path):
    """Rows of 64 pixels and a label, in the order of the file."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        rows = [[int(float(cell)) for cell in line.split(",")] for line in lines if line.strip()]
    if len(rows) != ROWS or any(len(row) != PIXELS + 1 for row in rows):
        raise SystemExit(f"{path}: expected {ROWS} rows of {PIXELS} pixels and a label")
    return rows


def shuffled(rows):
    """A fixed order that scatters writers and classes: by the SHA-256 of the row's number."""
    return [rows[index] for index in
            sorted(range(len(rows)), key=lambda i: hashlib.sha256(b"digit %d" % i).digest())]


def installed_file():
    spec = importlib.util.find_spec("sklearn")
    if spec is None:
        raise SystemExit("scikit-learn is not installed; name a digits.csv.gz instead")
    return pathlib.Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="?", type=pathlib.Path, help="scikit-learn's digits.csv.gz")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    arguments = parser.parse_args()

    rows = shuffled(read_rows(arguments.csv or installed_file()))
    for shard in range(SHARDS):
        path = arguments.out / f"digits-{shard:05d}-of-{SHARDS:05d}.tfrecord"
        with tutti.data.ExampleWriter(path) as examples:
            for row in rows[shard::SHARDS]:
                examples.write({"image": numpy.array(row[:PIXELS], numpy.float32),
                                "label": row[PIXELS]})
        print(f"{path}: {len(rows[shard::SHARDS])} examples")


if __name__ == "__main__":
    main()
