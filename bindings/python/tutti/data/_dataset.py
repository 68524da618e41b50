"""Dataset and its iterator."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from tutti import _arguments, _dtypes, _native, _scope, _values, errors
from tutti._communicator import Communicator
from tutti._device import place
from tutti._tensor import Tensor
from tutti.data import _choice, _code, _generator, _padding, _state, _traced_datasets
from tutti.data._function import Function, function_of
from tutti.data._options import Options
from tutti.data._transformations import Transformations

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2
AUTOTUNE = -1

_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Paths = Union[_Path, Iterable[_Path]]


class Iterator:
    """One walk over the elements of `dataset`. Threads: one at a time.

    An error belongs to its element: the next call goes on behind it where the source can, and
    repeats it where not.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, dataset: "Dataset", timeout: Optional[float] = None):
        self._handle = _native.iterator_create(
            _arguments.handle_of("Iterator: dataset", dataset, Dataset), timeout)

    def __iter__(self) -> "Iterator":
        return self

    def __next__(self) -> Any:
        return _native.iterator_next(self._handle, None)

    def next(self, timeout: Optional[float] = None) -> Any:
        """The next element, waiting at most `timeout` seconds (DeadlineExceededError, nothing is
        lost); StopIteration at the end."""
        return _native.iterator_next(self._handle, timeout)

    def get_next(self, timeout: Optional[float] = None) -> Any:
        """The next element; OutOfRangeError at the end."""
        try:
            return _native.iterator_next(self._handle, timeout)
        except StopIteration:
            raise errors.OutOfRangeError("end of the dataset") from None

    def get_next_as_optional(self, timeout: Optional[float] = None) -> _values.Optional:
        """The next element as a tutti.data.Optional, which is empty at the end."""
        element: _values.Optional = _native.iterator_next_optional(self._handle, timeout)
        element._source = self
        return element

    @property
    def element_spec(self) -> Any:
        """Structure, dtypes and shapes of an element."""
        return _native.iterator_element_spec(self._handle)

    def save(self, timeout: Optional[float] = None) -> bytes:
        """The position: elements that were delivered count, elements made ahead do not."""
        return _native.iterator_save(self._handle, timeout)

    def restore(self, state: bytes, timeout: Optional[float] = None) -> None:
        """Goes to `state`, a saved position of an iterator over an equal dataset, whose names,
        prefetch sizes and num_parallel_calls may be others. InvalidArgumentError for that of
        another dataset, or of a release with another format or another version of an operation,
        and the iterator stays where it was."""
        _native.iterator_restore(self._handle, state, timeout)

    def explain(self, format: str = "text") -> str:
        """The plan with what this iterator has done so far. `format`: "text", "json" or "svg".
        Where the dataset's `options.experimental_stats.profile` is True: of each operation its rows
        and about their bytes, the time in it and in which it waited for its input, its function's
        calls and whether they are callbacks, calls at once, how full its buffer was; and the
        bottleneck, with the change that would help. What AUTOTUNE has chosen is there in any case.
        A restore begins anew. Threads: any, while another one iterates, too."""
        return _native.iterator_explain(self._handle, format)

    def close(self, timeout: Optional[float] = None) -> None:
        """Stops and joins the iterator's threads; later calls are FailedPreconditionError."""
        _native.iterator_close(self._handle, timeout)

    def __enter__(self) -> "Iterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Variant:
    """A dataset as a scalar that says nothing of its elements: what experimental.to_variant makes,
    and experimental.from_variant takes. In an element or a result of a function it is the dataset
    itself, and comes out as that. Immutable. Threads: any."""

    __slots__ = ("_handle",)
    _handle: _native.tutti_dataset

    def __init__(self) -> None:
        raise TypeError("make a variant with tutti.data.experimental.to_variant(dataset)")

    @property
    def shape(self) -> Tuple[int, ...]:
        """(), the shape of a scalar."""
        return ()

    @property
    def dtype(self) -> str:
        """"variant", which is a name and no dtype of tensors."""
        return "variant"

    def __repr__(self) -> str:
        return "<Variant of a dataset>"


