"""Mistakes that a type checker must find before the program runs: mypy reports the lines that are
marked as wrong, each of them and no other."""

import numpy as np

import tutti
from tutti import data, distribute, train

strategy = distribute.MirroredStrategy(["CPU:0"])
dataset = data.Dataset.range(10)

distribute.MirroredStrategy(2)  # wrong
distribute.MirroredStrategy(device="CPU:0")  # wrong
dataset.batch("4")  # wrong
dataset.shuffle()  # wrong
dataset.map(3)  # wrong
dataset.prefetched(1)  # wrong
dataset.concatenate([1, 2])  # wrong
dataset.apply(lambda given: 3)  # wrong
data.TFRecordDataset(3)  # wrong
data.TFRecordDataset("a", compression_type=1)  # wrong
next(dataset)  # wrong
strategy.run(3)  # wrong
strategy.run(print, timeout="1s")  # wrong
strategy.reduce(1.5, 2)  # wrong
strategy.distribute_dataset([1, 2])  # wrong
strategy.num_replicas_in_sync = 3  # wrong
strategy.worker_devices.append("CPU:1")  # wrong
with strategy as entered:
    entered.nonsense()  # wrong
tutti.Variable()  # wrong
tutti.Variable(np.zeros(3), aggregation=2.5)  # wrong
tutti.Variable(np.zeros(3)).shape = (4,)  # wrong
tutti.Tensor.zeros(["2"])  # wrong
tutti.TensorSpec(["x"])  # wrong
distribute.get_replica_context().rows  # wrong
tutti.device(3)  # wrong
tutti.config.get(3)  # wrong
tutti.Future().result(timeout="soon")  # wrong
train.CheckpointManager(train.Checkpoint(), 3)  # wrong
train.latest_checkpoint("run").upper()  # wrong
number: int = tutti.Communicator.create_local(2)[0].transport  # wrong
tutti.shut_down()  # wrong
