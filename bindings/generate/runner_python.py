"""Writes plain_ops.py for the Python conformance runner: the arguments of each plain
operation by the vectors' names, with their kinds and the method's names.

    runner_python.py OUTPUT
"""

import sys

import output
import python_datasets
import runner
from table import Op, Table

HEAD = '''\
"""The plain operations of datasets: by operation and argument, its kind and the name that the
method has for it. Generated from the C headers."""

PLAIN_OPS = {
'''


def entry(op: Op) -> str:
    arguments = ", ".join(f'"{a.name}": ("{a.kind}", "{python_datasets.name_of(op, a)}")'
                          for a in op.arguments)
    return f'    "{op.name}": {{{arguments}}},\n'


def module(table: Table) -> str:
    return HEAD + "".join(map(entry, runner.ops(table))) + "}\n"


if __name__ == "__main__":
    output.main(module, sys.argv)