def _check_arrays(element: Any) -> None:
    if isinstance(element, (tuple, list)):
        for part in element:
            _check_arrays(part)
    elif isinstance(element, dict):
        for part in element.values():
            _check_arrays(part)
    elif isinstance(element, (Dataset, Variant, _values.Optional)):
        raise errors.InvalidTypeError(
            f"as_numpy_iterator: an element holds a {_arguments.name_of(type(element))}, which is "
            f"no array; iterate the dataset itself")


def _copied(element: Any) -> Any:
    """The element with arrays that may be written; numbers, texts and bytes are what they are."""
    if isinstance(element, (np.ndarray, Tensor)):
        return element.copy()
    if isinstance(element, dict):
        return {key: _copied(part) for key, part in element.items()}
    if isinstance(element, tuple):
        parts = [_copied(part) for part in element]
        return type(element)(*parts) if hasattr(element, "_fields") else tuple(parts)
    if isinstance(element, list):
        return [_copied(part) for part in element]
    return element


class _NumpyIterator(Iterator):
    """An iterator whose elements are arrays and structures of them. Elements of one dataset are of
    one structure, so that the first tells."""

    __slots__ = ("_checked", "_writable")

    def __init__(self, dataset: "Dataset", writable: bool = False):
        super().__init__(dataset)
        self._checked = False
        self._writable = writable

    def _check(self, element: Any) -> Any:
        if not self._checked:
            _check_arrays(element)
            self._checked = True
        return _copied(element) if self._writable else element

    def __next__(self) -> Any:
        return self._check(super().__next__())

    def next(self, timeout: Optional[float] = None) -> Any:
        return self._check(super().next(timeout))

    def get_next(self, timeout: Optional[float] = None) -> Any:
        return self._check(super().get_next(timeout))


