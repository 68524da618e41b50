package tutti

import (
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// From makes a value of Go's own: what datasets, examples and functions are given.
//
//	bool, numbers           scalars of their own dtype; an int is Int64
//	string                  a byte string
//	slices and arrays       vectors; of slices of equal length matrices, and so on; a []byte is a
//	                        vector of Uint8, as Of has it
//	[]any                   a tuple
//	maps with string keys   dicts
//	structs                 named tuples of their exported fields, under the name in the tag
//	                        `tutti:"..."` where there is one, without those tagged `tutti:"-"`
//	Value, *Tensor          themselves; pointers what they point to; nil none
//
// ErrInvalidArgument says where in the structure something else stands.
func From(object any) (Value, error) {
	return from(reflect.ValueOf(object), "")
}

func from(object reflect.Value, path string) (Value, error) {
	if !object.IsValid() {
		return Value{}, nil
	}
	switch known := object.Interface().(type) {
	case Value:
		return known.Keep()
	case *Tensor:
		return OfTensor(known)
	}
	switch object.Kind() {
	case reflect.Pointer, reflect.Interface:
		if object.IsNil() {
			return Value{}, nil
		}
		return from(object.Elem(), path)
	case reflect.Map:
		return fromMap(object, path)
	case reflect.Struct:
		return fromStruct(object, path)
	case reflect.Slice, reflect.Array:
		if object.Type().Elem().Kind() == reflect.Interface {
			return fromAll(object, path)
		}
	}
	tensor, err := tensorFrom(object, path)
	if err != nil {
		return Value{}, err
	}
	defer tensor.Close()
	return OfTensor(tensor)
}

func fromMap(object reflect.Value, path string) (Value, error) {
	if object.Type().Key().Kind() != reflect.String {
		return Value{}, cannotMake(object, path, "a map's keys are strings")
	}
	keys := make([]string, 0, object.Len())
	for _, key := range object.MapKeys() {
		keys = append(keys, key.String())
	}
	sort.Strings(keys)
	parts := make(map[string]Value, len(keys))
	defer closeParts(parts)
	for _, key := range keys {
		item := object.MapIndex(reflect.ValueOf(key).Convert(object.Type().Key()))
		part, err := from(item, path+"/"+key)
		if err != nil {
			return Value{}, err
		}
		parts[key] = part
	}
	return Dict(parts)
}

func closeParts(parts map[string]Value) {
	for _, part := range parts {
		part.o.close()
	}
}

func fromStruct(object reflect.Value, path string) (Value, error) {
	var names []string
	var parts []Value
	defer func() {
		for _, part := range parts {
			part.o.close()
		}
	}()
	kind := object.Type()
	for i := 0; i < kind.NumField(); i++ {
		field := kind.Field(i)
		name, tagged := field.Tag.Lookup("tutti")
		if !tagged {
			name = field.Name
		}
		if !field.IsExported() || name == "-" {
			continue
		}
		part, err := from(object.Field(i), path+"/"+name)
		if err != nil {
			return Value{}, err
		}
		names, parts = append(names, name), append(parts, part)
	}
	name := kind.Name()
	if name == "" { // of a type without one
		name = "struct"
	}
	return NamedTuple(name, names, parts...)
}

func fromAll(object reflect.Value, path string) (Value, error) {
	parts := make([]Value, 0, object.Len())
	defer func() {
		for _, part := range parts {
			part.o.close()
		}
	}()
	for i := 0; i < object.Len(); i++ {
		part, err := from(object.Index(i), path+"/"+strconv.Itoa(i))
		if err != nil {
			return Value{}, err
		}
		parts = append(parts, part)
	}
	return Tuple(parts...)
}

// tensorFrom makes a tensor of a number, a text, or slices of them.
func tensorFrom(object reflect.Value, path string) (*Tensor, error) {
	dims := []int64{}
	kind := object.Type()
	for first := object; kind.Kind() == reflect.Slice || kind.Kind() == reflect.Array; {
		length := 0
		if first.IsValid() {
			length = first.Len()
		}
		dims = append(dims, int64(length))
		kind = kind.Elem()
		if length == 0 {
			first = reflect.Value{}
		} else {
			first = first.Index(0)
		}
	}
	switch kind.Kind() {
	case reflect.Bool:
		return elementsOf(object, path, dims,
			func(item reflect.Value) bool { return item.Bool() })
	case reflect.Int, reflect.Int64:
		return elementsOf(object, path, dims,
			func(item reflect.Value) int64 { return item.Int() })
	case reflect.Int8:
		return elementsOf(object, path, dims,
			func(item reflect.Value) int8 { return int8(item.Int()) })
	case reflect.Int16:
		return elementsOf(object, path, dims,
			func(item reflect.Value) int16 { return int16(item.Int()) })
	case reflect.Int32:
		return elementsOf(object, path, dims,
			func(item reflect.Value) int32 { return int32(item.Int()) })
	case reflect.Uint, reflect.Uint64:
		return elementsOf(object, path, dims,
			func(item reflect.Value) uint64 { return item.Uint() })
	case reflect.Uint8:
		return elementsOf(object, path, dims,
			func(item reflect.Value) uint8 { return uint8(item.Uint()) })
	case reflect.Uint16:
		return elementsOf(object, path, dims,
			func(item reflect.Value) uint16 { return uint16(item.Uint()) })
	case reflect.Uint32:
		return elementsOf(object, path, dims,
			func(item reflect.Value) uint32 { return uint32(item.Uint()) })
	case reflect.Float32:
		return elementsOf(object, path, dims,
			func(item reflect.Value) float32 { return float32(item.Float()) })
	case reflect.Float64:
		return elementsOf(object, path, dims,
			func(item reflect.Value) float64 { return item.Float() })
	case reflect.Complex64:
		return elementsOf(object, path, dims,
			func(item reflect.Value) complex64 { return complex64(item.Complex()) })
	case reflect.Complex128:
		return elementsOf(object, path, dims,
			func(item reflect.Value) complex128 { return item.Complex() })
	case reflect.String:
		var texts []string
		if err := walk(object, path, dims, func(item reflect.Value) {
			texts = append(texts, item.String())
		}); err != nil {
			return nil, err
		}
		return StringTensor(texts, dims...)
	}
	return nil, cannotMake(object, path, "give numbers, texts, slices, maps and structs of them, "+
		"tensors or values; OfAny holds any Go value")
}

func elementsOf[T Element](object reflect.Value, path string, dims []int64,
	read func(item reflect.Value) T) (*Tensor, error) {
	var elements []T
	if err := walk(object, path, dims, func(item reflect.Value) {
		elements = append(elements, read(item))
	}); err != nil {
		return nil, err
	}
	return TensorOf(elements, dims...)
}

// walk visits the elements in row-major order; all slices of one level are of one length.
func walk(object reflect.Value, path string, dims []int64, visit func(item reflect.Value)) error {
	if len(dims) == 0 {
		visit(object)
		return nil
	}
	if int64(object.Len()) != dims[0] {
		return invalidArgument("From: %s has %d elements, the first of its level has %d: a matrix has "+
			"rows of one length", named(path), object.Len(), dims[0])
	}
	for i := 0; i < object.Len(); i++ {
		if err := walk(object.Index(i), path+"/"+strconv.Itoa(i), dims[1:], visit); err != nil {
			return err
		}
	}
	return nil
}

func named(path string) string {
	if path == "" {
		return "what was given"
	}
	return strings.TrimPrefix(path, "/")
}

func cannotMake(object reflect.Value, path, instead string) error {
	return invalidArgument("From: %s is a %v, of which no value is made; %s", named(path),
		object.Type(), instead)
}

// Float64At is the number at a path of keys, fields and indexes joined by '/', as Get and Float64.
func (v Value) Float64At(path string) (float64, error) {
	return at(v, path, Value.Float64)
}

// Int64At is the integer at a path, as Get and Int64.
func (v Value) Int64At(path string) (int64, error) { return at(v, path, Value.Int64) }

// TextAt is the text at a path, as Get and Text.
func (v Value) TextAt(path string) (string, error) { return at(v, path, Value.Text) }

// SliceAt is a copy of the elements of the tensor at a path, in row-major order.
func SliceAt[T Element](v Value, path string) ([]T, error) {
	return at(v, path, func(part Value) ([]T, error) {
		tensor, err := part.Tensor()
		if err != nil {
			return nil, err
		}
		dense, err := tensor.Copy()
		if err != nil {
			return nil, err
		}
		defer dense.Close()
		elements, err := Slice[T](dense)
		return append([]T(nil), elements...), err
	})
}

func at[T any](v Value, path string, read func(part Value) (T, error)) (found T, err error) {
	part, err := v.Get(path)
	if err != nil {
		return found, err
	}
	defer part.o.close()
	return read(part)
}
