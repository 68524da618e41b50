package tutti

import (
	"runtime/cgo"
	"sort"
	"strconv"

	"tutti.dev/tutti/internal/native"
)

// Value is a leaf or a nested structure of leaves: what functions receive and return, and what a
// dataset's elements are. It is immutable. The zero Value is none.
type Value struct{ o *object }

// Kind is what a value is.
type Kind int

// The kinds: structures, and the leaves.
const (
	KindNone Kind = iota
	KindTuple
	KindList
	KindDict
	KindNamedTuple
	KindTensor
	KindString
	KindPerReplica
	KindVariable
	KindDataset
	KindOptional
	KindGo // any Go value, by Any
)

var kindNames = [...]string{"none", "tuple", "list", "dict", "named tuple", "tensor", "string",
	"per-replica value", "variable", "dataset", "optional", "Go value"}

func (k Kind) String() string { return kindNames[k] }

var nodeKinds = [...]Kind{KindNone, KindNone, KindTuple, KindList, KindDict, KindNamedTuple}
var leafKinds = [...]Kind{KindNone, KindTensor, KindString, KindPerReplica, KindVariable, KindDataset,
	KindOptional, KindNone, KindGo}

func ownValue(pointer uintptr) Value {
	if pointer == 0 {
		return Value{}
	}
	return Value{own(pointer, "value", native.Tutti_value_release)}
}

// use gives the pointer, 0 for none.
func (v Value) use() (uintptr, error) {
	if v.o == nil {
		return 0, nil
	}
	return v.o.use()
}

func (v Value) done() {
	if v.o != nil {
		v.o.done()
	}
}

// retained is a reference of the caller's own.
func (v Value) retained() (uintptr, error) {
	pointer, err := v.use()
	if err != nil || pointer == 0 {
		return 0, err
	}
	native.Tutti_value_retain(pointer)
	v.done()
	return pointer, nil
}

func kindAt(pointer uintptr) Kind {
	if pointer == 0 {
		return KindNone
	}
	if node := native.Value_kind(pointer); node != 1 {
		return nodeKinds[node]
	}
	return leafKinds[native.Value_leaf_kind(pointer)]
}

// Kind is KindNone also for a value that is closed.
func (v Value) Kind() Kind {
	pointer, err := v.use()
	if err != nil {
		return KindNone
	}
	defer v.done()
	return kindAt(pointer)
}

// Close ends the value, and the tensors that came from it by Tensor.
func (v Value) Close() error {
	v.o.close()
	return nil
}

// Keep is a value that stays when v ends with the function that it was passed to.
func (v Value) Keep() (Value, error) {
	pointer, err := v.retained()
	return ownValue(pointer), err
}

// String is for people.
func (v Value) String() string {
	pointer, err := v.use()
	if err != nil {
		return "<" + err.Error() + ">"
	}
	defer v.done()
	if pointer == 0 {
		return "None"
	}
	var text uintptr
	if err := check(native.Value_to_string(pointer, &text)); err != nil {
		return "<" + err.Error() + ">"
	}
	return takeText(text)
}

// ---- reading

// Len is the number of children, or of components of a per-replica value.
func (v Value) Len() int {
	pointer, err := v.use()
	if err != nil || pointer == 0 {
		return 0
	}
	defer v.done()
	if kindAt(pointer) == KindPerReplica {
		return int(native.Value_component_count(pointer))
	}
	return int(native.Value_child_count(pointer))
}

// At is child or component i; ErrOutOfRange past the last one.
func (v Value) At(i int) (Value, error) {
	pointer, err := v.use()
	if err != nil {
		return Value{}, err
	}
	defer v.done()
	if pointer == 0 || i < 0 {
		return Value{}, &Error{Code: ErrOutOfRange, Message: "there is no child " + strconv.Itoa(i)}
	}
	if kindAt(pointer) == KindPerReplica {
		component := native.Value_component(pointer, int64(i))
		if component == 0 {
			return Value{}, &Error{Code: ErrOutOfRange, Message: "there is no component " + strconv.Itoa(i)}
		}
		native.Tutti_value_retain(component)
		return ownValue(component), nil
	}
	var made uintptr
	if err := check(native.Value_child(pointer, int64(i), &made)); err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
}

