package tutti

import (
	"context"
	"fmt"
	"strings"

	"tutti.dev/tutti/internal/native"
)

// CrossDeviceOps say how values of a strategy's replicas become one on some devices
// (StrategyOptions). A program's own run in cross-replica context, possibly on several threads at
// once, where Run and collectives are ErrFailedPrecondition. What they give has the dtype and shape
// of the replicas' values, one tensor or, for several destinations, a per-replica value; anything
// else is ErrInvalidArgument for who asked. At the deadline of the call who asked gets
// ErrDeadlineExceeded, and what they give later is dropped. Strategy and values end with the
// function; nothing is kept of what it gives.
// Those of the library are made by NewReductionToOneDevice and its like; Reduce, BatchReduce and
// Broadcast use either kind.
type CrossDeviceOps interface {
	// ReduceImplementation is op, Sum or Mean or what an AllReduce of replicas asks for, of value, a
	// tensor of each replica, on destinations, of which ReduceTo says what they are.
	ReduceImplementation(strategy *Strategy, op ReduceOp, value, destinations Value,
		options CommunicationOptions) (Value, error)
}

// CrossDeviceBatches are CrossDeviceOps that reduce many values at once: a result for each pair.
type CrossDeviceBatches interface {
	BatchReduceImplementation(strategy *Strategy, op ReduceOp, pairs []ValueAndDestinations,
		options CommunicationOptions) ([]Value, error)
}

// CrossDeviceBroadcasts are CrossDeviceOps that bring a tensor to destinations otherwise than as
// itself.
type CrossDeviceBroadcasts interface {
	BroadcastImplementation(strategy *Strategy, tensor, destinations Value) (Value, error)
}

// libraryOps are CrossDeviceOps of the library's.
type libraryOps struct {
	o    *object
	make func(runtime uintptr, made *uintptr) uintptr // of what nobody has made yet
}

// AutoDeviceOps: the library chooses, as for nil. ReductionToOneDevice: what
// NewReductionToOneDevice gives for no device and no function.
var (
	AutoDeviceOps        CrossDeviceOps = &libraryOps{make: native.Reducer_all_reduce}
	ReductionToOneDevice CrossDeviceOps = &libraryOps{
		make: func(runtime uintptr, made *uintptr) uintptr {
			return native.Reducer_reduction_to_one_device(runtime, "", made)
		}}
)

func (l *libraryOps) ReduceImplementation(strategy *Strategy, op ReduceOp, value,
	destinations Value, options CommunicationOptions) (Value, error) {
	ctx, err := WithCommunication(nil, options)
	if err != nil {
		return Value{}, err
	}
	return Reduce(ctx, l, strategy, op, value, destinations)
}

// String is "HierarchicalCopyAllReduce(num_packs=1)".
func (l *libraryOps) String() string {
	if l.o == nil {
		return "CrossDeviceOps"
	}
	text, err := readText(l.o, native.Reducer_to_string)
	if err != nil {
		return err.Error()
	}
	return text
}

func newLibraryOps(make func(runtime uintptr, made *uintptr) uintptr) (CrossDeviceOps, error) {
	made, err := defaultRuntime.make(make)
	if err != nil {
		return nil, err
	}
	return &libraryOps{o: own(made, "cross-device ops", native.Tutti_reducer_release)}, nil
}

// NewReductionToOneDevice brings all to one device ("": the first destination) and from there to
// where they go. accumulate makes one tensor of those of the replicas, of their dtype and shape,
// nil is addition in their order; Mean divides what it gives by their number.
func NewReductionToOneDevice(device string,
	accumulate func(tensors []Value) (Value, error)) (CrossDeviceOps, error) {
	if accumulate == nil {
		return newLibraryOps(func(runtime uintptr, made *uintptr) uintptr {
			return native.Reducer_reduction_to_one_device(runtime, device, made)
		})
	}
	handle := borrowed(func(_ int32, strategy, in uintptr) (uintptr, error) {
		native.Tutti_strategy_release(strategy)
		given, end := lent(in)
		defer end()
		tensors := make([]Value, given.Len())
		for i := range tensors {
			var err error
			if tensors[i], err = given.At(i); err != nil {
				return 0, err
			}
			defer tensors[i].Close()
		}
		return result(accumulate(tensors))
	})
	defer handle.Delete()
	return newLibraryOps(func(runtime uintptr, made *uintptr) uintptr {
		return native.Reducer_accumulation(runtime, device, uintptr(handle), made)
	})
}

