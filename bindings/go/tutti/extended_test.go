package tutti

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func perReplicaFloats(t *testing.T, strategy *Strategy, numbers ...float32) Value {
	t.Helper()
	value := must[Value](t)(strategy.DistributeValues(nil, func(c ValueContext) (Value, error) {
		return OfScalar(numbers[c.ReplicaIDInSyncGroup])
	}))
	t.Cleanup(func() { value.Close() })
	return value
}

func localFloats(t *testing.T, strategy *Strategy, value Value) (all []float64) {
	t.Helper()
	for _, part := range must[[]Value](t)(strategy.LocalResults(value)) {
		all = append(all, must[float64](t)(part.Float64()))
		part.Close()
	}
	return all
}

func device(t *testing.T, name string) Value {
	t.Helper()
	value := must[Value](t)(OfText(name))
	t.Cleanup(func() { value.Close() })
	return value
}

func expectError(t *testing.T, err, kind error, part string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), part) {
		t.Fatalf("expected %v with %q, got %v", kind, part, err)
	}
}

func newFloatVariable(t *testing.T, strategy *Strategy, number float32,
	options VariableOptions) *Variable {
	t.Helper()
	tensor := must[*Tensor](t)(Scalar(number))
	defer tensor.Close()
	variable := must[*Variable](t)(strategy.NewVariable(nil, tensor, options))
	t.Cleanup(func() { variable.Close() })
	return variable
}

func addTo(ctx context.Context, variable *Variable, value Value) error {
	tensor, err := value.Tensor()
	if err != nil {
		return err
	}
	return variable.AssignAdd(ctx, tensor)
}

func copiesOf(t *testing.T, strategy *Strategy, variable *Variable) []float64 {
	t.Helper()
	value := must[Value](t)(OfVariable(variable))
	defer value.Close()
	return localFloats(t, strategy, value)
}

func TestValuesAreReducedToDevices(t *testing.T) {
	strategy := twoReplicas(t)
	full := []string{"/job:localhost/replica:0/task:0/device:CPU:0",
		"/job:localhost/replica:0/task:0/device:CPU:1"}
	if !reflect.DeepEqual(strategy.WorkerDevicesInFull(), full) ||
		!reflect.DeepEqual(strategy.ParameterDevices(), full) || strategy.RequiresStaticShapes() {
		t.Fatal(strategy.WorkerDevicesInFull(), strategy.ParameterDevices())
	}
	value := perReplicaFloats(t, strategy, 1, 2)
	sum := must[Value](t)(strategy.ReduceTo(nil, Sum, value, strategy.ValueContainer(value)))
	defer sum.Close()
	mean := must[Value](t)(strategy.ReduceTo(nil, Mean, value, device(t, "CPU:1")))
	defer mean.Close()
	five := must[Value](t)(OfScalar(float32(5)))
	defer five.Close()
	copies := must[Value](t)(strategy.BroadcastTo(nil, five, value))
	defer copies.Close()
	if got := [][]float64{localFloats(t, strategy, sum), localFloats(t, strategy, mean),
		localFloats(t, strategy, copies)}; !reflect.DeepEqual(got,
		[][]float64{{3, 3}, {1.5}, {5, 5}}) {
		t.Fatal(got)
	}
	both := must[[]Value](t)(strategy.BatchReduceTo(nil, Sum, []ValueAndDestinations{
		{value, value}, {value, device(t, "CPU:0")}}))
	if got := localFloats(t, strategy, both[0]); !reflect.DeepEqual(got, []float64{3, 3}) ||
		must[float64](t)(both[1].Float64()) != 3 {
		t.Fatal(both)
	}
	_, err := strategy.ReduceTo(nil, Sum, five, device(t, "CPU:0"))
	expectError(t, err, ErrInvalidArgument, "one value for all 2 replicas")
	_, err = strategy.ReduceTo(nil, Sum, value, Value{})
	expectError(t, err, ErrInvalidArgument, "destinations")
	_, err = strategy.ReduceTo(nil, Sum, value, device(t, "CPU:7000"))
	expectError(t, err, ErrInvalidArgument, "CPU:7000")
}

