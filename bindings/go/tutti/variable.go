package tutti

import (
	"context"
	"math"

	"tutti.dev/tutti/internal/native"
)

// Synchronization says when the copies of a variable meet.
type Synchronization int

// The ways. SyncAuto is SyncOnWrite.
const (
	SyncAuto    Synchronization = 1
	SyncNone    Synchronization = 2
	SyncOnWrite Synchronization = 3
	SyncOnRead  Synchronization = 4
)

// Aggregation says what replicas' writes (or, with SyncOnRead, copies) become together.
type Aggregation int

// The ways.
const (
	AggregateNone             Aggregation = 1
	AggregateSum              Aggregation = 2
	AggregateMean             Aggregation = 3
	AggregateOnlyFirstReplica Aggregation = 4
)

// VariableOptions are what a variable can be given beside its first value.
type VariableOptions struct {
	Name            string
	Synchronization Synchronization
	Aggregation     Aggregation
	// NotTrainable says that no optimizer changes it.
	NotTrainable bool
	// Shape is what every value has to fit, -1 for a size that may change from one assignment to
	// the next, AnyShape for any shape; nil: the variable keeps the shape of its first value.
	Shape []int64
}

// AnyShape is the Shape of variables whose values may have any shape.
var AnyShape = []int64{math.MinInt64} // facade/strategy.h

// Variable is a tensor that lives as long as training, with one copy per replica. Its methods take
// the ReplicaContext inside a replica, and any other context outside.
type Variable struct{ o *object }

func (v *Variable) object() *object {
	if v == nil {
		return nil
	}
	return v.o
}

func ownVariable(pointer uintptr) *Variable {
	return &Variable{own(pointer, "variable", native.Tutti_variable_release)}
}

