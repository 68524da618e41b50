#!/usr/bin/env python3
"""all_reduce between processes of this machine, beside Open MPI's, MPICH's and Gloo's and what the
hardware lets it take at best, in the same run.

    all_reduce.py --program all_reduce_ranks [--limit-program all_reduce_limit]
                  [--mpi-program all_reduce_mpi] [--mpich-program all_reduce_mpich]
                  [--ranks 2,4] [--transports shared,tcp]
                  [--gloo-python python3] [--dtype float32] [--in-place] [--most-bytes 67108864]
                  [--fresh] [--repeats 5] [--real-time] [--quick]

Prints a table per number of ranks and placement of the cores: microseconds of a sum. The sides take
turns, a few sizes at a time, each some hundred short samples. Virtual machines move their cores:
before and after each sample the round trip of a cache line between two cores is measured; a sample
across which it changed is dropped, and those on siblings of one core are reported apart from those
on two cores. Other work on the machine disturbs the figures: shown is the lower quartile, and the
median in brackets. With --real-time the ranks have a real-time priority, which other work then has
to wait for; it takes the privilege, and is meant for runs of a minute.

Transports are shared, window (shared memory, and the tensors are the communicator's own), tcp, and
in_process. Inputs are not written between calls, so that what a peer has read of them stays in its
caches, and outputs are not read. With --fresh all sides but Gloo and the limits write their inputs
before each call and read their outputs behind it, as a training loop does, and that counts.

Gloo is PyTorch's and runs over TCP (gloo_peer.py, by a Python that has PyTorch): it goes with our
tcp, and only where that is measured. It always sums in place; with --in-place our sides do too. Of
both, a table has the CPU seconds that all ranks together spend for each GiB.

The limits are those of all_reduce_limit: the moves that cannot be avoided, in a rank's own memory
(memory limit), between two ranks with nothing around them (bare exchange), or through bare sockets
(tcp limit). A table of ratios says how many times faster than the fastest peer our sides are, and
how many times as long as their limits they take.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys

SIZE_GROUPS = [
    [8, 64, 1024, 4096],
    [16 << 10, 64 << 10, 256 << 10],
    [1 << 20, 4 << 20],
    [16 << 20, 64 << 20],
]
# A round trip below it is one between siblings of a core.
SIBLINGS_NS = 200
# The placement has changed when two round trips differ by more than this factor.
SAME_PLACEMENT = 1.6
PEERS = ["Open MPI", "MPICH", "Gloo"]
MEMORY_LIMIT, BARE_EXCHANGE, TCP_LIMIT = "memory limit", "bare exchange", "tcp limit"


class Failed(Exception):
    pass


def run(command, timeout):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=timeout, check=False)
    if result.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with status {result.returncode}:\n{result.stderr}")
    return result.stdout


def ping_pong(program):
    return float(run([program, "ping_pong"], 60))


def human(size):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def first_of(*names):
    return next((path for path in map(shutil.which, names) if path), None)


def mpi_command(mpi_program, ranks, cores):
    """The command, and in words how Open MPI was run; (None, why not) where it cannot be."""
    mpirun = first_of("mpirun.openmpi", "mpirun")
    if not mpi_program or not os.path.exists(mpi_program):
        return None, "the MPI program was not built (no MPI compiler was found)"
    if mpirun is None:
        return None, "there is no mpirun"
    version = run([mpirun, "--version"], 60).splitlines()[0]
    if "Open MPI" not in version and "OpenRTE" not in version:
        return None, f"mpirun is of another make: {version}"
    command = [mpirun, "--mca", "btl", "vader,self", "-np", str(ranks)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    if ranks <= cores:
        command += ["--bind-to", "core"]
        mode = "bound to cores"
    else:
        command += ["--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        mode = "not bound, oversubscribed, yields when idle"
    how = f"{version}, btl vader,self, {mode}, single copy {single_copy()}"
    return command + [mpi_program], how


def single_copy():
    info = shutil.which("ompi_info")
    if info is None:
        return "unknown"
    command = [info, "--param", "btl", "vader", "--level", "9", "--parsable"]
    for line in run(command, 60).splitlines():
        if "btl_vader_single_copy_mechanism:value:" in line:
            return line.rsplit(":", 1)[1]
    return "unknown"


def mpich_command(program, ranks, cores, quick):
    """The same of MPICH."""
    mpiexec = first_of("mpiexec.mpich", "mpiexec.hydra")
    if not program or not os.path.exists(program):
        return None, "the program was not built (MPICH's headers and library were not found)"
    if mpiexec is None:
        return None, "there is no mpiexec.mpich"
    if quick and ranks > cores:
        return None, "its ranks never yield a core: a call of more ranks than cores takes 20 ms"
    version = "MPICH"
    for line in run([mpiexec, "--version"], 60).splitlines():
        if line.strip().startswith("Version:"):
            version = f"MPICH {line.split(':', 1)[1].strip()}"
    command = [mpiexec, "-launcher", "fork", "-np", str(ranks)]
    if ranks <= cores:
        command += ["-bind-to", "core"]
    how = f"{version}, " + ("bound to cores" if ranks <= cores else "not bound")
    return command + [program], how


def gloo_command(python, transports):
    """The same of Gloo."""
    if "tcp" not in transports:
        return None, "it runs over TCP, which was not asked for"
    if shutil.which(python) is None:
        return None, f"there is no {python}"
    command = [python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gloo_peer.py")]
    result = subprocess.run(command + ["--version"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if result.returncode != 0:
        lines = (result.stdout + result.stderr).strip().splitlines()
        return None, lines[-1].removeprefix("skipped: ") if lines else "it does not run"
    return command, result.stdout.strip()


def limit_commands(program, transports):
    """The commands of the limits of `transports`, by the side's name."""
    commands = {}
    if program and any(transport != "tcp" for transport in transports):
        commands[MEMORY_LIMIT] = [program, "memory"]
        commands[BARE_EXCHANGE] = [program, "exchange"]
    if program and "tcp" in transports:
        commands[TCP_LIMIT] = [program, "tcp"]
    return commands