func TestTheContainerOfACopyIsItsVariable(t *testing.T) {
	strategy := twoReplicas(t)
	variable := newFloatVariable(t, strategy, 3, VariableOptions{Name: "w"})
	_, copies, err := variable.Copies()
	if err != nil || len(copies) != 2 {
		t.Fatal(err)
	}
	for _, copied := range copies {
		part := must[Value](t)(OfTensor(copied))
		container := strategy.ValueContainer(part)
		found := must[*Variable](t)(container.Variable())
		if found.Name() != "w" {
			t.Fatal(found)
		}
		found.Close()
		container.Close()
		part.Close()
		copied.Close()
	}
	alike := must[Value](t)(OfScalar(float32(3)))
	defer alike.Close()
	if got := strategy.ValueContainer(alike); got.Kind() != KindTensor {
		t.Fatal(got)
	}
}

func TestSeveralArgumentsOfRunAreATuple(t *testing.T) {
	strategy := twoReplicas(t)
	ten := must[Value](t)(OfScalar(float32(10)))
	defer ten.Close()
	args := must[Value](t)(Tuple(perReplicaFloats(t, strategy, 1, 2), ten))
	defer args.Close()
	sums := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, args Value) (Value, error) {
		var sum float64
		for i := 0; i < args.Len(); i++ {
			part, err := args.At(i)
			if err != nil {
				return Value{}, err
			}
			defer part.Close()
			number, err := part.Float64()
			if err != nil {
				return Value{}, err
			}
			sum += number
		}
		return OfScalar(sum)
	}, args))
	defer sums.Close()
	if got := localFloats(t, strategy, sums); !reflect.DeepEqual(got, []float64{11, 12}) {
		t.Fatal(got)
	}
}

func TestUpdatesRunOnEachDevice(t *testing.T) {
	strategy := twoReplicas(t)
	variable := newFloatVariable(t, strategy, 1, VariableOptions{})
	value := perReplicaFloats(t, strategy, 10, 20)
	args := must[Value](t)(Tuple(value))
	defer args.Close()
	var kept *UpdateContext
	ids := must[Value](t)(strategy.Update(context.Background(), variable,
		func(update *UpdateContext, args Value) (Value, error) {
			kept = update
			delta, err := args.At(1)
			if err != nil {
				return Value{}, err
			}
			defer delta.Close()
			if err := addTo(update, variable, delta); err != nil {
				return Value{}, err
			}
			if _, err := strategy.Run(update, func(*ReplicaContext, Value) (Value, error) {
				return Value{}, nil
			}, Value{}); !errors.Is(err, ErrFailedPrecondition) {
				t.Error(err)
			}
			return OfScalar(float32(update.UpdateReplicaID()))
		}, args, UpdateOptions{}))
	defer ids.Close()
	if got := localFloats(t, strategy, ids); !reflect.DeepEqual(got, []float64{0, 1}) {
		t.Fatal(got)
	}
	if got := copiesOf(t, strategy, variable); !reflect.DeepEqual(got, []float64{11, 21}) {
		t.Fatal(got)
	}
	if kept.UpdateReplicaID() != -1 || kept.Device() != "" {
		t.Fatal("an update context that has ended still answers")
	}
	each := must[Value](t)(strategy.Update(nil, variable,
		func(update *UpdateContext, args Value) (Value, error) { return OfText(update.Device()) },
		Value{}, UpdateOptions{Ungrouped: true}))
	defer each.Close()
	if each.Len() != 2 {
		t.Fatal(each)
	}
	names := must[Value](t)(Tuple(device(t, must[[]string](t)(strategy.NonSlotDevices(variable))[1])))
	defer names.Close()
	there := must[Value](t)(strategy.UpdateNonSlot(nil, names,
		func(update *UpdateContext, args Value) (Value, error) { return OfText(update.Device()) },
		Value{}, UpdateOptions{}))
	defer there.Close()
	if text := must[string](t)(there.Text()); text != "CPU:1" {
		t.Fatal(text)
	}
	other := twoReplicas(t)
	if !strategy.CreatedVariable(variable) || other.CreatedVariable(variable) {
		t.Fatal("whose variable is it?")
	}
	if err := strategy.ColocateVariablesWith(variable); err != nil {
		t.Fatal(err)
	}
	expectError(t, other.ColocateVariablesWith(variable), ErrInvalidArgument, "belongs to strategy")
	_, err := other.NonSlotDevices(variable)
	expectError(t, err, ErrInvalidArgument, "another strategy")
	same := must[Value](t)(strategy.CallForEachReplica(nil,
		func(r *ReplicaContext, args Value) (Value, error) {
			return OfScalar(float32(r.ReplicaID()))
		}, Value{}))
	defer same.Close()
}

