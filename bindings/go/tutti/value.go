package tutti

import (
	"runtime/cgo"
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
	KindGo       // any Go value, by Any
	KindIterator // of a spec only: no value holds one
)

var kindNames = [...]string{"none", "tuple", "list", "dict", "named tuple", "tensor", "string",
	"per-replica value", "variable", "dataset", "optional", "Go value", "iterator"}

// String is for people, "named tuple".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown kind"
	}
	return kindNames[k]
}

var nodeKinds = [...]Kind{KindNone, KindNone, KindTuple, KindList, KindDict, KindNamedTuple}
var leafKinds = [...]Kind{KindNone, KindTensor, KindString, KindPerReplica, KindVariable,
	KindDataset, KindOptional, KindNone, KindGo, KindIterator}

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

// Distribution is what is known of the components of a per-replica value, or of the copies of a
// variable.
type Distribution int

// The ways; of other values it is 0.
const (
	DistributedPerReplica Distribution = 1 // each replica's own
	DistributedMirrored   Distribution = 2 // equal on all: it is read as the value that it is
	DistributedSyncOnRead Distribution = 3 // of variables alone: each one's own, until it is read
)

// Distribution of a value of the kind KindPerReplica; 0 of others.
func (v Value) Distribution() Distribution {
	pointer, err := v.use()
	if err != nil || pointer == 0 {
		return 0
	}
	defer v.done()
	return Distribution(native.Value_distribution(pointer))
}

// Tensor is the tensor of a leaf, of a mirrored one that of replica 0, read-only, for its memory is
// shared; it lives as long as v.
func (v Value) Tensor() (*Tensor, error) {
	pointer, err := v.use()
	if err != nil {
		return nil, err
	}
	defer v.done()
	if pointer != 0 {
		if Distribution(native.Value_distribution(pointer)) == DistributedMirrored {
			if component := native.Value_component(pointer, 0); component != 0 {
				pointer = component
			}
		}
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

// ---- leaves

// Leaves are the leaves of the whole structure, in order: children of dicts by key, in the order of
// bytes.
func (v Value) Leaves() ([]Value, error) {
	given, end, err := given(v)
	if err != nil {
		return nil, err
	}
	defer end()
	pointer, err := given.use()
	if err != nil {
		return nil, err
	}
	defer given.done()
	leaves := make([]Value, native.Value_leaf_count(pointer))
	for i := range leaves {
		if leaves[i], err = makeValue(func(made *uintptr) uintptr {
			return native.Value_leaf(pointer, int64(i), made)
		}); err != nil {
			return nil, err
		}
	}
	return leaves, nil
}

// WithLeaves is the structure of v with other leaves, as many as Leaves gives.
func (v Value) WithLeaves(leaves ...Value) (Value, error) {
	given, end, err := given(v)
	if err != nil {
		return Value{}, err
	}
	defer end()
	used, drop, err := pointers(leaves)
	if err != nil {
		return Value{}, err
	}
	defer drop()
	return as(ownValue)(readOut(given.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Value_with_leaves(pointer, used, made)
	}))
}

// HasStructureOf says that v and other are nested alike, whatever their leaves are.
func (v Value) HasStructureOf(other Value) bool {
	used, end, err := pointers([]Value{v, other})
	if err != nil {
		return false
	}
	defer end()
	return native.Value_same_structure(used[0], used[1])
}

// ---- bytes

// Serialize is the value as bytes, for other processes and other languages: the protocol buffer
// message tutti.v1.ValueDef. Go values (Any), variables and values per replica are
// ErrFailedPrecondition.
func (v Value) Serialize() ([]byte, error) {
	given, end, err := given(v)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := readOut(given.o, native.Value_serialize)
	return takeBytes(made), err
}

// ParseValue is the value that Serialize gave, in whatever language.
func ParseValue(serialized []byte) (Value, error) { return defaultRuntime.ParseValue(serialized) }

// ParseValue in this runtime.
func (r *Runtime) ParseValue(serialized []byte) (Value, error) {
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Value_parse(runtime, serialized, made)
	})
	return ownValue(made), err
}
