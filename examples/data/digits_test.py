"""Reads the shards with a reader of its own and checks what README.md says about them."""

import pathlib
import struct
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
SHARDS = [FOLDER / f"digits-{shard:05d}-of-00008.tfrecord" for shard in range(8)]


def records(path):
    data, offset = path.read_bytes(), 0
    while offset < len(data):
        (size,) = struct.unpack_from("<Q", data, offset)
        yield data[offset + 12:offset + 12 + size]
        offset += 12 + size + 4


def varint(data, offset):
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset


def fields(message):
    """(number, payload) of each length-delimited field; there are no others."""
    offset = 0
    while offset < len(message):
        tag, offset = varint(message, offset)
        assert tag & 7 == 2, tag
        size, offset = varint(message, offset)
        yield tag >> 3, message[offset:offset + size]
        offset += size


def parse(record):
    ((_, features),) = fields(record)
    example = {}
    for _, entry in fields(features):
        (_, key), (_, feature) = fields(entry)
        ((kind, values),) = fields(feature)
        ((_, packed),) = fields(values)
        if kind == 2:
            example[key] = struct.unpack(f"<{len(packed) // 4}f", packed)
        else:
            assert kind == 3, kind
            value, end = varint(packed, 0)
            assert end == len(packed)
            example[key] = value
    return example


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shards = [[parse(record) for record in records(path)] for path in SHARDS]

    def test_eight_shards_hold_1797_examples(self):
        self.assertEqual([len(shard) for shard in self.shards], [225] * 5 + [224] * 3)

    def test_an_image_is_64_pixels_of_0_to_16_and_a_label_is_a_digit(self):
        for example in sum(self.shards, []):
            self.assertEqual(set(example), {b"image", b"label"})
            self.assertEqual(len(example[b"image"]), 64)
            self.assertLessEqual(set(example[b"image"]), set(map(float, range(17))))
            self.assertIn(example[b"label"], range(10))

    def test_every_shard_and_the_held_out_fifth_have_every_digit(self):
        held_out = sum(self.shards, [])[4::5]
        self.assertEqual(len(held_out), 359)
        for part in self.shards + [held_out]:
            self.assertEqual({example[b"label"] for example in part}, set(range(10)))


if __name__ == "__main__":
    unittest.main()
