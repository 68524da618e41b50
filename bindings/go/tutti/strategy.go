package tutti

import (
	"context"
	"runtime"

	"tutti.dev/tutti/internal/native"
)

// ReduceOp says how values of several replicas become one.
type ReduceOp int

// The reductions. Reduce of a Strategy takes Sum and Mean.
const (
	Sum  ReduceOp = 1
	Mean ReduceOp = 2
	Min  ReduceOp = 3
	Max  ReduceOp = 4
	Prod ReduceOp = 5
)

// Strategy is a number of replicas: what runs on them, and what is shared by them.
type Strategy struct{ o *object }

func ownStrategy(pointer uintptr) *Strategy {
	return &Strategy{own(pointer, "strategy", native.Tutti_strategy_release)}
}

func (s *Strategy) use() (uintptr, error) {
	if s == nil {
		return 0, invalidArgument("a strategy is needed, not nil")
	}
	return s.o.use()
}

// CrossDeviceOps is a hint how values of devices meet.
type CrossDeviceOps int

// The hints.
const (
	AutoDeviceOps        CrossDeviceOps = 1
	ReductionToOneDevice CrossDeviceOps = 2
)

// StrategyOptions are what a strategy can be given beside its devices.
type StrategyOptions struct {
	// Devices such as "CPU:0", "CPU:1"; none: all GPUs, else the CPU.
	Devices        []string
	Name           string
	CrossDeviceOps CrossDeviceOps
	// Resolver of a MultiWorkerMirrored strategy; nil reads TF_CONFIG.
	Resolver *ClusterResolver
}

// NewMirroredStrategy has one replica per device, and variables mirrored on all.
func NewMirroredStrategy(devices ...string) (*Strategy, error) {
	return defaultRuntime.NewMirroredStrategy(nil, StrategyOptions{Devices: devices})
}

// NewMirroredStrategy of this runtime.
func (r *Runtime) NewMirroredStrategy(ctx context.Context, options StrategyOptions) (*Strategy, error) {
	devices, err := joined(options.Devices)
	if err != nil {
		return nil, err
	}
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Strategy_mirrored(runtime, devices, int(options.CrossDeviceOps), options.Name, call,
			made)
	})
	if err != nil {
		return nil, err
	}
	return ownStrategy(made), nil
}

// NewOneDeviceStrategy has everything on one device.
func NewOneDeviceStrategy(device string) (*Strategy, error) {
	return defaultRuntime.NewOneDeviceStrategy(nil, device, StrategyOptions{})
}

// NewOneDeviceStrategy of this runtime.
func (r *Runtime) NewOneDeviceStrategy(ctx context.Context, device string,
	options StrategyOptions) (*Strategy, error) {
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Strategy_one_device(runtime, device, options.Name, call, made)
	})
	if err != nil {
		return nil, err
	}
	return ownStrategy(made), nil
}

// NewMultiWorkerMirroredStrategy joins the replicas of several processes, by TF_CONFIG; without that
// variable this process is alone. It waits for all workers, as long as ctx or the setting
// join_timeout says.
func NewMultiWorkerMirroredStrategy(ctx context.Context, devices ...string) (*Strategy, error) {
	return defaultRuntime.NewMultiWorkerMirroredStrategy(ctx, StrategyOptions{Devices: devices})
}

// NewMultiWorkerMirroredStrategy of this runtime.
func (r *Runtime) NewMultiWorkerMirroredStrategy(ctx context.Context,
	options StrategyOptions) (*Strategy, error) {
	devices, err := joined(options.Devices)
	if err != nil {
		return nil, err
	}
	resolver, err := options.Resolver.use()
	if err != nil {
		return nil, err
	}
	defer options.Resolver.done()
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Strategy_multi_worker_mirrored(runtime, resolver, devices, options.Name, call, made)
	})
	if err != nil {
		return nil, err
	}
	return ownStrategy(made), nil
}

// DefaultStrategy is one replica, nothing distributed.
func DefaultStrategy() (*Strategy, error) { return defaultRuntime.DefaultStrategy() }

// DefaultStrategy of this runtime.
func (r *Runtime) DefaultStrategy() (*Strategy, error) {
	made, err := r.make(native.Strategy_default)
	if err != nil {
		return nil, err
	}
	return ownStrategy(made), nil
}

func (s *Strategy) number(read func(uintptr) int64) int {
	pointer, err := s.use()
	if err != nil {
		return 0
	}
	defer s.o.done()
	return int(read(pointer))
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
	defer s.o.done()
	devices := make([]string, native.Strategy_local_replica_count(pointer))
	for i := range devices {
		devices[i] = native.Strategy_worker_device(pointer, int64(i))
	}
	return devices
}

// TypeName is "MirroredStrategy" and so on.
func (s *Strategy) TypeName() string {
	pointer, err := s.use()
	if err != nil {
		return ""
	}
	defer s.o.done()
	return native.Strategy_type_name(pointer)
}

// ClusterResolver is what found the workers; nil when there is one only.
func (s *Strategy) ClusterResolver() (*ClusterResolver, error) {
	pointer, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.o.done()
	var made uintptr
	if err := check(native.Strategy_cluster_resolver(pointer, &made)); err != nil || made == 0 {
		return nil, err
	}
	return ownClusterResolver(made), nil
}

// blocking is one call on an object that may wait and makes a value.
func blocking(ctx context.Context, o *object, operand Value,
	call func(pointer, operand uintptr, call *native.CallOptions, made *uintptr) uintptr) (Value, error) {
	pointer, err := o.use()
	if err != nil {
		return Value{}, err
	}
	defer o.done()
	in, err := operand.use()
	if err != nil {
		return Value{}, err
	}
	defer operand.done()
	options, end, err := callOf(ctx)
	if err != nil {
		return Value{}, err
	}
	defer end()
	var made uintptr
	if err := check(call(pointer, in, options, &made)); err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
}

