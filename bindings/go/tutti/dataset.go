package tutti

import (
	"context"
	"fmt"
	"strconv"

	"tutti.dev/tutti/internal/native"
)

// Dataset is a definition of a sequence of elements. A transformation makes a new one and leaves
// its dataset as it is. What goes wrong in making one is kept, and comes out of Err and of whatever
// uses the dataset, so that transformations can be written one behind the other.
type Dataset struct {
	o       *object
	err     error
	runtime *Runtime // of its functions
}

// What counts of elements can be beside numbers.
const (
	InfiniteCardinality = -1
	UnknownCardinality  = -2
	// Autotune lets the library choose.
	Autotune = -1
)

func datasetOf(pointer uintptr, err error) *Dataset {
	if err != nil {
		return &Dataset{err: err}
	}
	return &Dataset{o: own(pointer, "dataset", native.Tutti_dataset_release)}
}

func (r *Runtime) dataset(pointer uintptr, err error) *Dataset {
	made := datasetOf(pointer, err)
	made.runtime = r
	return made
}

// of is the runtime of the dataset.
func (d *Dataset) of() *Runtime {
	if d == nil {
		return nil
	}
	return d.runtime
}

func (d *Dataset) use() (uintptr, error) {
	if d == nil {
		return 0, invalidArgument("a dataset is needed, not nil")
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.o.use()
}

func (d *Dataset) done() { d.o.done() }

// Err is what went wrong in making it.
func (d *Dataset) Err() error {
	if d == nil {
		return nil
	}
	return d.err
}

// Close ends the reference; datasets made from it, and iterators, stay.
func (d *Dataset) Close() error {
	if d != nil {
		d.o.close()
	}
	return nil
}

// OfDataset is a leaf with a dataset.
func OfDataset(dataset *Dataset) (Value, error) {
	pointer, err := dataset.use()
	if err != nil {
		return Value{}, err
	}
	defer dataset.o.done()
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_dataset(pointer, made) })
}

// Dataset is the dataset of a leaf.
func (v Value) Dataset() (*Dataset, error) {
	pointer, err := v.leaf(KindDataset)
	if err != nil {
		return nil, err
	}
	defer v.done()
	dataset := native.Value_dataset(pointer)
	native.Tutti_dataset_retain(dataset)
	return datasetOf(dataset, nil), nil
}

// ToVariant is the dataset as a value, one leaf, that FromVariant takes.
func (d *Dataset) ToVariant() (Value, error) { return OfDataset(d) }

// FromVariant is the dataset that a variant is, whose elements must be compatible with the spec:
// ErrInvalidArgument names both. A dataset that does not say what its elements are computes one of
// them here.
func FromVariant(ctx context.Context, variant Value, elements *Spec) *Dataset {
	if elements == nil {
		return datasetOf(0, invalidArgument("from_variant: a spec is needed, not nil"))
	}
	value, err := variant.leaf(KindDataset)
	if err != nil {
		return datasetOf(0, fmt.Errorf("from_variant: %w", err))
	}
	defer variant.done()
	return datasetOf(waitOut(ctx, elements.o,
		func(spec uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Dataset_from_variant(value, spec, call, made)
		}))
}

// ---- reading

// Cardinality is the number of elements, InfiniteCardinality or UnknownCardinality.
func (d *Dataset) Cardinality() int64 {
	return ask(d, UnknownCardinality, native.Dataset_cardinality)
}

// ElementSpec describes the elements; a map without WithOutput computes one here, the first that
// does not fail. Where the first 100 fail, the first failure comes.
func (d *Dataset) ElementSpec(ctx context.Context) (*Spec, error) {
	return as(ownSpec)(waitOut(ctx, d, native.Dataset_element_spec))
}

// PromisedSpec describes the elements where every operation promises what they are; nil where only
// elements can tell. Nothing is computed.
func (d *Dataset) PromisedSpec() (*Spec, error) {
	made, err := readOut(d, native.Dataset_promised_spec)
	if err != nil || made == 0 {
		return nil, err
	}
	return ownSpec(made), nil
}

