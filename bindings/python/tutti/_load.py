"""Imports the native module beside whatever else the process has loaded.

Some packages (TensorFlow 2.21, say) put a protobuf of another version into the process's global
scope, where the dynamic linker finds it before the one that libtutti was built with, and the first
message would crash. Then, and only then, the native module is loaded with RTLD_DEEPBIND: it looks
into its own dependencies first. Elsewhere that flag would get in the way of allocators and
sanitizers that stand in front of libc.
"""

import ctypes
import os
import sys
import types


def _has_foreign_protobuf() -> bool:
    """Whether the global scope has a protobuf: ours never is there before it is loaded."""
    return hasattr(ctypes.CDLL(None), "_ZN6google8protobuf11MessageLiteD2Ev")


def _import_native() -> types.ModuleType:
    if "tutti._native" in sys.modules or not _has_foreign_protobuf():
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
