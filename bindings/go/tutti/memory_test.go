package tutti

import (
	"reflect"
	"strings"
	"testing"
)

func TestForeignMemoryIsWrappedAndReleasedOnce(t *testing.T) {
	memory := must[*Tensor](t)(TensorOf([]int32{1, 2, 3, 4, 5, 6}))
	defer memory.Close()
	released := make(chan struct{}, 9)
	told := func() { released <- struct{}{} }
	own := must[*Runtime](t)(NewRuntime(nil))
	tensor := must[*Tensor](t)(own.Wrap(pointerAt(memory.Address()), memory.ByteSize(), Int32,
		[]int64{3, 2}, WrapOptions{Strides: []int64{1, 3}, Release: told}))
	if tensor.Address() != memory.Address() || tensor.IsContiguous() ||
		!reflect.DeepEqual(tensor.Strides(), []int64{1, 3}) {
		t.Fatal(tensor)
	}
	copied := must[*Tensor](t)(tensor.Copy())
	got := must[[]int32](t)(Slice[int32](copied))
	if !reflect.DeepEqual(got, []int32{1, 4, 2, 5, 3, 6}) {
		t.Fatal(got)
	}
	view := must[*Tensor](t)(tensor.Cut(0, 0, 1))
	tensor.Close()
	select {
	case <-released:
		t.Fatal("released below a view")
	default:
	}
	view.Close()
	<-released
	_, err := own.Wrap(pointerAt(memory.Address()), 4, Int32, []int64{3, 2},
		WrapOptions{Release: told})
	wants(t, err, ErrInvalidArgument)
	<-released
	_, err = own.Wrap(pointerAt(memory.Address()), 24, Int32, []int64{3, 2},
		WrapOptions{Strides: []int64{1}, Release: told})
	wants(t, err, ErrInvalidArgument)
	<-released
	own.Close()
	_, err = own.Wrap(pointerAt(memory.Address()), 24, Int32, []int64{3, 2},
		WrapOptions{Release: told})
	wants(t, err, ErrFailedPrecondition)
	<-released
	if len(released) != 0 {
		t.Fatal("released twice")
	}
}

func TestDLPackGoesOutAndInWithoutACopy(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]float64{1, 2, 3}))
	address := tensor.Address()
	for _, form := range []DLPack{DLPackVersioned, DLPackUnversioned} {
		out, err := form.Export(tensor, false)
		if err != nil {
			t.Fatal(err)
		}
		in := must[*Tensor](t)(form.Import(out))
		if in.Address() != address || !in.Equal(tensor) {
			t.Fatal(in)
		}
		in.Close()
		if out, err = form.Export(tensor, true); err != nil {
			t.Fatal(err)
		}
		own := must[*Runtime](t)(NewRuntime(nil))
		copied := must[*Tensor](t)(form.ImportIn(own, out))
		if copied.Address() == address || !copied.Equal(tensor) {
			t.Fatal(copied)
		}
		copied.Close()
		own.Close()
		if out, err = form.Export(tensor, false); err != nil {
			t.Fatal(err)
		}
		form.Delete(out)
		form.Delete(nil)
		_, err = form.Import(nil)
		wants(t, err, ErrInvalidArgument)
	}
	// What was given out holds the memory.
	out, err := DLPackVersioned.Export(tensor, false)
	if err != nil {
		t.Fatal(err)
	}
	tensor.Close()
	in := must[*Tensor](t)(DLPackVersioned.Import(out))
	defer in.Close()
	if got := must[[]float64](t)(Slice[float64](in)); got[2] != 3 || in.Address() != address {
		t.Fatal(got)
	}
	texts := must[*Tensor](t)(StringTensor([]string{"a"}))
	_, err = DLPackVersioned.Export(texts, false)
	wants(t, err, ErrInvalidArgument)
}

