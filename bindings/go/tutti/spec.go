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

// SpecOf describes one value exactly.
func SpecOf(value Value) (*Spec, error) {
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
	names, err := joined(keys)
	if err != nil {
		return nil, err
	}
	used, end, err := specPointers(children)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeSpec(func(made *uintptr) uintptr { return native.Spec_of_dict(names, used, made) })
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
