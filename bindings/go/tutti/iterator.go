package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Iterator goes through a dataset:
//
//	for iterator.Next() {
//		element := iterator.Value()
//	}
//	return iterator.Err()
type Iterator struct{ cursor }

// DistributedIterator goes through a distributed dataset, whose elements are steps: give each to
// Run.
type DistributedIterator struct{ cursor }

// cursor is what both have: one set of native functions each.
type cursor struct {
	o      *object
	ctx    context.Context // of Next, as database/sql has it
	value  Value
	err    error
	native *cursorFunctions
}

type cursorFunctions struct {
	next     func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	optional func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	spec     func(pointer uintptr, made *uintptr) uintptr
	save     func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	restore  func(pointer uintptr, state []byte, call *native.CallOptions) uintptr
	close    func(pointer uintptr, call *native.CallOptions) uintptr
}

var iteratorFunctions = cursorFunctions{native.Iterator_next, native.Iterator_next_optional,
	native.Iterator_element_spec, native.Iterator_save, native.Iterator_restore, native.Iterator_close}

var distributedFunctions = cursorFunctions{native.Distributed_iterator_next,
	native.Distributed_iterator_next_optional, native.Distributed_iterator_element_spec,
	native.Distributed_iterator_save, native.Distributed_iterator_restore,
	native.Distributed_iterator_close}

// Iterator starts at the first element. ctx is that of every Next, too.
func (d *Dataset) Iterator(ctx context.Context) (*Iterator, error) {
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := d.read(func(pointer uintptr, made *uintptr) uintptr {
		return native.Iterator_create(pointer, call, made)
	})
	if err != nil {
		return nil, err
	}
	return &Iterator{cursor{o: own(made, "iterator", native.Tutti_iterator_release),
		ctx: ctx, native: &iteratorFunctions}}, nil
}

