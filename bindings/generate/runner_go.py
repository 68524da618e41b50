"""Writes plain_ops.go for the Go conformance runner: what each plain operation makes of a vector's
node.

    runner_go.py OUTPUT
"""

import sys

import output
import runner
from table import Op, Table

HEAD = """\
// Code generated from the C headers. DO NOT EDIT.

package main

import (
	"fmt"

	"tutti.dev/tutti"
)

// plainOp is the operation that node names over dataset; found = false for one that is not known.
func plainOp(r *tutti.Runtime, dataset *tutti.Dataset, node fields) (
	made *tutti.Dataset, found bool, err error) {
	var options []tutti.Option
	switch fmt.Sprint(node["op"]) {
"""


def case(op: Op) -> str:
    keys = ", ".join(f'"{name}"' for name in runner.fields(op))
    lines = [f"if err := known(node, {keys}); err != nil {{", "\treturn nil, true, err", "}"]
    arguments, method = [], op.pascal
    for a in op.arguments:
        if a.kind == "function":
            lines += ['fn, err := function(fmt.Sprint(node["fn"]), node["arg"])',
                      "if err != nil {", "\treturn nil, true, err", "}"]
            arguments.append("r.NewFunction(fn, tutti.FunctionOptions{})")
            method += "With"
        elif a.kind == "dataset":
            lines += [f'other, err := build(r, node["{a.name}"].(fields))', "if err != nil {",
                      "\treturn nil, true, err", "}"]
            arguments.append("other")
        elif a.kind == "int" and not a.option:
            arguments.append(f'integer(node, "{a.name}", {a.default or 0})')
        elif a.kind == "flag" and a.option:
            option = "".join(word.capitalize() for word in a.name.split("_"))
            lines += [f'if flag, ok := node["{a.name}"].(bool); ok {{',
                      f"\toptions = append(options, tutti.With{option}(flag))", "}"]
        elif a.kind in ("int", "optional_int") and a.option:
            option = "".join(word.capitalize() for word in a.name.split("_"))
            lines += [f'if _, ok := node["{a.name}"]; ok {{',
                      f'\toptions = append(options, tutti.With{option}('
                      f'integer(node, "{a.name}", 0)))', "}"]
        elif a.kind == "text" and not a.option:
            lines.append(f'{a.name}, _ := node["{a.name}"].(string)')
            arguments.append(a.name)
        else:
            raise runner.unknown(op, a)
    lines.append(f"return dataset.{method}({', '.join(arguments + ['options...'])}), true, nil")
    return f'\tcase "{op.name}":\n' + "".join(f"\t\t{line}\n" for line in lines)


def source(table: Table) -> str:
    return HEAD + "".join(map(case, runner.ops(table))) + "\t}\n\treturn nil, false, nil\n}\n"


if __name__ == "__main__":
    output.main(source, sys.argv)
