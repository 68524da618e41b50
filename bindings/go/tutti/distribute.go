package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

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
	// NoPrefetch: of what a thread makes before it is asked for, the element that each replica gets
	// next lies on the host instead of the replica's device (for CPUs that is the same memory), and
	// no slices of one more step are kept where batches are cut.
	NoPrefetch bool
	// ReplicationMode says how many input pipelines there are; InputPerWorker by default.
	ReplicationMode InputReplicationMode
	// PlaceDatasetOnDevice needs InputPerReplica, else it is INVALID_ARGUMENT, and makes nothing
	// ahead.
	PlaceDatasetOnDevice bool
}

// InputReplicationMode says how many input pipelines there are.
type InputReplicationMode int

// The modes: one for each worker, which feeds all its replicas; or one for each replica, of
// DistributeFromFunction of a mirrored strategy only.
const (
	InputPerWorker  InputReplicationMode = 1
	InputPerReplica InputReplicationMode = 2
)

func (o InputOptions) place() int {
	if o.PlaceDatasetOnDevice {
		return 1
	}
	return 0
}

func (o InputOptions) prefetch() int {
	if o.NoPrefetch {
		return 2
	}
	return 0
}

// DistributedDataset is a dataset whose elements are steps.
type DistributedDataset struct{ o *object }

func (d *DistributedDataset) object() *object {
	if d == nil {
		return nil
	}
	return d.o
}

func ownDistributedDataset(pointer uintptr) *DistributedDataset {
	return &DistributedDataset{own(pointer, "distributed dataset",
		native.Tutti_distributed_dataset_release)}
}

// Distribute cuts every batch of dataset over the replicas and starts at the first step. ctx is
// that of every Next, too.
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
	options ...InputOption) (*DistributedDataset, error) {
	chosen := collect(options, InputOption.ofInput)
	pointer, err := dataset.use()
	if err != nil {
		return nil, err
	}
	defer dataset.o.done()
	return s.distribute(ctx, func(strategy uintptr, call *native.CallOptions, made *uintptr) uintptr {
		return native.Strategy_distribute_dataset(strategy, pointer, int(chosen.Rebatch),
			chosen.prefetch(), int(chosen.ReplicationMode), chosen.place(), call, made)
	})
}

func (s *Strategy) distribute(ctx context.Context,
	make func(strategy uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (*DistributedDataset, error) {
	return as(ownDistributedDataset)(waitOut(ctx, s, make))
}

// InputContext is what a function that makes input pipelines is told.
type InputContext struct {
	NumInputPipelines int
	InputPipelineID   int
	NumReplicasInSync int
}

// NewInputContext is that of the only pipeline, for one replica.
func NewInputContext() InputContext {
	return InputContext{NumInputPipelines: 1, InputPipelineID: 0, NumReplicasInSync: 1}
}

// PerReplicaBatchSize is globalBatchSize / NumReplicasInSync, which must divide.
func (c InputContext) PerReplicaBatchSize(globalBatchSize int) (int, error) {
	if c.NumReplicasInSync < 1 || globalBatchSize%c.NumReplicasInSync != 0 {
		return 0, invalidArgument("a global batch of %d rows cannot be divided by %d replicas",
			globalBatchSize, c.NumReplicasInSync)
	}
	return globalBatchSize / c.NumReplicasInSync, nil
}

// DistributeFromFunction has one dataset per input pipeline, by fn; its elements go to the replicas
// one each, in turn, or, with InputPerReplica, to the one whose pipeline it is, and nothing is
// rebatched or sharded. Where the data ends in the middle of a step, replicas without any get
// batches of 0 rows, and zeros for elements of rank 0.
func (s *Strategy) DistributeFromFunction(ctx context.Context,
	fn func(input InputContext) *Dataset, options ...InputOption) (*DistributedDataset, error) {
	chosen := collect(options, InputOption.ofInput)
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
			chosen.prefetch(), int(chosen.ReplicationMode), chosen.place(), call, made)
	})
}

// Iterator starts at the first step. ctx is that of every Next, too.
func (d *DistributedDataset) Iterator(ctx context.Context) (*DistributedIterator, error) {
	made, err := waitOut(ctx, d.object(), native.Distributed_iterator_create)
	if err != nil {
		return nil, err
	}
	return &DistributedIterator{
		o:   own(made, "distributed iterator", native.Tutti_distributed_iterator_release),
		ctx: ctx, native: &distributedFunctions}, nil
}

// MakeNumpyDataset has the slices of tensors along axis 0, as FromTensorSlices, to batch and
// distribute.
func (s *Strategy) MakeNumpyDataset(tensors Value) *Dataset {
	return FromTensorSlices(tensors)
}

// ElementSpec is that of a step: leaves of KindPerReplica, or, where this process has one replica,
// plain ones.
func (d *DistributedDataset) ElementSpec() (*Spec, error) {
	return as(ownSpec)(readOut(d.object(), native.Distributed_dataset_element_spec))
}

// Cardinality is the number of steps, InfiniteCardinality or UnknownCardinality.
func (d *DistributedDataset) Cardinality() int64 {
	return ask(d.object(), UnknownCardinality, native.Distributed_dataset_cardinality)
}

// Explain says how batches are cut and shared, and why, for people.
func (d *DistributedDataset) Explain() (string, error) {
	return readText(d.object(), native.Distributed_dataset_explain)
}

// ExplainAs is the same as "text", or, as "json" or "svg", the plan of this worker's part alone,
// with what the iterator that was made last has done.
func (d *DistributedDataset) ExplainAs(format string) (string, error) {
	return readText(d.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Distributed_dataset_explain_as(pointer, format, made)
	})
}

// Close ends the reference; its iterators stay.
func (d *DistributedDataset) Close() error {
	d.object().close()
	return nil
}
