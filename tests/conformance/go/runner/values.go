package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"

	"tutti.dev/tutti"
)

// notCovered says that a case names something that is not known here.
type notCovered string

func (n notCovered) Error() string { return string(n) }

func known(fields map[string]any, names ...string) error {
	for name := range fields {
		found := false
		for _, other := range names {
			found = found || name == other
		}
		if !found {
			return notCovered(name)
		}
	}
	return nil
}

// array is a tensor: its numbers as float64, or its texts.
type array struct {
	dtype   tutti.DType
	shape   []int64
	numbers []float64
	texts   []string
}

// What a value is here: *array, tuple, dict, or the elements of a dataset that stands in it.
type tuple []any
type window []any
type dict map[string]any

var dtypes = map[string]tutti.DType{}

func init() {
	for dtype := tutti.Bool; dtype <= tutti.Bytes; dtype++ {
		dtypes[dtype.String()] = dtype
	}
}

func dtypeOf(name any) (tutti.DType, error) {
	dtype, ok := dtypes[fmt.Sprint(name)]
	if !ok {
		return 0, notCovered(fmt.Sprint("dtype ", name))
	}
	return dtype, nil
}

// read reads a value of the vectors. A bare integer is int32 and a bare real float32; null is none.
func read(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if fields, ok := v.(map[string]any); ok {
		if parts, ok := fields["t"].([]any); ok {
			made := tuple{}
			for _, part := range parts {
				item, err := read(part)
				if err != nil {
					return nil, err
				}
				made = append(made, item)
			}
			return made, nil
		}
		if parts, ok := fields["d"].(map[string]any); ok {
			made := dict{}
			for key, part := range parts {
				item, err := read(part)
				if err != nil {
					return nil, err
				}
				made[key] = item
			}
			return made, nil
		}
		if parts, ok := fields["sparse"].(map[string]any); ok {
			return readSparse(parts)
		}
		if lists, ok := fields["ragged"]; ok {
			return readRagged(lists)
		}
		if _, ok := fields["bytes"]; !ok {
			if err := known(fields, "dtype", "v"); err != nil {
				return nil, err
			}
			dtype, err := dtypeOf(fields["dtype"])
			if err != nil {
				return nil, err
			}
			made := &array{dtype: dtype}
			return made, made.fill(fields["v"], 0)
		}
	}
	made := &array{dtype: tutti.Int32}
	if err := made.fill(v, 0); err != nil {
		return nil, err
	}
	switch {
	case made.texts != nil:
		made.dtype = tutti.Bytes
	case isReal(v):
		made.dtype = tutti.Float32
	case isBool(v):
		made.dtype = tutti.Bool
	}
	return made, nil
}

func first(v any) any {
	for {
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return v
		}
		v = list[0]
	}
}

func isBool(v any) bool {
	_, ok := first(v).(bool)
	return ok
}

func isReal(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if isReal(item) {
				return true
			}
		}
	case json.Number:
		_, err := v.Int64()
		return err != nil
	case string:
		return v == "nan"
	}
	return false
}