// call is one call that may wait.
func (c *cursor) call(ctx context.Context,
	call func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr) (uintptr, error) {
	pointer, err := c.o.use()
	if err != nil {
		return 0, err
	}
	defer c.o.done()
	options, end, err := callOf(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	var made uintptr
	err = check(call(pointer, options, &made))
	return made, err
}

// Next goes to the next element; false at the end and for an error. Next after an error goes on
// behind the element that failed; a deadline or a cancellation loses nothing.
func (c *cursor) Next() bool { return c.NextContext(c.ctx) }

// NextContext is Next with a context of its own.
func (c *cursor) NextContext(ctx context.Context) bool {
	c.value = Value{}
	var made uintptr
	made, c.err = c.call(ctx, c.native.next)
	if c.err != nil || made == 0 {
		return false
	}
	c.value = ownValue(made)
	return true
}

// Value is the element that Next went to. It is the caller's, to close or to leave to the garbage
// collector.
func (c *cursor) Value() Value { return c.value }

// Err is what ended Next, nil for the end of the dataset.
func (c *cursor) Err() error { return c.err }

// NextOptional is the next element as an optional leaf, which is empty at the end.
func (c *cursor) NextOptional(ctx context.Context) (Value, error) {
	made, err := c.call(ctx, c.native.optional)
	if err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
}

// ElementSpec describes the elements.
func (c *cursor) ElementSpec() (*Spec, error) {
	made, err := readOut(c.o, c.native.spec)
	if err != nil {
		return nil, err
	}
	return ownSpec(made), nil
}

// Save is the position.
func (c *cursor) Save(ctx context.Context) ([]byte, error) {
	made, err := c.call(ctx, c.native.save)
	return takeBytes(made), err
}

// Restore goes to a saved position.
func (c *cursor) Restore(ctx context.Context, state []byte) error {
	_, err := c.call(ctx, func(pointer uintptr, call *native.CallOptions, _ *uintptr) uintptr {
		return c.native.restore(pointer, state, call)
	})
	return err
}

// Close stops and joins its threads.
func (c *cursor) Close() error { return closeWith(c.o, c.native.close) }

// ---- distributed datasets

// Rebatch says how a batch is cut over replicas.
type Rebatch int

// The ways: slices of ceil(rows / replicas), never across batches; or nearly equal, static sizes,
// across batches.
const (
	RebatchCeil Rebatch = 1
	RebatchEven Rebatch = 2
)

// InputOptions say how a dataset is distributed.
type InputOptions struct {
	Rebatch Rebatch
	// NoPrefetch makes no step ahead.
	NoPrefetch bool
}

func (o InputOptions) prefetch() int {
	if o.NoPrefetch {
		return 2
	}
	return 0
}

// DistributedDataset is a dataset whose elements are steps.
type DistributedDataset struct{ o *object }

func ownDistributedDataset(pointer uintptr) *DistributedDataset {
	return &DistributedDataset{own(pointer, "distributed dataset",
		native.Tutti_distributed_dataset_release)}
}

// Distribute cuts every batch of dataset over the replicas and starts at the first step. ctx is that
// of every Next, too.
func (s *Strategy) Distribute(ctx context.Context, dataset *Dataset) (*DistributedIterator, error) {
	distributed, err := s.DistributeDataset(ctx, dataset, InputOptions{})
	if err != nil {
		return nil, err
	}
	defer distributed.Close()
	return distributed.Iterator(ctx)
}

// DistributeDataset cuts every batch of dataset, whose elements must be batches, over the replicas.
// Several workers share the data as the option experimental_distribute.auto_shard_policy says.
func (s *Strategy) DistributeDataset(ctx context.Context, dataset *Dataset,
	options InputOptions) (*DistributedDataset, error) {
	pointer, err := dataset.use()
	if err != nil {
		return nil, err
	}
	defer dataset.o.done()
	return s.distribute(ctx, func(strategy uintptr, call *native.CallOptions, made *uintptr) uintptr {
		return native.Strategy_distribute_dataset(strategy, pointer, int(options.Rebatch),
			options.prefetch(), call, made)
	})
}

func (s *Strategy) distribute(ctx context.Context,
	make func(strategy uintptr, call *native.CallOptions, made *uintptr) uintptr) (*DistributedDataset, error) {
	strategy, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.o.done()
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var made uintptr
	if err := check(make(strategy, call, &made)); err != nil {
		return nil, err
	}
	return ownDistributedDataset(made), nil
}

// InputContext is what a function that makes input pipelines is told.
type InputContext struct {
	NumInputPipelines int
	InputPipelineID   int
	NumReplicasInSync int
}

// PerReplicaBatchSize is globalBatchSize / NumReplicasInSync, which must divide.
func (c InputContext) PerReplicaBatchSize(globalBatchSize int) (int, error) {
	if globalBatchSize%c.NumReplicasInSync != 0 {
		return 0, invalidArgument("a global batch of %d rows cannot be divided by %d replicas",
			globalBatchSize, c.NumReplicasInSync)
	}
	return globalBatchSize / c.NumReplicasInSync, nil
}

// DistributeFromFunction has one dataset per input pipeline, by fn; its elements go to the replicas
// one each, in turn, and nothing is rebatched or sharded.
func (s *Strategy) DistributeFromFunction(ctx context.Context,
	fn func(input InputContext) *Dataset, options InputOptions) (*DistributedDataset, error) {
	if fn == nil {
		return nil, invalidArgument("a function is needed, not nil")
	}
	handle := borrowed(func(_ int32, _, in uintptr) (uintptr, error) {
		args, end := lent(in)
		defer end()
		var input InputContext
		if err := readNumbers(args, map[string]*int{
			"num_input_pipelines": &input.NumInputPipelines, "input_pipeline_id": &input.InputPipelineID,
			"num_replicas_in_sync": &input.NumReplicasInSync}); err != nil {
			return 0, err
		}
		return result(OfDataset(fn(input)))
	})
	defer handle.Delete()
	return s.distribute(ctx, func(strategy uintptr, call *native.CallOptions, made *uintptr) uintptr {
		return native.Strategy_distribute_datasets_from_function(strategy, uintptr(handle),
			options.prefetch(), call, made)
	})
}

// Iterator starts at the first step. ctx is that of every Next, too.
func (d *DistributedDataset) Iterator(ctx context.Context) (*DistributedIterator, error) {
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := readOut(d.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Distributed_iterator_create(pointer, call, made)
	})
	if err != nil {
		return nil, err
	}
	return &DistributedIterator{cursor{
		o:      own(made, "distributed iterator", native.Tutti_distributed_iterator_release),
		ctx:    ctx,
		native: &distributedFunctions}}, nil
}

// ElementSpec is that of one replica's part.
func (d *DistributedDataset) ElementSpec() (*Spec, error) {
	made, err := readOut(d.o, native.Distributed_dataset_element_spec)
	if err != nil {
		return nil, err
	}
	return ownSpec(made), nil
}

// Cardinality is the number of steps, InfiniteCardinality or UnknownCardinality.
func (d *DistributedDataset) Cardinality() int64 {
	pointer, err := d.o.use()
	if err != nil {
		return UnknownCardinality
	}
	defer d.o.done()
	return native.Distributed_dataset_cardinality(pointer)
}

// Explain says how batches are cut and shared, and why, for people.
func (d *DistributedDataset) Explain() (string, error) {
	return readText(d.o, native.Distributed_dataset_explain)
}

// Close ends the reference; its iterators stay.
func (d *DistributedDataset) Close() error {
	d.o.close()
	return nil
}
