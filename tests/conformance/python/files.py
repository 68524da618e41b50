"""The files of the vectors: those that `records` reads, and those in the folder of a case."""

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
        self._count = 0  # of files and folders that were made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def with_paths(self, tree):
        """A tree of ops with the paths of its files in the place of their contents, a `database`
        being a file, too. `records` says what numbers are in its files, which record_files()
        writes."""
        if isinstance(tree, dict):
            made = {key: part if key == "files"
                    else self._file(part) if key == "database"
                    else self.with_paths(part)
                    for key, part in tree.items()}
            if "files" in tree and tree["op"] == "list_files":
                made["file_pattern"] = self._patterns(made.pop("files"), tree["file_pattern"])
            elif "files" in tree and tree["op"] != "records":
                made["files"] = [self._file(contents) for contents in tree["files"]]
            return made
        if isinstance(tree, list):
            return [self.with_paths(part) for part in tree]
        if isinstance(tree, str) and tree.startswith("@/"):
            return str(self._path(tree[2:]))
        return tree

    def _path(self, name):
        if self._folder is None:
            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-conformance-case-"))
        return self._folder / name

    def _new_path(self):
        self._count += 1
        return self._path(f"made-{self._count}")

    def _file(self, contents):
        """A file with these contents; "@/x" is a path."""
        if isinstance(contents, str) and contents.startswith("@/"):
            return str(self._path(contents[2:]))
        path = self._new_path()
        path.write_bytes(bytes_of(contents))
        return str(path)

    def _patterns(self, files, patterns):
        """Patterns in a folder of files by name."""
        folder = self._new_path()
        folder.mkdir()
        for name, contents in files.items():
            (folder / name).write_bytes(bytes_of(contents))
        return [str(folder / pattern)
                for pattern in (patterns if isinstance(patterns, list) else [patterns])]


def bytes_of(contents):
    """A text, or {"hex": bytes}."""
    return contents.encode() if isinstance(contents, str) else bytes.fromhex(contents["hex"])
