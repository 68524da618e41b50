"""Writes a C file that defines every function of the headers with an empty body. Compiled, it has
the library's ABI and nothing else: the same symbols (symbols_test.py compares the names), the same
signatures (the library's own sources include the same headers), the same structs.

    make_abi_image.py OUTPUT
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "capi"))
import declarations  # noqa: E402


def image() -> str:
    text = "#include <tutti/tutti.h>\n"
    for function in declarations.all_functions():
        head = declarations.spell(function.result, f"{function.name}({function.parameter_text})")
        body = "" if function.result == "void" else f"static {function.result} none; return none;"
        text += f"{head} {{ {body} }}\n"
    return text


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(image())
