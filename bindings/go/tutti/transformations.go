package tutti

import (
	"tutti.dev/tutti/internal/native"
)

func (d *Dataset) transform(call func(pointer uintptr, made *uintptr) uintptr) *Dataset {
	pointer, err := d.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer d.o.done()
	var made uintptr
	err = check(call(pointer, &made))
	return d.runtime.dataset(made, err)
}

// Map computes every element with fn.
func (d *Dataset) Map(fn MapFunc, options ...Option) *Dataset {
	op := operationOf(options)
	function := d.of().NewFunction(fn,
		FunctionOptions{Name: op.name, Output: op.output, Slab: op.slab})
	defer function.Close()
	return d.MapWith(function, options...)
}

// MapWith computes every element with a function.
func (d *Dataset) MapWith(function *Function, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := function.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer function.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_map(dataset, pointer, op.parallel, op.deterministic, op.name, made)
	})
}

// giver is the function that gives the dataset of fn for each element.
func (d *Dataset) giver(op string, fn func(element Value) (*Dataset, error), options []Option,
	with func(*Dataset, *Function, ...Option) *Dataset) *Dataset {
	if fn == nil {
		return datasetOf(0, invalidArgument("%s: a function is needed, not nil", op))
	}
	function := d.of().NewFunction(func(element Value) (Value, error) {
		made, err := fn(element)
		if err != nil {
			return Value{}, err
		}
		return OfDataset(made)
	}, FunctionOptions{Name: operationOf(options).name})
	defer function.Close()
	return with(d, function, options...)
}

// FlatMap gives the elements of the datasets that fn gives, one dataset after the other.
func (d *Dataset) FlatMap(fn func(element Value) (*Dataset, error), options ...Option) *Dataset {
	return d.giver("flat_map", fn, options, (*Dataset).FlatMapWith)
}

// FlatMapWith is FlatMap with a function. If it gives anything but a dataset, that is an
// ErrInvalidArgument.
func (d *Dataset) FlatMapWith(function *Function, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := function.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer function.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_flat_map(dataset, pointer, op.name, made)
	})
}

// Interleave gives the elements of the datasets that fn gives, of several of them in turn
// (WithCycleLength, WithBlockLength). WithParallelCalls: so many threads, at most the cycle length,
// call fn and make the elements ahead, in the same order unless WithDeterministic(false).
func (d *Dataset) Interleave(fn func(element Value) (*Dataset, error),
	options ...Option) *Dataset {
	return d.giver("interleave", fn, options, (*Dataset).InterleaveWith)
}

// InterleaveWith is Interleave with a function. If it gives anything but a dataset, that is an
// ErrInvalidArgument.
func (d *Dataset) InterleaveWith(function *Function, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := function.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer function.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_interleave(dataset, pointer, op.cycleLength, op.blockLength,
			op.parallel, op.deterministic, op.name, made)
	})
}

// GroupByWindow gives the elements of the datasets that reduce gives for windows of elements with
// the same key. As soon as there are windowSize > 0 elements of one key, reduce gets the key and
// these elements; what it gives comes out before more input is read. At the input's end come the
// smaller windows, by ascending keys. An element for which key fails, a window for which reduce
// does, is one failed element. What is drawn at random in such a dataset follows from this one's
// seed and from the window's place. An iterator that is restored calls reduce again for the window
// that was being read.
func (d *Dataset) GroupByWindow(key func(element Value) (int64, error),
	reduce func(key int64, window *Dataset) (*Dataset, error), windowSize int64,
	options ...Option) *Dataset {
	return d.grouped(key, reduce, windowSize, nil, options)
}

// GroupByWindowOfSizes is GroupByWindow with a window size for each key, which is asked for once.
func (d *Dataset) GroupByWindowOfSizes(key func(element Value) (int64, error),
	reduce func(key int64, window *Dataset) (*Dataset, error),
	windowSize func(key int64) (int64, error), options ...Option) *Dataset {
	if windowSize == nil {
		return datasetOf(0, invalidArgument("group_by_window: a function is needed, not nil"))
	}
	sizes := d.numbering(func(key Value) (int64, error) {
		number, err := key.Int64()
		if err != nil {
			return 0, err
		}
		return windowSize(number)
	}, options)
	defer sizes.Close()
	return d.grouped(key, reduce, 0, sizes, options)
}

// GroupByWindowWith is GroupByWindow with functions; reduce is one of pairs of key, an int64 (of a
// uint64 that), and window. Keys are integer scalars. Either windowSize is 0 or sizes nil.
func (d *Dataset) GroupByWindowWith(key, reduce *Function, windowSize int64, sizes *Function,
	options ...Option) *Dataset {
	op := operationOf(options)
	pointers := [3]uintptr{}
	for i, function := range []*Function{key, reduce, sizes} {
		if function == nil && i == 2 {
			continue
		}
		pointer, err := function.use()
		if err != nil {
			return datasetOf(0, err)
		}
		defer function.o.done()
		pointers[i] = pointer
	}
	var size []int64
	if sizes == nil || windowSize != 0 {
		size = []int64{windowSize}
	}
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_group_by_window(
			dataset, pointers[0], pointers[1], size, pointers[2], op.name, made)
	})
}

