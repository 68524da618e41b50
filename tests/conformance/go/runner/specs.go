package main

import (
	"encoding/json"
	"fmt"

	"tutti.dev/tutti"
)

// specOf is the spec that all elements fit.
func specOf(elements []any) (*tutti.Spec, error) {
	if len(elements) == 0 {
		return nil, notCovered("a generator of no elements, whose spec nothing tells")
	}
	switch head := elements[0].(type) {
	case tuple:
		var specs []*tutti.Spec
		for i := range head {
			var parts []any
			for _, element := range elements {
				parts = append(parts, element.(tuple)[i])
			}
			spec, err := specOf(parts)
			if err != nil {
				return nil, err
			}
			specs = append(specs, spec)
		}
		return tutti.TupleSpec(specs...)
	case dict:
		specs := map[string]*tutti.Spec{}
		for key := range head {
			var parts []any
			for _, element := range elements {
				parts = append(parts, element.(dict)[key])
			}
			spec, err := specOf(parts)
			if err != nil {
				return nil, err
			}
			specs[key] = spec
		}
		return tutti.DictSpec(specs)
	}
	head := elements[0].(*array)
	shape := append([]int64{}, head.shape...)
	for _, element := range elements {
		other := element.(*array).shape
		if len(other) != len(shape) {
			return tutti.TensorSpecOfUnknownRank(head.dtype)
		}
		for i, size := range other {
			if size != shape[i] {
				shape[i] = tutti.UnknownDimension
			}
		}
	}
	return tutti.TensorSpec(head.dtype, shape...)
}

// describedSpec is a spec of the vectors.
func describedSpec(v map[string]any) (*tutti.Spec, error) {
	if parts, ok := v["t"].([]any); ok {
		var specs []*tutti.Spec
		for _, part := range parts {
			spec, err := describedSpec(part.(map[string]any))
			if err != nil {
				return nil, err
			}
			specs = append(specs, spec)
		}
		return tutti.TupleSpec(specs...)
	}
	if parts, ok := v["d"].(map[string]any); ok {
		specs := map[string]*tutti.Spec{}
		for key, part := range parts {
			spec, err := describedSpec(part.(map[string]any))
			if err != nil {
				return nil, err
			}
			specs[key] = spec
		}
		return tutti.DictSpec(specs)
	}
	if inner, ok := v["ds"].(map[string]any); ok {
		spec, err := describedSpec(inner)
		if err != nil {
			return nil, err
		}
		return tutti.DatasetSpec(spec)
	}
	for _, kind := range []string{"sparse", "ragged"} {
		if whole, ok := v[kind].(map[string]any); ok {
			if err := known(v, kind); err != nil {
				return nil, err
			}
			return describedComposite(kind, whole)
		}
	}
	dtype, shape, err := describedShape(v)
	if err != nil {
		return nil, err
	}
	if shape == nil {
		return tutti.TensorSpecOfUnknownRank(dtype)
	}
	return tutti.TensorSpec(dtype, shape...)
}

// describedShape is the dtype and the shape of a tensor's spec; nil for an unknown rank.
func describedShape(v map[string]any) (tutti.DType, []int64, error) {
	if err := known(v, "shape", "dtype"); err != nil {
		return 0, nil, err
	}
	dtype, err := dtypeOf(v["dtype"])
	if err != nil || v["shape"] == nil {
		return dtype, nil, err
	}
	shape, err := dimsOf(v["shape"])
	return dtype, shape, err
}

// dimsOf are sizes, UnknownDimension for null.
func dimsOf(v any) ([]int64, error) {
	sizes, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%v is no shape", v)
	}
	shape := []int64{}
	for _, size := range sizes {
		if number, ok := size.(json.Number); ok {
			n, _ := number.Int64()
			shape = append(shape, n)
		} else {
			shape = append(shape, tutti.UnknownDimension)
		}
	}
	return shape, nil
}

// describedComposite is the spec of a sparse tensor, or of a ragged one, all of whose axes but the
// first are ragged.
func describedComposite(kind string, v map[string]any) (*tutti.Spec, error) {
	dtype, shape, err := describedShape(v)
	if err != nil {
		return nil, err
	}
	switch {
	case shape == nil:
		return nil, notCovered("a " + kind + " tensor of unknown rank")
	case kind == "sparse":
		return tutti.SparseSpec(dtype, shape...)
	}
	return tutti.RaggedSpec(dtype, tutti.Int64, int64(len(shape)-1), shape...)
}