def is_siblings(round_trip):
    return round_trip < SIBLINGS_NS


def lower_quartile(samples):
    return sorted(samples)[len(samples) // 4]


def moved(before, after):
    return max(before, after) > SAME_PLACEMENT * min(before, after)


class Turns:
    """What the sides measured: {(ranks, placement): {(side, bytes): [microseconds]}}, and the CPU
    seconds per GiB of those that say so, {ranks: {(side, bytes): [seconds]}}."""

    def __init__(self, program, prefix):
        self.program = program
        self.prefix = prefix
        self.samples = {}
        self.cpu = {}
        self.round_trips = {}
        self.dropped = 0
        self.taken = 0
        self.last_round_trip = ping_pong(program)

    def take(self, ranks, side, command, timeout):
        turn_before = self.last_round_trip
        output = run(self.prefix + command, timeout)
        turn_after = self.last_round_trip = ping_pong(self.program)
        for line in output.splitlines():
            if line.startswith("cpu "):
                size, seconds = line.split()[1:]
                self.cpu.setdefault(ranks, {}).setdefault((side, int(size)), []).append(
                    float(seconds))
                continue
            size, microseconds, before, after = map(float, line.split())
            if before == 0 or after == 0:
                before, after = turn_before, turn_after
            self.taken += 1
            if moved(before, after):
                self.dropped += 1
                continue
            round_trip = (before + after) / 2
            placement = "siblings of one core" if is_siblings(round_trip) else "two cores"
            self.round_trips.setdefault((ranks, placement), []).append(round_trip)
            table = self.samples.setdefault((ranks, placement), {})
            table.setdefault((side, int(size)), []).append(microseconds)

    def print_tables(self, sides):
        for (ranks, placement), table in sorted(self.samples.items()):
            round_trip = statistics.median(self.round_trips[(ranks, placement)])
            print(f"\n{ranks} ranks, {placement} (round trip {round_trip:.0f} ns), us per call")
            self.print_table(table, sides)
            self.print_ratios(table, sides)
        for ranks, table in sorted(self.cpu.items()):
            # Of a few bytes it is the cost of a call.
            table = {key: values for key, values in table.items() if key[1] >= 64 << 10}
            if not table:
                continue
            print(f"\n{ranks} ranks, CPU seconds of all ranks per GiB of a rank's input")
            self.print_table(table, [side for side in sides if any(side == key[0]
                                                                   for key in table)])
        if self.dropped:
            print(f"\n{self.dropped} of {self.taken} samples were dropped: the cores moved in the "
                  "middle of them")

    def print_table(self, table, sides):
        print("| bytes | " + " | ".join(sides) + " |")
        print("|---" * (len(sides) + 1) + "|")
        for size in sorted({size for _, size in table}):
            cells = [self.cell(table.get((side, size))) for side in sides]
            print(f"| {human(size)} | " + " | ".join(cells) + " |")

    @staticmethod
    def print_ratios(table, sides):
        """How we stand to the fastest of the peers, and to the limit, by lower quartiles."""
        def best(size, names):
            return min((lower_quartile(table[(name, size)]) for name in names
                        if (name, size) in table), default=None)
        ours = [side for side in sides if side.startswith("tutti ")]
        ratios = []
        for side in ours:
            over_tcp = side == "tutti tcp"
            peers = ["Gloo"] if over_tcp else ["Open MPI", "MPICH"]
            ratios.append((f"{side}: times faster than its peers", peers, [side]))
            for limit in [TCP_LIMIT] if over_tcp else [MEMORY_LIMIT, BARE_EXCHANGE]:
                ratios.append((f"{side} / {limit}", [side], [limit]))
        rows = []
        for size in sorted({size for _, size in table}):
            cells = []
            for _, numerators, denominators in ratios:
                above, below = best(size, numerators), best(size, denominators)
                cells.append(f"{above / below:.2f}" if above and below else "")
            if any(cells):
                rows.append(f"| {human(size)} | " + " | ".join(cells) + " |")
        if not rows:
            return
        print("\n| bytes | " + " | ".join(name for name, _, _ in ratios) + " |")
        print("|---" * (len(ratios) + 1) + "|")
        print("\n".join(rows))

    @staticmethod
    def cell(samples):
        if not samples:
            return ""
        def text(value):
            return f"{value:.2f}" if value < 100 else f"{value:.0f}"
        samples = sorted(samples)
        quartile = text(lower_quartile(samples))
        if len(samples) == 1:
            return quartile
        return f"{quartile} ({text(statistics.median(samples))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--limit-program", default="")
    parser.add_argument("--mpi-program", default="")
    parser.add_argument("--mpich-program", default="")
    parser.add_argument("--gloo-python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--transports", default="shared,tcp", help="and window, in_process")
    parser.add_argument("--dtype", default="float32", help="of our sides: float32 or bfloat16")
    parser.add_argument("--in-place", action="store_true", help="our sides")
    parser.add_argument("--fresh", action="store_true",
                        help="inputs written before each call, outputs read behind it")
    parser.add_argument("--most-bytes", type=int, default=64 << 20)
    parser.add_argument("--least-bytes", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per size and turn")
    parser.add_argument("--real-time", action="store_true")
    parser.add_argument("--quick", action="store_true",
                        help="small sizes once: does it run at all?")
    options = parser.parse_args()
    if options.quick:
        options.most_bytes, options.repeats, options.seconds = 64 << 10, 1, 0.005

    cores = len(os.sched_getaffinity(0))
    transports = options.transports.split(",")
    limits = limit_commands(options.limit_program, transports)
    sides = [f"tutti {transport}" for transport in transports] + PEERS + list(limits)
    fresh = ["fresh"] if options.fresh else []
    words = [options.dtype] + (["in_place"] if options.in_place else []) + fresh
    turns = Turns(options.program, ["chrt", "-f", "50"] if options.real_time else [])
    for ranks in [int(text) for text in options.ranks.split(",")]:
        peers = {}
        for side, (command, how) in (
                ("Open MPI", mpi_command(options.mpi_program, ranks, cores)),
                ("MPICH", mpich_command(options.mpich_program, ranks, cores, options.quick)),
                ("Gloo", gloo_command(options.gloo_python, transports))):
            said = how if command else f"skipped: {how}"
            print(f"{ranks} ranks on {cores} cores: {side}: {said}")
            if command:
                peers[side] = command
        for _ in range(options.repeats):
            for group in SIZE_GROUPS:
                sizes = ",".join(str(size) for size in group
                                 if options.least_bytes <= size <= options.most_bytes)
                if not sizes:
                    continue
                for transport in transports:
                    turns.take(ranks, f"tutti {transport}",
                               [options.program, transport, str(ranks), sizes,
                                str(options.seconds)] + words, 300)
                for side, command in limits.items():
                    if side == BARE_EXCHANGE and ranks != 2:
                        continue
                    turns.take(ranks, side, command + [str(ranks), sizes, str(options.seconds)],
                               300)
                for side, command in list(peers.items()):
                    count = [str(ranks)] if side == "Gloo" else []
                    end = [sizes, str(options.seconds)] + (fresh if side != "Gloo" else [])
                    try:
                        turns.take(ranks, side, command + count + end, 300)
                    except (Failed, subprocess.TimeoutExpired) as failure:
                        # Not every machine lets it run; ours must.
                        print(f"{side} is left out: {failure}")
                        del peers[side]
    turns.print_tables(sides)


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