func (d *Dataset) grouped(key func(element Value) (int64, error),
	reduce func(key int64, window *Dataset) (*Dataset, error), windowSize int64, sizes *Function,
	options []Option) *Dataset {
	if key == nil {
		return datasetOf(0, invalidArgument("group_by_window: a function is needed, not nil"))
	}
	keys := d.numbering(key, options)
	defer keys.Close()
	reducing := d.windowReducer(reduce, options)
	defer reducing.Close()
	return d.GroupByWindowWith(keys, reducing, windowSize, sizes, options...)
}

func keyAndWindow(in Value) (int64, *Dataset, error) {
	key, err := in.At(0)
	if err != nil {
		return 0, nil, err
	}
	defer key.Close()
	number, err := key.Int64()
	if err != nil {
		return 0, nil, err
	}
	rows, err := in.At(1)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	window, err := rows.Dataset()
	return number, window, err
}

// numbering is a function that gives an int64 for each value.
func (d *Dataset) numbering(fn func(value Value) (int64, error), options []Option) *Function {
	return d.of().NewFunction(func(value Value) (Value, error) {
		number, err := fn(value)
		if err != nil {
			return Value{}, err
		}
		return OfInt64(number)
	}, FunctionOptions{Name: operationOf(options).name})
}

// PaddedBatch gives batchSize > 0 consecutive elements stacked along a new axis 0, each padded
// behind its last elements to one shape: to the largest of the batch, or as WithPaddedShapes says,
// with zeros, or what WithPaddingValues says. The last batch may be smaller, unless
// WithDropRemainder.
func (d *Dataset) PaddedBatch(batchSize int64, options ...Option) *Dataset {
	op := operationOf(options)
	shapes, err := op.paddedShapes.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer op.paddedShapes.done()
	values, err := op.paddingValues.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer op.paddingValues.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_padded_batch(
			dataset, batchSize, shapes, values, op.dropRemainder, op.name, made)
	})
}

// DenseToSparseBatch gives batchSize > 0 consecutive elements, each one tensor, as a sparse tensor
// (Value.IsSparse) with a new axis 0, which has every item of each element as a value, zeros, too.
// rowShape has the sizes of its dense_shape behind the first; -1 is the largest of the batch. An
// element of another number of axes, or that is larger, is an ErrInvalidArgument at iteration that
// names both shapes. The last batch may be of fewer elements.
func (d *Dataset) DenseToSparseBatch(batchSize int64, rowShape []int64,
	options ...Option) *Dataset {
	sizes, err := Of(rowShape, int64(len(rowShape)))
	if err != nil {
		return datasetOf(0, err)
	}
	defer sizes.Close()
	pointer, err := sizes.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer sizes.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_dense_to_sparse_batch(
			dataset, batchSize, pointer, operationOf(options).name, made)
	})
}

// Snapshot gives the elements of the first complete pass, in this process or another one, which is
// written to a folder and read from then on. The folder stands below path and goes by what the
// pipeline computes: another pipeline has another one. Go's functions in it cannot be told apart,
// and are an ErrInvalidArgument: register them (RegisterFunction); a generator needs a name. A pass
// that is given up, or in which an element fails, leaves nothing, and who finds another writer
// passes the elements through. Options: WithSnapshotCompression, WithShardFunc, WithReaderFunc.
func (d *Dataset) Snapshot(path string, options ...Option) *Dataset {
	op := operationOf(options)
	var pointers [2]uintptr
	for i, function := range []*Function{op.shardFunc, op.readerFunc} {
		if function == nil {
			continue
		}
		pointer, err := function.use()
		if err != nil {
			return datasetOf(0, err)
		}
		defer function.o.done()
		pointers[i] = pointer
	}
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_snapshot(dataset, path, op.packed, pointers[0], pointers[1], op.name,
			made)
	})
}

// judged is an operation whose function says true or false of each element.
func (d *Dataset) judged(op string, fn func(element Value) (bool, error), options []Option,
	with func(*Dataset, *Function, ...Option) *Dataset) *Dataset {
	if fn == nil {
		return datasetOf(0, invalidArgument("%s: a function is needed, not nil", op))
	}
	function := d.of().NewFunction(func(element Value) (Value, error) {
		verdict, err := fn(element)
		if err != nil {
			return Value{}, err
		}
		return Of([]bool{verdict}, []int64{}...)
	}, FunctionOptions{Name: operationOf(options).name})
	defer function.Close()
	return with(d, function, options...)
}

// Shuffle takes elements by chance from a buffer. Seed RandomSeed: that of the runtime.
func (d *Dataset) Shuffle(bufferSize, seed int64, options ...Option) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_shuffle(dataset, bufferSize, seedOf(seed), op.reshuffle, op.name, made)
	})
}

// ShuffleAndRepeat is Shuffle, anew for each repetition, then Repeat: no element of a repetition
// comes before the last of the one before it.
func (d *Dataset) ShuffleAndRepeat(bufferSize, count, seed int64, options ...Option) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_shuffle_and_repeat(
			dataset, bufferSize, count, seedOf(seed), op.name, made)
	})
}

// Apply is transformation(d).
func (d *Dataset) Apply(transformation func(*Dataset) *Dataset) *Dataset {
	return transformation(d)
}