// Get is the part at a path of keys, fields and indexes joined by '/'; ErrNotFound names what there
// is.
func (v Value) Get(path string) (Value, error) {
	pointer, err := v.use()
	if err != nil {
		return Value{}, err
	}
	defer v.done()
	if pointer == 0 {
		return Value{}, &Error{Code: ErrNotFound, Message: strconv.Quote(path) + " of none"}
	}
	var made uintptr
	if err := check(native.Value_find(pointer, path, &made)); err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
}

// Keys are those of a dict, sorted, or the fields of a named tuple; else nil.
func (v Value) Keys() []string {
	pointer, err := v.use()
	if err != nil || pointer == 0 {
		return nil
	}
	defer v.done()
	kind := kindAt(pointer)
	if kind != KindDict && kind != KindNamedTuple {
		return nil
	}
	keys := make([]string, native.Value_child_count(pointer))
	for i := range keys {
		keys[i] = native.Value_key(pointer, int64(i))
	}
	return keys
}

// TypeName is that of a named tuple.
func (v Value) TypeName() string {
	pointer, err := v.use()
	if err != nil || pointer == 0 {
		return ""
	}
	defer v.done()
	return native.Value_type_name(pointer)
}

// leaf uses the value as a leaf of a kind.
func (v Value) leaf(kind Kind) (uintptr, error) {
	pointer, err := v.use()
	if err != nil {
		return 0, err
	}
	if have := kindAt(pointer); have != kind {
		v.done()
		return 0, invalidArgument("a %v is needed, this value is a %v", kind, have)
	}
	return pointer, nil
}

// Tensor is the tensor of a leaf; it lives as long as v.
func (v Value) Tensor() (*Tensor, error) {
	pointer, err := v.use()
	if err != nil {
		return nil, err
	}
	defer v.done()
	if pointer != 0 {
		if tensor := native.Value_tensor(pointer); tensor != 0 && native.Value_kind(pointer) == 1 {
			return &Tensor{o: v.o, pointer: tensor, part: true}, nil
		}
	}
	return nil, invalidArgument("a tensor is needed, this value is a %v", kindAt(pointer))
}

// TensorAt is the tensor at a path, as Get and Tensor.
func (v Value) TensorAt(path string) (*Tensor, error) {
	part, err := v.Get(path)
	if err != nil {
		return nil, err
	}
	return part.Tensor()
}

// Float64 is the number of a scalar.
func (v Value) Float64() (float64, error) {
	tensor, err := v.Tensor()
	if err != nil {
		return 0, err
	}
	return tensor.Float64()
}

// Int64 is the integer of a scalar.
func (v Value) Int64() (int64, error) {
	tensor, err := v.Tensor()
	if err != nil {
		return 0, err
	}
	return tensor.Int64()
}

// Text is a string leaf, or the one string of a tensor of byte strings.
func (v Value) Text() (string, error) {
	if v.Kind() == KindTensor {
		tensor, err := v.Tensor()
		if err != nil {
			return "", err
		}
		texts, err := tensor.Strings()
		if err != nil {
			return "", err
		}
		if len(texts) != 1 {
			return "", invalidArgument("a text of a tensor with %d elements", len(texts))
		}
		return texts[0], nil
	}
	pointer, err := v.leaf(KindString)
	if err != nil {
		return "", err
	}
	defer v.done()
	var size int64
	address := native.Value_text(pointer, &size)
	return string(bytesAt(address, size)), nil
}

// Any is the Go value of a leaf that Any made.
func (v Value) Any() (any, error) {
	pointer, err := v.leaf(KindGo)
	if err != nil {
		return nil, err
	}
	defer v.done()
	handle := native.Value_go_object(pointer)
	if handle == 0 {
		return nil, invalidArgument("this value holds an object of another language")
	}
	return cgo.Handle(handle).Value(), nil
}

// Optional is what an optional leaf holds, and whether it does.
func (v Value) Optional() (Value, bool, error) {
	pointer, err := v.leaf(KindOptional)
	if err != nil {
		return Value{}, false, err
	}
	defer v.done()
	held := native.Value_optional(pointer)
	if held == 0 {
		return Value{}, false, nil
	}
	native.Tutti_value_retain(held)
	return ownValue(held), true, nil
}

// ---- making

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
