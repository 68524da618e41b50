package tutti

import (
	"sort"

	"tutti.dev/tutti/internal/native"
)

// Spec is the structure of a dataset's elements, with dtype and shape of each leaf.
type Spec struct{ o *object }

func ownSpec(pointer uintptr) *Spec {
	return &Spec{own(pointer, "spec", native.Tutti_spec_release)}
}

// UnknownDimension stands for a size that is not known.
const UnknownDimension = -1

func makeSpec(make func(made *uintptr) uintptr) (*Spec, error) {
	var made uintptr
	if err := check(make(&made)); err != nil {
		return nil, err
	}
	return ownSpec(made), nil
}

// TensorSpec is the spec of one tensor.
func TensorSpec(dtype DType, dims ...int64) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_tensor(int(dtype), int64(len(dims)), dims, made)
	})
}

// TensorSpecOfUnknownRank is the spec of a tensor of which the dtype is known.
func TensorSpecOfUnknownRank(dtype DType) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_tensor(int(dtype), -1, nil, made)
	})
}

// SparseSpec is the spec of a sparse tensor (Sparse) of such a shape.
func SparseSpec(dtype DType, dims ...int64) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_sparse(int(dtype), int64(len(dims)), dims, made)
	})
}

// SparseSpecOfUnknownRank is the spec of a sparse tensor of which the dtype is known.
func SparseSpecOfUnknownRank(dtype DType) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_sparse(int(dtype), -1, nil, made)
	})
}

// RaggedSpec is the spec of a ragged tensor (Ragged) whose row splits are of a dtype, Int64 or
// Int32, and of whose shape axes 1 to raggedRank are ragged: 1 or more, and fewer than it has.
func RaggedSpec(dtype, rowSplits DType, raggedRank int64, dims ...int64) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_ragged(int(dtype), raggedRank, int(rowSplits), int64(len(dims)), dims,
			made)
	})
}

// RaggedSpecOfUnknownRank is RaggedSpec without a shape.
func RaggedSpecOfUnknownRank(dtype, rowSplits DType, raggedRank int64) (*Spec, error) {
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_of_ragged(int(dtype), raggedRank, int(rowSplits), -1, nil, made)
	})
}

// SpecOf describes one value exactly.
func SpecOf(value Value) (*Spec, error) {
	value, end, err := given(value)
	if err != nil {
		return nil, err
	}
	defer end()
	pointer, err := value.use()
	if err != nil {
		return nil, err
	}
	defer value.done()
	return makeSpec(func(made *uintptr) uintptr { return native.Spec_from_value(pointer, made) })
}

func specPointers(specs []*Spec) (used []uintptr, end func(), err error) {
	end = func() {
		for i := range used {
			specs[i].o.done()
		}
	}
	for _, spec := range specs {
		if spec == nil {
			err = invalidArgument("a spec is needed, not nil")
		}
		var pointer uintptr
		if err == nil {
			pointer, err = spec.o.use()
		}
		if err != nil {
			end()
			return nil, nothing, err
		}
		used = append(used, pointer)
	}
	return used, end, nil
}

func specSequence(list bool, specs []*Spec) (*Spec, error) {
	used, end, err := specPointers(specs)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeSpec(func(made *uintptr) uintptr { return native.Spec_of_sequence(list, used, made) })
}

// TupleSpec is the spec of a tuple.
func TupleSpec(specs ...*Spec) (*Spec, error) { return specSequence(false, specs) }

// ListSpec is the spec of a list.
func ListSpec(specs ...*Spec) (*Spec, error) { return specSequence(true, specs) }

