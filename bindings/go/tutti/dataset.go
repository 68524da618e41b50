package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Dataset is a definition of a sequence of elements. A transformation makes a new one and leaves its
// dataset as it is. What goes wrong in making one is kept, and comes out of Err and of whatever uses
// the dataset, so that transformations can be written one behind the other.
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

// Option is an option of a source or a transformation.
type Option func(*operation)

type operation struct {
	name          string
	parallel      int64
	deterministic int
	dropRemainder int
	reshuffle     int
	shuffle       int
	seed          int64
	slab          bool
	output        *Spec
	compression   int
	bufferSize    int64
	header        int64
	footer        int64
	dtype         DType
}

func operationOf(options []Option) operation {
	op := operation{seed: RandomSeed}
	for _, option := range options {
		option(&op)
	}
	return op
}

func tristate(flag bool) int {
	if flag {
		return 1
	}
	return 2
}

// WithName names the operation in messages.
func WithName(name string) Option { return func(op *operation) { op.name = name } }

// WithParallelCalls maps on n threads, or Autotune.
func WithParallelCalls(n int) Option { return func(op *operation) { op.parallel = int64(n) } }

// WithDeterministic says whether a parallel map keeps the order.
func WithDeterministic(flag bool) Option {
	return func(op *operation) { op.deterministic = tristate(flag) }
}

// WithDropRemainder leaves out a last batch that is not full.
func WithDropRemainder(flag bool) Option {
	return func(op *operation) { op.dropRemainder = tristate(flag) }
}

// WithReshuffle says whether every iteration has an order of its own.
func WithReshuffle(flag bool) Option { return func(op *operation) { op.reshuffle = tristate(flag) } }

// WithShuffle says whether ListFiles shuffles.
func WithShuffle(flag bool) Option { return func(op *operation) { op.shuffle = tristate(flag) } }

// WithSeed is the seed of ListFiles.
func WithSeed(seed int64) Option { return func(op *operation) { op.seed = seed } }

// WithSlab lets the function of Map or Filter have many rows at once.
func WithSlab() Option { return func(op *operation) { op.slab = true } }

// WithOutput is the spec of what the function of Map gives.
func WithOutput(spec *Spec) Option { return func(op *operation) { op.output = spec } }

// Compression of a record file.
type Compression int

// The compressions.
const (
	Uncompressed Compression = 1
	Gzip         Compression = 2
	Zlib         Compression = 3
)

// WithCompression says how record files are compressed.
func WithCompression(compression Compression) Option {
	return func(op *operation) { op.compression = int(compression) }
}

// WithBufferSize is that of reading files, in bytes.
func WithBufferSize(bytes int64) Option { return func(op *operation) { op.bufferSize = bytes } }

// WithHeader and footer bytes of each file are no records.
func WithHeader(header, footer int64) Option {
	return func(op *operation) { op.header, op.footer = header, footer }
}

// WithDType is that of Range.
func WithDType(dtype DType) Option { return func(op *operation) { op.dtype = dtype } }

// ---- sources

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
// be of the spec.
func FromGenerator(start func() (Generator, error), spec *Spec, options ...Option) *Dataset {
	return defaultRuntime.FromGenerator(start, spec, options...)
}

// FromGenerator of this runtime.
func (r *Runtime) FromGenerator(start func() (Generator, error), spec *Spec, options ...Option) *Dataset {
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
		return native.Dataset_from_generator(runtime, uintptr(handle), signature, op.name, made)
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

// TFRecords are the records of files.
func TFRecords(files ...string) *Dataset { return defaultRuntime.TFRecords(files...) }

// TFRecords of this runtime.
func (r *Runtime) TFRecords(files ...string) *Dataset {
	return r.TFRecordsOf(r.names(files))
}

// names is a dataset of strings.
func (r *Runtime) names(texts []string) *Dataset {
	tensor, err := StringTensor(texts)
	if err != nil {
		return datasetOf(0, err)
	}
	defer tensor.Close()
	value, err := OfTensor(tensor)
	if err != nil {
		return datasetOf(0, err)
	}
	defer value.Close()
	return r.FromTensorSlices(value)
}

// TFRecordsOf are the records of the files that a dataset names.
func TFRecordsOf(files *Dataset, options ...Option) *Dataset {
	return defaultRuntime.TFRecordsOf(files, options...)
}

// TFRecordsOf of this runtime.
func (r *Runtime) TFRecordsOf(files *Dataset, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := files.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer files.o.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_tf_record(runtime, pointer, op.compression, op.bufferSize, op.name, made)
	}))
}

// FixedLengthRecords are records of equal size from the files that a dataset names.
func FixedLengthRecords(files *Dataset, recordBytes int64, options ...Option) *Dataset {
	return defaultRuntime.FixedLengthRecords(files, recordBytes, options...)
}

