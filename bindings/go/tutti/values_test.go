package tutti

import (
	"reflect"
	"strings"
	"testing"
)

func float32s(t *testing.T, tensor *Tensor, err error) []float32 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer tensor.Close()
	return append([]float32(nil), must[[]float32](t)(Slice[float32](tensor))...)
}

// wantsText wants the code, and a message with a part.
func wantsText(t *testing.T, err error, code Code, part string) {
	t.Helper()
	wants(t, err, code)
	if !strings.Contains(err.Error(), part) {
		t.Fatalf("no %q in %v", part, err)
	}
}

func slicesOf(t *testing.T, values []float32, indices ...int64) Value {
	t.Helper()
	return must[Value](t)(IndexedSlices(must[*Tensor](t)(TensorOf(values)),
		must[*Tensor](t)(TensorOf(indices)), nil))
}

func table(t *testing.T, strategy *Strategy, options VariableOptions, rows ...float32) *Variable {
	t.Helper()
	made := must[*Variable](t)(strategy.NewVariable(nil, must[*Tensor](t)(TensorOf(rows)), options))
	t.Cleanup(func() { made.Close() })
	return made
}

func TestWhatIsEqualIsReadAsTheValue(t *testing.T) {
	strategy := twoReplicas(t)
	mirrored := must[Value](t)(strategy.Mirrored(must[Value](t)(OfFloat64(2.5))))
	differs := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		return OfInt64(int64(r.ReplicaID()))
	}, Value{}))
	if mirrored.Distribution() != DistributedMirrored || mirrored.Kind() != KindPerReplica ||
		differs.Distribution() != DistributedPerReplica || (Value{}).Distribution() != 0 {
		t.Fatal(mirrored, differs)
	}
	if got := mirrored.String(); got != "Mirrored:{0: 2.5, 1: 2.5}" {
		t.Fatal(got)
	}
	if got := must[float64](t)(mirrored.Float64()); got != 2.5 {
		t.Fatal(got)
	}
	_, err := differs.Int64()
	wants(t, err, ErrInvalidArgument)
	if got := must[[]Value](t)(strategy.LocalResults(mirrored)); len(got) != 2 {
		t.Fatal(got)
	}
	sum := must[Value](t)(strategy.Reduce(nil, Sum, mirrored))
	if got := must[float64](t)(sum.Float64()); got != 5 {
		t.Fatal(got)
	}
	_, err = strategy.Mirrored(mirrored)
	wantsText(t, err, ErrInvalidArgument, "component per replica already")
}

func TestVariablesSayWhatTheyAreAndWhereTheyArePlaced(t *testing.T) {
	strategy := twoReplicas(t)
	variable := table(t, strategy, VariableOptions{}, 1)
	if variable.Distribution() != DistributedMirrored || !reflect.DeepEqual(variable.CopyDevices(),
		[]string{"/job:localhost/replica:0/task:0/device:CPU:0",
			"/job:localhost/replica:0/task:0/device:CPU:1"}) {
		t.Fatal(variable.Distribution(), variable.CopyDevices())
	}
	onRead := table(t, strategy, VariableOptions{Synchronization: SyncOnRead}, 1)
	if onRead.Distribution() != DistributedSyncOnRead {
		t.Fatal(onRead)
	}
}

func TestAMirroredValueHasTheSpecOfItsComponents(t *testing.T) {
	strategy := twoReplicas(t)
	two := must[Value](t)(OfTensor(must[*Tensor](t)(TensorOf([]float32{1, 2}))))
	mirrored := must[Value](t)(strategy.Mirrored(two))
	component := must[*Spec](t)(SpecOf(two))
	want := must[*Spec](t)(PerReplicaSpec(component, component))
	if got := must[*Spec](t)(SpecOf(mirrored)); !got.Equal(want) {
		t.Fatal(got, want)
	}
}

func TestTheFirstValueFitsTheShape(t *testing.T) {
	strategy := twoReplicas(t)
	variable := table(t, strategy, VariableOptions{Shape: []int64{-1}}, 1, 2)
	one := must[*Tensor](t)(TensorOf([]float32{1}))
	if err := variable.Assign(nil, one); err != nil {
		t.Fatal(err)
	}
	if got := must[*Tensor](t)(variable.Read(nil)); !got.Equal(one) {
		t.Fatal(got)
	}
	if got := variable.Dims(); !reflect.DeepEqual(got, []int64{-1}) {
		t.Fatal(got)
	}
	scalar := must[*Tensor](t)(Scalar(float32(1)))
	wantsText(t, variable.Assign(nil, scalar), ErrInvalidArgument,
		"keeps the shape of its initial value")
	two := must[*Tensor](t)(TensorOf([]float32{1, 2}))
	wantsText(t, variable.AssignAdd(nil, two), ErrInvalidArgument, "holds a value of shape [1]")
	_, err := variable.Data(nil)
	wantsText(t, err, ErrInvalidArgument, "changing shapes")
	any := table(t, strategy, VariableOptions{Shape: AnyShape}, 1, 2)
	if err := any.Assign(nil, scalar); err != nil || any.Dims() != nil {
		t.Fatal(err, any.Dims())
	}
	fixed := table(t, strategy, VariableOptions{}, 1, 2)
	wantsText(t, fixed.Assign(nil, one), ErrInvalidArgument, "keeps the shape of its initial value")
	_, err = strategy.NewVariable(nil, must[*Tensor](t)(TensorOf([]float32{1})),
		VariableOptions{Shape: []int64{}})
	wantsText(t, err, ErrInvalidArgument, "[1]")
}

