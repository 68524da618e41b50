#!/usr/bin/env python3
"""Writes the digits-*.tfrecord shards of this folder from scikit-learn's copy of the data.

    make_digits.py                    takes digits.csv.gz from the installed scikit-learn
    make_digits.py digits.csv.gz      takes the file named
    make_digits.py --out FOLDER ...   writes there instead of beside this script

The output depends on the input alone, byte for byte: SHA256SUMS lists it. Only Python's own library
is needed. Formats: a TFRecord file frames each record as {uint64 length, uint32 crc of the length,
bytes, uint32 crc of the bytes}, little-endian, the crc being CRC-32C rotated and offset ("masked");
each record is a tf.train.Example message in protobuf's wire format.
"""

import argparse
import gzip
import hashlib
import importlib.util
import pathlib
import struct

SHARDS = 8
ROWS = 1797
PIXELS = 64


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record):
    length = struct.pack("<Q", len(record))
    return (length + struct.pack("<I", masked_crc32c(length)) +
            record + struct.pack("<I", masked_crc32c(record)))


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def example(image, label):
    """Example{features: Features{feature: map<string, Feature>}}, the map in key order."""
    features = {
        b"image": field(2, field(1, struct.pack(f"<{PIXELS}f", *image))),  # FloatList, packed
        b"label": field(3, field(1, varint(label))),                       # Int64List, packed
    }
    entries = b"".join(field(1, field(1, key) + field(2, value))
                       for key, value in sorted(features.items()))
    return field(1, entries)


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
        records = [framed(example(row[:PIXELS], row[PIXELS])) for row in rows[shard::SHARDS]]
        path = arguments.out / f"digits-{shard:05d}-of-{SHARDS:05d}.tfrecord"
        path.write_bytes(b"".join(records))
        print(f"{path}: {len(records)} examples")


if __name__ == "__main__":
    main()
