package tutti

import "tutti.dev/tutti/internal/native"

// Names of the types of sparse and ragged tensors and of indexed slices, which are named tuples.
const (
	sparseTypeName = "tutti.SparseTensor"
	raggedTypeName = "tutti.RaggedTensor"
	slicesTypeName = "tutti.IndexedSlices"
)

// Sparse is a sparse tensor, a named tuple of indices, values and dense_shape, which it retains:
// values, a vector, has at i what stands at indices[i], Int64 of shape [values, axes], of a tensor
// of denseShape, Int64; all else is 0, false or an empty string. ErrInvalidArgument where they do
// not fit each other, and for an index that is outside.
func Sparse(indices, values, denseShape *Tensor) (Value, error) {
	var used [3]uintptr
	for i, tensor := range []*Tensor{indices, values, denseShape} {
		pointer, err := tensor.use()
		if err != nil {
			return Value{}, err
		}
		defer tensor.o.done()
		used[i] = pointer
	}
	return makeValue(func(made *uintptr) uintptr {
		return native.Value_of_sparse(used[0], used[1], used[2], made)
	})
}

// Ragged is a ragged tensor, a named tuple of values and row_splits, which it retains: row i is
// values[rowSplits[i]:rowSplits[i+1]]. values holds a tensor, or is ragged itself; rowSplits are
// Int64 or Int32. ErrInvalidArgument unless they begin with 0, never become smaller and end with
// the number of values.
func Ragged(values Value, rowSplits *Tensor) (Value, error) {
	splits, err := rowSplits.use()
	if err != nil {
		return Value{}, err
	}
	defer rowSplits.o.done()
	used, end, err := pointers([]Value{values})
	if err != nil {
		return Value{}, err
	}
	defer end()
	return makeValue(func(made *uintptr) uintptr {
		return native.Value_of_ragged(used[0], splits, made)
	})
}

// IndexedSlices are rows of a tensor, and which ones they are: a named tuple of values, indices and
// dense_shape, which it retains. values has a row for each of the indices, a vector of Int64 or
// Int32; denseShape, Int64, is the shape of the tensor, or nil. ErrInvalidArgument where they do
// not fit each other, and for an index that is outside.
func IndexedSlices(values, indices, denseShape *Tensor) (Value, error) {
	var used [3]uintptr
	for i, tensor := range []*Tensor{values, indices, denseShape} {
		if i == 2 && tensor == nil {
			continue
		}
		pointer, err := tensor.use()
		if err != nil {
			return Value{}, err
		}
		defer tensor.o.done()
		used[i] = pointer
	}
	return makeValue(func(made *uintptr) uintptr {
		return native.Value_of_indexed_slices(used[0], used[1], used[2], made)
	})
}

// IsIndexedSlices says that v is indexed slices, with the fields values, indices and dense_shape.
func (v Value) IsIndexedSlices() bool {
	return v.Kind() == KindNamedTuple && v.TypeName() == slicesTypeName
}

// IsSparse says that v is a sparse tensor, which has the fields indices, values and dense_shape.
func (v Value) IsSparse() bool {
	return v.Kind() == KindNamedTuple && v.TypeName() == sparseTypeName
}

// IsRagged says that v is a ragged tensor, which has the fields values and row_splits.
func (v Value) IsRagged() bool {
	return v.Kind() == KindNamedTuple && v.TypeName() == raggedTypeName
}

// Dense is the tensor that a sparse or ragged one stands for, with defaultValue, a scalar of its
// dtype, in the places without a value; nil is 0, false or an empty string. Ragged axes are as long
// as their longest. ErrInvalidArgument for other values.
func (v Value) Dense(defaultValue *Tensor) (*Tensor, error) {
	filler := uintptr(0)
	if defaultValue != nil {
		pointer, err := defaultValue.use()
		if err != nil {
			return nil, err
		}
		defer defaultValue.o.done()
		filler = pointer
	}
	used, end, err := pointers([]Value{v})
	if err != nil {
		return nil, err
	}
	defer end()
	var made uintptr
	if err := check(native.Value_to_dense(used[0], filler, &made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// Rows are those of a sparse or ragged tensor along axis 0: sparse tensors; ragged ones, or tensors
// where it is ragged once. ErrInvalidArgument for other values.
func (v Value) Rows() ([]Value, error) {
	used, end, err := pointers([]Value{v})
	if err != nil {
		return nil, err
	}
	defer end()
	list, err := makeValue(func(made *uintptr) uintptr {
		return native.Value_to_rows(used[0], made)
	})
	if err != nil {
		return nil, err
	}
	defer list.Close()
	rows := make([]Value, list.Len())
	for i := range rows {
		if rows[i], err = list.At(i); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
