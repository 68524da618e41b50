"""A program of somebody who has installed the wheel; says which libraries it runs with."""

import sys

import tutti

strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def step(batch):
    return tutti.distribute.get_replica_context().all_reduce("sum", int(batch.sum()))


for batch in strategy.distribute_dataset(tutti.data.Dataset.range(8).batch(4)):
    print(batch, strategy.run(step, args=(batch,)))
with open("/proc/self/maps", encoding="utf-8") as maps:
    print(*sorted({line.split()[5] for line in maps if "tutti" in line}), file=sys.stderr)
