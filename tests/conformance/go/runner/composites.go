package main

import (
	"encoding/json"
	"fmt"

	"tutti.dev/tutti"
)

// sparse is a sparse tensor.
type sparse struct{ indices, values, denseShape *array }

// ragged is a ragged tensor: the row splits of each ragged axis, the outermost first, and the items
// of all rows.
type ragged struct {
	splits []*array
	flat   *array
}

// int64Array reads an array of int64.
func int64Array(v any) (*array, error) {
	made := &array{dtype: tutti.Int64}
	return made, made.fill(v, 0)
}

func itemsOf(v any) (*array, error) {
	made, err := read(v)
	if err != nil {
		return nil, err
	}
	flat, ok := made.(*array)
	if !ok {
		return nil, fmt.Errorf("%v is no list of items", v)
	}
	return flat, nil
}

func readSparse(parts map[string]any) (any, error) {
	if err := known(parts, "indices", "values", "dense_shape"); err != nil {
		return nil, err
	}
	made := &sparse{}
	var err error
	if made.indices, err = int64Array(parts["indices"]); err != nil {
		return nil, err
	}
	if made.values, err = itemsOf(parts["values"]); err != nil {
		return nil, err
	}
	made.denseShape, err = int64Array(parts["dense_shape"])
	return made, err
}

func readRagged(lists any) (any, error) {
	made := &ragged{}
	level, ok := lists.([]any)
	if !ok {
		return nil, fmt.Errorf("%v is no list", lists)
	}
	for {
		var next []any
		isList := false
		splits := []any{json.Number("0")}
		for _, item := range level {
			if list, ok := item.([]any); ok {
				isList = true
				next = append(next, list...)
			}
			splits = append(splits, json.Number(fmt.Sprint(len(next))))
		}
		if !isList {
			break
		}
		read, err := int64Array(splits)
		if err != nil {
			return nil, err
		}
		made.splits = append(made.splits, read)
		level = next
	}
	var err error
	made.flat, err = itemsOf(append([]any{}, level...))
	return made, err
}

func (s *sparse) value() (tutti.Value, error) {
	var tensors [3]*tutti.Tensor
	for i, part := range []*array{s.indices, s.values, s.denseShape} {
		tensor, err := part.tensor()
		if err != nil {
			return tutti.Value{}, err
		}
		defer tensor.Close()
		tensors[i] = tensor
	}
	return tutti.Sparse(tensors[0], tensors[1], tensors[2])
}

func (r *ragged) value() (tutti.Value, error) {
	value, err := valueOf(r.flat)
	for level := len(r.splits) - 1; err == nil && level >= 0; level-- {
		var splits *tutti.Tensor
		if splits, err = r.splits[level].tensor(); err == nil {
			value, err = tutti.Ragged(value, splits)
			splits.Close()
		}
	}
	return value, err
}

func arrayAt(value tutti.Value, path string) (*array, error) {
	tensor, err := value.TensorAt(path)
	if err != nil {
		return nil, err
	}
	return arrayOf(tensor)
}

func describeSparse(value tutti.Value) (any, error) {
	made := &sparse{}
	var err error
	if made.indices, err = arrayAt(value, "indices"); err != nil {
		return nil, err
	}
	if made.values, err = arrayAt(value, "values"); err != nil {
		return nil, err
	}
	made.denseShape, err = arrayAt(value, "dense_shape")
	return made, err
}

func describeRagged(value tutti.Value) (any, error) {
	made := &ragged{}
	for value.IsRagged() {
		splits, err := arrayAt(value, "row_splits")
		if err != nil {
			return nil, err
		}
		made.splits = append(made.splits, splits)
		if value, err = value.Get("values"); err != nil {
			return nil, err
		}
	}
	var err error
	made.flat, err = arrayAt(value, "")
	return made, err
}

func (s *sparse) compare(found any, dtype string, tolerance float64) error {
	other, ok := found.(*sparse)
	if !ok {
		return fmt.Errorf("expected a sparse tensor, found %s", show(found))
	}
	if err := compareArrays(s.indices, other.indices, "int64", 0); err != nil {
		return fmt.Errorf("indices: %w", err)
	}
	if err := compareArrays(s.values, other.values, dtype, tolerance); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	if err := compareArrays(s.denseShape, other.denseShape, "int64", 0); err != nil {
		return fmt.Errorf("dense_shape: %w", err)
	}
	return nil
}

func (r *ragged) compare(found any, dtype string, tolerance float64) error {
	other, ok := found.(*ragged)
	if !ok || len(other.splits) != len(r.splits) {
		return fmt.Errorf("expected a ragged tensor of %d ragged axes, found %s", len(r.splits),
			show(found))
	}
	for level, splits := range r.splits {
		if err := compareArrays(splits, other.splits[level], "", 0); err != nil {
			return fmt.Errorf("row_splits: %w", err)
		}
	}
	return compareArrays(r.flat, other.flat, dtype, tolerance)
}
