"""Writing record files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Type, Union

from tutti import _arguments, _native, errors

if TYPE_CHECKING:
    from tutti.data._dataset import Dataset

COMPRESSIONS = {None: 0, "": 1, "NONE": 1, "GZIP": 2, "ZLIB": 3}


def compression_number(compression: Optional[str]) -> int:
    key = compression.upper() if isinstance(compression, str) else compression
    if key not in COMPRESSIONS:
        raise errors.InvalidArgumentError(
            f"compression_type: {compression!r} is none of None, 'GZIP', 'ZLIB'")
    return COMPRESSIONS[key]


class TFRecordWriter:
    """Writes a TFRecord file; overwrites `filename`. A context manager: after an exception in its
    body the file that is being written is abandoned, and what stood there before stays.

        tutti.data.TFRecordWriter("all.tfrecord").write(dataset)   # the whole file

    In a function that gives a dataset to flat_map, interleave or group_by_window nothing is written
    yet: a writer that is made there notes the datasets that it is given, and the files are written,
    each whole or not at all, before the dataset that the function gives has its first element;
    where one cannot be written, that element has failed. element_spec writes nothing. An iterator
    that is restored behind the first element writes nothing either, one from before it the same
    files again. In other functions of datasets it is a FailedPreconditionError.

    filename: also as `path`; a text, a path, or bytes as tutti.strings.join gives them.
    compression_type: None, "GZIP" or "ZLIB". compression_level: 0 to 9. Threads: one at a time.
    """

    __slots__ = ("_handle",)

    def __init__(self, filename: Union[str, bytes, "os.PathLike[str]", None] = None,
                 compression_type: Optional[str] = None, compression_level: Optional[int] = None, *,
                 path: Union[str, bytes, "os.PathLike[str]", None] = None):
        name: Any = filename if path is None else path
        self._handle = _native.record_writer_create(
            os.fsdecode(name), compression_number(compression_type), compression_level)

    def write(self, record: Any, timeout: Optional[float] = None) -> None:
        """Of a dataset: writes every element, which is a scalar byte string (TypeError), and closes
        the file, which is whole then. Of bytes, or whatever has a contiguous buffer: writes one
        record, which needs a file that is being written."""
        from tutti.data._dataset import Dataset

        if not isinstance(record, Dataset):
            _native.record_writer_write(self._handle, record)
            return
        try:
            self.write_dataset(record, timeout)
        except BaseException:
            self.abandon()
            raise
        self.close()

    def write_dataset(self, dataset: "Dataset", timeout: Optional[float] = None) -> None:
        """Writes every element of a dataset of byte-string scalars."""
        from tutti.data._dataset import Dataset

        records = _arguments.handle_of("write_dataset: dataset", dataset, Dataset)
        _native.record_writer_write_dataset(self._handle, records, timeout)

    def close(self) -> None:
        """Flushes, syncs and closes; after an error what stood there before stays."""
        _native.record_writer_close(self._handle)

    def abandon(self) -> None:
        """Closes without the new file: what stood there before stays."""
        _native.record_writer_abandon(self._handle)

    def __enter__(self) -> "TFRecordWriter":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class ExampleWriter:
    """Writes a TFRecord file of tf.train.Examples; overwrites `filename`. A context manager, as
    TFRecordWriter.

        with tutti.data.ExampleWriter("train.tfrecord") as examples:
            for image, label in pairs:
                examples.write({"image": image, "label": label})

    filename, compression_type, compression_level: as of TFRecordWriter. Threads: one at a time.
    """

    __slots__ = ("_records",)

    def __init__(self, filename: Union[str, bytes, "os.PathLike[str]"],
                 compression_type: Optional[str] = None, compression_level: Optional[int] = None):
        self._records = TFRecordWriter(filename, compression_type, compression_level)

    def write(self, features: Dict[str, Any]) -> None:
        """One example: what tutti.io.make_example makes of `features`."""
        _native.record_writer_write_example(self._records._handle, features)

    def close(self) -> None:
        """Flushes, syncs and closes; after an error what stood there before stays."""
        self._records.close()

    def abandon(self) -> None:
        """Closes without the new file: what stood there before stays."""
        self._records.abandon()

    def __enter__(self) -> "ExampleWriter":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()
