package tutti

import (
	"fmt"

	"tutti.dev/tutti/internal/native"
)

// Range counts from start to before stop by step.
func Range(start, stop, step int64, options ...Option) *Dataset {
	return defaultRuntime.Range(start, stop, step, options...)
}

// Range of this runtime.
func (r *Runtime) Range(start, stop, step int64, options ...Option) *Dataset {
	op := operationOf(options)
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_range(runtime, start, stop, step, int(op.dtype), op.name, made)
	}))
}

// FromTensors has one element, value.
func FromTensors(value Value, options ...Option) *Dataset {
	return defaultRuntime.FromTensors(value, options...)
}

// FromTensors of this runtime.
func (r *Runtime) FromTensors(value Value, options ...Option) *Dataset {
	return r.fromValue(value, options, native.Dataset_from_tensors)
}

// FromTensorSlices has one element per row of value's tensors.
func FromTensorSlices(value Value, options ...Option) *Dataset {
	return defaultRuntime.FromTensorSlices(value, options...)
}

// FromTensorSlices of this runtime.
func (r *Runtime) FromTensorSlices(value Value, options ...Option) *Dataset {
	return r.fromValue(value, options, native.Dataset_from_tensor_slices)
}

func (r *Runtime) fromValue(value Value, options []Option,
	source func(runtime, data uintptr, name string, made *uintptr) uintptr) *Dataset {
	op := operationOf(options)
	value, end, err := given(value)
	if err != nil {
		return datasetOf(0, err)
	}
	defer end()
	pointer, err := value.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer value.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return source(runtime, pointer, op.name, made)
	}))
}

// Generator gives the elements of one iteration; ok = false is the end.
type Generator func() (element Value, ok bool, err error)

// FromGenerator calls start for each iteration, and then what it gave for each element, which must
// fit the spec and is converted to its dtypes as by Tensor.Convert.
func FromGenerator(start func() (Generator, error), spec *Spec, options ...Option) *Dataset {
	return defaultRuntime.FromGenerator(start, spec, options...)
}

// FromGeneratorWithArgs is FromGenerator with args, which are tensors or structures of them and
// stay the caller's: each call of start gets values of its own of them.
func FromGeneratorWithArgs(start func(args []Value) (Generator, error), args []Value, spec *Spec,
	options ...Option) *Dataset {
	return defaultRuntime.FromGeneratorWithArgs(start, args, spec, options...)
}

// FromGeneratorWithArgs of this runtime.
func (r *Runtime) FromGeneratorWithArgs(start func(args []Value) (Generator, error), args []Value,
	spec *Spec, options ...Option) *Dataset {
	if start == nil {
		return datasetOf(0, invalidArgument("from_generator: a function is needed, not nil"))
	}
	kept := make([]Value, len(args))
	for i, arg := range args {
		leaves, err := arg.Leaves()
		if err != nil {
			return datasetOf(0, fmt.Errorf("from_generator: args[%d]: %w", i, err))
		}
		for _, leaf := range leaves {
			kind := leaf.Kind()
			leaf.Close()
			if kind != KindTensor {
				err = invalidArgument("from_generator: args[%d] holds a %v; expected tensors and "+
					"structures of them, others are the function's own to capture", i, kind)
			}
		}
		if err == nil {
			kept[i], err = arg.Keep()
		}
		if err != nil {
			return datasetOf(0, err)
		}
	}
	return r.FromGenerator(func() (Generator, error) {
		own := make([]Value, len(kept))
		for i, arg := range kept {
			var err error
			if own[i], err = arg.Keep(); err != nil {
				return nil, err
			}
		}
		return start(own)
	}, spec, options...)
}

// FromGenerator of this runtime.
func (r *Runtime) FromGenerator(start func() (Generator, error), spec *Spec,
	options ...Option) *Dataset {
	op := operationOf(options)
	if start == nil || spec == nil {
		return datasetOf(0, invalidArgument("from_generator: a function and a spec are needed, not nil"))
	}
	signature, err := spec.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer spec.done()
	handle := borrowed(func(kind int32, _, in uintptr) (uintptr, error) {
		if kind == native.GeneratorStart {
			generator, err := start()
			if err == nil && generator == nil {
				err = invalidArgument("from_generator: the function gave no generator")
			}
			if err != nil {
				return 0, err
			}
			return result(OfAny(generator))
		}
		state, end := lent(in)
		defer end()
		object, err := state.Any()
		if err != nil {
			return 0, err
		}
		element, ok, err := object.(Generator)()
		if err != nil || !ok {
			return 0, err
		}
		element, drop, err := given(element)
		if err != nil {
			return 0, err
		}
		defer drop()
		return element.retained()
	})
	defer handle.Delete()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_from_generator(runtime, uintptr(handle), signature, op.name, "", made)
	}))
}

// ListFiles are the names of the files that match the patterns, shuffled if not said otherwise.
func ListFiles(patterns []string, options ...Option) *Dataset {
	return defaultRuntime.ListFiles(patterns, options...)
}

// ListFiles of this runtime.
func (r *Runtime) ListFiles(patterns []string, options ...Option) *Dataset {
	op := operationOf(options)
	names, err := joined(patterns)
	if err != nil {
		return datasetOf(0, err)
	}
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_list_files(runtime, names, op.shuffle, seedOf(op.seed), op.name, made)
	}))
}

// Zip goes through datasets together: a structure whose leaves are datasets (OfDataset).
func Zip(structure Value, options ...Option) *Dataset {
	return defaultRuntime.Zip(structure, options...)
}

// Zip of this runtime.
func (r *Runtime) Zip(structure Value, options ...Option) *Dataset {
	return r.fromValue(structure, options, native.Dataset_zip)
}