// lastOne gives what the last replica has, or an error.
type lastOne struct {
	mutex sync.Mutex
	asked []string
	fails error
}

func (l *lastOne) ReduceImplementation(strategy *Strategy, op ReduceOp, value, destinations Value,
	options CommunicationOptions) (Value, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.asked = append(l.asked, "reduce")
	if l.fails != nil {
		return Value{}, l.fails
	}
	parts, err := strategy.LocalResults(value)
	if err != nil {
		return Value{}, err
	}
	return parts[len(parts)-1], nil
}

func (l *lastOne) BatchReduceImplementation(strategy *Strategy, op ReduceOp,
	pairs []ValueAndDestinations, options CommunicationOptions) ([]Value, error) {
	results := make([]Value, len(pairs))
	for i, pair := range pairs {
		var err error
		if results[i], err = l.ReduceImplementation(strategy, op, pair.Value, pair.Destinations,
			options); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (l *lastOne) BroadcastImplementation(strategy *Strategy, tensor,
	destinations Value) (Value, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.asked = append(l.asked, "broadcast")
	return tensor.Keep()
}

func TestOpsOfAProgramReduceEverywhere(t *testing.T) {
	ops := &lastOne{}
	strategy := must[*Strategy](t)(defaultRuntime.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0", "CPU:1"}, CrossDeviceOps: ops}))
	defer strategy.Close()
	value := perReplicaFloats(t, strategy, 1, 5)
	sum := must[Value](t)(strategy.Reduce(nil, Sum, value))
	defer sum.Close()
	if got := must[float64](t)(sum.Float64()); got != 5 {
		t.Fatal(got)
	}
	both := must[[]Value](t)(strategy.BatchReduceTo(nil, Mean, []ValueAndDestinations{
		{value, value}, {value, device(t, "CPU:0")}}))
	if got := localFloats(t, strategy, both[0]); !reflect.DeepEqual(got, []float64{5, 5}) {
		t.Fatal(got)
	}
	seven := must[Value](t)(OfScalar(float32(7)))
	defer seven.Close()
	copies := must[Value](t)(strategy.BroadcastTo(nil, seven, value))
	defer copies.Close()
	if got := localFloats(t, strategy, copies); !reflect.DeepEqual(got, []float64{7, 7}) {
		t.Fatal(got)
	}
	variable := newFloatVariable(t, strategy, 0, VariableOptions{Name: "w",
		Aggregation: AggregateSum})
	sums := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, args Value) (Value, error) {
		own, err := OfScalar(float32(r.ReplicaID()))
		if err != nil {
			return Value{}, err
		}
		if err := addTo(r, variable, own); err != nil {
			return Value{}, err
		}
		largest, err := r.AllReduce(Max, own)
		if err != nil {
			return Value{}, err
		}
		largest.Close()
		return r.AllReduce(Sum, own)
	}, Value{}))
	defer sums.Close()
	got := append(localFloats(t, strategy, sums), copiesOf(t, strategy, variable)...)
	if !reflect.DeepEqual(got, []float64{1, 1, 1, 1}) {
		t.Fatal(got)
	}
	told := must[string](t)(strategy.Explain())
	for _, line := range []string{"lastOne, as given", "all_reduce SUM of float32[]: 1 time",
		"all_reduce MAX of float32[]: 1 time"} {
		if !strings.Contains(told, line) {
			t.Fatal(told)
		}
	}
	ops.mutex.Lock()
	if !reflect.DeepEqual(ops.asked, []string{"reduce", "reduce", "reduce", "broadcast", "reduce",
		"reduce", "reduce"}) {
		t.Error(ops.asked)
	}
	ops.fails = invalidArgument("no ops today")
	ops.mutex.Unlock()
	_, err := strategy.Reduce(nil, Sum, value)
	expectError(t, err, ErrInvalidArgument, "no ops today")
	_, err = Reduce(nil, ops, strategy, Sum, value, value)
	expectError(t, err, ErrInvalidArgument, "no ops today")
}

