"""What explain tells after a run, what AUTOTUNE chose, and statistics of all ranks."""

import concurrent.futures
import json
import time
import unittest

import tutti
from tutti.data import Dataset, Options, experimental


class ExplainTest(unittest.TestCase):
    def test_explain_tells_of_a_run_what_limited_it(self):
        def slow(number):
            time.sleep(0.0005)
            return number

        dataset = Dataset.range(40).map(slow, name="slow").batch(4).progress("read")
        options = Options()
        options.experimental_stats.profile = True
        dataset = dataset.with_options(options)
        self.assertNotIn("run:", dataset.explain())
        with iter(dataset) as iterator:
            self.assertEqual(len(list(iterator)), 10)
            text = iterator.explain()
            report = iterator.explain("json")
        self.assertIn("run: 10 rows in ", text)
        self.assertIn("40 callback calls", text)
        self.assertRegex(text, "bottleneck: map 'slow': calls the program per row: .* each; as an "
                               "expression it would be native")
        self.assertIn("run: 10 rows in ", dataset.explain())
        self.assertIn("run: 10 rows in ", Dataset.explain_report(report))
        self.assertEqual(Dataset.explain_report(report.encode(), "json"), report)
        self.assertEqual(json.loads(report)["rows"], 10)
        self.assertTrue(dataset.explain("svg").startswith("<svg "))
        with self.assertRaisesRegex(ValueError, "the formats are text, json and svg"):
            dataset.explain("yaml")
        with self.assertRaisesRegex(ValueError, "this is no report"):
            Dataset.explain_report("{}")

    def test_calls_behind_pythons_lock_are_named(self):
        def computes(number):
            end = time.thread_time() + 0.003
            while time.thread_time() < end:
                pass
            return number

        options = Options()
        options.experimental_stats.profile = True
        for _ in range(10):  # where other programs have the processor, it may not be seen
            dataset = Dataset.range(30).map(computes, num_parallel_calls=4).with_options(options)
            self.assertEqual(len(list(dataset)), 30)
            if "take turns" in dataset.explain():
                break
        self.assertRegex(dataset.explain(),
                         "bottleneck: map: calls the program per row: .* take turns.*Python's")

    def test_what_autotune_chose_is_told(self):
        dataset = Dataset.range(3).map(lambda x: x, tutti.data.AUTOTUNE, native=False)
        self.assertEqual(list(dataset), [0, 1, 2])
        self.assertIn("chosen: num_parallel_calls: ", dataset.explain())
        options = Options()
        options.experimental_optimization.autotune = False
        dataset = dataset.with_options(options)
        self.assertEqual(list(dataset), [0, 1, 2])
        self.assertNotIn("chosen: ", dataset.explain())

    def test_a_distributed_dataset_tells_of_its_run_and_a_job_of_all_ranks(self):
        options = Options()
        options.experimental_stats.profile = True
        dataset = Dataset.range(8).map(lambda x: x, native=False).batch(4).with_options(options)
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        reports = []
        for _ in range(2):
            distributed = strategy.distribute_dataset(dataset)
            with iter(distributed) as iterator:
                self.assertEqual(len(list(iterator)), 2)
                self.assertIn("run: 2 rows in ", iterator.explain())
                self.assertTrue(iterator.explain("svg").startswith("<svg "))
                reports.append(iterator.explain("json"))
        self.assertIn("8 callback calls", distributed.explain())
        self.assertEqual(json.loads(distributed.explain("json"))["steps"][1]["rows"], 8)
        with self.assertRaisesRegex(ValueError, "the formats are text, json and svg"):
            distributed.explain("yaml")
        ranks = tutti.Communicator.create_local(2)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first, second = pool.map(
                lambda rank: Dataset.gather_report(reports[rank], ranks[rank], timeout=60),
                range(2))
        self.assertEqual(first, second)
        self.assertIn("16 callback calls", first)
        self.assertIn("run: 4 rows in ", first)
        self.assertRegex(first, "  rank 0: 2 rows in .*\n  rank 1: 2 rows in ")
        self.assertRegex(first, "bottleneck: rank [01]: ")
        with self.assertRaises(TypeError):
            Dataset.gather_report(reports[0], None)

    def test_aggregators_of_all_ranks_are_added_up(self):
        aggregators = [experimental.StatsAggregator() for _ in range(2)]
        for rows, aggregator in enumerate(aggregators, 1):
            options = Options()
            options.experimental_stats.aggregator = aggregator
            list(Dataset.range(rows).latency_stats("made").with_options(options))
        ranks = tutti.Communicator.create_local(2)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda rank: aggregators[rank].gather(ranks[rank], 60),
                                     range(2))
        self.assertEqual(first, second)
        self.assertEqual(first.counters, {"made::elements": 3, "made::failures": 0})
        self.assertEqual(first.histograms["made"].count, 3)
        self.assertEqual([one.counters["made::elements"] for one in first.ranks], [1, 2])
        with self.assertRaises(TypeError):
            aggregators[0].gather(None)


if __name__ == "__main__":
    unittest.main()
