"""The one table that the generators share: what the C headers declare (capi/declarations.py), with
the exceptions of api.toml.

    table = Table.load()             the project's own
    table.forwards()                 the facade's functions that only call C
    table.dataset_ops()              the plain operations of datasets
    table.handles()                  the reference-counted types

A declaration that no rule covers raises TableError, whose message says file and line, what was
expected, and where to say what the rule cannot know. Nothing here knows a language: what a language
makes of an operation stands in that language's generator.
"""

import fnmatch
import pathlib
import re
import sys
import tomllib
from typing import Any, Dict, List, NamedTuple, Optional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "capi"))
import declarations  # noqa: E402
from declarations import DeclarationError, Function, Parameter  # noqa: E402,F401

TOML = HERE / "api.toml"


class TableError(Exception):
    """A declaration or an entry of api.toml that the table cannot take."""


class Forward(NamedTuple):
    """A function of the facade that calls one C function."""

    name: str
    result: str  # as the facade has it: "tutti_status *", "bool"
    parameters: List[Parameter]
    body: List[str]
    function: Function

    @property
    def blocks(self) -> bool:
        return takes_call_options(self.function) and not self.name.endswith("_async")


class Argument(NamedTuple):
    """An argument of a dataset operation besides its dataset and its name."""

    name: str
    # int, optional_int, flag, text, dtype, function, optional_function, dataset, value,
    # optional_value
    kind: str
    option: bool  # a field of the option struct
    default: Any  # what stands where nothing is given; None: it must be given