// NewHierarchicalCopyAllReduce folds the tensors of a batch in so many packs; 0: none is packed, a
// negative number is ErrInvalidArgument. Results have the bits of those without CrossDeviceOps, but
// between GPUs: there packs go along a tree of the links between them and back, and of more than
// two GPUs sums and products of floats have the bits of that tree, the same on all of them.
func NewHierarchicalCopyAllReduce(packs int) (CrossDeviceOps, error) {
	return newLibraryOps(func(runtime uintptr, made *uintptr) uintptr {
		return native.Reducer_hierarchical_copy_all_reduce(runtime, int64(packs), made)
	})
}

// NewNcclAllReduce is NVIDIA's library, between GPUs of which each has one tensor. What it cannot
// serve (values on the host, no NCCL, one of a version before 2.18) goes the way it goes without
// CrossDeviceOps, and the first such use says why in one warning.
func NewNcclAllReduce(packs int) (CrossDeviceOps, error) {
	return newLibraryOps(func(runtime uintptr, made *uintptr) uintptr {
		return native.Reducer_nccl_all_reduce(runtime, int64(packs), made)
	})
}

// reducerOf is the library's object for some ops; end is called when it has been used.
func reducerOf(runtime uintptr, ops CrossDeviceOps) (pointer uintptr, end func(), err error) {
	var made uintptr
	switch known := ops.(type) {
	case nil:
		return 0, nothing, nil
	case *libraryOps:
		if known.o != nil {
			pointer, err = known.o.use()
			return pointer, known.o.done, err
		}
		err = check(known.make(runtime, &made))
	default:
		handle := borrowed(func(_ int32, strategy, in uintptr) (uintptr, error) {
			o := &object{what: "strategy", release: native.Tutti_strategy_release}
			o.pointer.Store(strategy)
			defer o.close()
			return callOps(ops, &Strategy{o: o}, in)
		})
		defer handle.Delete()
		name := strings.TrimPrefix(fmt.Sprintf("%T", ops), "*")
		err = check(native.Reducer_create(runtime, uintptr(handle), name, &made))
	}
	if err != nil {
		return 0, nothing, err
	}
	return made, func() { native.Tutti_reducer_release(made) }, nil
}

// callOps is one call of a program's ops; facade/extended.h says how the library asks.
func callOps(ops CrossDeviceOps, strategy *Strategy, in uintptr) (uintptr, error) {
	given, end := lent(in)
	defer end()
	var parts [3]Value
	for i := range parts {
		var err error
		if parts[i], err = given.At(i); err != nil {
			return 0, err
		}
		defer parts[i].Close()
	}
	text, err := parts[0].Text()
	if err != nil {
		return 0, err
	}
	var what string
	var op, implementation, bytesPerPack int
	if _, err = fmt.Sscanf(text, "%s %d %d %d", &what, &op, &implementation,
		&bytesPerPack); err != nil {
		return 0, err
	}
	options := CommunicationOptions{BytesPerPack: bytesPerPack}
	if implementation > 0 {
		options.Implementation = CommunicationImplementation(implementation - 1)
	}
	switch what {
	case "broadcast":
		if own, ok := ops.(CrossDeviceBroadcasts); ok {
			return result(own.BroadcastImplementation(strategy, parts[1], parts[2]))
		}
		return result(parts[1], nil)
	case "reduce":
		return result(ops.ReduceImplementation(strategy, ReduceOp(op), parts[1], parts[2], options))
	}
	pairs := make([]ValueAndDestinations, parts[1].Len())
	for i := range pairs {
		pair, err := parts[1].At(i)
		if err != nil {
			return 0, err
		}
		defer pair.Close()
		if pairs[i].Value, err = pair.At(0); err != nil {
			return 0, err
		}
		defer pairs[i].Value.Close()
		if pairs[i].Destinations, err = pair.At(1); err != nil {
			return 0, err
		}
		defer pairs[i].Destinations.Close()
	}
	results, err := reduceBatch(ops, strategy, ReduceOp(op), pairs, options)
	if err != nil {
		return 0, err
	}
	all, err := Tuple(results...)
	if err != nil {
		return 0, err
	}
	defer all.Close()
	return all.retained()
}

