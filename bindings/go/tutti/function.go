package tutti

import (
	"sort"

	"tutti.dev/tutti/internal/native"
)

// MapFunc computes an element from an element, which ends with it. It may run on several threads at
// once.
type MapFunc func(element Value) (Value, error)

// Function is what a dataset maps and filters with.
type Function struct {
	o   *object
	err error
}

func functionOf(pointer uintptr, err error) *Function {
	if err != nil {
		return &Function{err: err}
	}
	return &Function{o: own(pointer, "function", native.Tutti_function_release)}
}

// FunctionOptions describe a function.
type FunctionOptions struct {
	Name string
	// Output is the spec of one row's result, to whose dtypes results are converted as by
	// Tensor.Convert; nil: the first row decides.
	Output *Spec
	// Slab: the function gets and gives many rows at once, every leaf with one more leading dimension.
	// It may name the row that fails by an *Error with the detail "row".
	Slab bool
}

// NewFunction is a function from Go. An error in it comes out where it is used.
func NewFunction(fn MapFunc, options ...FunctionOption) *Function {
	return defaultRuntime.NewFunction(fn, options...)
}

// NewFunction of this runtime.
func (r *Runtime) NewFunction(fn MapFunc, options ...FunctionOption) *Function {
	chosen := collect(options, FunctionOption.ofFunction)
	var made uintptr
	err := r.withFunction(fn, chosen, func(runtime, handle, output uintptr) uintptr {
		return native.Function_create(runtime, handle, chosen.Name, "", output, chosen.Slab,
			"a function of Go's; MapExpr and its like are native", &made)
	})
	return functionOf(made, err)
}

func (r *Runtime) withFunction(fn MapFunc, options FunctionOptions,
	call func(runtime, handle, output uintptr) uintptr) error {
	if fn == nil {
		return invalidArgument("a function is needed, not nil")
	}
	output, err := options.Output.use()
	if err != nil {
		return err
	}
	defer options.Output.done()
	handle := elementCallback(fn)
	defer handle.Delete()
	return r.with(func(runtime uintptr) uintptr { return call(runtime, uintptr(handle), output) })
}

// RegisterFunction makes name mean fn, so that a serialised dataset finds it again;
// ErrAlreadyExists when the name is taken.
func RegisterFunction(name string, fn MapFunc, options ...FunctionOption) error {
	return defaultRuntime.RegisterFunction(name, fn, options...)
}

// RegisterFunction in this runtime.
func (r *Runtime) RegisterFunction(name string, fn MapFunc, options ...FunctionOption) error {
	chosen := collect(options, FunctionOption.ofFunction)
	return r.withFunction(fn, chosen, func(runtime, handle, output uintptr) uintptr {
		return native.Function_register(runtime, name, handle, output, chosen.Slab)
	})
}

// UnregisterFunction frees the name; datasets that use the function keep it.
func UnregisterFunction(name string) error { return defaultRuntime.UnregisterFunction(name) }

// UnregisterFunction in this runtime.
func (r *Runtime) UnregisterFunction(name string) error {
	return r.with(func(runtime uintptr) uintptr { return native.Function_unregister(runtime, name) })
}

// RegisteredFunction is the function registered as name; ErrNotFound names the nearest ones.
func RegisteredFunction(name string) (*Function, error) {
	return defaultRuntime.RegisteredFunction(name)
}

// RegisteredFunction of this runtime.
func (r *Runtime) RegisteredFunction(name string) (*Function, error) {
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Function_registered(runtime, name, made)
	})
	if err != nil {
		return nil, err
	}
	return functionOf(made, nil), nil
}

// FeatureKind is how many values of a feature an Example has, and what they become.
type FeatureKind int

const (
	// FixedFeature has as many values as Dims say: a tensor.
	FixedFeature FeatureKind = iota
	// SequenceFeature has any number of steps of Dims: a tensor, as long as the longest.
	SequenceFeature
	// VarLenFeature has any number of scalars: a sparse tensor.
	VarLenFeature
	// RaggedFeature has any number of steps of Dims: ragged; of one Example a tensor.
	RaggedFeature
)

// Feature is a feature of tf.train.Example.
type Feature struct {
	DType DType
	Dims  []int64
	// Default is converted to the dtype as by Tensor.Convert. Of a fixed feature it has its dims and
	// is for records without it; nil makes it required. Of a sequence it is a scalar, which stands
	// behind the values of Examples that are shorter than the longest; nil: 0, or nothing.
	Default *Tensor
	Kind    FeatureKind
}

// ParseExample is the native function from a serialised tf.train.Example, a tensor of some, or a
// vector of some where a feature is sparse or ragged, to a dict of its features.
func ParseExample(features map[string]Feature) *Function {
	return defaultRuntime.ParseExample(features)
}

// ParseExample of this runtime.
func (r *Runtime) ParseExample(features map[string]Feature) *Function {
	keys := make([]string, 0, len(features))
	for key := range features {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return r.withFeatures(keys, func(i int) Feature { return features[keys[i]] },
		func(runtime uintptr, described []uintptr, made *uintptr) uintptr {
			return native.Function_parse_example(runtime, described, made)
		})
}

// withFeatures is the function that call makes of features by their keys.
func (r *Runtime) withFeatures(keys []string, feature func(i int) Feature,
	call func(runtime uintptr, described []uintptr, made *uintptr) uintptr) *Function {
	if _, err := joined(keys); err != nil {
		return functionOf(0, err)
	}
	var described []uintptr
	defer func() {
		for _, feature := range described {
			native.Feature_release(feature)
		}
	}()
	for i, key := range keys {
		feature := feature(i)
		var tensor uintptr
		if feature.Default != nil {
			pointer, err := feature.Default.use()
			if err != nil {
				return functionOf(0, err)
			}
			defer feature.Default.o.done()
			tensor = pointer
		}
		described = append(described,
			native.Feature_create(key, int(feature.DType), feature.Dims, tensor, int(feature.Kind)))
	}
	return functionOf(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return call(runtime, described, made)
	}))
}

func (f *Function) use() (uintptr, error) {
	if f == nil {
		return 0, invalidArgument("a function is needed, not nil")
	}
	if f.err != nil {
		return 0, f.err
	}
	return f.o.use()
}

// Err is what went wrong in making it.
func (f *Function) Err() error {
	if f == nil {
		return nil
	}
	return f.err
}

// Close ends the reference; datasets that use the function keep it.
func (f *Function) Close() error {
	if f != nil {
		f.o.close()
	}
	return nil
}
