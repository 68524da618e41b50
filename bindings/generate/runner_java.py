"""Writes PlainOps.java for the Java conformance runner: what each plain operation makes of
a vector's node.

    runner_java.py OUTPUT
"""

import sys

import java_datasets
import output
import runner
from table import Op, Table

HEAD = """\
package conformance;

import org.tutti.data.Dataset;

/** The plain operations of datasets by name. Generated from the C headers. */
final class PlainOps {
  private PlainOps() {}

  /** The operation that `node` names over `dataset`; null for one that is not known. */
  static Dataset transform(Dataset dataset, Fields node) {
    switch (node.text("op")) {
"""


def case(op: Op) -> str:
    keys = ", ".join(f'"{name}"' for name in runner.fields(op))
    lines = [f"node.known({keys});"]
    required = op.of("java").get("required", [])
    arguments = []
    for a in sorted(op.arguments, key=lambda a: (a.option or a.default is not None)
                    and a.name not in required):
        if a.kind == "function":
            arguments.append("Functions.of(node)")
        elif a.kind == "dataset":
            arguments.append(f'Datasets.build(node.fields("{a.name}"))')
        elif a.kind == "int":
            default = "" if a.default is None else f", {a.default}"
            arguments.append(f'node.integer("{a.name}"{default})')
        elif a.kind == "optional_int":
            arguments.append(f'(Long) node.get("{a.name}")')
        elif a.kind == "flag" and a.default is False:
            arguments.append(f'node.flag("{a.name}")')
        elif a.kind == "text":
            default = "" if a.default is None else f", {java_datasets.constant(a)}"
            arguments.append(f'node.text("{a.name}"{default})')
        else:
            raise runner.unknown(op, a)
    lines.append(f"return dataset.{op.camel}({', '.join(arguments)});")
    return f'      case "{op.name}":\n' + "".join(f"        {line}\n" for line in lines)


def source(table: Table) -> str:
    return (HEAD + "".join(map(case, runner.ops(table)))
            + "      default:\n        return null;\n    }\n  }\n}\n")


if __name__ == "__main__":
    output.main(source, sys.argv)
