"""What the generators of the conformance runners' dispatch share: which operations there are, and
which fields a vector may name for each."""

from typing import List

from table import Argument, Op, Table, TableError


def ops(table: Table) -> List[Op]:
    return [op for op in table.dataset_ops() if not op.source and not op.by_hand("runners")]


def fields(op: Op) -> List[str]:
    """The vectors' names: those of the parameters; a function is named by fn and arg."""
    names = ["op", "input"]
    for a in op.arguments:
        names += ["fn", "arg"] if a.kind == "function" else [a.name]
    return names


def unknown(op: Op, a: Argument) -> TableError:
    return TableError(f"{op.function.where}: {op.function.name}: the runners cannot read "
                      f"'{a.name}' of the kind {a.kind}; write the dispatch by hand and say hand = "
                      f"[\"runners\"] in api.toml, [dataset.{op.name}]")
