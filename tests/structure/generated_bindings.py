"""What the build writes from the C headers into the bindings, for checks that read the source tree.

    written(root, "facade", "java_datasets")     the text of these generators of bindings/generate
"""

import pathlib
import subprocess
import sys
import tempfile


def written(root, *generators):
    """The outputs, one after the other; nothing where the tree has no generators."""
    folder = pathlib.Path(root) / "bindings" / "generate"
    if not folder.is_dir():
        return ""
    texts = []
    with tempfile.TemporaryDirectory() as made:
        for generator in generators:
            output = pathlib.Path(made) / generator
            subprocess.run([sys.executable, "-B", str(folder / f"{generator}.py"), str(output)],
                           check=True)
            texts.append(output.read_text(encoding="utf-8"))
    return "\n".join(texts)
