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

// Filter keeps the elements for which fn says true.
func (d *Dataset) Filter(fn func(element Value) (bool, error), options ...Option) *Dataset {
	op := operationOf(options)
	if fn == nil {
		return datasetOf(0, invalidArgument("filter: a function is needed, not nil"))
	}
	function := d.of().NewFunction(func(element Value) (Value, error) {
		keep, err := fn(element)
		if err != nil {
			return Value{}, err
		}
		return Of([]bool{keep}, []int64{}...)
	}, FunctionOptions{Name: op.name})
	defer function.Close()
	return d.FilterWith(function, options...)
}

// FilterWith keeps the elements for which a function gives true.
func (d *Dataset) FilterWith(function *Function, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := function.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer function.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_filter(dataset, pointer, op.name, made)
	})
}

// Batch joins size elements each.
func (d *Dataset) Batch(size int64, options ...Option) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_batch(dataset, size, op.dropRemainder, op.name, made)
	})
}

// Repeat goes through it count times, -1 for ever.
func (d *Dataset) Repeat(count int64, options ...Option) *Dataset {
	return d.counted(count, options, native.Dataset_repeat)
}

// Take ends after count elements, -1 never.
func (d *Dataset) Take(count int64, options ...Option) *Dataset {
	return d.counted(count, options, native.Dataset_take)
}

// Skip begins after count elements.
func (d *Dataset) Skip(count int64, options ...Option) *Dataset {
	return d.counted(count, options, native.Dataset_skip)
}

// Enumerate gives pairs of a number, from start, and an element.
func (d *Dataset) Enumerate(start int64, options ...Option) *Dataset {
	return d.counted(start, options, native.Dataset_enumerate)
}

// Prefetch makes up to size elements ahead on a thread; Autotune chooses.
func (d *Dataset) Prefetch(size int64, options ...Option) *Dataset {
	return d.counted(size, options, native.Dataset_prefetch)
}

func (d *Dataset) counted(count int64, options []Option,
	call func(dataset uintptr, count int64, name string, made *uintptr) uintptr) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return call(dataset, count, op.name, made)
	})
}

// Shuffle takes elements by chance from a buffer. Seed RandomSeed: that of the runtime.
func (d *Dataset) Shuffle(bufferSize, seed int64, options ...Option) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_shuffle(dataset, bufferSize, seedOf(seed), op.reshuffle, op.name, made)
	})
}

// Shard keeps every numShards-th element, from index on.
func (d *Dataset) Shard(numShards, index int64, options ...Option) *Dataset {
	op := operationOf(options)
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_shard(dataset, numShards, index, op.name, made)
	})
}

// Concatenate goes on with another dataset.
func (d *Dataset) Concatenate(other *Dataset, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := other.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer other.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_concatenate(dataset, pointer, op.name, made)
	})
}

// Apply is transformation(d).
func (d *Dataset) Apply(transformation func(*Dataset) *Dataset) *Dataset {
	return transformation(d)
}