class Dataset(Transformations, _arguments.NamesNearest):
    """A definition of a sequence of elements; nothing runs until it is iterated. Immutable, so that
    every method gives a new dataset.

    Bad arguments are reported by the method that takes them, bad data by the iterator that meets
    it. Order is deterministic unless asked otherwise. `name` appears in messages. Threads: any.
    """

    __slots__ = ("_handle", "__weakref__")
    _handle: _native.tutti_dataset

    def __init__(self) -> None:
        raise TypeError("make a dataset with Dataset.range, Dataset.from_tensor_slices, "
                        "TFRecordDataset ...")

    @staticmethod
    def _of(handle: Any) -> "Dataset":
        if _scope.device.get() is not None:
            place()
        dataset = Dataset.__new__(Dataset)
        dataset._handle = handle
        return dataset

    # ---- sources

    @staticmethod
    def range(*args: int, output_type: Any = None, name: Optional[str] = None) -> "Dataset":
        """The numbers of range(*args), which is range(stop), range(start, stop) or
        range(start, stop, step), as scalars of `output_type`
        (int64 by default).

        >>> [int(number) for number in tutti.data.Dataset.range(2, 10, 3)]
        [2, 5, 8]
        """
        if not 1 <= len(args) <= 3:
            raise errors.InvalidTypeError(f"range takes 1 to 3 numbers, not {len(args)}")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        traced = _traced_datasets.source("range", (start, stop, step))
        if traced is not None and output_type is None:
            return Dataset._of(traced)
        dtype = 0 if output_type is None else _dtypes.number_of(output_type)
        return Dataset._of(_native.dataset_range(start, stop, step, dtype, name))

    @staticmethod
    def from_tensors(tensors: Any, name: Optional[str] = None) -> "Dataset":
        """One element, `tensors`, of which Python's own numbers and lists of them become int32 and
        float32 as in a Tensor. Arrays are not copied: do not write to them afterwards."""
        traced = _traced_datasets.source("from_tensors", tensors)
        return Dataset._of(traced or _native.dataset_from_tensors(tensors, name))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: Optional[str] = None) -> "Dataset":
        """The slices of all `tensors`, a structure as in from_tensors, along axis 0, whose sizes
        must be equal there. Arrays are not copied: do not write to them afterwards.

        >>> rows = tutti.data.Dataset.from_tensor_slices({"x": [[1, 2], [3, 4]], "y": [5, 6]})
        >>> [(row["x"].tolist(), int(row["y"])) for row in rows]
        [([1, 2], 5), ([3, 4], 6)]
        """
        traced = _traced_datasets.source("from_tensor_slices", tensors)
        return Dataset._of(traced or _native.dataset_from_tensor_slices(tensors, name))

    @staticmethod
    def from_generator(generator: Callable[..., Any], output_types: Any = None,
                       output_shapes: Any = None, args: Sequence[Any] = (),
                       output_signature: Any = None, name: Optional[str] = None) -> "Dataset":
        """What `generator(*args)` yields, which is called for each iteration.

        args: tensors, or structures of them, which it gets as elements are: NumPy arrays, read-only
        and its own, or NumPy scalars and bytes of rank 0; Python's own numbers become int32 and
        float32 as in a Tensor.
        output_signature: the spec of an element (a structure of TensorSpec); or output_types, a
        structure of dtypes, with output_shapes of the same structure (unknown by default). What it
        yields is converted to these dtypes as by Tensor.convert; what they do not hold is an
        InvalidArgumentError that names element and value. An exception of the generator comes out
        of the iterator as itself. The generator runs on the thread that iterates, or on that of a
        prefetch.

        >>> def squares(count):
        ...     for number in range(count):
        ...         yield number * number
        >>> numbers = tutti.data.Dataset.from_generator(
        ...     squares, args=(4,), output_signature=tutti.data.TensorSpec((), np.int64))
        >>> [int(number) for number in numbers]
        [0, 1, 4, 9]
        """
        if not callable(generator):
            raise TypeError("from_generator needs a function that makes an iterator, because every "
                            "iteration begins anew")
        if output_signature is None:
            if output_types is None:
                raise TypeError("from_generator needs output_signature (or output_types)")
            output_signature = _generator.signature(output_types, output_shapes)
        if args:
            made, given = generator, tuple(_generator.argument(value) for value in args)
            generator = lambda: made(*given)  # noqa: E731
        return Dataset._of(_native.dataset_from_generator(
            generator, output_signature, name, _code.fingerprint(generator)))

    @staticmethod
    def list_files(file_pattern: _Paths, shuffle: Optional[bool] = None, seed: Optional[int] = None,
                   name: Optional[str] = None) -> "Dataset":
        """The names of the files that match file_pattern, a glob pattern or several, as bytes;
        sorted, and by default (shuffle) shuffled anew for each iteration, from `seed`.
        NotFoundError (a FileNotFoundError) at iteration when nothing matches."""
        patterns = _paths(file_pattern)
        return Dataset._of(_native.dataset_list_files(patterns, shuffle, seed, name))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: Optional[str] = None) -> "Dataset":
        """Elements with the structure of `datasets` (one structure, or one dataset in each of
        args), one element of each; as long as the shortest.

        >>> numbers = tutti.data.Dataset.range(3)
        >>> [(int(a), int(b)) for a, b in tutti.data.Dataset.zip((numbers, numbers.skip(1)))]
        [(0, 1), (1, 2)]
        """
        if datasets is None:
            datasets = args[0] if len(args) == 1 else tuple(args)
        if isinstance(datasets, list):
            datasets = tuple(datasets)
        return Dataset._of(_native.dataset_zip(datasets, name))

    @staticmethod
    def choose_from_datasets(datasets: Sequence["Dataset"], choice_dataset: "Dataset",
                             stop_on_empty_dataset: bool = True,
                             name: Optional[str] = None) -> "Dataset":
        """For each element of choice_dataset, an integer, the next element of that one of the
        datasets.

        datasets: numbered from 0. Elements must be compatible (InvalidArgumentError); the
        element_spec is the most specific one that all fit. A choice of a dataset that has ended
        ends the sequence, or is passed over if not stop_on_empty_dataset. A choice that is no
        number of a dataset is an InvalidArgumentError at iteration that names its element.

        >>> ones, twos = (tutti.data.Dataset.from_tensors(n).repeat(3) for n in (1, 2))
        >>> choices = tutti.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
        >>> [int(n) for n in tutti.data.Dataset.choose_from_datasets([ones, twos], choices)]
        [1, 2, 2, 1]
        """
        choices = _arguments.handle_of("choose_from_datasets: choice_dataset", choice_dataset,
                                       Dataset)
        return Dataset._of(_native.dataset_choose_from_datasets(
            tuple(datasets), choices, stop_on_empty_dataset, name))

    @staticmethod
    def sample_from_datasets(datasets: Sequence["Dataset"], weights: Any = None,
                             seed: Optional[int] = None, stop_on_empty_dataset: bool = False,
                             rerandomize_each_iteration: Optional[bool] = None,
                             name: Optional[str] = None) -> "Dataset":
        """The next element of one of the datasets, drawn at random, again and again, until all
        have ended, or, if stop_on_empty_dataset, one that is drawn has.

        weights: a number of 0 or more for each dataset, not all 0; None: all the same. It may be a
        dataset of such vectors: each is of one draw, a draw of a dataset that has ended is passed
        over, and where the vectors end the sequence does. seed: as of shuffle; the order that a
        seed gives stays. rerandomize_each_iteration (default True): each iteration has an order of
        its own. Elements must be compatible (InvalidArgumentError).
        """
        if weights is not None and not isinstance(weights, Dataset):
            weights = np.asarray(weights)
        return Dataset._of(_native.dataset_sample_from_datasets(
            tuple(datasets), seed, weights, stop_on_empty_dataset, rerandomize_each_iteration,
            name))

    # ---- transformations that are more than their arguments; the plain ones are inherited

    def map(self, map_func: Union[Callable[..., Any], Function],
            num_parallel_calls: Optional[int] = None,
            deterministic: Optional[bool] = None, name: Optional[str] = None, *,
            slab: bool = False, output_signature: Any = None,
            native: Optional[bool] = None) -> "Dataset":
        """Every element replaced by what `map_func` makes of it.

        The parts of a tuple are arguments of their own; a dict or a list is one. With slab=True the
        function gets and gives many rows at once, every leaf with one more leading dimension.
        output_signature: the spec of one row's result, to which results are converted as by
        Tensor.convert; without it the first row decides, which a dataset without rows has not, and
        Python's own numbers are int32 and float32 as in a Tensor. num_parallel_calls: 0 or None on
        the iterating thread; n calls at once and ahead, though none beyond what a take leaves, on
        threads of the iterator's; or AUTOTUNE. deterministic=False lets results overtake each
        other. With slab=True calls stay on the iterating thread. An exception of the function
        comes out of the iterator as itself.
        Inside it only building calls are allowed, no iteration.

        native=True: the function is traced, as by tutti.data.expression: called once, now, with
        placeholders (Expr), and what it does with them runs without Python. TypeError and
        InvalidArgumentError where that cannot be. Behind a callback without an output_signature the
        first element is computed for its sizes, and one of others is an InvalidArgumentError.
        native=False: it is called. None: it is traced where its code can have no other effect than
        its result, and where that is what NumPy gives, in dtypes and bits, whose warnings do not
        come then; else it is called. explain() says which it is, and why it is called. The option
        experimental_optimization.native_functions of the dataset takes the place of None.

        >>> [int(number) for number in tutti.data.Dataset.range(4).map(lambda x: x * x)]
        [0, 1, 4, 9]
        """
        function = _choice.of_elements(map_func, self, "map", native, slab, output_signature, name)
        return self._of(_native.dataset_map(self._handle, function._handle,
                                            num_parallel_calls or 0, deterministic, name))

    def flat_map(self, map_func: Union[Callable[..., Any], Function],
                 name: Optional[str] = None, *, native: Optional[bool] = None) -> "Dataset":
        """The elements of the datasets that `map_func` gives, one dataset after the other.

        It gives a dataset for each element; anything else is an InvalidArgumentError. What is drawn
        at random in such a dataset follows from the outer one's seed and from the element's place.
        native: as in map. In a function that is traced Dataset.range, from_tensors,
        from_tensor_slices, repeat, take, skip and the readers of files take placeholders, and the
        functions inside of it use its own.
        """
        function = _choice.of_datasets(map_func, self, "flat_map", native, name)
        return self._of(_native.dataset_flat_map(self._handle, function._handle, name))

    def interleave(self, map_func: Union[Callable[..., Any], Function],
                   cycle_length: Optional[int] = None, block_length: Optional[int] = None,
                   num_parallel_calls: Optional[int] = None,
                   deterministic: Optional[bool] = None, name: Optional[str] = None, *,
                   native: Optional[bool] = None) -> "Dataset":
        """The elements of the datasets that `map_func` gives, of `cycle_length` of them in turn,
        `block_length` a visit.

        It gives a dataset for each element; anything else is an InvalidArgumentError. cycle_length:
        None is 10, or num_parallel_calls where that is more. block_length: None is 1.
        num_parallel_calls: 0 or None on the iterating thread; n threads, at most cycle_length, that
        call the function and make the elements ahead; or AUTOTUNE. The order is the same, unless
        deterministic=False: then whatever is ready comes first. native: as in flat_map.

        >>> rows = tutti.data.Dataset.range(2).interleave(
        ...     lambda x: tutti.data.Dataset.range(3).map(lambda y: 10 * x + y), cycle_length=2)
        >>> [int(row) for row in rows]
        [0, 10, 1, 11, 2, 12]
        """
        function = _choice.of_datasets(map_func, self, "interleave", native, name)
        return self._of(_native.dataset_interleave(
            self._handle, function._handle, cycle_length,
            1 if block_length is None else block_length, num_parallel_calls or 0, deterministic,
            name))

    def group_by_window(self, key_func: Union[Callable[..., Any], Function],
                        reduce_func: Union[Callable[[Any, "Dataset"], "Dataset"], Function],
                        window_size: Optional[int] = None,
                        window_size_func: Union[Callable[[Any], int], Function, None] = None,
                        name: Optional[str] = None) -> "Dataset":
        """The elements of the datasets that `reduce_func(key, window)` gives for windows of
        elements with the same key.

        key_func: the key of an element, an integer scalar of any integer dtype; the parts of a
        tuple are arguments of their own. As soon as there are window_size > 0 elements of one key,
        reduce_func gets the key, as np.int64 (of a np.uint64 as that), and a dataset of these
        elements, which is in memory; what it gives comes out before more input is read. At the
        input's end come the smaller windows, by ascending keys. Exactly one of window_size and
        window_size_func is given, which is asked once for each new key. An element for which
        key_func fails, a window for which reduce_func does or gives no dataset, is one failed
        element; exceptions come out of the iterator as themselves. What is drawn at random in such
        a dataset follows from the outer one's seed and from the window's place. An iterator that is
        restored calls reduce_func again for the window that was being read.
        """
        key = _choice.of_key(key_func, self, "group_by_window", None, name)
        sizes = None
        if window_size_func is not None:
            sizes = _choice.of_window_size(window_size_func, self, key, name)._handle
        reduce = _choice.of_windows(reduce_func, self, key, name)
        return self._of(_native.dataset_group_by_window(
            self._handle, key._handle, reduce._handle, window_size, sizes, name))

    def padded_batch(self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None,
                     drop_remainder: Optional[bool] = None,
                     name: Optional[str] = None) -> "Dataset":
        """`batch_size` > 0 consecutive elements stacked along a new axis 0, each padded behind its
        last elements to one shape.

        padded_shapes: of each component its sizes, in the structure of an element; None (or -1) for
        a size that is the largest of the batch, and without padded_shapes all are. A larger element
        is an InvalidArgumentError at iteration that names both shapes. It must be given where a
        number of axes is unknown. padding_values: a scalar for all components of its dtype, or one
        for each in the structure of an element, None for 0, False or b"". Python's own numbers are
        converted to the component's dtype as by Tensor.convert, which needs the dataset's
        element_spec; others must have it. The last batch may be smaller, unless drop_remainder.

        >>> rows = tutti.data.Dataset.range(1, 3).map(lambda n: np.full(n, n))
        >>> [batch.tolist() for batch in rows.padded_batch(2)]
        [[[1, 0], [2, 2]]]
        """
        values = _padding.values(padding_values, lambda: self.element_spec)
        return self._of(_native.dataset_padded_batch(
            self._handle, batch_size, _padding.shapes(padded_shapes), values, drop_remainder, name))

    def bucket_by_sequence_length(
            self, element_length_func: Union[Callable[..., Any], Function],
            bucket_boundaries: Sequence[int], bucket_batch_sizes: Sequence[int],
            padded_shapes: Any = None, padding_values: Any = None,
            pad_to_bucket_boundary: bool = False, no_padding: bool = False,
            drop_remainder: bool = False, name: Optional[str] = None) -> "Dataset":
        """Padded batches of elements of about the same length.

        element_length_func: the length of an element, an integer scalar; the parts of a tuple are
        arguments of their own. bucket_boundaries: increasing integers; a bucket has the lengths
        from one of them up to the next, that one not included. bucket_batch_sizes: one more; how
        many elements make a batch of each bucket. A batch comes as soon as it is full, smaller ones
        at the end, by buckets, unless drop_remainder. padded_shapes, padding_values: as of
        padded_batch; a size that is left open is the longest of the batch, or, with
        pad_to_bucket_boundary, the bucket's upper boundary less 1: then an element of the last
        bucket is an InvalidArgumentError. no_padding: elements are stacked as they are.

        >>> rows = tutti.data.Dataset.range(1, 5).map(lambda n: np.full(n, n))
        >>> [batch.tolist() for batch in rows.bucket_by_sequence_length(len, [3], [2, 2])]
        [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]
        """
        values = _padding.values(padding_values, lambda: self.element_spec)
        length = _choice.of_key(element_length_func, self, "bucket_by_sequence_length", None, name)
        return self._of(_native.dataset_bucket_by_sequence_length(
            self._handle, length._handle, np.asarray(bucket_boundaries, np.int64),
            np.asarray(bucket_batch_sizes, np.int64), _padding.shapes(padded_shapes), values,
            pad_to_bucket_boundary, no_padding, drop_remainder, name))

    def dense_to_sparse_batch(self, batch_size: int, row_shape: Any,
                              name: Optional[str] = None) -> "Dataset":
        """`batch_size` > 0 consecutive elements, each one tensor, as a tutti.SparseTensor with a
        new axis 0, which has every item of each element as a value, zeros, too.

        row_shape: the sizes of its dense_shape behind the first; None (or -1) for the largest of
        the batch. An element of another number of axes, or that is larger, is an
        InvalidArgumentError at iteration that names both shapes. The last batch may be of fewer
        elements.
        """
        return self._of(_native.dataset_dense_to_sparse_batch(
            self._handle, batch_size, _padding.row_shape(row_shape), name))

    def snapshot(self, path: _Path, compression: Optional[str] = "AUTO",
                 reader_func: Optional[Union[Callable[["Dataset"], "Dataset"], Function]] = None,
                 shard_func: Optional[Union[Callable[..., Any], Function]] = None,
                 name: Optional[str] = None) -> "Dataset":
        """The elements of the first complete pass, in this process or another one, which is written
        to a folder and read from then on.

        The folder stands below `path` and goes by what the pipeline computes: another pipeline has
        another one. A Python function in it counts by its code, its defaults and what it has
        captured; names in it that are global count as names only. One that has captured what cannot
        be told apart is an InvalidArgumentError: register it (register_function), or give the
        from_generator a name. Drawn seeds do not count.

        compression: "AUTO", which is SNAPPY, "GZIP", "SNAPPY" or None. shard_func gives for each
        element the number of its shard, an integer of 0 or more; it counts as a function of the
        pipeline does. reader_func makes of a dataset of datasets, one of each shard, the dataset
        that is read; without it one element of each shard comes in turn.

        A pass that is given up, in which an element fails, or that cannot be written, which is said
        once, leaves nothing; who finds another writer passes the elements through. A damaged file
        is a DataLossError that names it. A saved iterator that was reading goes on as long as that
        snapshot is there (FailedPreconditionError); one that was writing passes the rest of its
        input through.
        """
        shard = None if shard_func is None else _choice.of_key(shard_func, self, "snapshot", None,
                                                               name)
        reader = None if reader_func is None else function_of(reader_func, False, None, name)
        return self._of(_native.dataset_snapshot(
            self._handle, os.fsdecode(path), "NONE" if compression is None else compression,
            None if shard is None else shard._handle, None if reader is None else reader._handle,
            name))

    def shuffle(self, buffer_size: int, seed: Optional[int] = None,
                reshuffle_each_iteration: Optional[bool] = None,
                name: Optional[str] = None) -> "Dataset":
        """A random order: each output is drawn uniformly from a buffer of `buffer_size` > 0
        elements, anew for each iteration unless reshuffle_each_iteration=False. The order that a
        seed gives is a promise of compatibility.

        >>> shuffled = tutti.data.Dataset.range(9).shuffle(9, seed=7)
        >>> sorted(int(number) for number in shuffled)
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
        """
        return self._of(_native.dataset_shuffle(self._handle, buffer_size, seed,
                                                reshuffle_each_iteration, name))

    def shuffle_and_repeat(self, buffer_size: int, count: Optional[int] = None,
                           seed: Optional[int] = None, name: Optional[str] = None) -> "Dataset":
        """shuffle(buffer_size, seed), anew for each repetition, then repeat(count): no element of
        a repetition comes before the last of the one before it."""
        return self._of(_native.dataset_shuffle_and_repeat(
            self._handle, buffer_size, -1 if count is None else count, seed, name))

    def apply(self, transformation_func: Callable[["Dataset"], "Dataset"]) -> "Dataset":
        """What transformation_func(self) gives, for chaining."""
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            raise TypeError(f"apply: the function must give a Dataset, not {type(result).__name__}")
        return result

    def with_options(self, options: Options, name: Optional[str] = None) -> "Dataset":
        """The same dataset with `options` merged into its own; two different values of one option
        are a ValueError."""
        given = _arguments.handle_of("with_options: options", options, Options)
        return self._of(_native.dataset_with_options(self._handle, given))

    # ---- reading

    def options(self) -> Options:
        """The options of this dataset; what is set through them counts for it."""
        options: Options = Options._of(None, self)
        return options

    def cardinality(self) -> int:
        """The number of elements, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return _native.dataset_cardinality(self._handle)

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            kind = "infinite" if count == INFINITE_CARDINALITY else "unknown"
            raise errors.UnsupportedTypeError(
                f"the length of this dataset is {kind}; cardinality() says {count} of it")
        return count

    def __bool__(self) -> bool:
        return True

    @property
    def element_spec(self) -> Any:
        """Structure, dtypes and shapes of an element. A map whose function has no output_signature
        computes one element here, the first that does not fail; where the first 100 fail, the
        first failure is raised."""
        return _native.dataset_element_spec(self._handle, None)

    def reduce(self, initial_state: Any, reduce_func: Union[Callable[[Any, Any], Any], Function],
               name: Optional[str] = None, *, timeout: Optional[float] = None,
               native: Optional[bool] = None) -> Any:
        """The last state: `initial_state`, then for each element reduce_func(state, element).

        An element that is a tuple is one argument. Structure and dtypes of the state stay
        (InvalidArgumentError that names both), its shapes may change; Python's own numbers, and the
        int64 and float64 that NumPy makes with them, become the dtype that the state has in their
        place, where it holds them; in `initial_state` they are int32 and float32 as in a Tensor. It
        iterates now, waiting at most `timeout` seconds (DeadlineExceededError). An exception of the
        function comes out as itself; other errors have the element's number. native: as in map, of
        a function whose result is of the state's dtypes and shapes.

        >>> int(tutti.data.Dataset.range(5).reduce(np.int64(0), lambda total, x: total + x))
        10
        """
        function: Any = reduce_func
        if not isinstance(function, Function):
            if not callable(function):
                raise TypeError("reduce needs a function of a state and an element, not "
                                f"an object of type {type(function).__name__}")
            given = function
            function = _choice.of_state(
                given, self, initial_state, native,
                lambda reason: Function._callback(
                    _state.keeping(initial_state, given), False, None,
                    name or getattr(given, "__name__", None), reason))
        return _native.dataset_reduce(self._handle, initial_state, function._handle, timeout)

    def explain(self, format: str = "text") -> str:
        """The plan for people, one line per operation, with what the iterator that was made last
        has measured and chosen (Iterator.explain). `format`: "text", "json" or "svg"."""
        if format == "text":
            return _native.dataset_explain(self._handle)
        return _native.dataset_explain_as(self._handle, format)

    @staticmethod
    def explain_report(report: Union[str, bytes], format: str = "text") -> str:
        """What explain wrote as "json", in another format; InvalidArgumentError for anything else.

        >>> report = tutti.data.Dataset.range(3).explain("json")
        >>> print(tutti.data.Dataset.explain_report(report), end="")
        range(start=0, stop=3, step=1, dtype=int64): 3 elements of int64[]
        """
        data = report.encode() if isinstance(report, str) else report
        return _native.dataset_explain_report(data, format)

    @staticmethod
    def gather_report(report: Union[str, bytes], communicator: Communicator, format: str = "text",
                      timeout: Optional[float] = None) -> str:
        """What explain tells on all ranks of `communicator`, as one report: a collective call,
        which every rank makes with what its own iterator's explain("json") gave. What operations
        did is added up, each rank has a line, and the bottleneck is that of the rank whose consumer
        waited for most of its time. `format`: "text", "json" or "svg". InvalidArgumentError for
        anything else than a report.

        >>> alone, = tutti.Communicator.create_local(1)
        >>> report = tutti.data.Dataset.range(3).explain("json")
        >>> print(tutti.data.Dataset.gather_report(report, alone), end="")
        range(start=0, stop=3, step=1, dtype=int64): 3 elements of int64[]
        """
        data = report.encode() if isinstance(report, str) else report
        ranks = _arguments.handle_of("gather_report: communicator", communicator, Communicator)
        return _native.dataset_gather_report(data, format, ranks, timeout)

    def serialize(self) -> bytes:
        """The definition as bytes; FailedPreconditionError for a function without a registered
        name."""
        return _native.dataset_serialize(self._handle)

    @staticmethod
    def deserialize(data: bytes) -> "Dataset":
        """The dataset whose serialize() gave `data`, in this release or an earlier one."""
        return Dataset._of(_native.dataset_deserialize(data))

    def __reduce__(self) -> Any:
        """Pickled as its definition, as serialize() gives it, so that a process of its own can have
        it; FailedPreconditionError for a function without a registered name."""
        return Dataset.deserialize, (self.serialize(),)

    def __copy__(self) -> "Dataset":
        return self  # it is immutable

    def __deepcopy__(self, _: Any) -> "Dataset":
        return self

    def __iter__(self) -> Iterator:
        return Iterator(self)

    def as_numpy_iterator(self, *, writable: bool = False) -> Iterator:
        """The same as iter(), because elements are NumPy already; TypeError at the first element
        when there are datasets or optionals in it. writable: each array is a copy of its own, for
        who writes into it or hands it to a library that wants memory that may be written
        (torch.from_numpy, torch.from_dlpack).

        >>> rows = tutti.data.Dataset.range(4).batch(2).as_numpy_iterator(writable=True)
        >>> [(row + 1).tolist() for row in rows]
        [[1, 2], [3, 4]]
        """
        return _NumpyIterator(self, writable)

    def __repr__(self) -> str:
        count = self.cardinality()
        number = {INFINITE_CARDINALITY: "infinitely many",
                  UNKNOWN_CARDINALITY: "an unknown number of"}.get(count, str(count))
        return f"<{type(self).__name__} of {number} element{'' if count == 1 else 's'}>"


def _paths(given: _Paths) -> List[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        return [os.fsdecode(given)]
    return [os.fsdecode(path) for path in given]
