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

// Apply is transformation(d).
func (d *Dataset) Apply(transformation func(*Dataset) *Dataset) *Dataset {
	return transformation(d)
}
