"""Imports the native module beside whatever else the process has loaded.

Some packages (TensorFlow 2.21, say) put a protobuf and an RE2 of other versions into the process's
global scope, where the dynamic linker finds them before those that libtutti was built with, and the
first message or pattern would crash. Then, and only then, the native module is loaded with
RTLD_DEEPBIND: it looks into its own dependencies first. Elsewhere that flag would get in the way of
allocators and sanitizers that stand in front of libc.
"""

import ctypes
import os
import sys
import types


def _has_foreign_libraries() -> bool:
    """Whether the global scope has a protobuf or an RE2: ours never are there before they are
    loaded."""
    everything = ctypes.CDLL(None)
    return (hasattr(everything, "_ZN6google8protobuf11MessageLiteD2Ev") or
            hasattr(everything, "_ZN3re23RE2D2Ev"))


def _import_native() -> types.ModuleType:
    if "tutti._native" in sys.modules or not _has_foreign_libraries():
        from tutti import _native
        return _native
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        from tutti import _native
    finally:
        sys.setdlopenflags(flags)
    return _native


try:
    _import_native()
except ImportError as error:
    from tutti import _missing
    reason = _missing.reason_for(error)
    if reason is None:
        raise
    raise ImportError(reason) from error