// NewVariable has a copy of initial on every replica. In a replica all replicas must come here, and
// get one variable, whose first value is replica 0's; ErrInvalidArgument naming both replicas where
// dtype, shape, name or options differ.
func (s *Strategy) NewVariable(ctx context.Context, initial *Tensor,
	options ...VariableOption) (*Variable, error) {
	chosen := collect(options, VariableOption.ofVariable)
	pointer, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.o.done()
	tensor, err := initial.use()
	if err != nil {
		return nil, err
	}
	defer initial.o.done()
	replica, leave, err := ambient(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	call, end, err := callOf(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	trainable := 0
	if chosen.NotTrainable {
		trainable = 2
	}
	var made uintptr
	if err := check(native.Variable_create(pointer, replica, tensor, chosen.Name,
		int(chosen.Synchronization), int(chosen.Aggregation), trainable, chosen.Shape != nil,
		chosen.Shape, deviceOf(ctx), call, &made)); err != nil {
		return nil, err
	}
	return ownVariable(made), nil
}

// in is one call from the place that ctx stands for.
func (v *Variable) in(ctx context.Context,
	call func(pointer, ambient uintptr, call *native.CallOptions) uintptr) error {
	if v == nil {
		return invalidArgument("a variable is needed, not nil")
	}
	pointer, err := v.object().use()
	if err != nil {
		return err
	}
	defer v.object().done()
	replica, leave, err := ambient(ctx)
	if err != nil {
		return err
	}
	defer leave()
	options, end, err := callOf(ctx)
	if err != nil {
		return err
	}
	defer end()
	return check(call(pointer, replica, options))
}

// Read is a copy of the value: of this replica's copy; outside of the first copy, or of all of them
// aggregated (SyncOnRead).
func (v *Variable) Read(ctx context.Context) (*Tensor, error) {
	var made uintptr
	if err := v.in(ctx, func(pointer, ambient uintptr, call *native.CallOptions) uintptr {
		return native.Variable_read(pointer, ambient, call, &made)
	}); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// Data is the memory of this replica's copy (outside: of the first), read-only and without a copy;
// writes show through. ErrInvalidArgument for byte strings.
func (v *Variable) Data(ctx context.Context) (*Tensor, error) {
	var made uintptr
	if err := v.in(ctx, func(pointer, ambient uintptr, _ *native.CallOptions) uintptr {
		return native.Variable_data(pointer, ambient, &made)
	}); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

func (v *Variable) write(ctx context.Context, operand *Tensor,
	call func(variable, ambient, operand uintptr, call *native.CallOptions) uintptr) error {
	tensor, err := operand.use()
	if err != nil {
		return err
	}
	defer operand.o.done()
	return v.in(ctx, func(pointer, ambient uintptr, options *native.CallOptions) uintptr {
		return call(pointer, ambient, tensor, options)
	})
}

// Assign sets the value. In a replica the replicas' tensors are aggregated, and all replicas must
// come here; with SyncOnRead this copy is written.
func (v *Variable) Assign(ctx context.Context, tensor *Tensor) error {
	return v.write(ctx, tensor, native.Variable_assign)
}

// AssignAdd adds, as Assign.
func (v *Variable) AssignAdd(ctx context.Context, tensor *Tensor) error {
	return v.write(ctx, tensor, native.Variable_assign_add)
}

// AssignSub subtracts, as Assign.
func (v *Variable) AssignSub(ctx context.Context, tensor *Tensor) error {
	return v.write(ctx, tensor, native.Variable_assign_sub)
}

// Scatter is how a sparse update changes a row by a row of values.
type Scatter int

// The ways.
const (
	ScatterAdd    Scatter = 1
	ScatterSub    Scatter = 2
	ScatterUpdate Scatter = 3 // of an index that comes several times the last counts
	ScatterMin    Scatter = 4
	ScatterMax    Scatter = 5
	ScatterMul    Scatter = 6
	ScatterDiv    Scatter = 7 // by an integer 0 is ErrInvalidArgument
)

// Scatter changes the rows that sparseDelta names: IndexedSlices of the variable's dtype and row
// shape, of which every one counts, in their order, also where an index comes several times.
// ErrInvalidArgument naming an index that is outside, before anything is written. In a replica the
// slices of all replicas are joined in their order, and all must come here: all for AggregateSum,
// divided by the number of replicas for AggregateMean, replica 0's for AggregateOnlyFirstReplica;
// the first two are for ScatterAdd and ScatterSub, else it is ErrUnimplemented. SyncOnRead changes
// this copy. Outside every copy is changed; SyncOnRead with AggregateSum is ErrInvalidArgument.
func (v *Variable) Scatter(ctx context.Context, how Scatter, sparseDelta Value) error {
	used, end, err := pointers([]Value{sparseDelta})
	if err != nil {
		return err
	}
	defer end()
	return v.in(ctx, func(pointer, ambient uintptr, options *native.CallOptions) uintptr {
		return native.Variable_scatter(pointer, ambient, int(how), used[0], options)
	})
}

// Name of the variable.
func (v *Variable) Name() string {
	return ask(v.object(), "", native.Variable_name)
}

// DType of the variable.
func (v *Variable) DType() DType {
	return DType(ask(v.object(), 0, native.Variable_dtype))
}

// Dims of the variable, -1 for a size that may change; nil for any shape.
func (v *Variable) Dims() []int64 {
	pointer, err := v.object().use()
	if err != nil {
		return nil
	}
	defer v.object().done()
	rank := int64(native.Variable_rank(pointer))
	if rank < 0 {
		return nil
	}
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = native.Variable_dim(pointer, int64(i))
	}
	return dims
}

// Synchronization of the variable.
func (v *Variable) Synchronization() Synchronization {
	return Synchronization(ask(v.object(), 0, native.Variable_synchronization))
}

// Aggregation of the variable.
func (v *Variable) Aggregation() Aggregation {
	return Aggregation(ask(v.object(), 0, native.Variable_aggregation))
}

// IsTrainable says that optimizers may change it.
func (v *Variable) IsTrainable() bool {
	return ask(v.object(), false, native.Variable_is_trainable)
}

// Strategy of the variable. Close ends the reference only.
func (v *Variable) Strategy() (*Strategy, error) {
	return as(ownStrategy)(readOut(v.object(), native.Variable_strategy))
}

// Distribution is DistributedMirrored or DistributedSyncOnRead, 0 where the strategy has no copies.
func (v *Variable) Distribution() Distribution {
	return Distribution(ask(v.object(), 0, native.Variable_distribution))
}

// CopyDevices are where the copies of this process are placed, in the order of their replicas:
// "/job:localhost/replica:0/task:0/device:CPU:0".
func (v *Variable) CopyDevices() []string {
	pointer, err := v.object().use()
	if err != nil {
		return nil
	}
	defer v.object().done()
	devices := make([]string, native.Variable_copy_count(pointer))
	for i := range devices {
		devices[i] = native.Variable_copy_device(pointer, int64(i))
	}
	return devices
}

// Copies are the memories of this process's replicas, read-only and without a copy, by name. Byte
// strings have none (ErrOutOfRange): Strategy.LocalResults gives them.
func (v *Variable) Copies() (names []string, copies []*Tensor, err error) {
	pointer, err := v.object().use()
	if err != nil {
		return nil, nil, err
	}
	defer v.object().done()
	for i, count := int64(0), native.Variable_copy_count(pointer); i < count; i++ {
		var made uintptr
		if err := check(native.Variable_copy(pointer, i, &made)); err != nil {
			return nil, nil, err
		}
		names = append(names, native.Variable_copy_name(pointer, i))
		copies = append(copies, ownTensor(made))
	}
	return names, copies, nil
}

// String is for people.
func (v *Variable) String() string {
	text, err := readText(v.object(), native.Variable_to_string)
	if err != nil {
		return "<" + err.Error() + ">"
	}
	return text
}

// Close ends the reference.
func (v *Variable) Close() error {
	if v != nil {
		v.object().close()
	}
	return nil
}

// OfVariable is a leaf with a variable, which it retains.
func OfVariable(variable *Variable) (Value, error) {
	pointer, err := variable.object().use()
	if err != nil {
		return Value{}, err
	}
	defer variable.object().done()
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_variable(pointer, made) })
}

// Variable is the variable of a leaf.
func (v Value) Variable() (*Variable, error) {
	pointer, err := v.leaf(KindVariable)
	if err != nil {
		return nil, err
	}
	defer v.done()
	variable := native.Value_variable(pointer)
	native.Tutti_variable_retain(variable)
	return ownVariable(variable), nil
}
