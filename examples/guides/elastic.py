"""Elastic jobs: the others go on when a worker dies, and another process takes its place.

    tutti run --workers 3 --elastic --max-restarts 1 -- python3 elastic.py
"""

import os
import signal

import numpy as np

import tutti


def main():
    with tutti.Cluster.join() as cluster:
        ranks = tutti.Communicator.create(cluster)  # a newcomer waits here for the others' grow
        step = max(ranks.all_gather_value(0))  # 0 of a newcomer, the step of the others
        while step < 5:
            if step == 2 and cluster.worker == 2 and os.environ["TUTTI_RESTART"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                total = ranks.all_reduce(np.int64(1))
                step += 1
            except (tutti.errors.UnavailableError, tutti.errors.AbortedError):
                # All come together again, and say how far they are. Who is content with those that
                # are left calls shrink() instead.
                ranks = ranks.grow(cluster.num_workers)
                step = max(ranks.all_gather_value(step))
        print(f"worker {cluster.worker}: {int(total)} ranks at the end")
        ranks.close()


if __name__ == "__main__":
    main()