// wideOps give another shape than the replicas' values have.
type wideOps struct{}

func (wideOps) ReduceImplementation(strategy *Strategy, op ReduceOp, value, destinations Value,
	options CommunicationOptions) (Value, error) {
	tensor, err := TensorOf([]float32{1, 2})
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	return OfTensor(tensor)
}

func TestBadInputIsNamed(t *testing.T) {
	strategy := twoReplicas(t)
	other := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1", "CPU:2"))
	defer other.Close()
	_, err := strategy.Reduce(nil, Sum, perReplicaFloats(t, other, 1, 2, 3))
	expectError(t, err, ErrInvalidArgument, "3 components, and the strategy has 2 replicas")
	value := perReplicaFloats(t, strategy, 1, 5)
	_, err = strategy.Gather(nil, value, 1)
	expectError(t, err, ErrInvalidArgument, "axis")
	_, err = NewMirroredStrategy("CPU:0", "CPU:0")
	expectError(t, err, ErrInvalidArgument, "name each device once")
	_, err = NewMirroredStrategy("CPU:0", "GPU:77")
	expectError(t, err, ErrInvalidArgument, "GPU:77")
	_, err = Reduce(nil, wideOps{}, strategy, Sum, value, value)
	expectError(t, err, ErrInvalidArgument, "expected float32[]")
}

// heldOps wait until the test lets them go.
type heldOps struct {
	letGo chan struct{}
	ended sync.WaitGroup
}

func (h *heldOps) ReduceImplementation(strategy *Strategy, op ReduceOp, value, destinations Value,
	options CommunicationOptions) (Value, error) {
	h.ended.Add(1)
	defer h.ended.Done()
	<-h.letGo
	parts, err := strategy.LocalResults(value)
	if err != nil {
		return Value{}, err
	}
	return parts[0], nil
}

func TestOpsThatDoNotComeBackFreeTheirCallersAtTheDeadline(t *testing.T) {
	ops := &heldOps{letGo: make(chan struct{})}
	func() {
		strategy := must[*Strategy](t)(defaultRuntime.NewMirroredStrategy(nil,
			StrategyOptions{Devices: []string{"CPU:0", "CPU:1"}, CrossDeviceOps: ops}))
		defer strategy.Close()
		value := perReplicaFloats(t, strategy, 1, 5)
		variable := newFloatVariable(t, strategy, 4, VariableOptions{Name: "w",
			Aggregation: AggregateSum})
		own := must[Value](t)(OfScalar(float32(1)))
		defer own.Close()
		for part, call := range map[string]func(context.Context) error{
			"reduce: tutti.heldOps": func(ctx context.Context) error {
				_, err := strategy.Reduce(ctx, Sum, value)
				return err
			},
			"all_reduce: tutti.heldOps": func(ctx context.Context) error {
				_, err := strategy.Run(ctx, func(r *ReplicaContext, args Value) (Value, error) {
					return r.AllReduce(Min, own)
				}, Value{})
				return err
			},
			"assign_add of variable 'w': tutti.heldOps": func(ctx context.Context) error {
				_, err := strategy.Run(ctx, func(r *ReplicaContext, args Value) (Value, error) {
					return Value{}, addTo(r, variable, own)
				}, Value{})
				return err
			},
		} {
			// Where the replicas have not met by the deadline, the message is about that.
			var err error
			for limit := 20 * time.Millisecond; limit < time.Minute; limit *= 2 {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				err = call(ctx)
				cancel()
				if err == nil || strings.Contains(err.Error(), part) {
					break
				}
			}
			expectError(t, err, ErrDeadlineExceeded, part)
		}
		if got := copiesOf(t, strategy, variable); !reflect.DeepEqual(got, []float64{4, 4}) {
			t.Fatal(got)
		}
	}()
	close(ops.letGo)
	ops.ended.Wait()
}

