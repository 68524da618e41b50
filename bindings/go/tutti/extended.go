package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// WorkerDevicesInFull are the devices of this process's replicas,
// "/job:localhost/replica:0/task:0/device:CPU:0".
func (s *Strategy) WorkerDevicesInFull() []string {
	return s.texts(native.Strategy_full_worker_device)
}

// ParameterDevices are those that variables lie on, in the same form.
func (s *Strategy) ParameterDevices() []string {
	return s.texts(native.Strategy_parameter_device)
}

func (s *Strategy) texts(read func(pointer uintptr, index int64) string) []string {
	pointer, err := s.use()
	if err != nil {
		return nil
	}
	defer s.object().done()
	var all []string
	for text := read(pointer, 0); text != ""; text = read(pointer, int64(len(all))) {
		all = append(all, text)
	}
	return all
}

// NonSlotDevices are those for what belongs to no single one of the variables: the parameter
// devices. ErrInvalidArgument for a variable of another strategy.
func (s *Strategy) NonSlotDevices(variables ...*Variable) ([]string, error) {
	for _, variable := range variables {
		if !s.CreatedVariable(variable) {
			return nil, invalidArgument("NonSlotDevices: variable %q belongs to another strategy",
				variable.Name())
		}
	}
	return s.ParameterDevices(), nil
}

// RequiresStaticShapes is false: shapes may differ from step to step.
func (s *Strategy) RequiresStaticShapes() bool { return false }

// ValueContainer is what a value is a part of: the variable that a tensor of its Copies is one of,
// by its memory, as a new value to be closed; else the value itself.
func (s *Strategy) ValueContainer(value Value) Value {
	if value.Kind() != KindTensor {
		return value
	}
	tensor, err := value.Tensor()
	if err != nil {
		return value
	}
	defer tensor.Close()
	pointer, err := s.use()
	if err != nil {
		return value
	}
	defer s.done()
	component, err := tensor.use()
	if err != nil {
		return value
	}
	defer tensor.o.done()
	var made uintptr
	if err := check(native.Strategy_find_variable(pointer, component, &made)); err != nil {
		return value
	}
	variable := ownVariable(made)
	defer variable.Close()
	container, err := OfVariable(variable)
	if err != nil {
		return value
	}
	return container
}

// CallForEachReplica is Run.
func (s *Strategy) CallForEachReplica(ctx context.Context, fn ReplicaFunc,
	args Value) (Value, error) {
	return s.Run(ctx, fn, args)
}

// Explain is a text with what the strategy is, how it reduces and, where it was given
// CrossDeviceOps, how often these were used for tensors of which dtype and shape.
func (s *Strategy) Explain() (string, error) { return readText(s, native.Strategy_explain) }

// ReduceTo is Sum or Mean of what the replicas of all workers have in value, one per-replica value
// or variable, on the destinations: a tensor on one device, mirrored on several. Destinations say
// where: a per-replica value and a mirrored variable stand for the replicas' devices, another
// variable for its device, another value for the host, a text for the device of that name
// (OfText). They are not written. Of another value Mean is the value, and Sum ErrInvalidArgument
// with several replicas; so are another number of components, other shapes or dtypes, a variable of
// another strategy, destinations that are none.
func (s *Strategy) ReduceTo(ctx context.Context, op ReduceOp, value,
	destinations Value) (Value, error) {
	return s.to(ctx, value, destinations, func(pointer, value, where uintptr,
		call *native.CallOptions, made *uintptr) uintptr {
		return native.Strategy_reduce_to(pointer, int(op), value, where, call, made)
	})
}

// BroadcastTo is a tensor on the destinations of this process.
func (s *Strategy) BroadcastTo(ctx context.Context, tensor, destinations Value) (Value, error) {
	return s.to(ctx, tensor, destinations, native.Strategy_broadcast_to)
}

