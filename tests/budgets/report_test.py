"""Tests of report.py and check.py."""

import json
import unittest

import check
import report

BUDGETS = """
# a remark
total 100
cluster 60   # seconds
dataset 30
unit across
"""

LOG = """
Label Time Summary:
cluster    =   1.00 sec*proc (1 test)

100% tests passed, 0 tests failed out of 3

Label Time Summary:
cluster    =  75.50 sec*proc (12 tests)
dataset    =   8.20 sec*proc (1 test)
unit       =  83.70 sec*proc (13 tests)

Total Test time (real) =  40.00 sec
"""


class ReadBudgetsTest(unittest.TestCase):
    def test_reads_seconds_and_what_cuts_across(self):
        budgets = report.read_budgets(BUDGETS)
        self.assertEqual(budgets.total, 100)
        self.assertEqual(budgets.seconds, {"cluster": 60, "dataset": 30})
        self.assertEqual(budgets.across, {"unit"})

    def test_names_the_line_that_says_nothing(self):
        for text, wanted in (("total 1\ncluster", "line 2: expected a label"),
                             ("total 1\ncluster soon", "line 2: expected a label"),
                             ("total 1\ncluster 0", "line 2: expected a label"),
                             ("total 1\ntotal 2", "line 2: total has a budget already"),
                             ("total 9\na 1\na across", "line 3: a has a budget already"),
                             ("cluster 1", "no line `total SECONDS`")):
            with self.subTest(text), self.assertRaisesRegex(report.Malformed, wanted):
                report.read_budgets(text)


class ProblemsTest(unittest.TestCase):
    def problems(self, text, labels):
        return report.problems_of(report.read_budgets(text), labels)

    def test_has_none_where_every_label_has_a_budget(self):
        self.assertEqual(self.problems(BUDGETS, {"cluster", "unit"}), [])

    def test_names_a_label_without_a_budget(self):
        [problem] = self.problems(BUDGETS, {"cluster", "tensor"})
        self.assertIn("the label tensor has no budget", problem)

    def test_names_budgets_that_do_not_fit_the_total(self):
        [problem] = self.problems(BUDGETS + "tensor 11\n", set())
        self.assertIn("add up to 101 s and the total is 100 s", problem)


class ReportTest(unittest.TestCase):
    def test_takes_the_last_summary(self):
        self.assertEqual(report.took(LOG)["cluster"], (75.5, 12))

    def test_names_what_is_over_its_budget(self):
        lines = report.report(report.read_budgets(BUDGETS), report.took(LOG))
        self.assertRegex(lines[1], r"^cluster +76 +60  12 tests OVER its budget by 16$")
        self.assertRegex(lines[2], r"^dataset +8 +30  1 tests$")
        self.assertIn("over budget: cluster.", lines[-1])

    def test_says_nothing_more_where_all_is_within(self):
        lines = report.report(report.read_budgets(BUDGETS), {"cluster": (60.0, 1)})
        self.assertEqual(len(lines), 3)


class LabelsTest(unittest.TestCase):
    LISTING = json.dumps({"tests": [
        {"name": "a", "properties": [{"name": "LABELS", "value": ["unit", "base"]}]},
        {"name": "b", "properties": [{"name": "TIMEOUT", "value": 60.0}]},
        {"name": "c"}]})

    def test_are_read_from_ctests_listing(self):
        self.assertEqual(check.labels_of(self.LISTING), {"unit", "base"})

    def test_a_test_without_one_is_named(self):
        self.assertEqual(check.unlabelled(self.LISTING), ["b", "c"])


if __name__ == "__main__":
    unittest.main()