func TestTheLibrarysOpsReduce(t *testing.T) {
	strategy := twoReplicas(t)
	value := perReplicaFloats(t, strategy, 1, 2)
	all := []CrossDeviceOps{nil, AutoDeviceOps, ReductionToOneDevice,
		must[CrossDeviceOps](t)(NewReductionToOneDevice("CPU:1", nil)),
		must[CrossDeviceOps](t)(NewHierarchicalCopyAllReduce(0)),
		must[CrossDeviceOps](t)(NewNcclAllReduce(1))}
	for _, ops := range all {
		sum := must[Value](t)(Reduce(nil, ops, strategy, Sum, value, value))
		pair := must[[]Value](t)(BatchReduce(nil, ops, strategy, Mean,
			[]ValueAndDestinations{{value, device(t, "CPU:0")}}))
		copies := must[Value](t)(Broadcast(nil, ops, strategy, pair[0], value))
		got := append(localFloats(t, strategy, sum), localFloats(t, strategy, copies)...)
		if !reflect.DeepEqual(got, []float64{3, 3, 1.5, 1.5}) {
			t.Fatal(ops, got)
		}
		sum.Close()
		copies.Close()
	}
	last := must[CrossDeviceOps](t)(NewReductionToOneDevice("",
		func(tensors []Value) (Value, error) { return tensors[len(tensors)-1].Keep() }))
	two := must[Value](t)(Reduce(nil, last, strategy, Sum, value, device(t, "CPU:0")))
	defer two.Close()
	if got := must[float64](t)(two.Float64()); got != 2 {
		t.Fatal(got)
	}
	_, err := NewHierarchicalCopyAllReduce(-1)
	expectError(t, err, ErrInvalidArgument, "num_packs is -1")
	_, err = NewNcclAllReduce(-1)
	expectError(t, err, ErrInvalidArgument, "num_packs is -1")
}

func TestCentralStorage(t *testing.T) {
	strategy := must[*Strategy](t)(defaultRuntime.NewCentralStorageStrategy(nil, "CPU:2",
		StrategyOptions{Devices: []string{"CPU:0", "CPU:1"}}))
	defer strategy.Close()
	variable := newFloatVariable(t, strategy, 1, VariableOptions{Aggregation: AggregateSum})
	done := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, args Value) (Value, error) {
		own, err := OfScalar(float32(r.ReplicaID() + 1))
		if err != nil {
			return Value{}, err
		}
		return Value{}, addTo(r, variable, own)
	}, Value{}))
	defer done.Close()
	if got := copiesOf(t, strategy, variable); !reflect.DeepEqual(got, []float64{4}) {
		t.Fatal(got)
	}
	if got := strategy.ParameterDevices(); !reflect.DeepEqual(got,
		[]string{"/job:localhost/replica:0/task:0/device:CPU:2"}) {
		t.Fatal(got)
	}
	one := must[*Strategy](t)(NewCentralStorageStrategy())
	defer one.Close()
	if one.NumReplicasInSync() != 1 || one.TypeName() != "CentralStorageStrategy" {
		t.Fatal(one.TypeName())
	}
}
