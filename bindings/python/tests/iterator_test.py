"""Iterators and their positions, and how deep a dataset may be."""

import threading
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec


class Table:
    """Something of which nobody can tell what it will give."""

    value = 7

    def method(self, x):
        return x

    def __radd__(self, x):
        return x


def plain(elements):
    return [e.tolist() if isinstance(e, np.ndarray) else e for e in elements]


class DepthTest(unittest.TestCase):
    def test_a_hundred_thousand_concatenated_datasets_do_what_two_do(self):
        one = Dataset.range(1)
        chain = one
        for _ in range(99_999):
            chain = chain.concatenate(one)
        chain = chain.concatenate(Dataset.range(7, 9))
        self.assertEqual(chain.cardinality(), 100_002)
        self.assertEqual(chain.element_spec, TensorSpec((), np.int64))
        self.assertIn("100001 parts", chain.explain())
        data = chain.serialize()
        del chain
        chain = Dataset.deserialize(data)
        iterator = iter(chain)
        for _ in range(99_000):
            next(iterator)
        state = iterator.save()
        rest = [0] * 1000 + [7, 8]
        self.assertEqual(list(iterator), rest)
        again = iter(chain)
        again.restore(state)
        self.assertEqual(list(again), rest)

    def test_what_is_appended_to_itself_is_walked_as_far_as_it_is_asked_for(self):
        chain = Dataset.range(3)
        for _ in range(40):
            chain = chain.concatenate(chain)
        self.assertEqual(chain.cardinality(), 3 << 40)
        self.assertIn("1099511627776 parts", chain.explain())
        self.assertEqual(list(chain.take(5)), [0, 1, 2, 0, 1])
        for _ in range(24):
            chain = chain.concatenate(chain)
        self.assertEqual(chain.cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        self.assertEqual(list(chain.take(4)), [0, 1, 2, 0])

    def test_more_than_a_thousand_operations_on_one_another_are_refused(self):
        dataset = Dataset.range(3)
        for _ in range(999):
            dataset = dataset.take(2)
        self.assertEqual(list(dataset), [0, 1])
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "take: .* 1001 operations deep, and at most 1000"):
            dataset.take(2)


class IteratorTest(unittest.TestCase):
    def test_the_end_is_stop_iteration_out_of_range_or_an_empty_optional(self):
        iterator = iter(Dataset.range(1))
        self.assertEqual(iterator.get_next(), 0)
        with self.assertRaises(StopIteration):
            next(iterator)
        with self.assertRaises(errors.OutOfRangeError):
            iterator.get_next()
        self.assertFalse(iterator.get_next_as_optional().has_value())
        with self.assertRaises(ValueError):
            iterator.get_next_as_optional().get_value()
        optional = iter(Dataset.range(1)).get_next_as_optional()
        self.assertEqual(optional.get_value(), 0)

    def test_a_saved_position_is_found_again(self):
        dataset = Dataset.range(100).shuffle(10, seed=1).batch(3)
        iterator = iter(dataset)
        for _ in range(4):
            next(iterator)
        state = iterator.save()
        rest = plain(iterator)
        again = iter(dataset)
        again.restore(state)
        self.assertEqual(plain(again), rest)
        with self.assertRaises(ValueError):
            iter(Dataset.range(3)).restore(state)

    def test_a_position_is_of_the_rows_and_not_of_how_soon_they_are_made(self):
        def dataset(calls, size):
            return (Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=calls)
                    .prefetch(size, name=f"by_{size}"))
        iterator = iter(dataset(4, 2))
        for _ in range(5):
            next(iterator)
        state = iterator.save()
        rest = plain(iterator)
        again = iter(dataset(1, 8))
        again.restore(state)
        self.assertEqual(plain(again), rest)

    def test_a_state_of_another_format_says_what_it_is(self):
        iterator = iter(Dataset.range(3))
        state = iterator.save()
        next(iterator)
        with self.assertRaisesRegex(
                errors.InvalidArgumentError,
                "an iterator's state in the format TUTTI-I1, and TUTTI-I2 is read here: an earlier "
                "release saved it; start the iterator afresh, or restore with the release that "
                "saved it"):
            iterator.restore(b"TUTTI-I1" + state[8:])
        self.assertEqual(next(iterator), 1)

    def test_a_closed_iterator_is_refused(self):
        with iter(Dataset.range(3)) as iterator:
            next(iterator)
        with self.assertRaises(errors.FailedPreconditionError):
            next(iterator)

    def test_a_timeout_loses_nothing(self):
        go = threading.Event()

        def slow():
            go.wait(60)
            yield 1

        dataset = Dataset.from_generator(
            slow, output_signature=TensorSpec((), np.int64)).prefetch(1)
        iterator = iter(dataset)
        with self.assertRaises(TimeoutError):
            iterator.next(timeout=0.01)
        go.set()
        self.assertEqual(next(iterator), 1)

    def test_elements_outlive_their_iterator(self):
        iterator = iter(Dataset.range(1000).batch(1000))
        batch = next(iterator)
        iterator.close()
        del iterator
        self.assertEqual(batch.sum(), 499500)


if __name__ == "__main__":
    unittest.main()
