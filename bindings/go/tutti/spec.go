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

// PerReplicaSpec is the spec of a distributed value of such components, one for each replica of
// this process, each of one leaf that is not distributed itself.
func PerReplicaSpec(components ...*Spec) (*Spec, error) {
	used, end, err := specPointers(components)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeSpec(func(made *uintptr) uintptr { return native.Spec_of_per_replica(used, made) })
}

// DatasetSpec is the spec of a dataset with such elements. dims are those of an array of datasets,
// which no value is, so that only none fit one; they are kept and compared.
func DatasetSpec(elements *Spec, dims ...int64) (*Spec, error) {
	return specOver(elements, func(inner uintptr, made *uintptr) uintptr {
		return native.Spec_of_dataset(inner, dims, made)
	})
}

// VariantSpec is the spec of a dataset of any elements, which is what a variant is (ToVariant).
func VariantSpec() (*Spec, error) { return makeSpec(native.Spec_of_variant) }

// IteratorSpec is the spec of an iterator over such elements. It is for comparing: no value holds
// an iterator.
func IteratorSpec(elements *Spec) (*Spec, error) {
	return specOver(elements, native.Spec_of_iterator)
}

// SpecOfIterator is the IteratorSpec that describes an iterator.
func SpecOfIterator(iterator *Iterator) (*Spec, error) {
	elements, err := iterator.ElementSpec()
	if err != nil {
		return nil, err
	}
	defer elements.Close()
	return IteratorSpec(elements)
}

// SpecOfTypes is the spec of tensors of types: a DType, a []any for a tuple or a map[string]any of
// them. shapes has the same structure, with an []int64 or nil, which is a rank that is not known,
// in the place of each DType; nil altogether: none is known.
func SpecOfTypes(types, shapes any) (*Spec, error) {
	switch types := types.(type) {
	case DType:
		switch shape := shapes.(type) {
		case nil:
			return TensorSpecOfUnknownRank(types)
		case []int64:
			if shape == nil {
				return TensorSpecOfUnknownRank(types)
			}
			return TensorSpec(types, shape...)
		}
		return nil, invalidArgument("the shape of a %v: an []int64 or nil is needed, not a %T", types,
			shapes)
	case []any:
		parts, ok := shapes.([]any)
		if shapes != nil && (!ok || len(parts) != len(types)) {
			return nil, invalidArgument("the shapes of a tuple of %d types: a []any of as many is "+
				"needed, not %v", len(types), shapes)
		}
		specs := make([]*Spec, len(types))
		defer closeSpecs(specs)
		for i, part := range types {
			var shape any
			if parts != nil {
				shape = parts[i]
			}
			var err error
			if specs[i], err = SpecOfTypes(part, shape); err != nil {
				return nil, err
			}
		}
		return TupleSpec(specs...)
	case map[string]any:
		parts, ok := shapes.(map[string]any)
		if shapes != nil && (!ok || len(parts) != len(types)) {
			return nil, invalidArgument("the shapes of a dict of %d types: a map[string]any of as many "+
				"is needed, not %v", len(types), shapes)
		}
		specs := make(map[string]*Spec, len(types))
		for key, part := range types {
			shape, ok := parts[key]
			if parts != nil && !ok {
				return nil, invalidArgument("the shapes of a dict have none for %q", key)
			}
			spec, err := SpecOfTypes(part, shape)
			if err != nil {
				return nil, err
			}
			defer spec.Close()
			specs[key] = spec
		}
		return DictSpec(specs)
	}
	return nil, invalidArgument("a DType, a []any or a map[string]any of them is needed, not a %T",
		types)
}

func closeSpecs(specs []*Spec) {
	for _, spec := range specs {
		spec.Close()
	}
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
	// DType and Dims are those of a tensor, and Dims also a dataset's, which are none as a rule. Dims
	// has UnknownDimension for sizes that are not known, and is nil where the rank is not.
	DType DType
	Dims  []int64
	// Inner is what an optional holds, the elements of a dataset or an iterator, a tuple of the
	// components of a distributed value, and of the last leaf of a sparse or ragged tensor the dtype
	// and the shape of the whole; nil where that is not known.
	// The caller's, to close.
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

// IsCompatible says that a value could fit both: structure, kinds and dtypes are equal, and no two
// sizes that are known differ. What is not known, on either side, fits. SpecOf makes the spec of a
// value to ask about.
func (s *Spec) IsCompatible(other *Spec) bool {
	return s.compare(other, native.Spec_is_compatible)
}

// MostSpecific is the most specific spec that every value of s and of other fits: sizes that differ
// are not known in it, nor are ranks. ErrInvalidArgument, naming both, where structure, kinds or
// dtypes differ.
func (s *Spec) MostSpecific(other *Spec) (*Spec, error) {
	used, end, err := specPointers([]*Spec{s, other})
	if err != nil {
		return nil, err
	}
	defer end()
	return makeSpec(func(made *uintptr) uintptr {
		return native.Spec_most_specific(used[0], used[1], made)
	})
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
