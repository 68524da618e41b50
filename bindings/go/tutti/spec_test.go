package tutti

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestSpecsAndOptions(t *testing.T) {
	spec := must[*Spec](t)(DictSpec(map[string]*Spec{
		"image": must[*Spec](t)(TensorSpec(Float32, UnknownDimension, 64)),
		"label": must[*Spec](t)(TupleSpec(must[*Spec](t)(TensorSpec(Int64)))),
	}))
	if got := spec.String(); got != "{'image': float32[?,64], 'label': (int64[],)}" {
		t.Fatal(got)
	}
	batched := must[*Spec](t)(Range(0, 5, 1).Batch(2).ElementSpec(nil))
	if !batched.Equal(must[*Spec](t)(TensorSpec(Int64, UnknownDimension))) ||
		!batched.IsCompatible(must[*Spec](t)(TensorSpec(Int64, 2))) {
		t.Fatal(batched)
	}
	options := must[*DataOptions](t)(NewDataOptions())
	if err := options.SetBool("deterministic", false); err != nil {
		t.Fatal(err)
	}
	wants(t, options.SetInt("no.such.option", 1), ErrInvalidArgument)
	read := must[*DataOptions](t)(Range(0, 1, 1).WithOptions(options).Options())
	if number, present, err := read.Read("deterministic"); number != 0 || !present || err != nil {
		t.Fatal(number, present, err)
	}
	if _, present, _ := read.Read("experimental_slack"); present {
		t.Fatal("it was not set")
	}
}

func TestSpecsAreCompatibleEitherWayAndUnited(t *testing.T) {
	three, four := must[*Spec](t)(TensorSpec(Int32, 3)), must[*Spec](t)(TensorSpec(Int32, 4))
	some := must[*Spec](t)(TensorSpec(Int32, UnknownDimension))
	text := must[*Spec](t)(TensorSpec(Bytes))
	over := func(make func(*Spec) (*Spec, error), inner *Spec) *Spec {
		return must[*Spec](t)(make(inner))
	}
	for name, make := range map[string]func(*Spec) (*Spec, error){
		"tensor":   func(spec *Spec) (*Spec, error) { return TupleSpec(spec) },
		"iterator": IteratorSpec, "optional": OptionalSpec,
		"dataset": func(spec *Spec) (*Spec, error) { return DatasetSpec(spec) },
	} {
		if !over(make, three).IsCompatible(over(make, some)) ||
			!over(make, some).IsCompatible(over(make, three)) ||
			over(make, three).IsCompatible(over(make, four)) ||
			over(make, three).IsCompatible(over(make, text)) {
			t.Error(name, over(make, three))
		}
		common := must[*Spec](t)(over(make, three).MostSpecific(over(make, four)))
		if !common.Equal(over(make, some)) {
			t.Error(name, common)
		}
		_, err := over(make, three).MostSpecific(over(make, text))
		wants(t, err, ErrInvalidArgument)
	}
	_, err := three.MostSpecific(nil)
	wants(t, err, ErrInvalidArgument)
	ranks := must[*Spec](t)(three.MostSpecific(must[*Spec](t)(TensorSpec(Int32, 4, 5))))
	if !ranks.Equal(must[*Spec](t)(TensorSpecOfUnknownRank(Int32))) {
		t.Fatal(ranks)
	}
	one, grid := over(func(s *Spec) (*Spec, error) { return DatasetSpec(s) }, three),
		must[*Spec](t)(DatasetSpec(three, 2, UnknownDimension))
	if one.Equal(grid) || one.IsCompatible(grid) || grid.String() != "dataset[2,?](int32[3])" {
		t.Fatal(one, grid)
	}
	tuple := must[*Spec](t)(TupleSpec(grid, over(IteratorSpec, three)))
	leaves := must[[]LeafSpec](t)(tuple.Leaves())
	if !reflect.DeepEqual(leaves[0].Dims, []int64{2, UnknownDimension}) ||
		leaves[1].Kind != KindIterator || leaves[1].Kind.String() != "iterator" ||
		!leaves[1].Inner.Equal(three) {
		t.Fatal(tuple, leaves)
	}
}

func TestSpecsOfIteratorsAndOfTypes(t *testing.T) {
	iterator := must[*Iterator](t)(Range(0, 3, 1).Iterator(nil))
	defer iterator.Close()
	spec := must[*Spec](t)(SpecOfIterator(iterator))
	if !spec.Equal(must[*Spec](t)(IteratorSpec(must[*Spec](t)(TensorSpec(Int64))))) {
		t.Fatal(spec)
	}
	_, err := SpecOfIterator(nil)
	wants(t, err, ErrInvalidArgument)
	for text, made := range map[string]func() (*Spec, error){
		"int64[2]":       func() (*Spec, error) { return SpecOfTypes(Int64, []int64{2}) },
		"int64[]":        func() (*Spec, error) { return SpecOfTypes(Int64, []int64{}) },
		"int64<unknown>": func() (*Spec, error) { return SpecOfTypes(Int64, nil) },
		"(int64[], bytes[?])": func() (*Spec, error) {
			return SpecOfTypes([]any{Int64, Bytes}, []any{[]int64{}, []int64{UnknownDimension}})
		},
		"{'a': (bool<unknown>,), 'b': int8[1]}": func() (*Spec, error) {
			return SpecOfTypes(map[string]any{"a": []any{Bool}, "b": Int8},
				map[string]any{"a": nil, "b": []int64{1}})
		},
	} {
		if got := must[*Spec](t)(made()).String(); got != text {
			t.Error(got, text)
		}
	}
	for name, wrong := range map[string][2]any{
		"type": {3, nil}, "shape": {Int64, 3}, "tuple": {[]any{Int64}, []any{}},
		"part": {[]any{"int64"}, nil}, "dict": {map[string]any{"a": Int8}, map[string]any{"b": nil}},
		"structure": {[]any{Int64}, []int64{1}}, "none": {nil, nil},
	} {
		if _, err := SpecOfTypes(wrong[0], wrong[1]); !errors.Is(err, ErrInvalidArgument) {
			t.Error(name, err)
		}
	}
}

func TestADatasetComesBackFromItsVariant(t *testing.T) {
	dataset := Range(0, 3, 1)
	variant := must[Value](t)(dataset.ToVariant())
	defer variant.Close()
	spec := must[*Spec](t)(TensorSpec(Int64))
	if got := integers(t, FromVariant(nil, variant, spec)); !reflect.DeepEqual(got, []int64{0, 1, 2}) {
		t.Fatal(got)
	}
	if !must[*Spec](t)(VariantSpec()).IsCompatible(must[*Spec](t)(SpecOf(variant))) {
		t.Fatal("a variant does not fit its spec")
	}
	other := FromVariant(nil, variant, must[*Spec](t)(TensorSpec(Bytes)))
	wants(t, other.Err(), ErrInvalidArgument)
	if !strings.Contains(other.Err().Error(), "expected a dataset of bytes[], found one of int64[]") {
		t.Fatal(other.Err())
	}
	number := must[Value](t)(OfInt64(1))
	defer number.Close()
	wants(t, FromVariant(nil, number, spec).Err(), ErrInvalidArgument)
	wants(t, FromVariant(nil, variant, nil).Err(), ErrInvalidArgument)
	wants(t, FromVariant(nil, Value{}, spec).Err(), ErrInvalidArgument)
}
