"""Elastic training: the others go on when a worker dies, and every element counts once.

    tutti run --workers 3 --elastic --max-restarts 1 -- python3 elastic_training.py
"""

import os
import signal

import numpy as np

import tutti
from tutti import distribute
from tutti.data import AutoShardPolicy, Dataset, Options
from tutti.data.experimental import SHARD_HINT

NUMBERS = 96


def numbers():
    options = Options()
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.HINT
    return (Dataset.range(NUMBERS).shard(SHARD_HINT, SHARD_HINT).shuffle(8, seed=7)
            .map(lambda x: x + 1).batch(4).with_options(options))


def train(ranks, saved, cluster):
    """Adds the numbers up, from `saved` on: [where the data goes on, the total before it]."""
    strategy = distribute.MultiWorkerMirroredStrategy.over(ranks)
    steps = iter(strategy.distribute_dataset(numbers()))
    if saved[0] is not None:
        steps.restore(saved[0])  # however many workers saved it
    total = saved[1]

    def step(batch):
        return distribute.get_replica_context().all_reduce("SUM", np.sum(batch, dtype=np.int64))

    for number, batch in enumerate(steps):
        if number == 3 and cluster.worker == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        total = total + int(strategy.run(step, args=(batch,)))
        if number % 2 == 1:  # on every worker; to survive all of them, a Checkpoint on the disk
            saved[:] = [steps.save_joint(), total]
    steps.close()
    strategy.close()
    return total


def main():
    if os.environ.get("TUTTI_RESTART", "0") != "0":
        return  # for the others go on without; elastic.py has its seat taken again
    with tutti.Cluster.join() as cluster:
        ranks = tutti.Communicator.create(cluster)
        saved = [None, 0]
        while True:
            try:
                total = train(ranks, saved, cluster)
                break
            except (tutti.errors.UnavailableError, tutti.errors.AbortedError):
                # What was done behind the last position is done again, by those that are left. One
                # of them may have saved one step more than another.
                ranks = ranks.shrink()
                saved = max(ranks.all_gather_value(saved), key=lambda one: one[1])
        print(f"worker {cluster.worker}: {ranks.size} ranks, {total} of "
              f"{NUMBERS * (NUMBERS + 1) // 2}")
        ranks.close()


if __name__ == "__main__":
    main()