class Op(NamedTuple):
    """A plain operation of datasets: tutti_dataset_<name>(dataset, arguments, options), or the
    source tutti_dataset_create_<name>(runtime, arguments, options, out_dataset)."""

    name: str
    function: Function
    arguments: List[Argument]
    options: Optional[str]  # the option struct
    source: bool
    settings: Dict[str, Any]  # its table in api.toml

    def by_hand(self, part: str) -> bool:
        return part in self.settings.get("hand", [])

    def doc(self, language: str) -> str:
        """What the header says, or api.toml for this language."""
        own = self.settings.get("doc", {}).get(language)
        foreign = re.search(r"TUTTI_\w+|\bNULL\b|\*\w+|\btutti_\w+", self.function.prose)
        if own is None and foreign:
            raise TableError(
                f"{self.function.where}: {self.function.name}: expected a comment that holds in "
                f"every language, found '{foreign[0]}', which is C's; say it for {language} in "
                f"api.toml, [dataset.{self.name}] doc.{language}")
        return own or self.function.prose

    def of(self, language: str) -> Dict[str, Any]:
        return self.settings.get(language, {})

    @property
    def pascal(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def camel(self) -> str:
        return self.pascal[0].lower() + self.pascal[1:]


# The kinds of arguments by their type in C.
KINDS = {
    "int64_t": "int",
    "const int64_t *": "optional_int",
    "tutti_optional_int64": "optional_int",
    "tutti_tristate": "flag",
    "const char *": "text",
    "tutti_dtype": "dtype",
    "tutti_function *": "function",
    "const tutti_dataset *": "dataset",
    "const tutti_value *": "value",
}
# What stands where an option is not given and api.toml says nothing.
UNSET = {"int": 0, "optional_int": None, "optional_value": None, "optional_function": None,
         "text": "", "dtype": 0}


def takes_call_options(function: Function) -> bool:
    return any(p.type == "const tutti_call_options *" for p in function.parameters)


class Table:
    """The declarations of a folder of headers under one file of exceptions."""

    def __init__(self, include: pathlib.Path, exceptions: Dict[str, Any], toml: str = "api.toml"):
        self.functions = {f.name: f for f in declarations.all_functions(include)}
        self.structs = declarations.all_structs(include)
        self.enums = set(declarations.enumerations(include)) - {"tutti_tristate"}
        self.exceptions = exceptions
        self.toml = toml
        self._check_entries()

    @staticmethod
    def load(toml: pathlib.Path = TOML, include: Optional[pathlib.Path] = None) -> "Table":
        with open(toml, "rb") as file:
            exceptions = tomllib.load(file)
        return Table(include or declarations.INCLUDE, exceptions, str(toml))

    # ---- handles

    def handles(self) -> List[str]:
        """The types that are counted: those with _retain and _release."""
        return sorted(name.removesuffix("_retain") for name in self.functions
                      if name.endswith("_retain")
                      and name.removesuffix("_retain") + "_release" in self.functions)

    # ---- the facade

    def forwards(self) -> List[Forward]:
        facade = self.exceptions.get("facade", {})
        left_out = facade.get("by_hand", []) + facade.get("direct", [])
        return [self._forward(f) for f in self.functions.values()
                if not f.name.endswith(("_retain", "_release"))
                and not any(fnmatch.fnmatchcase(f.name, pattern) for pattern in left_out)]

    def _forward(self, f: Function) -> Forward:
        maker = _ForwardMaker(self, f)
        return maker.make()

    def is_options(self, struct: str) -> bool:
        """A struct that grows, whose fields stand for parameters; not that of the call itself."""
        return (struct in self.structs and struct != "tutti_call_options"
                and self.structs[struct].fields[0].name == "struct_size")

    def facade_name(self, f: Function) -> str:
        names = self.exceptions.get("facade", {}).get("names", {})
        if f.name in names:
            return names[f.name]
        name = f.name.removeprefix("tutti_").replace("_get_", "_", 1)
        return name

    def role(self, f: Function, parameter: Parameter) -> str:
        """The name of a parameter in the facade, which says how it crosses to a language. The entry
        that stands last in api.toml counts."""
        name = parameter.name
        spelled = declarations.spell(parameter.type, parameter.name)
        for pattern, roles in self.exceptions.get("roles", {}).items():
            if fnmatch.fnmatchcase(f.name.removeprefix("tutti_"), pattern):
                name = roles.get(parameter.name, roles.get(spelled, name))
        return name

    # ---- operations of datasets

    def dataset_ops(self) -> List[Op]:
        """All transformations that api.toml does not call no operation, and the sources that it
        lists, by name."""
        entries = self.exceptions.get("dataset", {})
        ops = []
        for f in self.functions.values():
            if f.parameters and f.parameters[0].type == "tutti_dataset **":
                name = f.name.removeprefix("tutti_dataset_")
                if not entries.get(name, {}).get("no_op"):
                    ops.append(self._op(f, name, False))
        for name in self.exceptions.get("sources", {}).get("plain", []):
            f = self.functions.get(f"tutti_dataset_create_{name}")
            if f is None:
                raise TableError(f"{self.toml}: [sources] plain names '{name}', and no header "
                                 f"declares tutti_dataset_create_{name}")
            ops.append(self._op(f, name, True))
        return sorted(ops, key=lambda op: op.name)

    def _op(self, f: Function, name: str, source: bool) -> Op:
        settings = self.exceptions.get("dataset", {}).get(name, {})
        if f.note("Context") != "building":
            raise TableError(f"{f.where}: {f.name}: expected 'Context: building.', as operations "
                             f"of datasets have it, found '{f.note('Context')}'")
        defaults = settings.get("default", {})
        arguments: List[Argument] = []
        options = None
        for p in f.parameters[1:-1] if source else f.parameters[1:]:
            struct = p.type.removeprefix("const ").removesuffix(" *")
            if struct in self.structs and struct.endswith("_options"):
                options = struct
                arguments += [self._argument(f, field, True, defaults)
                              for field in self.structs[struct].fields
                              if field.name not in ("struct_size", "name")]
            else:
                arguments.append(self._argument(f, p, False, defaults))
        unknown = set(defaults) - {a.name for a in arguments}
        if unknown:
            raise TableError(f"{self.toml}: [dataset.{name}] has a default for "
                             f"{', '.join(sorted(unknown))}, which is no parameter of {f.name} "
                             f"({f.where})")
        if not f.prose:
            raise TableError(f"{f.where}: {f.name}: expected a comment that says what the "
                             "operation does, which every language shows, found none")
        positional = [a for a in arguments if not a.option]
        for before, after in zip(positional, positional[1:]):
            if before.default is not None and after.default is None:
                raise TableError(f"{self.toml}: [dataset.{name}]: expected no default of "
                                 f"'{before.name}', because '{after.name}' follows ({f.where}) and "
                                 "has none, found one")
        return Op(name, f, arguments, options, source, settings)

    def _argument(self, f: Function, p: Parameter, option: bool,
                  defaults: Dict[str, Any]) -> Argument:
        kind = KINDS.get(p.type)
        if kind in ("value", "function") and option:
            kind = f"optional_{kind}"
        if kind is None:
            raise TableError(
                f"{f.where}: {f.name}: expected a parameter of a kind that operations of datasets "
                f"know ({', '.join(KINDS)}), found '{declarations.spell(p.type, p.name)}'; add the "
                "kind to bindings/generate/table.py and to the generators, or write the function "
                f"by hand and say no_op = true in {pathlib.Path(self.toml).name}, "
                f"[dataset.{f.name.removeprefix('tutti_dataset_')}]")
        default = defaults.get(p.name)
        if option and default is None:
            if kind == "flag":
                raise TableError(
                    f"{f.where}: {f.name}: expected a default of the option '{p.name}' in "
                    f"{pathlib.Path(self.toml).name}, [dataset."
                    f"{f.name.removeprefix('tutti_dataset_').removeprefix('create_')}] default, "
                    "found none: true, false, or \"unset\"")
            default = UNSET.get(kind)
        return Argument(p.name, kind, option, default)

    # ---- entries that name nothing are mistakes

    def _check_entries(self) -> None:
        facade = self.exceptions.get("facade", {})
        for key in ("by_hand", "direct"):
            for pattern in facade.get(key, []):
                if not fnmatch.filter(self.functions, pattern):
                    raise TableError(f"{self.toml}: [facade] {key} names {pattern}, which no "
                                     "header declares; take it away or correct it")
        for name in facade.get("names", {}):
            if name not in self.functions:
                raise TableError(f"{self.toml}: [facade.names] names {name}, which no header "
                                 "declares; take it away or correct it")
        for pattern in self.exceptions.get("roles", {}):
            if not fnmatch.filter(self.functions, f"tutti_{pattern}"):
                raise TableError(f"{self.toml}: [roles] has '{pattern}', which is no function; "
                                 "take it away or correct it")
        for name in self.exceptions.get("dataset", {}):
            if not {f"tutti_dataset_{name}", f"tutti_dataset_create_{name}"} & set(self.functions):
                raise TableError(f"{self.toml}: there is a table [dataset.{name}], and no header "
                                 f"declares tutti_dataset_{name}; take it away or correct it")


class _ForwardMaker:
    """Makes one forward: parameters by their roles, options one by one, the call."""

    def __init__(self, table: Table, f: Function):
        self.table = table
        self.f = f
        self.parameters: List[Parameter] = []
        self.before: List[str] = []  # statements before the call
        self.arguments: List[str] = []
        self.transforms = bool(f.parameters) and f.parameters[0].type == "tutti_dataset **"

    def make(self) -> Forward:
        f = self.f
        previous = None
        for p in f.parameters:
            self._take(p, previous)
            previous = p
        call = f"{f.name}({', '.join(self.arguments)})"
        name = self.table.facade_name(f)
        if self.transforms:
            self.parameters.append(Parameter("tutti_dataset **", "out_dataset"))
            body = self.before + [
                "return Transformed(dataset, out_dataset, [&](tutti_dataset **result) {",
                f"  return {call};", "});"]
            return Forward(name, "tutti_status *", self.parameters, body, f)
        result, body = self._result(call)
        return Forward(name, result, self.parameters, self.before + body, f)

    def _add(self, type_text: str, p: Parameter, argument: Optional[str] = None) -> None:
        role = self.table.role(self.f, p)
        # A role may say the type, too: "bool flag".
        if " " in role:
            type_text, role = role.rsplit(" ", 1)
        self.parameters.append(Parameter(type_text, role))
        self.arguments.append((argument or "{}").format(role))

    def _take(self, p: Parameter, previous: Optional[Parameter]) -> None:
        table = self.table
        struct = p.type.removeprefix("const ").removesuffix(" *")
        if self.transforms and p.type == "tutti_dataset **":
            self.parameters.append(Parameter("const tutti_dataset *", "dataset"))
            self.arguments.append("result")
        elif p.type in table.enums:
            self._add("int32_t", p)
        elif p.type == "const int64_t *" and (previous is None or previous.type != "size_t"):
            self._add("tutti_optional_int64", p, "{0}.present ? &{0}.value : nullptr")
        elif p.type.startswith("const ") and table.is_options(struct):
            self._take_options(struct)
        elif p.type in ("tutti_callback", "tutti_fn", "tutti_notification", "void **"):
            raise TableError(
                f"{self.f.where}: {self.f.name}: expected parameters that a forward can pass on, "
                f"found '{declarations.spell(p.type, p.name)}'; write the function in "
                "bindings/swig/facade and name it in [facade] by_hand of "
                f"{pathlib.Path(table.toml).name}")
        else:
            self._add(p.type, p)

    def _take_options(self, struct: str) -> None:
        """The fields as parameters of their own, `name` last."""
        self.before.append(f"{struct} options = {struct.upper()}_INIT;")
        fields = [f for f in self.table.structs[struct].fields if f.name != "struct_size"]
        for field in sorted(fields, key=lambda field: field.name == "name"):
            type_text = "int32_t" if field.type in self.table.enums else field.type
            role = self.table.role(self.f, field)
            self.parameters.append(Parameter(type_text, role))
            self.before.append(f"options.{field.name} = {role};")
        self.arguments.append("&options")

    def _result(self, call: str):
        f = self.f
        result = f.result
        handle = result.removeprefix("const ").removesuffix(" *")
        if handle in self.table.handles() and result.endswith("*") and handle != "tutti_status":
            # A borrowed object: the caller gets a reference of its own.
            noun = "strategy" if handle == "tutti_strategy" else handle.removeprefix("tutti_")
            out = {"cluster_resolver": "resolver"}.get(noun, noun)
            self.parameters.append(Parameter(f"{handle} **", f"out_{out}"))
            given = f"const_cast<{handle} *>({out})" if result.startswith("const") else out
            return "tutti_status *", [f"{result}{out} = {call};", f"{handle}_retain({out});",
                                      f"*out_{out} = {given};", "return nullptr;"]
        if result == "int32_t" and ("_is_" in f.name or f.name.endswith("_equal")):
            return "bool", [f"return {call} != 0;"]
        if result == "size_t":
            return "int64_t", [f"return static_cast<int64_t>({call});"]
        if result in self.table.enums:
            return "int32_t", [f"return {call};"]
        if result == "void":
            return "void", [f"{call};"]
        return result, [f"return {call};"]
