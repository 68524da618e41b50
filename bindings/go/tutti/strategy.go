package tutti

import (
	"context"
	"time"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

// ReduceOp says how values of several replicas become one.
type ReduceOp int

// The reductions. Reduce of a Strategy takes Sum and Mean; BAND, BOR and BXOR are bitwise, for
// integers and bool.
const (
	Sum  ReduceOp = 1
	Mean ReduceOp = 2
	Min  ReduceOp = 3
	Max  ReduceOp = 4
	Prod ReduceOp = 5
	BAND ReduceOp = 6
	BOR  ReduceOp = 7
	BXOR ReduceOp = 8
)

// Strategy is a number of replicas: what runs on them, and what is shared by them.
type Strategy struct {
	o       *object
	timeout *time.Duration // of its collectives, nil for the runtime's
}

func (s *Strategy) object() *object {
	if s == nil {
		return nil
	}
	return s.o
}

func ownStrategy(pointer uintptr) *Strategy {
	return &Strategy{o: own(pointer, "strategy", native.Tutti_strategy_release)}
}

func (s *Strategy) use() (uintptr, error) { return s.object().use() }

func (s *Strategy) done() { s.o.done() }

// StrategyOptions are what a strategy can be given beside its devices.
type StrategyOptions struct {
	// Devices such as "CPU:0", "CPU:1"; none: all GPUs, else the CPU.
	Devices []string
	Name    string
	// CrossDeviceOps of a Mirrored or CentralStorage strategy, by which Reduce and ReduceTo, writes
	// of replicas into variables and their AllReduce of Sum and Mean go: Explain says for which
	// tensors. nil: the library chooses.
	CrossDeviceOps CrossDeviceOps
	// Resolver of a MultiWorkerMirrored strategy; nil reads TF_CONFIG.
	Resolver Resolver
	// Communication are hints for its collectives.
	Communication CommunicationOptions
}

// CommunicationImplementation says how ranks move the bytes of a collective; all of them ask for
// the same.
type CommunicationImplementation int

// Auto: as the strategy says, else as the table of algorithms does. Ring: from neighbour to
// neighbour, where ranks are linked by byte streams and the operation has such an algorithm. NCCL:
// NVIDIA's library. SharedMemory and TCP, of a strategy: these go before the setting transport.
// What cannot be as it is asked goes as Auto, with one line of warning in the log that says why.
const (
	CommunicationAuto CommunicationImplementation = iota
	CommunicationRing
	CommunicationNCCL
	CommunicationSharedMemory
	CommunicationTCP
)

// CommunicationOptions are hints for the collectives of a strategy, or of one call
// (WithCommunication), whose own go before the strategy's. All ranks give the same BytesPerPack and
// Implementation; else all get ErrInvalidArgument that names both sides. Results do not depend on
// them.
type CommunicationOptions struct {
	// Timeout is how long Reduce, Gather, AllReduce, AllGather and MergeCall may take whose context
	// has no deadline of its own (ErrDeadlineExceeded): Limit(d), or Limit(0) for no limit; nil: as
	// the strategy says, else the setting default_timeout.
	Timeout *time.Duration
	// BytesPerPack: many tensors are reduced in calls of at most so many bytes each; 0: as the
	// strategy says, else in one call.
	BytesPerPack   int
	Implementation CommunicationImplementation
}

// Limit is a timeout that is given; 0 is no limit.
func Limit(timeout time.Duration) *time.Duration { return &timeout }

type communicationKey struct{}

// WithCommunication is ctx with hints for the collectives that it is given to: those of a
// Communicator but transfers, Reduce and Gather of a Strategy, and those of a replica by its With:
//
//	hinted, err := tutti.WithCommunication(replica,
//		tutti.WithBytesPerPack(1<<20))
//	sum, err := replica.With(hinted).AllReduce(tutti.Sum, gradients)
//
// A deadline of ctx goes before their Timeout. ErrInvalidArgument names what is wrong.
func WithCommunication(ctx context.Context,
	options ...CommunicationOption) (context.Context, error) {
	chosen := collect(options, CommunicationOption.ofCommunication)
	if err := chosen.check(); err != nil {
		return nil, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, communicationKey{}, chosen), nil
}

// call is what a call with these options is given.
func (o CommunicationOptions) call() *native.CallOptions {
	// The hints live as long as the call's options, as they are one object.
	hinted := &struct {
		native.CallOptions
		hints native.CommunicationOptions
	}{hints: native.CommunicationOptions{
		StructSize:     unsafe.Sizeof(native.CommunicationOptions{}),
		BytesPerPack:   int64(o.BytesPerPack),
		Implementation: int32(o.Implementation) + 1,
	}}
	hinted.StructSize = unsafe.Sizeof(native.CallOptions{})
	hinted.Communication = uintptr(unsafe.Pointer(&hinted.hints))
	if o.Timeout != nil {
		hinted.Timeout = limited(*o.Timeout)
	}
	return &hinted.CallOptions
}

func (o CommunicationOptions) check() error {
	switch {
	case o.Timeout != nil && *o.Timeout < 0:
		return invalidArgument("communication options: Timeout is %v; expected 0 or more", *o.Timeout)
	case o.BytesPerPack < 0:
		return invalidArgument("communication options: BytesPerPack is %d; expected 0 or more",
			o.BytesPerPack)
	case o.Implementation < CommunicationAuto || o.Implementation > CommunicationTCP:
		return invalidArgument("communication options: Implementation is %d; expected %d to %d",
			o.Implementation, CommunicationAuto, CommunicationTCP)
	}
	return nil
}

// newStrategy makes one that waits for its options.
func (r *Runtime) newStrategy(ctx context.Context, options StrategyOptions,
	make func(runtime uintptr, call *native.CallOptions, made *uintptr) uintptr) (*Strategy, error) {
	if err := options.Communication.check(); err != nil {
		return nil, err
	}
	made, err := as(ownStrategy)(waitOut(ctx, r, make))
	if err == nil {
		made.timeout = options.Communication.Timeout
	}
	return made, err
}

// NewMirroredStrategy has one replica per device, and variables mirrored on all.
func NewMirroredStrategy(devices ...string) (*Strategy, error) {
	return defaultRuntime.NewMirroredStrategy(nil, StrategyOptions{Devices: devices})
}

// NewMirroredStrategy of this runtime.
func (r *Runtime) NewMirroredStrategy(ctx context.Context,
	options ...StrategyOption) (*Strategy, error) {
	chosen := collect(options, StrategyOption.ofStrategy)
	devices, err := joined(chosen.Devices)
	if err != nil {
		return nil, err
	}
	return r.newStrategy(ctx, chosen, func(runtime uintptr, call *native.CallOptions,
		made *uintptr) uintptr {
		reducer, end, err := reducerOf(runtime, chosen.CrossDeviceOps)
		if err != nil {
			return statusOf(err)
		}
		defer end()
		return native.Strategy_mirrored(runtime, devices, 0, reducer, chosen.Name, call, made)
	})
}

// NewOneDeviceStrategy has everything on one device.
func NewOneDeviceStrategy(device string) (*Strategy, error) {
	return defaultRuntime.NewOneDeviceStrategy(nil, device, StrategyOptions{})
}

// NewOneDeviceStrategy of this runtime.
func (r *Runtime) NewOneDeviceStrategy(ctx context.Context, device string,
	options ...StrategyOption) (*Strategy, error) {
	chosen := collect(options, StrategyOption.ofStrategy)
	return r.newStrategy(ctx, chosen, func(runtime uintptr, call *native.CallOptions,
		made *uintptr) uintptr {
		return native.Strategy_one_device(runtime, device, chosen.Name, call, made)
	})
}

// NewMultiWorkerMirroredStrategy joins the replicas of several processes, by TF_CONFIG; without
// that variable this process is alone. It waits for all workers, as long as ctx or the setting
// join_timeout says.
func NewMultiWorkerMirroredStrategy(ctx context.Context, devices ...string) (*Strategy, error) {
	return defaultRuntime.NewMultiWorkerMirroredStrategy(ctx, StrategyOptions{Devices: devices})
}

// NewMultiWorkerMirroredStrategy of this runtime.
func (r *Runtime) NewMultiWorkerMirroredStrategy(ctx context.Context,
	options ...StrategyOption) (*Strategy, error) {
	chosen := collect(options, StrategyOption.ofStrategy)
	devices, err := joined(chosen.Devices)
	if err != nil {
		return nil, err
	}
	resolver, end, err := resolverOf(chosen.Resolver)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.newStrategy(ctx, chosen, func(runtime uintptr, call *native.CallOptions,
		made *uintptr) uintptr {
		hints := chosen.Communication
		return native.Strategy_multi_worker_mirrored(runtime, resolver, devices, chosen.Name,
			int(hints.Implementation)+1, int64(hints.BytesPerPack), call, made)
	})
}

// NewStrategy is a MultiWorkerMirrored strategy whose workers are the ranks of c, all of which call
// this, with as many replicas each as the setting replicas says, else all GPUs, else the CPU. It
// lasts as long as c's epoch: the next one of an elastic job is made over what Shrink or Grow
// gives. What it needs it splits from c, of which nothing else may be under way meanwhile.
func (c *Communicator) NewStrategy(ctx context.Context) (*Strategy, error) {
	return as(ownStrategy)(waitOut(ctx, c.object(), func(pointer uintptr,
		call *native.CallOptions, made *uintptr) uintptr {
		return native.Strategy_for_communicator(pointer, "", call, made)
	}))
}

// DefaultStrategy is one replica, nothing distributed.
func DefaultStrategy() (*Strategy, error) { return defaultRuntime.DefaultStrategy() }

// DefaultStrategy of this runtime.
func (r *Runtime) DefaultStrategy() (*Strategy, error) {
	return as(ownStrategy)(r.make(native.Strategy_default))
}

func (s *Strategy) number(read func(uintptr) int64) int {
	return int(ask(s, 0, read))
}

// NumReplicasInSync counts all replicas of all workers; 0 for a closed strategy.
func (s *Strategy) NumReplicasInSync() int { return s.number(native.Strategy_num_replicas_in_sync) }

// LocalReplicaCount counts the replicas of this process.
func (s *Strategy) LocalReplicaCount() int { return s.number(native.Strategy_local_replica_count) }

// Worker is this process's place among the workers.
func (s *Strategy) Worker() int { return s.number(native.Strategy_worker) }

// NumWorkers counts the workers, this one included.
func (s *Strategy) NumWorkers() int { return s.number(native.Strategy_worker_count) }

// WorkerDevices are the devices of this process's replicas.
func (s *Strategy) WorkerDevices() []string {
	pointer, err := s.use()
	if err != nil {
		return nil
	}
	defer s.object().done()
	devices := make([]string, native.Strategy_local_replica_count(pointer))
	for i := range devices {
		devices[i] = native.Strategy_worker_device(pointer, int64(i))
	}
	return devices
}

// TypeName is "MirroredStrategy" and so on.
func (s *Strategy) TypeName() string {
	return ask(s, "", native.Strategy_type_name)
}

// ClusterResolver is what found the workers of a multi-worker strategy; nil of others.
func (s *Strategy) ClusterResolver() (*ClusterResolver, error) {
	made, err := readOut(s, native.Strategy_cluster_resolver)
	if err != nil || made == 0 {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// RunOptions say how a step is compiled. Nothing is compiled here: replicas run functions of the
// program, for which these have no effect, as in the reference outside of TPUs.
type RunOptions struct {
	// NoDynamicBatchSize: of TPUs, batches are never partial.
	NoDynamicBatchSize bool
	// BucketizingDynamicShape: of TPUs, shapes are padded to few.
	BucketizingDynamicShape bool
}

// Run calls fn once per replica, concurrently, and returns when no call is running any more.
// Replica i gets component i of every per-replica leaf of args, and every other leaf as it is;
// several arguments are a Tuple.
// Results are joined leaf by leaf: tensors become per-replica, with one replica they stay what they
// are. An error or a panic of a replica stops the others. The end of ctx is looked at when a
// replica enters a collective and when all have returned, and ends what they wait for.
func (s *Strategy) Run(ctx context.Context, fn ReplicaFunc, args Value) (Value, error) {
	if CurrentDevice(ctx) != nil {
		return s.RunWithOptions(ctx, fn, args, RunOptions{})
	}
	return s.run(ctx, fn, args, native.Strategy_run)
}

// RunWithOptions is Run with options.
func (s *Strategy) RunWithOptions(ctx context.Context, fn ReplicaFunc, args Value,
	options ...RunOption) (Value, error) {
	chosen := collect(options, RunOption.ofRun)
	return s.run(ctx, fn, args, func(pointer, callback, args uintptr, call *native.CallOptions,
		made *uintptr) uintptr {
		return native.Strategy_run_with_options(pointer, callback, args,
			tristate(!chosen.NoDynamicBatchSize), tristate(chosen.BucketizingDynamicShape),
			deviceOf(ctx), call, made)
	})
}

func (s *Strategy) run(ctx context.Context, fn ReplicaFunc, args Value,
	run func(pointer, callback, args uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (Value, error) {
	if s == nil || fn == nil {
		return Value{}, invalidArgument("run: a strategy and a function are needed, not nil")
	}
	handle := replicaCallback(ctx, s.timeout, fn)
	defer handle.Delete()
	return blocking(ctx, nil, s, args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return run(pointer, uintptr(handle), args, call, made)
		})
}

// Reduce reduces every leaf over all replicas: Sum or Mean.
func (s *Strategy) Reduce(ctx context.Context, op ReduceOp, value Value) (Value, error) {
	return s.reduce(ctx, op, value, nil)
}

// ReduceAxis reduces also along axis inside each replica; Mean divides by the number of elements of
// all replicas.
func (s *Strategy) ReduceAxis(ctx context.Context, op ReduceOp, value Value,
	axis int) (Value, error) {
	return s.reduce(ctx, op, value, []int64{int64(axis)})
}

func (s *Strategy) reduce(ctx context.Context, op ReduceOp, value Value,
	axis []int64) (Value, error) {
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return blocking(ctx, s.limit(), s, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_reduce(pointer, int(op), value, axis, call, made)
		})
}

func (s *Strategy) limit() *time.Duration {
	if s == nil {
		return nil
	}
	return s.timeout
}

// given is a value that is there: none becomes the leaf none.
func given(value Value) (Value, func(), error) {
	if value.o != nil {
		return value, nothing, nil
	}
	none, err := makeValue(native.Value_of_none)
	return none, none.o.close, err
}

// Gather joins every per-replica leaf along axis, in replica order.
func (s *Strategy) Gather(ctx context.Context, value Value, axis int) (Value, error) {
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return blocking(ctx, s.limit(), s, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_gather(pointer, value, int64(axis), call, made)
		})
}

// LocalResults are the values of this process's replicas, in order.
func (s *Strategy) LocalResults(value Value) ([]Value, error) {
	value, end, err := given(value)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := blocking(nil, nil, s, value,
		func(pointer, value uintptr, _ *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_local_results(pointer, value, made)
		})
	if err != nil {
		return nil, err
	}
	defer all.Close()
	results := make([]Value, all.Len())
	for i := range results {
		if results[i], err = all.At(i); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// ValueContext says for which replica a value is made.
type ValueContext struct {
	ReplicaIDInSyncGroup int
	NumReplicasInSync    int
}

// DistributeValues makes a per-replica value from one call of fn per replica of this process.
func (s *Strategy) DistributeValues(ctx context.Context,
	fn func(context ValueContext) (Value, error)) (Value, error) {
	if s == nil || fn == nil {
		return Value{}, invalidArgument("a strategy and a function are needed, not nil")
	}
	handle := borrowed(func(_ int32, _, in uintptr) (uintptr, error) {
		args, end := lent(in)
		defer end()
		var given ValueContext
		if err := readNumbers(args, map[string]*int{
			"replica_id_in_sync_group": &given.ReplicaIDInSyncGroup,
			"num_replicas_in_sync":     &given.NumReplicasInSync}); err != nil {
			return 0, err
		}
		return result(fn(given))
	})
	defer handle.Delete()
	return blocking(ctx, nil, s, Value{},
		func(pointer, _ uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_create_values(pointer, uintptr(handle), call, made)
		})
}

// readNumbers reads integers of a dict.
func readNumbers(dict Value, numbers map[string]*int) error {
	for key, number := range numbers {
		value, err := dict.Get(key)
		if err != nil {
			return err
		}
		read, err := value.Int64()
		value.Close()
		if err != nil {
			return err
		}
		*number = int(read)
	}
	return nil
}

// Mirrored is value on every replica of this process: a structure whose leaves are mirrored, and
// are read as they are. ErrInvalidArgument for what has a component or a copy per replica already.
func (s *Strategy) Mirrored(value Value) (Value, error) {
	pointer, err := s.use()
	if err != nil {
		return Value{}, err
	}
	defer s.object().done()
	used, end, err := pointers([]Value{value})
	if err != nil {
		return Value{}, err
	}
	defer end()
	return makeValue(func(made *uintptr) uintptr {
		return native.Strategy_create_mirrored_value(pointer, used[0], made)
	})
}

// PerReplica is a per-replica value of one value per replica of this process.
func (s *Strategy) PerReplica(values ...Value) (Value, error) {
	pointer, err := s.use()
	if err != nil {
		return Value{}, err
	}
	defer s.object().done()
	used, end, err := pointers(values)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return makeValue(func(made *uintptr) uintptr {
		return native.Strategy_create_per_replica(pointer, used, made)
	})
}

// Close stops and joins the replica threads.
func (s *Strategy) Close() error {
	if s == nil {
		return nil
	}
	return closeWith(s.object(), native.Strategy_close)
}

// Cluster is the one that the strategy's workers sit in; nil for a strategy of this process alone.
func (s *Strategy) Cluster() (*Cluster, error) {
	made, err := readOut(s, native.Strategy_cluster)
	if err != nil || made == 0 {
		return nil, err
	}
	return ownCluster(made), nil
}

// Communicator is one of the strategy's workers, a rank each, for collectives of the program's own
// between runs. All strategies of a job give the same one, until its epoch has ended or it was
// closed: then all workers ask again, and the next is formed with all of them. Of a strategy of
// this process alone it has one rank.
func (s *Strategy) Communicator(ctx context.Context) (*Communicator, error) {
	return as(ownCommunicator)(waitOut(ctx, s, native.Strategy_communicator))
}
