package tutti

import (
	"reflect"
	"strings"
	"testing"
)

func TestDatasetsFromValuesAndGenerators(t *testing.T) {
	x := must[Value](t)(Of([]int64{1, 2, 3, 4}, 2, 2))
	rows := FromTensorSlices(x)
	if rows.Cardinality() != 2 {
		t.Fatal(rows.Cardinality())
	}
	a, b := must[Value](t)(OfDataset(Range(0, 2, 1))), must[Value](t)(OfDataset(Range(5, 9, 1)))
	zipped := Zip(must[Value](t)(Tuple(a, b)))
	summed := zipped.Map(func(pair Value) (Value, error) {
		var sum int64
		for i := 0; i < pair.Len(); i++ {
			part, err := pair.At(i)
			if err != nil {
				return Value{}, err
			}
			number, err := part.Int64()
			if err != nil {
				return Value{}, err
			}
			sum += number
		}
		return OfInt64(sum)
	})
	if got := integers(t, summed); !reflect.DeepEqual(got, []int64{5, 7}) {
		t.Fatal(got)
	}
	generated := FromGenerator(func() (Generator, error) {
		i := int64(0)
		return func() (Value, bool, error) {
			if i == 3 {
				return Value{}, false, nil
			}
			i++
			value, err := OfInt64(i)
			return value, true, err
		}, nil
	}, must[*Spec](t)(TensorSpec(Int64)))
	for i := 0; i < 2; i++ {
		if got := integers(t, generated); !reflect.DeepEqual(got, []int64{1, 2, 3}) {
			t.Fatal(got)
		}
	}
}

// generated gives what a generator of these values does under a spec.
func generated(t *testing.T, spec *Spec, values ...Value) *Iterator {
	t.Helper()
	dataset := FromGenerator(func() (Generator, error) {
		i := 0
		return func() (Value, bool, error) {
			if i == len(values) {
				return Value{}, false, nil
			}
			i++
			value, err := values[i-1].Keep()
			return value, true, err
		}, nil
	}, spec)
	return must[*Iterator](t)(dataset.Iterator(nil))
}

func TestWhatIsGeneratedTakesTheDeclaredDType(t *testing.T) {
	spec := must[*Spec](t)(TensorSpec(Float32))
	iterator := generated(t, spec, must[Value](t)(OfScalar(1)), must[Value](t)(OfFloat64(0.1)))
	defer iterator.Close()
	for _, expected := range []float32{1, 0.1} {
		if !iterator.Next() {
			t.Fatal(iterator.Err())
		}
		tensor := must[*Tensor](t)(iterator.Value().Tensor())
		if got := must[[]float32](t)(Slice[float32](tensor)); got[0] != expected {
			t.Fatal(got)
		}
	}
	beyond := generated(t, must[*Spec](t)(TensorSpec(Int32)), must[Value](t)(OfScalar(3000000000)))
	defer beyond.Close()
	if beyond.Next() || !strings.Contains(beyond.Err().Error(), "3000000000 does not fit into int32") {
		t.Fatal(beyond.Err())
	}
	wants(t, beyond.Err(), ErrInvalidArgument)
	half := NewFunction(func(element Value) (Value, error) {
		number, err := element.Int64()
		if err != nil {
			return Value{}, err
		}
		return OfFloat64(float64(number) / 2)
	}, FunctionOptions{Output: spec})
	mapped := must[*Iterator](t)(Range(1, 2, 1).MapWith(half).Iterator(nil))
	defer mapped.Close()
	if !mapped.Next() || must[*Tensor](t)(mapped.Value().Tensor()).DType() != Float32 {
		t.Fatal(mapped.Err())
	}
}

func TestAGeneratorGetsItsArguments(t *testing.T) {
	stop := must[Value](t)(OfInt64(3))
	count := func(args []Value) (Generator, error) {
		last, err := args[0].Int64()
		next := int64(0)
		return func() (Value, bool, error) {
			if next == last {
				return Value{}, false, nil
			}
			next++
			value, err := OfInt64(next - 1)
			return value, true, err
		}, err
	}
	spec := must[*Spec](t)(SpecOfTypes(Int64, []int64{}))
	dataset := FromGeneratorWithArgs(count, []Value{stop}, spec).Repeat(2)
	stop.Close()
	if got := integers(t, dataset); !reflect.DeepEqual(got, []int64{0, 1, 2, 0, 1, 2}) {
		t.Fatal(got)
	}
	text := must[Value](t)(OfText("no tensor"))
	defer text.Close()
	err := FromGeneratorWithArgs(count, []Value{text}, spec).Err()
	wants(t, err, ErrInvalidArgument)
	if !strings.Contains(err.Error(), "args[0] holds a string") {
		t.Fatal(err)
	}
	wants(t, FromGeneratorWithArgs(count, []Value{{}}, spec).Err(), ErrInvalidArgument)
	wants(t, FromGeneratorWithArgs(count, []Value{stop}, spec).Err(), ErrFailedPrecondition)
	wants(t, FromGeneratorWithArgs(nil, nil, spec).Err(), ErrInvalidArgument)
	wants(t, FromGeneratorWithArgs(count, nil, nil).Err(), ErrInvalidArgument)
}
