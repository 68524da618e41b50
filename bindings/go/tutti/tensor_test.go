package tutti

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(made T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

func wants(t *testing.T, err error, code Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("wanted %v, got %v", code, err)
	}
	var full *Error
	if !errors.As(err, &full) || full.Message == "" {
		t.Fatalf("no *Error with a message: %v", err)
	}
}

func TestASliceIsTheTensorsMemory(t *testing.T) {
	tensor := must[*Tensor](t)(NewTensor(Float32, 2, 3))
	defer tensor.Close()
	written := must[[]float32](t)(MutableSlice[float32](tensor))
	written[4] = 7
	read := must[[]float32](t)(Slice[float32](tensor))
	if read[4] != 7 || len(read) != 6 {
		t.Fatal(read)
	}
	if address := uintptr(unsafe.Pointer(&read[0])); address != tensor.Address() {
		t.Fatalf("%x is not %x", address, tensor.Address())
	}
	if !reflect.DeepEqual(tensor.Dims(), []int64{2, 3}) || tensor.DType() != Float32 {
		t.Fatal(tensor)
	}
	// The same memory through a value.
	value := must[Value](t)(OfTensor(tensor))
	defer value.Close()
	again := must[*Tensor](t)(value.Tensor())
	if again.Address() != tensor.Address() {
		t.Fatal("a value copies its tensor")
	}
}

func TestASliceOfAnotherTypeIsAnError(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]int64{1, 2, 3}))
	defer tensor.Close()
	_, err := Slice[float32](tensor)
	wants(t, err, ErrInvalidArgument)
	_, err = tensor.Strings()
	wants(t, err, ErrInvalidArgument)
	_, err = tensor.Float64()
	wants(t, err, ErrInvalidArgument)
}

func TestASliceOfATensorWithGapsIsAnError(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]int32{1, 2, 3, 4, 5, 6}, 3, 2))
	defer tensor.Close()
	column := must[*Tensor](t)(tensor.Cut(1, 0, 1))
	defer column.Close()
	_, err := Slice[int32](column)
	wants(t, err, ErrInvalidArgument)
	copied := must[*Tensor](t)(column.Copy())
	defer copied.Close()
	if got := must[[]int32](t)(Slice[int32](copied)); !reflect.DeepEqual(got, []int32{1, 3, 5}) {
		t.Fatal(got)
	}
}

func TestAClosedTensorIsAnError(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]float64{1}))
	tensor.Close()
	tensor.Close()
	_, err := Slice[float64](tensor)
	wants(t, err, ErrFailedPrecondition)
	_, err = OfTensor(tensor)
	wants(t, err, ErrFailedPrecondition)
	_, err = OfTensor(nil)
	wants(t, err, ErrInvalidArgument)
	if tensor.Len() != 0 || tensor.Dims() != nil || tensor.String() == "" {
		t.Fatal(tensor)
	}
}

func TestAViewHoldsTheMemoryOfATensorThatIsClosed(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]uint16{4, 5}))
	err := View(tensor, func(elements []uint16) error {
		tensor.Close()
		if elements[1] != 5 {
			t.Error(elements)
		}
		return errors.New("from within")
	})
	if err == nil || err.Error() != "from within" {
		t.Fatal(err)
	}
}

func TestTensorsOfStrings(t *testing.T) {
	texts := []string{"", "one", "zwei\x00drei"}
	tensor := must[*Tensor](t)(StringTensor(texts))
	defer tensor.Close()
	if got := must[[]string](t)(tensor.Strings()); !reflect.DeepEqual(got, texts) {
		t.Fatal(got)
	}
}

func TestTensorsAreDerived(t *testing.T) {
	tensor := must[*Tensor](t)(TensorOf([]float64{1.9, -2.9, 3}))
	defer tensor.Close()
	cast := must[*Tensor](t)(tensor.Cast(Int64))
	defer cast.Close()
	if got := must[[]int64](t)(Slice[int64](cast)); !reflect.DeepEqual(got, []int64{1, -2, 3}) {
		t.Fatal(got)
	}
	reshaped := must[*Tensor](t)(tensor.Reshape(3, -1))
	defer reshaped.Close()
	if !reflect.DeepEqual(reshaped.Dims(), []int64{3, 1}) || reshaped.Equal(tensor) {
		t.Fatal(reshaped)
	}
	_, err := tensor.Reshape(2)
	wants(t, err, ErrInvalidArgument)
	_, err = tensor.Cut(0, 2, 9)
	wants(t, err, ErrOutOfRange)
}

