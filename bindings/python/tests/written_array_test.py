"""Arrays that calls write into: fields of records and other views get their results, or the call
says why they cannot; nothing is written into a copy that nobody sees."""

import os
import tempfile
import unittest

import numpy as np

import tutti
from tutti import train

HANG_S = 60


def field(length, dtype):
    """A field of `length` records whose strides are no multiple of its element size."""
    dtype = np.dtype(dtype)
    records = np.zeros(length, [("value", dtype), ("n", f"V{dtype.itemsize // 2}")])
    return records["value"]


def writes(communicator, array):
    """Every way of this rank to have 7 written into `array`, by name."""
    c, seven = communicator, np.full(array.shape, 7, array.dtype)

    def plan():
        buckets = tutti.BucketPlan(c, [array], "sum")
        buckets.ready(0)
        buckets.wait(HANG_S)
        buckets.tensors[0].numpy()[...] = 7  # one rank's sum is its own: see where the plan works

    return {
        "all_reduce": lambda: c.all_reduce(seven, out=array),
        "all_reduce_async": lambda: c.all_reduce_async(seven, out=array).result(HANG_S),
        "all_reduce_many": lambda: c.all_reduce_many([np.zeros(2), seven],
                                                     out=[np.zeros(2), array]),
        "reduce": lambda: c.reduce(seven, out=array),
        "reduce_scatter": lambda: c.reduce_scatter(seven, out=array),
        "all_gather": lambda: c.all_gather(seven, out=array),
        "scatter": lambda: c.scatter(seven, out=array),
        "all_to_all": lambda: c.all_to_all(seven, out=array),
        "bucket_plan": plan,
    }


class WrittenArrayTest(unittest.TestCase):
    def test_a_field_of_one_record_gets_the_result(self):
        communicator, = tutti.Communicator.create_local(1)
        for dtype in ("f8", "c8", "i4", "f2"):
            for name in writes(communicator, field(1, dtype)):
                with self.subTest(name, dtype=dtype):
                    array = field(1, dtype)
                    writes(communicator, array)[name]()
                    self.assertEqual(array.tolist(), [7])

    def test_a_step_along_an_axis_of_one_does_not_matter(self):
        communicator, = tutti.Communicator.create_local(1)
        whole = np.zeros((2, 3, 5), np.float32)
        column = whole[:, :1, :4].view(np.complex64)[..., ::2]
        self.assertEqual((column.shape, column.strides), ((2, 1, 1), (60, 20, 16)))
        with self.assertRaisesRegex(ValueError, r"strides \(60, 20, 16\)"):
            communicator.all_reduce(np.ones(column.shape, np.complex64), out=column)
        column = column[:1]
        communicator.all_reduce(np.ones(column.shape, np.complex64), out=column)
        self.assertEqual(column.tolist(), [[[1.0]]])
        self.assertEqual(whole.sum(), 1.0)

    def test_a_field_of_many_records_is_refused_and_stays_as_it_is(self):
        communicator, = tutti.Communicator.create_local(1)
        array = field(4, "c8")
        for name, write in writes(communicator, array).items():
            with self.subTest(name):
                array[...] = 0
                with self.assertRaisesRegex(ValueError, r"complex64.*strides \(12,\).*np.zeros"):
                    write()
                self.assertEqual(array.tolist(), [0] * 4)

    def test_what_a_broadcast_and_a_receive_write_is_held_to_the_same(self):
        one, two = tutti.Communicator.create_local(2)
        for name, begin in {
                "broadcast": lambda a: (one.broadcast_async(np.full(a.shape, 7, a.dtype)),
                                        two.broadcast_async(a)),
                "receive": lambda a: (one.send_async(np.full(a.shape, 7, a.dtype), 1),
                                      two.receive_async(a, 0))}.items():
            with self.subTest(name):
                array = field(1, "f8")
                for future in begin(array):
                    future.result(HANG_S)
                self.assertEqual(array.tolist(), [7.0])
        for refused in (lambda: two.broadcast(field(4, "c8"), timeout=HANG_S),
                        lambda: two.broadcast_async(field(4, "c8")),
                        lambda: two.receive(field(4, "c8"), 0, timeout=HANG_S),
                        lambda: two.receive_async(field(4, "c8"), 0)):
            with self.assertRaisesRegex(ValueError, r"complex64.*strides \(12,\)"):
                refused()

    def test_a_restore_writes_into_the_field_that_was_given(self):
        step, refused = field(1, "i8"), field(4, "c8")
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = train.Checkpoint(step=step)
            step[0] = 7
            path = checkpoint.save(os.path.join(folder, "ckpt"))
            step[0] = 0
            checkpoint.restore(path)
            self.assertEqual(step.tolist(), [7])
        with self.assertRaisesRegex(ValueError, r"complex64.*strides \(12,\)"):
            train.Checkpoint(values=refused)

    def test_foreign_byte_order_and_unaligned_memory_are_refused(self):
        communicator, = tutti.Communicator.create_local(1)
        packed = np.zeros(3, np.dtype([("a", "i1"), ("b", "<f8")]))["b"]
        for array, why in ((np.zeros(3, ">f8"), ">f8"), (packed, "not aligned")):
            with self.assertRaisesRegex(ValueError, why):
                communicator.all_reduce(np.ones(3), out=array)

    def test_an_empty_array_may_lie_anyhow(self):
        communicator, = tutti.Communicator.create_local(1)
        for array in (field(0, "c8"), np.zeros((4, 12), np.uint8)[:, :8].view("c8")[:, :0]):
            self.assertIs(communicator.all_reduce(np.zeros(array.shape, "c8"), out=array), array)


if __name__ == "__main__":
    unittest.main()