// FixedLengthRecords of this runtime.
func (r *Runtime) FixedLengthRecords(files *Dataset, recordBytes int64, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := files.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer files.o.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_fixed_length_record(runtime, pointer, recordBytes, op.header, op.footer,
			op.compression, op.bufferSize, op.name, made)
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

// Deserialize is the dataset that Serialize wrote.
func Deserialize(bytes []byte) *Dataset { return defaultRuntime.Deserialize(bytes) }

// Deserialize in this runtime.
func (r *Runtime) Deserialize(bytes []byte) *Dataset {
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_deserialize(runtime, bytes, made)
	}))
}

// ---- transformations

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
	function := d.of().NewFunction(fn, FunctionOptions{Name: op.name, Output: op.output, Slab: op.slab})
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
func (d *Dataset) Apply(transformation func(*Dataset) *Dataset) *Dataset { return transformation(d) }

// ---- reading

// Cardinality is the number of elements, InfiniteCardinality or UnknownCardinality.
func (d *Dataset) Cardinality() int64 {
	pointer, err := d.use()
	if err != nil {
		return UnknownCardinality
	}
	defer d.o.done()
	return native.Dataset_cardinality(pointer)
}

// read is a call that gives one thing of the dataset.
func (d *Dataset) read(call func(pointer uintptr, made *uintptr) uintptr) (uintptr, error) {
	if d == nil || d.err != nil {
		_, err := d.use()
		return 0, err
	}
	return readOut(d.o, call)
}

// ElementSpec describes the elements; a map without WithOutput computes one here.
func (d *Dataset) ElementSpec(ctx context.Context) (*Spec, error) {
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := d.read(func(pointer uintptr, made *uintptr) uintptr {
		return native.Dataset_element_spec(pointer, call, made)
	})
	if err != nil {
		return nil, err
	}
	return ownSpec(made), nil
}

// Explain is the plan, for people.
func (d *Dataset) Explain() (string, error) {
	made, err := d.read(native.Dataset_explain)
	return takeText(made), err
}

// Serialize is the definition; functions must be registered.
func (d *Dataset) Serialize() ([]byte, error) {
	made, err := d.read(native.Dataset_serialize)
	return takeBytes(made), err
}

// Options of the dataset.
func (d *Dataset) Options() (*DataOptions, error) {
	made, err := d.read(native.Dataset_options)
	if err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// WithOptions merges options into those of the dataset.
func (d *Dataset) WithOptions(options *DataOptions) *Dataset {
	pointer, err := options.o.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer options.o.done()
	return d.transform(func(dataset uintptr, made *uintptr) uintptr {
		return native.Dataset_with_options(dataset, pointer, made)
	})
}

// DataOptions are options by name, each of which knows whether it was set: the booleans
// deterministic, experimental_slack, experimental_optimization.apply_default_optimizations; the
// integers threading.private_threadpool_size, threading.max_intra_op_parallelism,
// autotune.ram_budget, experimental_distribute.auto_shard_policy,
// experimental_distribute.num_devices.
type DataOptions struct{ o *object }

func ownDataOptions(pointer uintptr) *DataOptions {
	return &DataOptions{own(pointer, "options", native.Tutti_data_options_release)}
}

// AutoShardPolicy says how a dataset is divided between workers; a value of the option
// experimental_distribute.auto_shard_policy.
type AutoShardPolicy int64

// The policies.
const (
	AutoShardOff  AutoShardPolicy = -1
	AutoShardAuto AutoShardPolicy = 0
	AutoShardFile AutoShardPolicy = 1
	AutoShardData AutoShardPolicy = 2
	AutoShardHint AutoShardPolicy = 3
)

// NewDataOptions has nothing set.
func NewDataOptions() (*DataOptions, error) {
	var made uintptr
	if err := check(native.Data_options_create(&made)); err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// SetInt sets an integer.
func (o *DataOptions) SetInt(key string, number int64) error {
	pointer, err := o.o.use()
	if err != nil {
		return err
	}
	defer o.o.done()
	return check(native.Data_options_set_int64(pointer, key, number))
}

// SetBool sets a boolean.
func (o *DataOptions) SetBool(key string, flag bool) error {
	pointer, err := o.o.use()
	if err != nil {
		return err
	}
	defer o.o.done()
	return check(native.Data_options_set_bool(pointer, key, flag))
}

// Read is the value, a boolean as 0 or 1, and whether it was set.
func (o *DataOptions) Read(key string) (int64, bool, error) {
	pointer, err := o.o.use()
	if err != nil {
		return 0, false, err
	}
	defer o.o.done()
	var number native.OptionalInt64
	err = check(native.Data_options_read(pointer, key, &number))
	return number.Value, number.Present != 0, err
}

// Merge is other where it was set, else o.
func (o *DataOptions) Merge(other *DataOptions) (*DataOptions, error) {
	pointer, err := other.o.use()
	if err != nil {
		return nil, err
	}
	defer other.o.done()
	made, err := readOut(o.o, func(options uintptr, made *uintptr) uintptr {
		return native.Data_options_merge(options, pointer, made)
	})
	if err != nil {
		return nil, err
	}
	return ownDataOptions(made), nil
}

// Close ends the reference.
func (o *DataOptions) Close() error {
	o.o.close()
	return nil
}
