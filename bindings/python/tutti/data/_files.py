"""Datasets of what stands in files."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Union

import numpy as np

from tutti import _dtypes, _native, errors
from tutti.data._dataset import Dataset, _Path, _paths, _Paths
from tutti.data._expression import Expr
from tutti.data._records import compression_number


class TFRecordDataset(Dataset):
    """The records of TFRecord files, in order, as bytes.

    filenames: a name, a list of names, or a dataset of them. compression_type: None, "GZIP" or
    "ZLIB". buffer_size: bytes read at once. num_parallel_reads: n > 1 reads so many files at a
    time, ahead and on threads, and gives their records in turn, as interleave(cycle_length=n,
    block_length=1) does over the files; AUTOTUNE: 10 files. No file at all: an empty dataset.
    Errors at iteration name file, offset and record index: NotFoundError (a FileNotFoundError),
    DataLossError.
    """

    __slots__ = ()

    def __init__(self, filenames: Union[_Paths, Dataset], compression_type: Optional[str] = None,
                 buffer_size: Optional[int] = None, num_parallel_reads: Optional[int] = None,
                 name: Optional[str] = None):
        self._handle = _native.dataset_tf_record(
            _files(filenames)._handle, compression_number(compression_type), buffer_size or 0,
            num_parallel_reads or 0, name)


class FixedLengthRecordDataset(Dataset):
    """Records of `record_bytes` bytes each. filenames, compression_type, buffer_size,
    num_parallel_reads: as in TFRecordDataset. header_bytes are skipped at the start, footer_bytes
    ignored at the end of each file; a rest that is no whole record is a ValueError at iteration."""

    __slots__ = ()

    def __init__(self, filenames: Union[_Paths, Dataset], record_bytes: int,
                 header_bytes: Optional[int] = None, footer_bytes: Optional[int] = None,
                 buffer_size: Optional[int] = None, compression_type: Optional[str] = None,
                 num_parallel_reads: Optional[int] = None, name: Optional[str] = None):
        self._handle = _native.dataset_fixed_length_record(
            _files(filenames)._handle, record_bytes, compression_number(compression_type),
            header_bytes or 0, footer_bytes or 0, buffer_size or 0, num_parallel_reads or 0, name)


class TextLineDataset(Dataset):
    """The lines of text files, in order, as bytes without their ends: LF, or CR and LF; the last
    line needs none. A CR elsewhere is part of its line. filenames, compression_type, buffer_size,
    num_parallel_reads: as in TFRecordDataset. Errors at iteration name the file: NotFoundError (a
    FileNotFoundError), DataLossError of a compressed file that is truncated or corrupt."""

    __slots__ = ()

    def __init__(self, filenames: Union[_Paths, Dataset], compression_type: Optional[str] = None,
                 buffer_size: Optional[int] = None, num_parallel_reads: Optional[int] = None,
                 name: Optional[str] = None):
        self._handle = _native.dataset_text_line(
            _files(filenames)._handle, compression_number(compression_type), buffer_size or 0,
            num_parallel_reads or 0, name)
class SqlDataset(Dataset):
    """The rows that `query` gives on a SQLite database, as tuples, in its order.

    driver_name: "sqlite". data_source_name: the database's file, which is opened to be read.
    output_types: a dtype for each column, `bytes` or str for text; NULL is 0, False or b"". The
    library of SQLite is loaded when the first query runs. A row with a value that its dtype cannot
    hold is a ValueError at iteration, and the next one follows; a query that cannot be run is one,
    with SQLite's text, and ends the dataset; NotFoundError (a FileNotFoundError) without the file.
    Iterators resume by asking again, so that a query should say "order by".
    """

    __slots__ = ()

    def __init__(self, driver_name: str, data_source_name: _Path, query: str,
                 output_types: Sequence[Any], name: Optional[str] = None):
        if isinstance(output_types, (str, bytes)) or not isinstance(output_types, Sequence):
            raise errors.InvalidTypeError(
                "SqlDataset: output_types is a tuple with a dtype for each column, not "
                f"{output_types!r}; write (np.int64,) say for one column")
        self._handle = _native.dataset_sql(
            driver_name, os.fsdecode(data_source_name), query,
            [_dtypes.number_of(dtype) for dtype in output_types], name)


def _files(filenames: Union[_Paths, Dataset]) -> Dataset:
    if isinstance(filenames, Dataset):
        return filenames
    if isinstance(filenames, Expr):
        return Dataset.from_tensors(filenames)
    paths = [os.fsencode(path) for path in _paths(filenames)]
    return Dataset.from_tensor_slices(np.array(paths, dtype=object))
