#!/usr/bin/env python3
"""Open MPI's all_reduce as a file that `tutti bench --svg --peer "Open MPI=FILE"` draws.

    open_mpi_peer.py --mpi-program all_reduce_mpi [--workers 2] [--max-bytes 67108864] -o FILE

Measures float32 sums between processes of this machine in sizes that double from 8 bytes. Without
mpirun or the program it says so and ends with status 77.
"""

import argparse
import json
import os
import statistics
import sys

from all_reduce import mpi_command, run


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi-program", default="")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-bytes", type=int, default=64 << 20)
    parser.add_argument("--seconds", type=float, default=0.2, help="per size")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    command, how = mpi_command(options.mpi_program, options.workers, len(os.sched_getaffinity(0)))
    if command is None:
        print(f"skipped: {how}")
        return 77
    sizes = []
    while 8 << len(sizes) <= options.max_bytes:
        sizes.append(8 << len(sizes))
    rows = []
    samples = {}
    for line in run(command + [",".join(map(str, sizes)), str(options.seconds)], 600).splitlines():
        samples.setdefault(int(line.split()[0]), []).append(float(line.split()[1]))
    for size, times in samples.items():
        microseconds = statistics.median(times)
        algorithm = size / microseconds / 1e3
        rows.append({"bytes": size, "count": size // 4, "out_of_place": {
            "time_us": microseconds, "p50_us": microseconds, "algbw_gbps": algorithm,
            "busbw_gbps": algorithm * 2 * (options.workers - 1) / options.workers}})
    report = {"system": how, "collective": "all_reduce", "workers": options.workers,
              "dtype": "float32", "op": "sum", "rows": rows}
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
