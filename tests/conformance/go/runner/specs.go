package main

import (
	"encoding/json"

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
	if err := known(v, "shape", "dtype"); err != nil {
		return nil, err
	}
	dtype, err := dtypeOf(v["dtype"])
	if err != nil {
		return nil, err
	}
	sizes, ok := v["shape"].([]any)
	if !ok {
		return tutti.TensorSpecOfUnknownRank(dtype)
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
	return tutti.TensorSpec(dtype, shape...)
}