func (s *Strategy) to(ctx context.Context, value, destinations Value,
	call func(pointer, value, where uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (Value, error) {
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	destinations, end, err = given(destinations)
	if err != nil {
		return Value{}, err
	}
	defer end()
	where, err := destinations.use()
	if err != nil {
		return Value{}, err
	}
	defer destinations.done()
	return blocking(ctx, s.limit(), s, value,
		func(pointer, value uintptr, options *native.CallOptions, made *uintptr) uintptr {
			return call(pointer, value, where, options, made)
		})
}

// ValueAndDestinations are a value and where it is to be reduced to.
type ValueAndDestinations struct {
	Value        Value
	Destinations Value
}

func pairsOf(pairs []ValueAndDestinations) (Value, error) {
	all := make([]Value, 0, len(pairs))
	defer func() {
		for _, pair := range all {
			pair.Close()
		}
	}()
	for _, pair := range pairs {
		both, err := Tuple(pair.Value, pair.Destinations)
		if err != nil {
			return Value{}, err
		}
		all = append(all, both)
	}
	return Tuple(all...)
}

func partsOf(tuple Value, err error) ([]Value, error) {
	if err != nil {
		return nil, err
	}
	defer tuple.Close()
	parts := make([]Value, tuple.Len())
	for i := range parts {
		if parts[i], err = tuple.At(i); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// BatchReduceTo is ReduceTo of many pairs at once: a result for each.
func (s *Strategy) BatchReduceTo(ctx context.Context, op ReduceOp,
	pairs []ValueAndDestinations) ([]Value, error) {
	given, err := pairsOf(pairs)
	if err != nil {
		return nil, err
	}
	defer given.Close()
	return partsOf(blocking(ctx, s.limit(), s, given,
		func(pointer, pairs uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_batch_reduce_to(pointer, int(op), pairs, call, made)
		}))
}

// UpdateContext is where an update function runs, for one device. It is the context.Context of
// Update, and ends with the function: variables that are read and written with it are so on that
// device alone. Run and collectives are ErrFailedPrecondition.
type UpdateContext struct {
	context.Context
	o *object
}

type updateKey struct{}

// Value is that of context.Context.
func (u *UpdateContext) Value(key any) any {
	if u == nil {
		return nil
	}
	switch key {
	case updateKey{}:
		return u
	case deviceKey{}:
		if spec, err := ParseDeviceSpec(u.Device()); err == nil {
			return spec
		}
		return nil
	}
	return u.Context.Value(key)
}

// UpdateReplicaID is the number of the copy, 0 .. devices-1; -1 after the end.
func (u *UpdateContext) UpdateReplicaID() int {
	return int(ask(u.o, -1, native.Context_update_replica_id))
}

// Device of the copy, "CPU:0".
func (u *UpdateContext) Device() string { return ask(u.o, "", native.Context_device) }

// UpdateFunc runs for each device of a variable. Its args are a tuple of the variable and of what
// Update was given; they end with it, as update does.
type UpdateFunc func(update *UpdateContext, args Value) (Value, error)

// UpdateOptions say what Update gives.
type UpdateOptions struct {
	// Ungrouped: a tuple with the result of each device; else they are one value, mirrored where no
	// argument differs between devices.
	Ungrouped bool
}

// Update calls fn for each device of this process that the variable has a copy on, one after the
// other: reads and writes of variables with its context are those of the copy there, whatever their
// aggregation. args is a tuple or one argument, of which each device gets its component of what is
// distributed. The first error ends it. ErrInvalidArgument for a variable of another strategy, and
// for distributed arguments where there is one copy.
func (s *Strategy) Update(ctx context.Context, variable *Variable, fn UpdateFunc, args Value,
	options ...UpdateOption) (Value, error) {
	chosen := collect(options, UpdateOption.ofUpdate)
	if s == nil || variable == nil || fn == nil {
		return Value{}, invalidArgument("update: a strategy, a variable and a function are needed, " +
			"not nil")
	}
	target, err := variable.object().use()
	if err != nil {
		return Value{}, err
	}
	defer variable.object().done()
	handle := updateCallback(ctx, fn)
	defer handle.Delete()
	return blocking(ctx, s.limit(), s, args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_update(pointer, target, uintptr(handle), args,
				tristate(!chosen.Ungrouped), call, made)
		})
}

// UpdateNonSlot is the same without a variable, on each device that colocateWith stands for:
// destinations as in ReduceTo, or a tuple of names of devices.
func (s *Strategy) UpdateNonSlot(ctx context.Context, colocateWith Value, fn UpdateFunc, args Value,
	options ...UpdateOption) (Value, error) {
	chosen := collect(options, UpdateOption.ofUpdate)
	if s == nil || fn == nil {
		return Value{}, invalidArgument("update: a strategy and a function are needed, not nil")
	}
	colocateWith, end, err := given(colocateWith)
	if err != nil {
		return Value{}, err
	}
	defer end()
	where, err := colocateWith.use()
	if err != nil {
		return Value{}, err
	}
	defer colocateWith.done()
	handle := updateCallback(ctx, fn)
	defer handle.Delete()
	return blocking(ctx, s.limit(), s, args,
		func(pointer, args uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Strategy_update_non_slot(pointer, where, uintptr(handle), args,
				tristate(!chosen.Ungrouped), call, made)
		})
}

// ColocateVariablesWith says whether what is made beside the variable would lie where it does: all
// variables of a strategy lie on its parameter devices. ErrInvalidArgument for a variable of
// another strategy.
func (s *Strategy) ColocateVariablesWith(variable *Variable) error {
	_, err := s.withVariable(variable, func(pointer, variable uintptr) (int32, uintptr) {
		return 0, native.Strategy_colocate_vars_with(pointer, variable)
	})
	return err
}

// CreatedVariable says that a variable is one of this strategy.
func (s *Strategy) CreatedVariable(variable *Variable) bool {
	is, err := s.withVariable(variable, func(pointer, variable uintptr) (int32, uintptr) {
		return int32(native.Strategy_created_variable(pointer, variable)), 0
	})
	return err == nil && is != 0
}

func (s *Strategy) withVariable(variable *Variable,
	call func(pointer, variable uintptr) (int32, uintptr)) (int32, error) {
	pointer, err := s.use()
	if err != nil {
		return 0, err
	}
	defer s.object().done()
	target, err := variable.object().use()
	if err != nil {
		return 0, err
	}
	defer variable.object().done()
	answer, status := call(pointer, target)
	return answer, check(status)
}
