package tutti

import "tutti.dev/tutti/internal/native"

// JoinStrings puts the byte strings of one place together, in the order of the tensors, with
// separator between them. Scalars stand in every place; all other tensors must have the same dims,
// which are the result's.
func JoinStrings(separator string, tensors ...*Tensor) (*Tensor, error) {
	used := make([]uintptr, 0, len(tensors))
	for _, tensor := range tensors {
		pointer, err := tensor.use()
		if err != nil {
			return nil, err
		}
		defer tensor.done()
		used = append(used, pointer)
	}
	var made uintptr
	if err := check(native.Tensor_join_strings(used, separator, &made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// TextFormat says how Tensor.AsStrings writes numbers; the zero value: 7, 3.140000, true.
type TextFormat struct {
	Precision  *int // digits behind the point, of floats
	Scientific bool // 3.14e+00, of floats
	Shortest   bool // the shorter one of both forms, of floats
	Width      int  // at least so many characters
	// What fills them up, with a Width: "" or " " blanks, "0" zeros; "-" puts blanks behind the
	// number, "+" gives each its sign.
	Fill string
}

// AsStrings are the elements as byte strings. ErrInvalidArgument for what the dtype does not have.
func (t *Tensor) AsStrings(format TextFormat) (*Tensor, error) {
	var precision, width []int64
	if format.Precision != nil {
		precision = []int64{int64(*format.Precision)}
	}
	if format.Width != 0 {
		width = []int64{int64(format.Width)}
	}
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_as_string(pointer, precision, tristate(format.Scientific),
			tristate(format.Shortest), width, format.Fill, made)
	})
}

// Serialize is the tensor as one byte string, a scalar: the message TensorProto, byte for byte what
// TensorFlow's serialize_tensor gives.
func (t *Tensor) Serialize() (*Tensor, error) { return t.derive(native.Tensor_serialize) }

// ParseTensor is the tensor that a byte string is, a scalar that Serialize gave, or TensorFlow.
// ErrInvalidArgument for a tensor of another dtype, and for bytes that are none.
func ParseTensor(serialized *Tensor, dtype DType) (*Tensor, error) {
	return serialized.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_parse(pointer, int(dtype), made)
	})
}
