"""Workers that were told of different clusters."""

import unittest

from multi_worker_test import Job


class DifferentClustersTest(unittest.TestCase):
    def test_workers_that_are_told_of_different_clusters_are_refused_together(self):
        # They meet, for both know worker 0.
        with Job("""
            from tutti.distribute.cluster_resolver import SimpleClusterResolver
            told = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
            try:
                distribute.MultiWorkerMirroredStrategy(SimpleClusterResolver(
                    tutti.train.ClusterSpec({"worker": told[:1] + [told[1 + me]]}),
                    task_type="worker", task_id=me), timeout=60)
            except ValueError as error:
                say(str(error))
            """, workers=3, start=(0, 1)) as job:
            first, second = job.end(0), job.end(1)
        self.assertEqual(first, second)
        _, one, other = job.addresses
        self.assertEqual(first, [[
            f"cluster: workers 0 and 1 were given different clusters: for worker 0 it is worker:1 "
            f"at {one}, for worker 1 it is worker:1 at {other} (task 1 of the job); give all "
            f"workers the same cluster specification"]])

    def test_workers_whose_clusters_have_nothing_in_common_do_not_wait_for_ever(self):
        # Each looks for the other where nobody is.
        with Job("""
            from tutti.distribute.cluster_resolver import SimpleClusterResolver
            told = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][2 * me:2 * me + 2]
            try:
                distribute.MultiWorkerMirroredStrategy(SimpleClusterResolver(
                    tutti.train.ClusterSpec({"worker": told}), task_type="worker", task_id=me),
                    timeout=0.5)
            except (errors.DeadlineExceededError, errors.UnavailableError) as error:
                say(str(error), *told)
            """, workers=4, start=(0, 1)) as job:
            for missing, worker in ((1, 0), (0, 1)):
                (text, *told), = job.end(worker)
                self.assertIn(f"worker:{missing}", text)
                self.assertIn(told[missing], text)


if __name__ == "__main__":
    unittest.main()
