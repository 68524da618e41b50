#!/usr/bin/env python3
"""Gloo's all_reduce over TCP, as PyTorch runs it: the other side of all_reduce_ranks' tcp.

    gloo_peer.py RANKS SIZES SECONDS     the same lines as all_reduce_ranks writes: per batch of
                                         calls bytes, the microseconds of a call, and twice 0 (no
                                         round trips are measured); then "cpu", bytes, CPU seconds
                                         per GiB
    gloo_peer.py --version               what it is, or why it cannot be run, with status 77
    gloo_peer.py [--workers 2] [--max-bytes 67108864] [--seconds 0.2] -o FILE
                                         a file that `tutti bench --svg --peer "Gloo=FILE"` draws

Each rank is a process of its own at 127.0.0.1, and its calling thread is bound to a core where
there is one for each rank; Gloo's own threads are free, as ours are. Another Python's PyTorch is
taken by running this file with that Python.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from datetime import timedelta

SKIPPED = 77


def import_torch():
    """PyTorch, or None and why it is not there."""
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        return None, f"no PyTorch: {error}"
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return None, f"PyTorch {torch.__version__} has no Gloo"
    return torch, ""


def bind_to_core(rank, ranks):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= ranks:
        os.sched_setaffinity(0, {cores[rank]})


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Rank:
    """One of the processes; times its calls as timed_calls.h does."""

    def __init__(self, rank, ranks, address):
        self.torch, why_not = import_torch()
        if self.torch is None:
            sys.exit(why_not)
        self.rank, self.ranks = rank, ranks
        self.torch.set_num_threads(1)
        self.distributed = self.torch.distributed
        self.distributed.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank,
                                            world_size=ranks, timeout=timedelta(seconds=300))
        bind_to_core(rank, ranks)

    def agree(self, number):
        agreed = self.torch.tensor([number], dtype=self.torch.int64)
        self.distributed.broadcast(agreed, 0)
        return int(agreed[0])

    def sum_of(self, number):
        total = self.torch.tensor([number], dtype=self.torch.float64)
        self.distributed.all_reduce(total)
        return float(total[0])

    def check(self, count):
        tensor = self.torch.full((count,), float(self.rank + 1), dtype=self.torch.float32)
        self.distributed.all_reduce(tensor)
        if not bool((tensor == self.ranks * (self.ranks + 1) / 2).all()):
            sys.exit("a wrong sum")

    def measure(self, size, seconds):
        """The microseconds of a call, by batch, and all ranks' CPU seconds per GiB."""
        self.check(size // 4)
        tensor = self.torch.zeros(size // 4, dtype=self.torch.float32)
        for _ in range(24):
            self.distributed.all_reduce(tensor)
        probed = 1.0
        for _ in range(5):
            start = time.perf_counter()
            self.distributed.all_reduce(tensor)
            probed = min(probed, time.perf_counter() - start)
        calls = self.agree(min(max(int(5e-4 / probed), 2), 20000))
        batches = self.agree(min(max(int(seconds / (probed * calls)), 5), 400))
        times = []
        used = cpu_seconds()
        for _ in range(batches):
            begin = time.perf_counter()
            for _ in range(calls):
                self.distributed.all_reduce(tensor)
            times.append((time.perf_counter() - begin) / calls * 1e6)
        used = self.sum_of(cpu_seconds() - used)
        return times, used / (batches * calls * size / 2**30)

    def run(self, sizes, seconds):
        for size in sizes:
            times, cpu = self.measure(size, seconds)
            if self.rank == 0:
                for microseconds in times:
                    print(f"{size} {microseconds:.4f} 0 0")
                print(f"cpu {size} {cpu:.4f}", flush=True)
        self.distributed.barrier()
        self.distributed.destroy_process_group()


def run_ranks(ranks, sizes, seconds):
    """What rank 0 prints. Ends when one rank fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
    processes = []
    for rank in range(ranks):
        command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--address",
                   address, str(ranks), ",".join(map(str, sizes)), str(seconds)]
        processes.append(subprocess.Popen(command, env=environment, text=True,
                                          stdout=subprocess.PIPE if rank == 0 else None))
    try:
        output, _ = processes[0].communicate()
        statuses = [process.wait(60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(statuses):
        sys.exit(f"the ranks ended with status {statuses}")
    return output


def write_report(options):
    sizes = []
    while 8 << len(sizes) <= options.max_bytes:
        sizes.append(8 << len(sizes))
    rows = []
    for line in run_ranks(options.workers, sizes, options.seconds).splitlines():
        size, microseconds = int(line.split()[0]), float(line.split()[1])
        algorithm = size / microseconds / 1e3
        rows.append({"bytes": size, "count": size // 4, "in_place": {
            "time_us": microseconds, "p50_us": microseconds, "algbw_gbps": algorithm,
            "busbw_gbps": algorithm * 2 * (options.workers - 1) / options.workers}})
    report = {"system": version(), "collective": "all_reduce", "workers": options.workers,
              "dtype": "float32", "op": "sum", "rows": rows}
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)


def version():
    return f"Gloo of PyTorch {import_torch()[0].__version__}, TCP at 127.0.0.1"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", type=int, nargs="?")
    parser.add_argument("sizes", nargs="?")
    parser.add_argument("seconds", type=float, nargs="?")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch, why_not = import_torch()
    if torch is None:
        print(f"skipped: {why_not}")
        return SKIPPED
    if options.version:
        print(version())
        return 0
    if options.output is not None:
        options.seconds = 0.2 if options.seconds is None else options.seconds
        write_report(options)
        return 0
    if options.seconds is None:
        parser.error("RANKS SIZES SECONDS are missing")
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.rank is None:
        sys.stdout.write(run_ranks(options.ranks, sizes, options.seconds))
    else:
        Rank(options.rank, options.ranks, options.address).run(sizes, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