// Reduce gives the last state: initial, then for each element what fn gives for state and element,
// which end with it. Structure and dtypes of the state stay, or else it is an ErrInvalidArgument
// that names both; its shapes may change. It iterates now.
func (d *Dataset) Reduce(ctx context.Context, initial Value,
	fn func(state, element Value) (Value, error)) (Value, error) {
	if fn == nil {
		return Value{}, invalidArgument("reduce: a function is needed, not nil")
	}
	function := d.of().NewFunction(func(in Value) (next Value, err error) {
		state, err := in.At(0)
		if err != nil {
			return Value{}, err
		}
		element, err := in.At(1)
		if err != nil {
			return Value{}, err
		}
		defer func() {
			// What it gives is still needed.
			for _, part := range []Value{state, element} {
				if part.o != next.o {
					part.Close()
				}
			}
		}()
		return fn(state, element)
	}, FunctionOptions{})
	defer function.Close()
	return d.ReduceWith(ctx, initial, function)
}

// ReduceWith is Reduce with a function of pairs of state and element.
func (d *Dataset) ReduceWith(ctx context.Context, initial Value,
	function *Function) (Value, error) {
	state, err := initial.use()
	if err != nil {
		return Value{}, err
	}
	defer initial.done()
	if state == 0 {
		return Value{}, invalidArgument("reduce: an initial state is needed, not none")
	}
	pointer, err := function.use()
	if err != nil {
		return Value{}, err
	}
	defer function.o.done()
	return as(ownValue)(waitOut(ctx, d,
		func(dataset uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Dataset_reduce(dataset, state, pointer, call, made)
		}))
}

// Explain is the plan, for people.
func (d *Dataset) Explain() (string, error) {
	return readText(d, native.Dataset_explain)
}

// ExplainAs is the plan with what the iterator that was made last has measured and chosen
// (Iterator.Explain), as "text", "json" or "svg".
func (d *Dataset) ExplainAs(format string) (string, error) {
	return readText(d, func(pointer uintptr, made *uintptr) uintptr {
		return native.Dataset_explain_as(pointer, format, made)
	})
}

// ExplainReport is what an explain wrote as "json", in another format; ErrInvalidArgument for
// anything else.
func ExplainReport(report []byte, format string) (string, error) {
	var made uintptr
	if err := check(native.Dataset_explain_report(report, format, &made)); err != nil {
		return "", err
	}
	return takeText(made), nil
}

// Serialize is the definition; functions must be registered.
func (d *Dataset) Serialize() ([]byte, error) {
	made, err := readOut(d, native.Dataset_serialize)
	return takeBytes(made), err
}

// Options of the dataset; what is set in them counts for it.
func (d *Dataset) Options() (*DataOptions, error) {
	options, err := as(ownDataOptions)(readOut(d, native.Dataset_options))
	if err == nil {
		options.dataset = d
	}
	return options, err
}

// String is "Dataset of 3 elements".
func (d *Dataset) String() string {
	if d == nil || d.err != nil || d.o.isClosed() {
		return "Dataset (unusable)"
	}
	switch count := d.Cardinality(); count {
	case InfiniteCardinality:
		return "Dataset of infinitely many elements"
	case UnknownCardinality:
		return "Dataset of an unknown number of elements"
	case 1:
		return "Dataset of 1 element"
	default:
		return "Dataset of " + strconv.FormatInt(count, 10) + " elements"
	}
}

// WithOptions merges options into those of the dataset.
func (d *Dataset) WithOptions(options *DataOptions) *Dataset {
	pointer, done, err := options.now()
	if err != nil {
		return datasetOf(0, err)
	}
	defer done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_with_options(dataset, pointer, made)
	})
}

// Deserialize is the dataset that Serialize wrote, in this release or an earlier one.
func Deserialize(bytes []byte) *Dataset { return defaultRuntime.Deserialize(bytes) }

// Deserialize in this runtime.
func (r *Runtime) Deserialize(bytes []byte) *Dataset {
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_deserialize(runtime, bytes, made)
	}))
}