// fill takes nested lists.
func (a *array) fill(v any, depth int) error {
	switch v := v.(type) {
	case []any:
		if len(a.shape) == depth {
			a.shape = append(a.shape, int64(len(v)))
		}
		for _, item := range v {
			if err := a.fill(item, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		number, err := v.Float64()
		a.numbers = append(a.numbers, number)
		return err
	case bool:
		a.numbers = append(a.numbers, truth(v))
	case map[string]any:
		a.texts = append(a.texts, fmt.Sprint(v["bytes"]))
	case string:
		if v != "nan" {
			return fmt.Errorf("%q is no value", v)
		}
		a.numbers = append(a.numbers, math.NaN())
	default:
		return fmt.Errorf("%v is no value", v)
	}
	return nil
}

func truth(flag bool) float64 {
	if flag {
		return 1
	}
	return 0
}

func (a *array) tensor() (*tutti.Tensor, error) {
	shape := append([]int64{}, a.shape...)
	if a.dtype == tutti.Bytes {
		return tutti.StringTensor(a.texts, shape...)
	}
	wide, err := tutti.TensorOf(a.numbers, shape...)
	if err != nil {
		return nil, err
	}
	defer wide.Close()
	return wide.Cast(a.dtype)
}

// valueOf is the value of the library; described by *array, tuple or dict, or a *tutti.Dataset.
func valueOf(v any) (tutti.Value, error) {
	switch v := v.(type) {
	case *array:
		tensor, err := v.tensor()
		if err != nil {
			return tutti.Value{}, err
		}
		defer tensor.Close()
		return tutti.OfTensor(tensor)
	case *sparse:
		return v.value()
	case *ragged:
		return v.value()
	case *tutti.Dataset:
		return tutti.OfDataset(v)
	case nil:
		return tutti.Value{}, nil
	case tuple:
		var parts []tutti.Value
		for _, item := range v {
			part, err := valueOf(item)
			if err != nil {
				return tutti.Value{}, err
			}
			parts = append(parts, part)
		}
		return tutti.Tuple(parts...)
	case dict:
		parts := map[string]tutti.Value{}
		for key, item := range v {
			part, err := valueOf(item)
			if err != nil {
				return tutti.Value{}, err
			}
			parts[key] = part
		}
		return tutti.Dict(parts)
	}
	return tutti.Value{}, fmt.Errorf("%v is no value", v)
}

// arrayOf reads a tensor.
func arrayOf(tensor *tutti.Tensor) (*array, error) {
	if tensor.CudaDevice() >= 0 {
		here, err := tutti.DefaultRuntime().CopyToDevice(context.Background(), tensor,
			tutti.MemoryOptions{Device: "CPU:0"})
		if err != nil {
			return nil, err
		}
		return arrayOf(here)
	}
	made := &array{dtype: tensor.DType(), shape: tensor.Dims()}
	if made.dtype == tutti.Bytes {
		copied, err := tensor.Copy()
		if err != nil {
			return nil, err
		}
		made.texts, err = copied.Strings()
		return made, err
	}
	wide, err := tensor.Cast(tutti.Float64)
	if err != nil {
		return nil, err
	}
	defer wide.Close()
	return made, tutti.View(wide, func(numbers []float64) error {
		made.numbers = append([]float64{}, numbers...)
		return nil
	})
}

// describe is what valueOf was made of.
func describe(value tutti.Value) (any, error) {
	switch value.Kind() {
	case tutti.KindTensor:
		tensor, err := value.Tensor()
		if err != nil {
			return nil, err
		}
		return arrayOf(tensor)
	case tutti.KindTuple:
		made := tuple{}
		for i := 0; i < value.Len(); i++ {
			part, err := value.At(i)
			if err != nil {
				return nil, err
			}
			item, err := describe(part)
			if err != nil {
				return nil, err
			}
			made = append(made, item)
		}
		return made, nil
	case tutti.KindDict:
		made := dict{}
		for i, key := range value.Keys() {
			part, err := value.At(i)
			if err != nil {
				return nil, err
			}
			if made[key], err = describe(part); err != nil {
				return nil, err
			}
		}
		return made, nil
	}
	switch {
	case value.Kind() == tutti.KindDataset:
		return elementsOf(value)
	case value.IsSparse():
		return describeSparse(value)
	case value.IsRagged():
		return describeRagged(value)
	}
	return nil, fmt.Errorf("found a %v", value.Kind())
}

// elementsOf reads a dataset that stands in an element.
func elementsOf(value tutti.Value) (any, error) {
	dataset, err := value.Dataset()
	if err != nil {
		return nil, err
	}
	defer dataset.Close()
	iterator, err := dataset.Iterator(nil)
	if err != nil {
		return nil, err
	}
	defer iterator.Close()
	made := window{}
	for iterator.Next() {
		item, err := describe(iterator.Value())
		if err != nil {
			return nil, err
		}
		made = append(made, item)
	}
	return made, iterator.Err()
}

func show(v any) string {
	switch v := v.(type) {
	case *array:
		return fmt.Sprint(v.dtype, v.shape, v.numbers, v.texts)
	case tuple:
		text := "("
		for _, item := range v {
			text += show(item) + " "
		}
		return text + ")"
	}
	return fmt.Sprint(v)
}

// compare by value and shape, and by dtype where it is said.
func compare(value tutti.Value, expected any, dtype string, tolerance float64) error {
	found, err := describe(value)
	if err != nil {
		return err
	}
	return compareParts(found, expected, dtype, tolerance)
}

func compareParts(found, expected any, dtype string, tolerance float64) error {
	if fields, ok := expected.(map[string]any); ok {
		if parts, ok := fields["t"].([]any); ok {
			items, ok := found.(tuple)
			if !ok || len(items) != len(parts) {
				return fmt.Errorf("expected %v, found %s", expected, show(found))
			}
			for i, part := range parts {
				if err := compareParts(items[i], part, dtype, tolerance); err != nil {
					return err
				}
			}
			return nil
		}
		if parts, ok := fields["d"].(map[string]any); ok {
			items, ok := found.(dict)
			if !ok || len(items) != len(parts) {
				return fmt.Errorf("expected %v, found %s", expected, show(found))
			}
			for key, part := range parts {
				if err := compareParts(items[key], part, dtype, tolerance); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			}
			return nil
		}
		if parts, ok := fields["ds"].([]any); ok {
			items, ok := found.(window)
			if !ok || len(items) != len(parts) {
				return fmt.Errorf("expected %v, found %s", expected, show(found))
			}
			for i, part := range parts {
				if err := compareParts(items[i], part, dtype, tolerance); err != nil {
					return err
				}
			}
			return nil
		}
		if name, ok := fields["dtype"].(string); ok {
			dtype = name
		}
	}
	wanted, err := read(expected)
	if err != nil {
		return err
	}
	switch wanted := wanted.(type) {
	case *sparse:
		return wanted.compare(found, dtype, tolerance)
	case *ragged:
		return wanted.compare(found, dtype, tolerance)
	}
	return compareArrays(wanted.(*array), found, dtype, tolerance)
}

func compareArrays(w *array, found any, dtype string, tolerance float64) error {
	f, ok := found.(*array)
	failure := fmt.Errorf("expected %s, found %s", show(w), show(found))
	if !ok || dtype != "" && f.dtype.String() != dtype {
		return failure
	}
	if len(w.shape) == 1 && w.shape[0] == 0 {
		if len(f.shape) == 0 || f.shape[0] != 0 {
			return failure
		}
		return nil
	}
	if !(len(w.shape) == 0 && len(f.shape) == 0) && !reflect.DeepEqual(w.shape, f.shape) ||
		len(w.texts) != len(f.texts) || len(w.numbers) != len(f.numbers) {
		return failure
	}
	for i, text := range w.texts {
		if f.texts[i] != text {
			return failure
		}
	}
	for i, number := range w.numbers {
		if !(math.Abs(f.numbers[i]-number) <= tolerance) &&
			!(math.IsNaN(number) && math.IsNaN(f.numbers[i])) {
			return failure
		}
	}
	return nil
}

func sorted(numbers []int64) []int64 {
	copied := append([]int64{}, numbers...)
	sort.Slice(copied, func(i, j int) bool { return copied[i] < copied[j] })
	return copied
}