func TestNumbersHaveGosOwnDTypes(t *testing.T) {
	for _, made := range []struct {
		value Value
		dtype DType
	}{
		{must[Value](t)(OfScalar(5)), Int64},
		{must[Value](t)(OfScalar(int32(5))), Int32},
		{must[Value](t)(OfScalar(float32(5))), Float32},
		{must[Value](t)(OfScalar(5.0)), Float64},
		{must[Value](t)(Of([]int{5})), Int64},
	} {
		tensor := must[*Tensor](t)(made.value.Tensor())
		if number, err := tensor.Float64(); tensor.DType() != made.dtype || number != 5 || err != nil {
			t.Fatal(tensor, err)
		}
	}
	ints := must[[]int](t)(Slice[int](must[*Tensor](t)(TensorOf([]int64{1, 2}))))
	if !reflect.DeepEqual(ints, []int{1, 2}) {
		t.Fatal(ints)
	}
}

func TestTensorsAreConvertedToDTypesThatHoldThem(t *testing.T) {
	numbers := must[*Tensor](t)(TensorOf([]int{1, 300}))
	floats := must[*Tensor](t)(numbers.Convert(Float32))
	if got := must[[]float32](t)(Slice[float32](floats)); got[1] != 300 {
		t.Fatal(got)
	}
	_, err := numbers.Convert(Uint8)
	wants(t, err, ErrInvalidArgument)
	if !strings.Contains(err.Error(), "300 does not fit into uint8") {
		t.Fatal(err)
	}
}

func TestValuesNest(t *testing.T) {
	image := must[Value](t)(Of([]float32{1, 2}))
	number := must[Value](t)(OfInt64(3))
	text := must[Value](t)(OfText("drei"))
	pair := must[Value](t)(Tuple(number, Value{}))
	named := must[Value](t)(NamedTuple("Point", []string{"x", "y"}, number, text))
	dict := must[Value](t)(Dict(map[string]Value{"image": image, "b": pair, "p": named}))
	defer dict.Close()
	for _, part := range []Value{image, number, text, pair, named} {
		part.Close() // children are the dict's now
	}
	if keys := dict.Keys(); !reflect.DeepEqual(keys, []string{"b", "image", "p"}) {
		t.Fatal(keys)
	}
	tensor := must[*Tensor](t)(dict.TensorAt("image"))
	if got := must[[]float32](t)(Slice[float32](tensor)); got[1] != 2 {
		t.Fatal(got)
	}
	b := must[Value](t)(dict.Get("b"))
	if b.Kind() != KindTuple || b.Len() != 2 {
		t.Fatal(b)
	}
	none := must[Value](t)(b.At(1))
	if none.Kind() != KindNone {
		t.Fatal(none)
	}
	three := must[Value](t)(dict.Get("p/x"))
	if got := must[int64](t)(three.Int64()); got != 3 {
		t.Fatal(got)
	}
	p := must[Value](t)(dict.Get("p"))
	if p.TypeName() != "Point" || !reflect.DeepEqual(p.Keys(), []string{"x", "y"}) {
		t.Fatal(p)
	}
	_, err := dict.Get("nothing")
	wants(t, err, ErrNotFound)
	_, err = b.At(2)
	wants(t, err, ErrOutOfRange)
	_, err = b.Tensor()
	wants(t, err, ErrInvalidArgument)
	_, err = Tuple(image)
	wants(t, err, ErrFailedPrecondition)
}

func TestValuesOfGoAndOptionals(t *testing.T) {
	type mine struct{ x int }
	object := &mine{5}
	value := must[Value](t)(OfAny(object))
	defer value.Close()
	if must[any](t)(value.Any()) != any(object) {
		t.Fatal("another object")
	}
	number := must[Value](t)(OfFloat64(2.5))
	defer number.Close()
	some := must[Value](t)(Some(number))
	defer some.Close()
	held, ok, err := some.Optional()
	if err != nil || !ok || must[float64](t)(held.Float64()) != 2.5 {
		t.Fatal(held, ok, err)
	}
	empty := must[Value](t)(Empty())
	defer empty.Close()
	if _, ok, err := empty.Optional(); ok || err != nil {
		t.Fatal(ok, err)
	}
	// Of which nobody says what it would hold, and one of which somebody does.
	if leaves := must[[]LeafSpec](t)(must[*Spec](t)(SpecOf(empty)).Leaves()); leaves[0].Inner != nil {
		t.Fatal(leaves)
	}
	numbers := must[*Spec](t)(TensorSpec(Int64, UnknownDimension))
	told := must[Value](t)(EmptyOf(numbers))
	defer told.Close()
	if _, ok, err := told.Optional(); ok || err != nil {
		t.Fatal(ok, err)
	}
	if spec := must[*Spec](t)(SpecOf(told)); !spec.Equal(must[*Spec](t)(OptionalSpec(numbers))) {
		t.Fatal(spec)
	}
	element := must[*Spec](t)(FromTensors(told).ElementSpec(nil))
	if element.String() != "optional(int64[?])" {
		t.Fatal(element)
	}
	_, err = EmptyOf(nil)
	wants(t, err, ErrInvalidArgument)
}