func reduceBatch(ops CrossDeviceOps, strategy *Strategy, op ReduceOp, pairs []ValueAndDestinations,
	options CommunicationOptions) ([]Value, error) {
	if own, ok := ops.(CrossDeviceBatches); ok {
		return own.BatchReduceImplementation(strategy, op, pairs, options)
	}
	var results []Value
	for _, pair := range pairs {
		reduced, err := ops.ReduceImplementation(strategy, op, pair.Value, pair.Destinations, options)
		if err != nil {
			return nil, err
		}
		results = append(results, reduced)
	}
	return results, nil
}

// Reduce is op by ops of what the replicas of a strategy have, on the destinations, of
// which ReduceTo says what they are: a tensor on one device, mirrored on several. It is to be
// called where Reduce of a Strategy is, or in an update.
func Reduce(ctx context.Context, ops CrossDeviceOps, strategy *Strategy, op ReduceOp, value,
	destinations Value) (Value, error) {
	return byOps(ops, strategy, func(reducer uintptr) (Value, error) {
		return strategy.to(ctx, value, destinations, func(pointer, value, where uintptr,
			call *native.CallOptions, made *uintptr) uintptr {
			return native.Reducer_reduce(reducer, pointer, int(op), value, where, call, made)
		})
	})
}

// BatchReduce is Reduce of many pairs at once: a result for each.
func BatchReduce(ctx context.Context, ops CrossDeviceOps, strategy *Strategy, op ReduceOp,
	pairs []ValueAndDestinations) ([]Value, error) {
	given, err := pairsOf(pairs)
	if err != nil {
		return nil, err
	}
	defer given.Close()
	return partsOf(byOps(ops, strategy, func(reducer uintptr) (Value, error) {
		return blocking(ctx, strategy.limit(), strategy, given,
			func(pointer, pairs uintptr, call *native.CallOptions, made *uintptr) uintptr {
				return native.Reducer_batch_reduce(reducer, pointer, int(op), pairs, call, made)
			})
	}))
}

// Broadcast is a tensor by ops on the destinations.
func Broadcast(ctx context.Context, ops CrossDeviceOps, strategy *Strategy, tensor,
	destinations Value) (Value, error) {
	return byOps(ops, strategy, func(reducer uintptr) (Value, error) {
		return strategy.to(ctx, tensor, destinations, func(pointer, value, where uintptr,
			call *native.CallOptions, made *uintptr) uintptr {
			return native.Reducer_broadcast(reducer, pointer, value, where, call, made)
		})
	})
}

func byOps(ops CrossDeviceOps, strategy *Strategy,
	call func(reducer uintptr) (Value, error)) (Value, error) {
	if strategy == nil {
		return Value{}, invalidArgument("a strategy is needed, not nil")
	}
	if ops == nil {
		ops = AutoDeviceOps
	}
	runtime, err := defaultRuntime.use()
	if err != nil {
		return Value{}, err
	}
	defer defaultRuntime.done()
	reducer, end, err := reducerOf(runtime, ops)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return call(reducer)
}

// NewCentralStorageStrategy has one replica per device, and variables on the CPU: each has one
// copy, for which the replicas' writes are aggregated, and which is updated once.
func NewCentralStorageStrategy(devices ...string) (*Strategy, error) {
	return defaultRuntime.NewCentralStorageStrategy(nil, "", StrategyOptions{Devices: devices})
}

// NewCentralStorageStrategy of this runtime, with variables on a device ("": the CPU).
func (r *Runtime) NewCentralStorageStrategy(ctx context.Context, parameterDevice string,
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
		return native.Strategy_central_storage(runtime, devices, parameterDevice, reducer,
			chosen.Name, call, made)
	})
}
