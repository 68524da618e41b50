package tutti

import (
	"runtime/cgo"
	"sort"

	"tutti.dev/tutti/internal/native"
)

func makeValue(make func(made *uintptr) uintptr) (Value, error) {
	var made uintptr
	if err := check(make(&made)); err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
}

// OfTensor is a leaf with a tensor, which it retains.
func OfTensor(tensor *Tensor) (Value, error) {
	pointer, err := tensor.use()
	if err != nil {
		return Value{}, err
	}
	defer tensor.o.done()
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_tensor(pointer, made) })
}

// Of is a leaf with a tensor that is a copy of elements, as TensorOf.
func Of[T Element](elements []T, dims ...int64) (Value, error) {
	tensor, err := TensorOf(elements, dims...)
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	return OfTensor(tensor)
}

// OfScalar is a leaf with a tensor of rank 0, of the dtype of its element: OfScalar(5) of Int64, as
// an int is, OfScalar(float32(5)) of Float32.
func OfScalar[T Element](element T) (Value, error) {
	tensor, err := Scalar(element)
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	return OfTensor(tensor)
}

// OfFloat64 is a scalar.
func OfFloat64(number float64) (Value, error) {
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_float64(number, made) })
}

// OfInt64 is a scalar.
func OfInt64(number int64) (Value, error) {
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_int64(number, made) })
}

// OfText is a string leaf, which is no tensor; StringTensor is what datasets want.
func OfText(text string) (Value, error) {
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_text([]byte(text), made) })
}

// OfAny is a leaf with any Go value, which goes through the library as it is.
func OfAny(object any) (Value, error) {
	return makeValue(func(made *uintptr) uintptr {
		return native.Value_of_go_object(uintptr(cgo.NewHandle(object)), made)
	})
}

// Some is an optional that holds a value.
func Some(value Value) (Value, error) {
	pointer, err := value.use()
	if err != nil {
		return Value{}, err
	}
	defer value.done()
	if pointer == 0 {
		return Value{}, invalidArgument("an optional of none: Empty is the empty one")
	}
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_optional(pointer, made) })
}

// Empty is an optional that holds nothing.
func Empty() (Value, error) {
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_optional(0, made) })
}

// EmptyOf is an optional that holds nothing, where a value of the spec could be: its own spec is an
// OptionalSpec of that.
func EmptyOf(spec *Spec) (Value, error) {
	if spec == nil {
		return Value{}, invalidArgument("a spec is needed, not nil; Empty has none")
	}
	return as(ownValue)(readOut(spec.o, native.Value_of_empty_optional))
}

// pointers uses all of values; end gives them back.
func pointers(values []Value) (used []uintptr, end func(), err error) {
	used = make([]uintptr, 0, len(values))
	var none []uintptr
	end = func() {
		for _, value := range values[:len(used)] {
			value.done()
		}
		for _, pointer := range none {
			native.Tutti_value_release(pointer)
		}
	}
	for _, value := range values {
		pointer, err := value.use()
		if err == nil && pointer == 0 {
			if err = check(native.Value_of_none(&pointer)); err == nil {
				none = append(none, pointer)
			}
		}
		if err != nil {
			end()
			return nil, nothing, err
		}
		used = append(used, pointer)
	}
	return used, end, nil
}

func sequence(list bool, values []Value) (Value, error) {
	used, end, err := pointers(values)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return makeValue(func(made *uintptr) uintptr { return native.Value_of_sequence(list, used, made) })
}

// Tuple is a tuple of values, which stay the caller's.
func Tuple(values ...Value) (Value, error) { return sequence(false, values) }

// List is a list of values.
func List(values ...Value) (Value, error) { return sequence(true, values) }

// Dict is a dict of values.
func Dict(values map[string]Value) (Value, error) {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	children := make([]Value, len(keys))
	for i, key := range keys {
		children[i] = values[key]
	}
	return keyed(keys, children, func(names string, used []uintptr, made *uintptr) uintptr {
		return native.Value_of_dict(names, used, made)
	})
}

// NamedTuple is a tuple whose fields have names.
func NamedTuple(typeName string, fields []string, values ...Value) (Value, error) {
	return keyed(fields, values, func(names string, used []uintptr, made *uintptr) uintptr {
		return native.Value_of_named_tuple(typeName, names, used, made)
	})
}

func keyed(keys []string, values []Value,
	make func(names string, used []uintptr, made *uintptr) uintptr) (Value, error) {
	names, err := joined(keys)
	if err != nil {
		return Value{}, err
	}
	used, end, err := pointers(values)
	if err != nil {
		return Value{}, err
	}
	defer end()
	return makeValue(func(made *uintptr) uintptr { return make(names, used, made) })
}
