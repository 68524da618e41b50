"""The shortest walk through the house: the numbers 0 to 9 from a dataset, in batches of four, over
two replicas that add them up together. Prints one line per step and the total."""

import numpy as np

import tutti

strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
numbers = tutti.data.Dataset.range(10).batch(4)

with strategy.scope():
    total = tutti.Variable(np.int64(0), name="total", aggregation="sum")


def step(batch):
    """Runs once per replica, concurrently, with its part of the batch."""
    replica = tutti.distribute.get_replica_context()
    mine = batch.sum()
    total.assign_add(mine)  # the sum of what all replicas bring
    return replica.all_reduce("sum", mine)


for batch in strategy.distribute_dataset(numbers):
    sums = strategy.run(step, args=(batch,))
    print(f"{batch}: {int(strategy.local_results(sums)[0])}")
print(f"total: {int(total.numpy())}")