func TestByteStringsAreAssignedAndRead(t *testing.T) {
	strategy := twoReplicas(t)
	names := must[*Variable](t)(strategy.NewVariable(nil,
		must[*Tensor](t)(StringTensor([]string{"a", "b"})),
		VariableOptions{Aggregation: AggregateOnlyFirstReplica}))
	defer names.Close()
	longer := must[*Tensor](t)(StringTensor([]string{"longer than before", ""}))
	if err := names.Assign(nil, longer); err != nil {
		t.Fatal(err)
	}
	got := must[*Tensor](t)(names.Read(nil))
	if texts := must[[]string](t)(got.Strings()); texts[0] != "longer than before" {
		t.Fatal(texts)
	}
	wantsText(t, names.AssignAdd(nil, longer), ErrInvalidArgument, "assigned only")
	_, err := names.Data(nil)
	wantsText(t, err, ErrInvalidArgument, "byte strings")
}

func TestReplicasMakeOneVariableTogether(t *testing.T) {
	strategy := twoReplicas(t)
	step := func(name string, initial ...*Tensor) func(r *ReplicaContext, _ Value) (Value, error) {
		return func(r *ReplicaContext, _ Value) (Value, error) {
			tensor := initial[r.ReplicaID()]
			of, err := r.Strategy()
			if err != nil {
				return Value{}, err
			}
			variable, err := of.NewVariable(r, tensor,
				VariableOptions{Name: name, Aggregation: AggregateSum})
			if err != nil {
				return Value{}, err
			}
			if err := variable.AssignAdd(r, tensor); err != nil {
				return Value{}, err
			}
			return OfVariable(variable)
		}
	}
	five := must[*Tensor](t)(TensorOf([]float32{5}))
	six := must[*Tensor](t)(TensorOf([]float32{6}))
	wide := must[*Tensor](t)(TensorOf([]float64{6}))
	made := must[Value](t)(strategy.Run(nil, step("made", five, six), Value{}))
	variable := must[*Variable](t)(made.Variable())
	defer variable.Close()
	tensor, err := variable.Read(nil)
	if got := float32s(t, tensor, err); got[0] != 16 || variable.Name() != "made" {
		t.Fatal(got, variable.Name())
	}
	_, err = strategy.Run(nil, step("w", five, wide), Value{})
	wantsText(t, err, ErrInvalidArgument, "replica 1 makes 'w' float64[1]")
}

func TestSparseUpdatesChangeRowsByTheirIndex(t *testing.T) {
	strategy := twoReplicas(t)
	delta := slicesOf(t, []float32{8, 2, 4}, 2, 0, 2)
	if !delta.IsIndexedSlices() || delta.IsSparse() {
		t.Fatal(delta)
	}
	for how, expected := range map[Scatter][]float32{
		ScatterAdd: {5, 5, 24}, ScatterSub: {1, 5, 0}, ScatterUpdate: {2, 5, 4},
		ScatterMin: {2, 5, 4}, ScatterMax: {3, 5, 12}, ScatterMul: {6, 5, 384},
		ScatterDiv: {1.5, 5, .375}} {
		variable := table(t, strategy, VariableOptions{}, 3, 5, 12)
		if err := variable.Scatter(nil, how, delta); err != nil {
			t.Fatal(err)
		}
		tensor, err := variable.Read(nil)
		if got := float32s(t, tensor, err); !reflect.DeepEqual(got, expected) {
			t.Fatal(how, got, expected)
		}
	}
	variable := table(t, strategy, VariableOptions{Name: "table"}, 3, 5, 12)
	wantsText(t, variable.Scatter(nil, ScatterAdd, slicesOf(t, []float32{1}, 3)), ErrInvalidArgument,
		"'table': index 3 is outside of the 3 rows")
	wantsText(t, variable.Scatter(nil, 9, delta), ErrInvalidArgument, "no sparse update")
	wantsText(t, variable.Scatter(nil, ScatterAdd, must[Value](t)(OfInt64(1))), ErrInvalidArgument,
		"indexed slices")
	_, err := IndexedSlices(must[*Tensor](t)(TensorOf([]float32{1})),
		must[*Tensor](t)(TensorOf([]int64{4})), must[*Tensor](t)(TensorOf([]int64{4})))
	wantsText(t, err, ErrInvalidArgument, "outside of their dense_shape")
}

func TestSlicesOfReplicasMeet(t *testing.T) {
	strategy := twoReplicas(t)
	variable := table(t, strategy, VariableOptions{Aggregation: AggregateMean}, 0, 0)
	gradients := must[Value](t)(strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		values, err := TensorOf([]float32{float32(r.ReplicaID() + 1)})
		if err != nil {
			return Value{}, err
		}
		indices, err := TensorOf([]int64{int64(r.ReplicaID())})
		if err != nil {
			return Value{}, err
		}
		mine, err := IndexedSlices(values, indices, nil)
		if err != nil {
			return Value{}, err
		}
		if err := variable.Scatter(r, ScatterAdd, mine); err != nil {
			return Value{}, err
		}
		return mine, nil
	}, Value{}))
	tensor, err := variable.Read(nil)
	if got := float32s(t, tensor, err); !reflect.DeepEqual(got, []float32{.5, 1}) {
		t.Fatal(got)
	}
	sum := must[Value](t)(strategy.Reduce(nil, Sum, gradients))
	if got := sum.String(); got !=
		"tutti.IndexedSlices(values=[1 2], indices=[0 1], dense_shape=None)" {
		t.Fatal(got)
	}
}
