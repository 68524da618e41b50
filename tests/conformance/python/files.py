"""The files of the vectors: those that `records` reads, and the folder of a case."""

import json
import pathlib
import shutil
import tempfile
import threading

import numpy as np

import tutti

_folder = tempfile.TemporaryDirectory(prefix="tutti-conformance-")
_record_files = {}
_record_files_lock = threading.Lock()


def record_files(lists):
    """A TFRecord file for each list of numbers; the same lists give the same files, also to several
    workers at once."""
    with _record_files_lock:
        key = json.dumps(lists)
        if key not in _record_files:
            paths = [f"{_folder.name}/{len(_record_files)}-{i}" for i in range(len(lists))]
            for path, items in zip(paths, lists):
                with tutti.data.TFRecordWriter(path) as writer:
                    for item in items:
                        writer.write(np.int64(item).tobytes())
            _record_files[key] = paths
        return _record_files[key]


class CaseFolder:
    """The folder of one case: "@/x" in a case is the file x in it. It is made when the first path
    in it is asked for, and removed with all that is in it."""

    def __init__(self):
        self._folder = None
        self._databases = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def with_paths(self, tree):
        """A tree of ops with the paths of its files. `files` are contents, and stay as they are; a
        `database` is written, and becomes the path of that file."""
        if isinstance(tree, dict):
            return {key: part if key == "files"
                    else self._write_database(part) if key == "database"
                    else self.with_paths(part)
                    for key, part in tree.items()}
        if isinstance(tree, list):
            return [self.with_paths(part) for part in tree]
        if isinstance(tree, str) and tree.startswith("@/"):
            return str(self._path(tree[2:]))
        return tree

    def _path(self, name):
        if self._folder is None:
            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-conformance-case-"))
        return self._folder / name

    def _write_database(self, contents):
        path = self._path(f"database-{self._databases}")
        self._databases += 1
        path.write_bytes(bytes.fromhex(contents["hex"]))
        return str(path)
