"""A DataLoader whose processes, started by spawn, each iterate over a part of a dataset."""

import torch

import tutti


class Rows(torch.utils.data.IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        me = torch.utils.data.get_worker_info()
        for row in self.dataset.shard(me.num_workers, me.id).as_numpy_iterator(writable=True):
            yield int(row)


def main():
    loader = torch.utils.data.DataLoader(Rows(tutti.data.Dataset.range(6)), batch_size=None,
                                         num_workers=2, multiprocessing_context="spawn")
    print(sorted(loader))


if __name__ == "__main__":
    main()
