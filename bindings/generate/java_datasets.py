"""Writes Dataset.java: Dataset.java.in with the methods of plain transformations at its mark.

    java_datasets.py OUTPUT
"""

import html
import re
import sys
import textwrap
from typing import List

import output
from table import ROOT, Argument, Op, Table, TableError

TEMPLATE = ROOT / "bindings" / "java" / "src" / "org" / "tutti" / "data" / "Dataset.java.in"
MARK = "  // @transformations@\n"
TYPES = {"int": "long", "optional_int": "Long", "text": "String", "flag": "boolean",
         "dataset": "Dataset", "function": "DatasetFunction"}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def type_of(op: Op, a: Argument) -> str:
    if a.kind not in TYPES:
        raise TableError(f"{op.function.where}: {op.function.name}: the Java method cannot take "
                         f"'{a.name}' of the kind {a.kind}; write it by hand and say hand = "
                         f"[\"java\"] in api.toml, [dataset.{op.name}]")
    return "Boolean" if a.default == "unset" else TYPES[a.kind]


def constant(a: Argument) -> str:
    if a.kind in ("optional_int",) or a.default == "unset":
        return "null"
    if a.kind == "flag":
        return "true" if a.default else "false"
    return f'"{a.default}"' if a.kind == "text" else str(a.default)


def comment(text: str) -> str:
    text = re.sub(r"`([^`]*)`", r"{@code \1}", text)
    if len(text) <= 92:
        return f"  /** {text} */\n"
    lines = textwrap.wrap(text, 95, break_long_words=False)
    return "  /**\n" + "".join(f"   * {line}\n" for line in lines) + "   */\n"


def overload(op: Op, doc: str, given: List[Argument], call: str) -> str:
    parameters = ", ".join(f"{type_of(op, a)} {camel(a.name)}" for a in given)
    head = f"  public Dataset {op.camel}({parameters}) {{\n"
    return f"\n{comment(doc)}{head}    return {call};\n  }}\n"


def methods(op: Op) -> str:
    required = op.of("java").get("required", [])
    optional = [a for a in op.arguments
                if (a.option or a.default is not None) and a.name not in required]
    needed = [a for a in op.arguments if a not in optional]
    doc = html.escape(op.doc("java"), quote=False)
    for a in op.arguments:
        doc = doc.replace(f"`{a.name}`", f"`{camel(a.name)}`")
    text = ""
    if op.settings.get("function") == "predicate":
        text += f'''
{comment(doc)}  public Dataset {op.camel}(ElementFunction predicate) {{
    try (Spec flag = Spec.tensor(DType.BOOL);
         DatasetFunction made = DatasetFunction.of(predicate, null, flag, false)) {{
      return {op.camel}(made);
    }}
  }}
'''
        doc = f"As {op.camel}, with a function that is not a lambda."
    elif any(a.kind == "function" for a in op.arguments):
        raise TableError(f"{op.function.where}: {op.function.name}: expected function = "
                         f"\"predicate\" in api.toml, [dataset.{op.name}]; others are by hand")
    if optional:
        defaults = ", ".join([camel(a.name) for a in needed] + [constant(a) for a in optional])
        text += overload(op, doc, needed, f"{op.camel}({defaults})")
        doc = f"As above, with {' and '.join(camel(a.name) for a in optional)}."
    every = needed + optional
    names = [camel(a.name) for a in every]

    def native(name: str) -> str:
        by_name = {a.name: f"Bridge.tristate({camel(a.name)})" if a.kind == "flag"
                   else camel(a.name) for a in op.arguments}
        arguments = ["this", *(by_name[a.name] for a in op.arguments), name]
        return f"of(Native.dataset_{op.name}({', '.join(arguments)}))"

    if not op.of("java").get("name_overload"):
        return text + overload(op, doc, every, native("nextName"))
    text += overload(op, doc, every, f"{op.camel}({', '.join([*names, 'nextName'])})")
    parameters = ", ".join([f"{type_of(op, a)} {camel(a.name)}" for a in every] + ["String name"])
    return text + (f"\n  /** As above, with a name for messages. */\n"
                   f"  public Dataset {op.camel}({parameters}) {{\n"
                   f"    return {native('name')};\n  }}\n")


def source(table: Table) -> str:
    template = TEMPLATE.read_text(encoding="utf-8")
    if template.count(MARK) != 1:
        raise TableError(f"{TEMPLATE.relative_to(ROOT)}: expected the line '{MARK.strip()}' once, "
                         f"found it {template.count(MARK)} times")
    made = "".join(methods(op) for op in table.dataset_ops()
                   if not op.source and not op.by_hand("java"))
    return template.replace(MARK, made.lstrip("\n"))


if __name__ == "__main__":
    output.main(source, sys.argv)
