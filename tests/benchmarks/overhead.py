#!/usr/bin/env python3
"""What calls cost in Python, Java and Go beside C, all measured in the same run.

    overhead.py --c overhead_c --tool tutti [--python FOLDER] [--java JAR --java-library FOLDER]
                [--go tutti.test] [--turns 5] [--seconds 0.1] [--samples 3]
                [--only run,element] [--least] [--quick]

Prints a table of microseconds per call: the median of the turns, and in brackets that of the
differences to C within a turn. The programs take turns measure by measure, so that a machine that
changes its speed changes it for all. --least shows the fastest samples instead, which other work on
the machine disturbs least. The rows:

    getter            the smallest call: the number of replicas of a strategy
    all_reduce        of float32 on two replicas, by their contexts
    processes         the same, in place, between two processes, by their communicators
    run               of an empty function; with one replica on the thread that calls
    merge_call        of an empty function on one replica: a call and a callback
    element           of a dataset of numbers, received and let go
    batch_of_128      of them, received, its first number read, and let go
    map_of_a_row      a row through a function that gives back what it got, of a dataset in batches
                      of 128: what it takes more than in C is one crossing of a callback

run is a call and the callbacks of its replicas: on two they run at once, but for Python, whose lock
lets them run one after the other only. What two replicas do together depends on how near their
cores are, and virtual machines move their cores: around each turn the round trip of a cache line
between two threads is measured; a turn across which it changed is dropped, and turns on siblings of
one core come in a table apart from those on two cores.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

# Measure: the benchmark of the Go package.
MEASURES = {
    "getter": "Getter",
    "all_reduce_1_KiB": "AllReduceOfOneKiB",
    "all_reduce_1_MiB": "AllReduceOfOneMiB",
    "processes_1_KiB": "BetweenProcessesOneKiB",
    "run_1_replica": "RunOnOneReplica",
    "run_2_replicas": "RunOnTwoReplicas",
    "merge_call": "MergeCall",
    "element": "Element",
    "batch_of_128": "BatchOf128",
    "map_of_a_row": "MapOfARow",
}
# Two replicas; of the others the placement of the cores says nothing.
ON_TWO_CORES = ("all_reduce_1_KiB", "all_reduce_1_MiB", "processes_1_KiB", "run_2_replicas")
# A round trip below it, in microseconds, is one between siblings of a core.
SIBLINGS_US = 0.2
HERE = os.path.dirname(os.path.abspath(__file__))
BINDINGS = os.path.join(HERE, "..", "..", "bindings")


class Failed(Exception):
    pass


def run(command, environment=None):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=300, check=False, env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with status {result.returncode}:\n"
                     f"{result.stdout}{result.stderr}")
    return result.stdout


def run_measure(measure, tool, command, environment=None):
    """The lines it prints; of two processes those of the first."""
    if not measure.startswith("processes"):
        return run(command, environment).splitlines()
    output = run([tool, "run", "--workers", "2", "--", *command], environment)
    first = "[worker 0] "
    return [line[len(first):] for line in output.splitlines() if line.startswith(first)]


class Program:
    """A program that prints one sample per line."""

    def __init__(self, tool, command, environment=None):
        self.tool = tool
        self.command = command
        self.environment = environment

    def samples(self, measure, seconds, count):
        command = [*self.command, measure, str(seconds), str(count)]
        return [float(line) for line in run_measure(measure, self.tool, command, self.environment)]


class GoTest:
    """The compiled tests of the Go package, with their benchmarks."""

    def __init__(self, tool, test):
        self.tool = tool
        self.test = test

    def samples(self, measure, seconds, count):
        name = MEASURES[measure]
        processes = measure.startswith("processes")
        duration = f"{int(seconds * 100000) + 1}x" if processes else f"{seconds}s"
        lines = run_measure(measure, self.tool, [
            self.test, "-test.run", "^$", "-test.bench", f"^Benchmark{name}$", "-test.benchtime",
            duration, "-test.count", str(count)])
        found = []
        for line in lines:
            words = line.split()
            if words and words[0].startswith(f"Benchmark{name}") and "ns/op" in words:
                found.append(float(words[words.index("ns/op") - 1]) / 1000)
        if not found:
            raise Failed(f"{self.test} has no benchmark {name}:\n" + "\n".join(lines))
        return found


def programs(options, folder):
    """{language: what measures it}; what has to be compiled goes to the folder."""
    tool = options.tool
    chosen = {"C": Program(tool, [options.c])}
    if options.python:
        chosen["Python"] = Program(
            tool, [sys.executable, "-B", f"{BINDINGS}/python/benchmarks/overhead.py"],
            {"PYTHONPATH": options.python})
    if options.java:
        run(["javac", "-cp", options.java, "-d", folder,
             f"{BINDINGS}/java/benchmarks/Overhead.java"])
        chosen["Java"] = Program(
            tool, ["java", f"-Dorg.tutti.library.path={options.java_library}", "-cp",
                   f"{options.java}:{folder}", "Overhead"])
    if options.go:
        chosen["Go"] = GoTest(tool, options.go)
    return chosen


class Table:
    """What was measured: {(measure, language): a list of samples per turn}."""

    def __init__(self):
        self.turns = {}

    def add(self, measure, samples_by_language):
        for language, samples in samples_by_language.items():
            self.turns.setdefault((measure, language), []).append(samples)

    def value(self, measure, language, least):
        turns = self.turns[(measure, language)]
        if least:
            return min(min(samples) for samples in turns)
        return statistics.median(statistics.median(samples) for samples in turns)

    def difference(self, measure, language, least):
        if least:
            return self.value(measure, language, True) - self.value(measure, "C", True)
        pairs = zip(self.turns[(measure, language)], self.turns[(measure, "C")])
        return statistics.median(statistics.median(samples) - statistics.median(in_c)
                                 for samples, in_c in pairs)

    def print(self, title, languages, least):
        print(f"\n| {title} | " + " | ".join(languages) + " | turns |")
        print("|---" + "|---:" * len(languages) + "|---:|")
        for measure in dict.fromkeys(measure for measure, _ in self.turns):
            cells = []
            for language in languages:
                cell = f"{self.value(measure, language, least):.2f}"
                if language != "C":
                    cell += f" ({self.difference(measure, language, least):+.2f})"
                cells.append(cell)
            print(f"| {measure} | " + " | ".join(cells)
                  + f" | {len(self.turns[(measure, 'C')])} |")


class Placement:
    """Whether two threads run on siblings of one core or on two cores."""

    def __init__(self, program, options):
        self.program = program
        self.seconds = min(options.seconds, 0.01)

    def __call__(self):
        found = min(self.program.samples("ping_pong", self.seconds, 3))
        return "on siblings of one core" if found < SIBLINGS_US else "on two cores"


def take_turns(measures, chosen, options):
    """{placement: table}; what has one replica stands in the table of None."""
    tables = {}
    dropped = 0
    placement = Placement(chosen["C"], options)
    for measure in measures:
        for _ in range(options.turns):
            before = placement() if measure in ON_TWO_CORES else None
            samples = {language: program.samples(measure, options.seconds, options.samples)
                       for language, program in chosen.items()}
            if measure in ON_TWO_CORES and placement() != before and not options.quick:
                dropped += 1
                continue
            tables.setdefault(before, Table()).add(measure, samples)
    if dropped:
        print(f"{dropped} turns were dropped: the cores moved in the middle of them")
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--c", required=True, help="the program")
    parser.add_argument("--tool", required=True, help="tutti, which starts two processes")
    parser.add_argument("--python", help="the folder that holds the package")
    parser.add_argument("--java", help="tutti.jar")
    parser.add_argument("--java-library", help="the folder of libtutti_java.so")
    parser.add_argument("--go", help="the compiled tests of the Go package")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per sample")
    parser.add_argument("--samples", type=int, default=3, help="per turn")
    parser.add_argument("--only", default="", help="the measures that begin with one of these")
    parser.add_argument("--least", action="store_true", help="the fastest sample, not the median")
    parser.add_argument("--quick", action="store_true", help="a moment each: does it run at all?")
    options = parser.parse_args()
    if options.quick:
        options.turns, options.seconds, options.samples = 1, 0.001, 1

    only = tuple(options.only.split(","))
    measures = [measure for measure in MEASURES if measure.startswith(only)]
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as folder:
        chosen = programs(options, folder)
        tables = take_turns(measures, chosen, options)
    for placement, table in sorted(tables.items(), key=lambda item: item[0] or ""):
        table.print(f"us per call {placement or ''}".strip(), list(chosen), options.least)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
