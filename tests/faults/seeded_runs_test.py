"""Tests of seeded_runs.py."""

import unittest

from seeded_runs import SeededRuns


class SeededRunsTest(unittest.TestCase):
    def count(self, ordinary, scale, each_s):
        now = [0.0]
        runs = SeededRuns("runs", ordinary, scale, lambda: now[0])
        numbers = []
        for number in runs:
            numbers.append(number)
            now[0] += each_s
        self.assertEqual(numbers, list(range(runs.done)))
        return runs.done

    def test_scale_with_the_percentage(self):
        self.assertEqual(self.count(60, 100, 0), 60)
        self.assertEqual(self.count(60, 20, 0), 12)
        self.assertEqual(self.count(60, 800, 0), 480)

    def test_are_one_at_least(self):
        self.assertEqual(self.count(5, 0, 1000), 1)

    def test_begin_nothing_new_after_a_while(self):
        self.assertEqual(self.count(60, 100, 7), 4)

    def test_go_on_where_more_are_asked_for(self):
        self.assertEqual(self.count(60, 200, 7), 120)


if __name__ == "__main__":
    unittest.main()
