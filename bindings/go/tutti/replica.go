package tutti

import (
	"context"
	"runtime"
	"time"

	"tutti.dev/tutti/internal/native"
)

// ReplicaContext is what a replica function reaches the others through. It is the context.Context
// of Run, and ends with the function. Pass it to what takes a context, so that it knows its
// replica.
type ReplicaContext struct {
	context.Context
	o       *object
	within  context.Context // of With
	timeout *time.Duration  // of the strategy's collectives
}

// With is r for calls that end with ctx, too, when its deadline comes or it is cancelled:
//
//	limited, cancel := context.WithTimeout(replica, time.Second)
//	defer cancel()
//	sum, err := replica.With(limited).AllReduce(tutti.Sum, value)
func (r *ReplicaContext) With(ctx context.Context) *ReplicaContext {
	if r == nil {
		return nil
	}
	if inner, ok := ctx.(*ReplicaContext); ok {
		ctx = inner.limits()
	}
	return &ReplicaContext{Context: r.Context, o: r.o, within: ctx, timeout: r.timeout}
}

func (r *ReplicaContext) limits() context.Context {
	if r == nil {
		return nil
	}
	return r.within
}

func (r *ReplicaContext) object() *object {
	if r == nil {
		return nil
	}
	return r.o
}

type replicaKey struct{}

// Value is that of context.Context.
func (r *ReplicaContext) Value(key any) any {
	if r == nil {
		return nil
	}
	switch key {
	case replicaKey{}:
		return r
	case deviceKey{}:
		// The replica's, whatever scope Run was called in; but the default strategy runs there.
		if outer := r.Context.Value(key); outer != nil && r.isOfDefaultStrategy() {
			return outer
		}
		if spec, err := ParseDeviceSpec(r.Device()); err == nil {
			return spec
		}
		return nil
	}
	return r.Context.Value(key)
}

func (r *ReplicaContext) isOfDefaultStrategy() bool {
	strategy, err := r.Strategy()
	if err != nil {
		return false
	}
	defer strategy.Close()
	return ask(strategy.object(), "", native.Strategy_type_name) == "DefaultStrategy"
}

// ambient is the context of the replica or the update that ctx is of; null outside.
func ambient(ctx context.Context) (pointer uintptr, end func(), err error) {
	if ctx == nil {
		return 0, nothing, nil
	}
	if update, ok := ctx.Value(updateKey{}).(*UpdateContext); ok {
		pointer, err = update.o.use()
		return pointer, update.o.done, err
	}
	replica, ok := ctx.Value(replicaKey{}).(*ReplicaContext)
	if !ok {
		return 0, nothing, nil
	}
	pointer, err = replica.object().use()
	return pointer, replica.object().done, err
}

// collective is one call that meets other replicas.
func (r *ReplicaContext) collective(value Value, call func(pointer, value uintptr,
	call *native.CallOptions, made *uintptr) uintptr) (Value, error) {
	if r == nil {
		return Value{}, invalidArgument("a replica context is needed, not nil")
	}
	return blocking(r.within, r.timeout, r.o, value, call)
}

// Strategy of this replica. Close ends the reference only.
func (r *ReplicaContext) Strategy() (*Strategy, error) {
	return as(ownStrategy)(readOut(r.object(), native.Context_strategy))
}

// Runtime of this replica. Close of it shuts the runtime down: leave it to its owner.
func (r *ReplicaContext) Runtime() (*Runtime, error) {
	return as(ownRuntime)(readOut(r.object(), func(pointer uintptr, made *uintptr) uintptr {
		*made = native.Context_runtime(pointer)
		native.Tutti_runtime_retain(*made)
		return 0
	}))
}

func (r *ReplicaContext) number(read func(uintptr) int64) int {
	return int(ask(r.object(), -1, read))
}

// ReplicaID is the replica among all replicas in sync; -1 after the end.
func (r *ReplicaContext) ReplicaID() int { return r.number(native.Context_replica_id) }

// NumReplicasInSync counts all replicas.
func (r *ReplicaContext) NumReplicasInSync() int { return r.number(native.Context_replica_count) }

// GlobalRows are the rows of this step over all replicas of all workers when Run was given a batch
// of a distributed iterator, or values and tensors of one; else -1, as for what was computed of a
// batch, for copies, and for batches of different steps. Scale a loss by 1 / GlobalRows and sum.
func (r *ReplicaContext) GlobalRows() int { return r.number(native.Context_global_rows) }

// Device of this replica, "CPU:0".
func (r *ReplicaContext) Device() string {
	return ask(r.object(), "", native.Context_device)
}

// IsCancelled says that the run was cancelled or another replica failed: return soon.
func (r *ReplicaContext) IsCancelled() bool {
	return ask(r.object(), true, native.Context_is_cancelled)
}

// AllReduce reduces every tensor over all replicas; each gets the same bits.
func (r *ReplicaContext) AllReduce(op ReduceOp, value Value) (Value, error) {
	return r.collective(value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_all_reduce(pointer, int(op), value, call, made)
		})
}

// AllGather joins every tensor of all replicas along axis, in replica order.
func (r *ReplicaContext) AllGather(value Value, axis int) (Value, error) {
	return r.collective(value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_all_gather(pointer, value, int64(axis), call, made)
		})
}

// MergeCall runs fn once for all replicas, with their args joined; each gets its part of the
// result.
func (r *ReplicaContext) MergeCall(fn MergeFunc, args Value) (Value, error) {
	if fn == nil {
		return Value{}, invalidArgument("merge_call: a function is needed, not nil")
	}
	if r == nil {
		return Value{}, invalidArgument("a replica context is needed, not nil")
	}
	handle := mergeCallback(r.timeout, fn)
	defer handle.Delete()
	defer runtime.KeepAlive(r)
	return r.collective(args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Context_merge_call(pointer, uintptr(handle), args, call, made)
		})
}