// Run calls fn once per replica, concurrently, and returns when no call is running any more. Replica
// i gets component i of every per-replica leaf of args, and every other leaf as it is. Results are
// joined leaf by leaf: tensors become per-replica, with one replica they stay what they are. An
// error or a panic of a replica stops the others.
func (s *Strategy) Run(ctx context.Context, fn ReplicaFunc, args Value) (Value, error) {
	if s == nil || fn == nil {
		return Value{}, invalidArgument("run: a strategy and a function are needed, not nil")
	}
	handle := replicaCallback(ctx, fn)
	defer handle.Delete()
	return blocking(ctx, s.o, args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_run(pointer, uintptr(handle), args, call, made)
		})
}

// Reduce reduces every leaf over all replicas: Sum or Mean.
func (s *Strategy) Reduce(ctx context.Context, op ReduceOp, value Value) (Value, error) {
	return s.reduce(ctx, op, value, nil)
}

// ReduceAxis reduces also along axis inside each replica; Mean divides by the number of elements of
// all replicas.
func (s *Strategy) ReduceAxis(ctx context.Context, op ReduceOp, value Value, axis int) (Value, error) {
	return s.reduce(ctx, op, value, []int64{int64(axis)})
}

func (s *Strategy) reduce(ctx context.Context, op ReduceOp, value Value, axis []int64) (Value, error) {
	if s == nil {
		return Value{}, invalidArgument("a strategy is needed, not nil")
	}
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return blocking(ctx, s.o, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_reduce(pointer, int(op), value, axis, call, made)
		})
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
	if s == nil {
		return Value{}, invalidArgument("a strategy is needed, not nil")
	}
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return blocking(ctx, s.o, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_gather(pointer, value, int64(axis), call, made)
		})
}

// LocalResults are the values of this process's replicas, in order.
func (s *Strategy) LocalResults(value Value) ([]Value, error) {
	if s == nil {
		return nil, invalidArgument("a strategy is needed, not nil")
	}
	value, end, err := given(value)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := blocking(nil, s.o, value,
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
	return blocking(ctx, s.o, Value{},
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

// PerReplica is a per-replica value of one value per replica of this process.
func (s *Strategy) PerReplica(values ...Value) (Value, error) {
	pointer, err := s.use()
	if err != nil {
		return Value{}, err
	}
	defer s.o.done()
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
	return closeWith(s.o, native.Strategy_close)
}

// ---- inside a replica

// ReplicaContext is what a replica function reaches the others through. It is the context.Context of
// Run, and ends with the function. Pass it to what takes a context, so that it knows its replica.
type ReplicaContext struct {
	context.Context
	o *object
}

type replicaKey struct{}

// Value is that of context.Context.
func (r *ReplicaContext) Value(key any) any {
	if key == (replicaKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// ambient is the context of the replica that ctx is of; null outside.
func ambient(ctx context.Context) (pointer uintptr, end func(), err error) {
	if ctx == nil {
		return 0, nothing, nil
	}
	replica, ok := ctx.Value(replicaKey{}).(*ReplicaContext)
	if !ok {
		return 0, nothing, nil
	}
	pointer, err = replica.o.use()
	return pointer, replica.o.done, err
}

func (r *ReplicaContext) number(read func(uintptr) int64) int {
	pointer, err := r.o.use()
	if err != nil {
		return -1
	}
	defer r.o.done()
	return int(read(pointer))
}

// ReplicaID is the replica among all replicas in sync; -1 after the end.
func (r *ReplicaContext) ReplicaID() int { return r.number(native.Context_replica_id) }

// NumReplicasInSync counts all replicas.
func (r *ReplicaContext) NumReplicasInSync() int { return r.number(native.Context_replica_count) }

// GlobalRows are the rows of this step over all replicas of all workers when args came from a
// distributed iterator, else -1. Scale a loss by 1 / GlobalRows and sum.
func (r *ReplicaContext) GlobalRows() int { return r.number(native.Context_global_rows) }

// Device of this replica, "CPU:0".
func (r *ReplicaContext) Device() string {
	pointer, err := r.o.use()
	if err != nil {
		return ""
	}
	defer r.o.done()
	return native.Context_device(pointer)
}

// IsCancelled says that the run was cancelled or another replica failed: return soon.
func (r *ReplicaContext) IsCancelled() bool {
	pointer, err := r.o.use()
	if err != nil {
		return true
	}
	defer r.o.done()
	return native.Context_is_cancelled(pointer)
}

// AllReduce reduces every tensor over all replicas; each gets the same bits.
func (r *ReplicaContext) AllReduce(op ReduceOp, value Value) (Value, error) {
	return blocking(nil, r.o, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_all_reduce(pointer, int(op), value, call, made)
		})
}

// AllGather joins every tensor of all replicas along axis, in replica order.
func (r *ReplicaContext) AllGather(value Value, axis int) (Value, error) {
	return blocking(nil, r.o, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_all_gather(pointer, value, int64(axis), call, made)
		})
}

// MergeCall runs fn once for all replicas, with their args joined; each gets its part of the result.
func (r *ReplicaContext) MergeCall(fn MergeFunc, args Value) (Value, error) {
	if fn == nil {
		return Value{}, invalidArgument("merge_call: a function is needed, not nil")
	}
	handle := mergeCallback(fn)
	defer handle.Delete()
	defer runtime.KeepAlive(r)
	return blocking(nil, r.o, args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_merge_call(pointer, uintptr(handle), args, call, made)
		})
}
