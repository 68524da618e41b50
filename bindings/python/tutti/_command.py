"""The command `tutti` of a wheel: hands over to the program beside this file."""

import os
import pathlib
import signal
import sys


def main() -> None:
    """Becomes the program. What Python ignores, the workers that it starts must not."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    program = pathlib.Path(__file__).parent / "bin" / "tutti"
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tutti: {program} cannot be run: {error.strerror}. This command comes with the "
                 "wheel; in a build folder it is capi/tool/tutti.")
