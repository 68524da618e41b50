package tutti

import "reflect"

// SparseOf is Sparse of places as rows: values, a slice of numbers or strings, has at i what stands
// at indices[i] of a tensor of denseShape.
func SparseOf(indices [][]int64, values any, denseShape ...int64) (Value, error) {
	places := make([]int64, 0, len(indices)*len(denseShape))
	for i, place := range indices {
		if len(place) != len(denseShape) {
			return Value{}, invalidArgument("sparse tensor: index %d has %d axes, and the dense_shape %d",
				i, len(place), len(denseShape))
		}
		places = append(places, place...)
	}
	at, err := TensorOf(places, int64(len(indices)), int64(len(denseShape)))
	if err != nil {
		return Value{}, err
	}
	defer at.Close()
	items, err := vectorOf(values)
	if err != nil {
		return Value{}, err
	}
	defer items.Close()
	sizes, err := TensorOf(denseShape, int64(len(denseShape)))
	if err != nil {
		return Value{}, err
	}
	defer sizes.Close()
	return Sparse(at, items, sizes)
}

// RaggedConstant is the ragged tensor of nested slices, all as deep: of numbers or of strings, as
// [][]int64{{1, 2}, {}, {3}}, or of a []any that holds such slices. Every axis but the first is
// ragged, and row splits are Int64. ErrInvalidArgument for slices that are not all as deep, or of
// several types.
func RaggedConstant(nested any) (Value, error) {
	flat, splits, err := raggedParts(reflect.ValueOf(nested))
	if err != nil {
		return Value{}, err
	}
	tensor, err := vectorOf(flat)
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	made, err := OfTensor(tensor)
	for i := len(splits) - 1; i >= 0 && err == nil; i-- {
		values := made
		made, err = raggedOver(values, splits[i])
		values.Close()
	}
	return made, err
}

func raggedOver(values Value, splits []int64) (Value, error) {
	tensor, err := TensorOf(splits)
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	return Ragged(values, tensor)
}

// raggedParts are the innermost items as one slice, and the row splits of the ragged axes, the
// outermost first.
func raggedParts(nested reflect.Value) (flat any, splits [][]int64, err error) {
	rows := []reflect.Value{nested}
	for depth := 0; ; depth++ {
		kind, err := rowType(rows, depth)
		if err != nil {
			return nil, nil, err
		}
		offsets := []int64{0}
		var inner []reflect.Value
		items := reflect.MakeSlice(kind, 0, 0)
		deeper := isNest(kind.Elem())
		for _, row := range rows {
			row = held(row)
			if deeper {
				for i := 0; i < row.Len(); i++ {
					inner = append(inner, row.Index(i))
				}
				offsets = append(offsets, int64(len(inner)))
				continue
			}
			items = reflect.AppendSlice(items, row)
			offsets = append(offsets, int64(items.Len()))
		}
		if depth > 0 {
			splits = append(splits, offsets)
		}
		if !deeper {
			if depth == 0 {
				return nil, nil, invalidArgument("a ragged tensor is made of slices in a slice; of a %v "+
					"TensorOf makes a tensor", kind)
			}
			return items.Interface(), splits, nil
		}
		if len(inner) == 0 {
			// The type says how deep it would be.
			element := kind.Elem()
			for ; element.Kind() == reflect.Slice && isNest(element.Elem()); element = element.Elem() {
				splits = append(splits, []int64{0})
			}
			if element.Kind() != reflect.Slice {
				return nil, nil, invalidArgument("a ragged tensor of a %v without items: nothing says of "+
					"which dtype it is; give it a type such as [][]int64", kind)
			}
			splits = append(splits, []int64{0})
			return reflect.MakeSlice(element, 0, 0).Interface(), splits, nil
		}
		rows = inner
	}
}

func isNest(element reflect.Type) bool {
	return element.Kind() == reflect.Slice || element.Kind() == reflect.Interface
}

func held(row reflect.Value) reflect.Value {
	if row.IsValid() && row.Kind() == reflect.Interface {
		return row.Elem()
	}
	return row
}

// rowType is the type that all rows have.
func rowType(rows []reflect.Value, depth int) (reflect.Type, error) {
	var kind reflect.Type
	for _, row := range rows {
		row = held(row)
		if !row.IsValid() || row.Kind() != reflect.Slice {
			found := "nil"
			if row.IsValid() {
				found = row.Type().String()
			}
			return nil, invalidArgument("slices that are not all as deep: at depth %d a slice is needed, "+
				"not a %s", depth, found)
		}
		if kind == nil {
			kind = row.Type()
		}
		if row.Type() != kind {
			return nil, invalidArgument("slices that are not all alike: at depth %d a %v and a %v", depth,
				kind, row.Type())
		}
	}
	return kind, nil
}

// vectorOf is the tensor of a slice of which only the value tells the type.
func vectorOf(slice any) (*Tensor, error) {
	switch items := slice.(type) {
	case []string:
		return StringTensor(items)
	case []bool:
		return TensorOf(items)
	case []int:
		return TensorOf(items)
	case []int8:
		return TensorOf(items)
	case []int16:
		return TensorOf(items)
	case []int32:
		return TensorOf(items)
	case []int64:
		return TensorOf(items)
	case []uint8:
		return TensorOf(items)
	case []uint16:
		return TensorOf(items)
	case []uint32:
		return TensorOf(items)
	case []uint64:
		return TensorOf(items)
	case []float32:
		return TensorOf(items)
	case []float64:
		return TensorOf(items)
	case []complex64:
		return TensorOf(items)
	case []complex128:
		return TensorOf(items)
	}
	return nil, invalidArgument("a slice of numbers or of strings is needed, not a %T", slice)
}