func TestTensorsAreMadeInARuntime(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(map[string]string{"memory_limit": "1000000"}))
	defer own.Close()
	small := must[*Tensor](t)(own.NewTensor(Float32, 10))
	defer small.Close()
	if small.ByteSize() != 40 || Float32.Size() != 4 || Float32.String() != "float32" {
		t.Fatal(small.ByteSize())
	}
	_, err := own.NewTensor(Float32, 1000, 1000)
	wants(t, err, ErrResourceExhausted)
	_, err = TensorIn(own, make([]float64, 1000000))
	wants(t, err, ErrResourceExhausted)
	_, err = own.StringTensor([]string{strings.Repeat("x", 1<<20)})
	wants(t, err, ErrResourceExhausted)
	texts := must[*Tensor](t)(own.StringTensor([]string{"a", "b"}, 2, 1))
	defer texts.Close()
	if got := must[[]string](t)(texts.Strings()); got[1] != "b" {
		t.Fatal(got)
	}
	target := must[*Tensor](t)(own.NewTensor(Float32, 10))
	defer target.Close()
	must[[]float32](t)(MutableSlice[float32](small))[3] = 5
	if err := small.CopyTo(target); err != nil || !target.Equal(small) {
		t.Fatal(err)
	}
}

func TestLeavesOfValuesAndSpecs(t *testing.T) {
	one, two := must[Value](t)(OfInt64(1)), must[Value](t)(Of([]float32{1, 2}))
	inner := must[Value](t)(Tuple(one, two))
	value := must[Value](t)(Dict(map[string]Value{"é": one, "z": inner, "a": two}))
	leaves := must[[]Value](t)(value.Leaves())
	kinds := []string{}
	for _, leaf := range leaves {
		kinds = append(kinds, leaf.String())
	}
	if len(leaves) != 4 || kinds[0] != two.String() || kinds[1] != one.String() {
		t.Fatal(kinds)
	}
	// In the order of bytes.
	if keys := value.Keys(); !reflect.DeepEqual(keys, []string{"a", "z", "é"}) {
		t.Fatal(keys)
	}
	same := must[Value](t)(value.WithLeaves(one, one, one, one))
	if !same.HasStructureOf(value) || same.HasStructureOf(inner) {
		t.Fatal(same)
	}
	_, err := value.WithLeaves(one)
	wants(t, err, ErrInvalidArgument)
	if got := must[[]Value](t)(Value{}.Leaves()); len(got) != 1 {
		t.Fatal(got)
	}

	text := must[*Spec](t)(TensorSpec(Bytes))
	specs := must[*Spec](t)(NamedTupleSpec("Row", []string{"x", "y", "n", "u"},
		must[*Spec](t)(OptionalSpec(text)), must[*Spec](t)(DatasetSpec(text)), must[*Spec](t)(NoneSpec()),
		must[*Spec](t)(TensorSpecOfUnknownRank(Int8))))
	parts := must[[]LeafSpec](t)(specs.Leaves())
	if parts[0].Kind != KindOptional || !parts[0].Inner.Equal(text) || parts[1].Kind != KindDataset ||
		parts[2].Kind != KindNone || parts[3].Kind != KindTensor || parts[3].Dims != nil ||
		parts[3].DType != Int8 {
		t.Fatal(specs, parts)
	}
	batch := must[*Spec](t)(TensorSpec(Float32, UnknownDimension, 3))
	if parts = must[[]LeafSpec](t)(batch.Leaves()); !reflect.DeepEqual(parts[0].Dims, []int64{-1, 3}) {
		t.Fatal(parts)
	}
}

func TestAReplicaKnowsItsStrategyAndRuntime(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	strategy := must[*Strategy](t)(own.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0"}}))
	initial := must[*Tensor](t)(TensorOf([]float32{1}))
	variable := must[*Variable](t)(strategy.NewVariable(nil, initial, VariableOptions{}))
	same := must[*Strategy](t)(variable.Strategy())
	defer same.o.close() // the reference only
	if _, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		mine, err := r.Strategy()
		if err != nil {
			return Value{}, err
		}
		runtime, err := r.Runtime()
		if err != nil {
			return Value{}, err
		}
		if mine.o.pointer.Load() != strategy.o.pointer.Load() ||
			same.o.pointer.Load() != strategy.o.pointer.Load() ||
			runtime.o.pointer.Load() != own.o.pointer.Load() {
			t.Error("another one")
		}
		tensor, err := TensorIn(runtime, []float32{1})
		if err != nil {
			return Value{}, err
		}
		return OfTensor(tensor)
	}, Value{}); err != nil {
		t.Fatal(err)
	}
}