// DictSpec is the spec of a dict.
func DictSpec(specs map[string]*Spec) (*Spec, error) {
	keys := make([]string, 0, len(specs))
	for key := range specs {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	children := make([]*Spec, len(keys))
	for i, key := range keys {
		children[i] = specs[key]
	}
	return keyedSpec(keys, children, native.Spec_of_dict)
}

// NamedTupleSpec is the spec of a tuple whose fields have names.
func NamedTupleSpec(typeName string, fields []string, specs ...*Spec) (*Spec, error) {
	return keyedSpec(fields, specs, func(names string, used []uintptr, made *uintptr) uintptr {
		return native.Spec_of_named_tuple(typeName, names, used, made)
	})
}

func keyedSpec(keys []string, specs []*Spec,
	make func(names string, used []uintptr, made *uintptr) uintptr) (*Spec, error) {
	names, err := joined(keys)
	if err != nil {
		return nil, err
	}
	used, end, err := specPointers(specs)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeSpec(func(made *uintptr) uintptr { return make(names, used, made) })
}

// NoneSpec is the spec of none.
func NoneSpec() (*Spec, error) { return makeSpec(native.Spec_of_none) }

// OptionalSpec is the spec of an optional.
func OptionalSpec(held *Spec) (*Spec, error) { return specOver(held, native.Spec_of_optional) }

// DatasetSpec is the spec of a dataset with such elements.
func DatasetSpec(elements *Spec) (*Spec, error) {
	return specOver(elements, native.Spec_of_dataset)
}

func specOver(inner *Spec, make func(inner uintptr, made *uintptr) uintptr) (*Spec, error) {
	if inner == nil {
		return nil, invalidArgument("a spec is needed, not nil")
	}
	return as(ownSpec)(readOut(inner.o, make))
}

// LeafSpec is one leaf of a Spec.
type LeafSpec struct {
	Kind Kind
	// DType and Dims are those of a tensor. Dims has UnknownDimension for sizes that are not known,
	// and is nil where the rank is not.
	DType DType
	Dims  []int64
	// Inner is what an optional or a dataset holds, and of the last leaf of a sparse or ragged
	// tensor the dtype and the shape of the whole; the caller's, to close.
	Inner *Spec
}

// Leaves are the leaves of the whole structure, in order: children of dicts by key, in the order of
// bytes.
func (s *Spec) Leaves() ([]LeafSpec, error) {
	if s == nil {
		return nil, invalidArgument("a spec is needed, not nil")
	}
	pointer, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.done()
	leaves := make([]LeafSpec, native.Spec_leaf_count(pointer))
	for i := range leaves {
		leaf := int64(i)
		leaves[i] = LeafSpec{Kind: leafKinds[native.Spec_leaf_kind(pointer, leaf)],
			DType: DType(native.Spec_leaf_dtype(pointer, leaf))}
		if rank := native.Spec_leaf_rank(pointer, leaf); rank >= 0 {
			leaves[i].Dims = make([]int64, rank)
			for axis := range leaves[i].Dims {
				leaves[i].Dims[axis] = native.Spec_leaf_dim(pointer, leaf, int64(axis))
			}
		}
		if inner := native.Spec_leaf_inner(pointer, leaf); inner != 0 {
			native.Tutti_spec_retain(inner)
			leaves[i].Inner = ownSpec(inner)
		}
	}
	return leaves, nil
}

// use gives 0 for nil, which stands for a spec that is learnt.
func (s *Spec) use() (uintptr, error) {
	if s == nil {
		return 0, nil
	}
	return s.o.use()
}

func (s *Spec) done() {
	if s != nil {
		s.o.done()
	}
}

// Equal compares structure, dtypes and shapes.
func (s *Spec) Equal(other *Spec) bool { return s.compare(other, native.Spec_equal) }

// IsCompatible says that every value of specific also fits s.
func (s *Spec) IsCompatible(specific *Spec) bool {
	return s.compare(specific, native.Spec_is_compatible)
}

func (s *Spec) compare(other *Spec, compare func(left, right uintptr) bool) bool {
	used, end, err := specPointers([]*Spec{s, other})
	if err != nil {
		return false
	}
	defer end()
	return compare(used[0], used[1])
}

// String is for people: "{'image': float32[?,64], 'label': int64[?]}".
func (s *Spec) String() string {
	if s == nil {
		return "None"
	}
	text, err := readText(s.o, native.Spec_to_string)
	if err != nil {
		return "<" + err.Error() + ">"
	}
	return text
}

// Close ends the reference.
func (s *Spec) Close() error {
	if s != nil {
		s.o.close()
	}
	return nil
}
