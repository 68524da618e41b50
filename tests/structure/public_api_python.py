#!/usr/bin/env python3
"""Prints the public interface of an installed Python package, a line for each name.

    public_api_python.py PACKAGE      with PYTHONPATH naming the folder that holds the package

Everything reads as a user sees it: a member belongs to the public class that he finds it in, also
when a private base class defines it; a class of the package goes by its last name, whichever
private module it stands in; annotations read the same as text and as objects. Of what a class
inherits from outside of the package its bases are named, no members.
"""

import enum
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing

# What Python itself keeps in classes.
MACHINERY = {
    "__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__firstlineno__",
    "__module__", "__orig_bases__", "__parameters__", "__qualname__", "__slots__",
    "__static_attributes__", "__weakref__", "__new__", "__dataclass_fields__",
    "__dataclass_params__", "__init_subclass__", "__subclasshook__", "__class_getitem__",
}


def is_public(name):
    return not name.startswith("_") or (
        name.startswith("__") and name.endswith("__") and name not in MACHINERY)


class Reader:
    def __init__(self, package):
        self.package = package
        self.modules = {}
        self.names = {}  # public names of the package, for annotations that a module cannot resolve

    def lines(self):
        self._import(self.package)
        for module in self.modules.values():
            self.names.update({name: getattr(module, name) for name in self._names_of(module)})
        for name, module in self.modules.items():
            yield f"module {name}: module [{_documented(module)}]"
            if hasattr(module, "__version__"):
                yield f"value {name}.__version__: {module.__version__!r}"
            for member in self._names_of(module):
                yield from self._member(f"{name}.{member}", getattr(module, member))

    def _import(self, name):
        module = importlib.import_module(name)
        self.modules[name] = module
        for part in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if is_public(part.name):
                self._import(f"{name}.{part.name}")

    def _names_of(self, module):
        listed = getattr(module, "__all__", None)
        names = set(listed or ())
        for name, value in vars(module).items():
            if is_public(name) and not name.startswith("__") and (
                    listed is None or self._is_own(value, module)):
                names.add(name)
        return sorted(names)

    def _is_own(self, value, module):
        """Whether a name that __all__ leaves out is the module's all the same: made in it."""
        return getattr(value, "__module__", None) == module.__name__

    def _member(self, path, value):
        if isinstance(value, types.ModuleType):
            yield f"value {path}: module {value.__name__}"
        elif inspect.isclass(value) and self._is_ours(value):
            yield from self._class(path, value)
        elif inspect.isclass(value):
            yield f"value {path}: class {self._text(value)}"
        elif callable(value) and hasattr(value, "__name__"):
            yield f"function {path}: {self._signature(value)} [{_documented(value)}]"
        else:
            yield f"value {path}: {self._value(value)}"
            if self._is_ours(type(value)):  # one object that stands for its class
                yield from self._members(path, type(value))

    def _is_ours(self, cls):
        return (cls.__module__ + ".").startswith(self.package + ".")

    def _is_public_class(self, cls):
        return not cls.__name__.startswith("_") and (
            not self._is_ours(cls) or cls in self.names.values())

    def _bases(self, cls):
        """Those that a user can name: in place of a private one its own."""
        for base in cls.__bases__:
            if base is object:
                continue
            if self._is_public_class(base):
                yield self._text(base)
            else:
                yield from self._bases(base)

    def _class(self, path, cls):
        bases = ", ".join(dict.fromkeys(self._bases(cls)))
        yield f"class {path}: class({bases}) [{_documented(cls)}]"
        if issubclass(cls, enum.Enum):
            for name, member in cls.__members__.items():
                yield f"value {path}.{name}: {self._value(member.value)}"
        yield from self._members(path, cls)

    def _members(self, path, cls):
        seen = set(getattr(cls, "__members__", ()))
        for owner in cls.__mro__:
            if not self._is_ours(owner):
                continue
            annotations = vars(owner).get("__annotations__", {})
            for name in [*vars(owner), *annotations]:
                if name in seen or not is_public(name):
                    continue
                seen.add(name)
                annotated = annotations.get(name)
                kind = "" if annotated is None else self._annotation(
                    annotated, vars(sys.modules[owner.__module__]))
                if name in vars(owner):
                    yield f"member {path}.{name}: {self._attribute(vars(owner)[name], kind)}"
                else:
                    yield f"member {path}.{name}: attribute {kind}"

    def _attribute(self, value, kind):
        if isinstance(value, (staticmethod, classmethod)):
            function = value.__func__
            which = type(value).__name__
            return f"{which} {self._signature(function)} [{_documented(function)}]"
        if isinstance(value, property):
            returns = self._signature(value.fget).rpartition(" -> ")[2] if value.fget else ""
            can = "".join(word for word, function in (
                (", can be set", value.fset), (", can be deleted", value.fdel)) if function)
            return f"property {returns}{can} [{_documented(value)}]"
        if inspect.isroutine(value):
            return f"method {self._signature(value)} [{_documented(value)}]"
        if inspect.isdatadescriptor(value):
            return f"attribute {kind}".rstrip()
        if inspect.isclass(value):
            return f"class {self._text(value)}"
        return f"value {kind + ' = ' if kind else ''}{self._value(value)}"

    def _signature(self, function):
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return "(not known)"
        scope = getattr(inspect.unwrap(function), "__globals__", {})
        parameters = []
        for parameter in signature.parameters.values():
            annotation = parameter.annotation
            if annotation is not inspect.Parameter.empty:
                annotation = _Text(self._annotation(annotation, scope))
            default = parameter.default
            if default is not inspect.Parameter.empty:
                default = _Text(self._literal(default))
            parameters.append(parameter.replace(annotation=annotation, default=default))
        returns = signature.return_annotation
        if returns is not inspect.Signature.empty:
            returns = _Text(self._annotation(returns, scope))
        return str(signature.replace(parameters=parameters, return_annotation=returns))

    def _annotation(self, annotation, scope):
        """As objects where the names are known, so that two spellings of one type read alike."""
        def holder():
            """What get_type_hints takes annotations from."""
        holder.__annotations__ = {"hint": annotation}
        try:
            hint = typing.get_type_hints(holder, {**vars(typing), **self.names, **scope})["hint"]
        except Exception:  # any error of the annotation's own text
            hint = annotation
        return self._text(hint)

    def _text(self, value):
        if value is type(None):
            return "None"
        if isinstance(value, str):
            text = value
        elif inspect.isclass(value) and not isinstance(value, types.GenericAlias):
            text = f"{value.__module__}.{value.__qualname__}"
        else:
            text = repr(value)
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
        text = re.sub(r"\b(builtins|typing|collections\.abc)\.(?=\w)", "", text)
        return re.sub(rf"\b{self.package}(\.\w+)*\.(?=\w)", "", text)

    def _value(self, value):
        named = re.sub(r"^(builtins\.)?", "", f"{type(value).__module__}.{type(value).__name__}")
        return f"{self._text(named)} {self._literal(value)}"

    def _literal(self, value):
        return repr(value) if isinstance(value, str) else self._text(value)


class _Text:
    """Stands in a signature as its text, without quotes."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _documented(value):
    """Its own text counts, not that of a base."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return "documented" if (text or "").strip() else "undocumented"


if __name__ == "__main__":
    print("\n".join(sorted(Reader(sys.argv[1]).lines())))
