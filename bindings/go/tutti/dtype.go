package tutti

import "tutti.dev/tutti/internal/native"

// DType is the type of a tensor's elements.
type DType int

// The element types. Float16 and BFloat16 are uint16 in Go, their bits.
const (
	Bool       DType = 1
	Int8       DType = 2
	Int16      DType = 3
	Int32      DType = 4
	Int64      DType = 5
	Uint8      DType = 6
	Uint16     DType = 7
	Uint32     DType = 8
	Uint64     DType = 9
	Float16    DType = 10
	BFloat16   DType = 11
	Float32    DType = 12
	Float64    DType = 13
	Complex64  DType = 14
	Complex128 DType = 15
	Bytes      DType = 16
)

// String is the name, "float32"; "invalid" for a number that is no dtype.
func (d DType) String() string { return native.Dtype_name(int(d)) }

// Size is the number of bytes of an element, 0 for a number that is no dtype.
func (d DType) Size() int { return int(native.Dtype_size(int(d))) }

// Element is what a slice over a tensor can hold. An int is Int64, everything else what its name
// says.
type Element interface {
	bool | int | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 |
		complex64 | complex128
}

// DTypeOf is the dtype that T stands for.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case bool:
		return Bool
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int, int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	default:
		return Complex128
	}
}
