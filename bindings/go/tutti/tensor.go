package tutti

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

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

var dtypeNames = [...]string{"invalid", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
	"uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bytes"}

func (d DType) String() string {
	if d < 0 || int(d) >= len(dtypeNames) {
		return dtypeNames[0]
	}
	return dtypeNames[d]
}

// Element is what a slice over a tensor can hold.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 |
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
	case int64:
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

// Tensor is a dense array in memory of the library.
type Tensor struct {
	o       *object
	pointer uintptr // of the tensor; o may be the value that it is a part of
	part    bool
}

func ownTensor(pointer uintptr) *Tensor {
	return &Tensor{o: own(pointer, "tensor", native.Tutti_tensor_release), pointer: pointer}
}

func (t *Tensor) use() (uintptr, error) {
	if t == nil {
		return 0, invalidArgument("a tensor is needed, not nil")
	}
	if _, err := t.o.use(); err != nil {
		return 0, err
	}
	return t.pointer, nil
}

// NewTensor is a tensor of zeros. Fill it through MutableSlice.
func NewTensor(dtype DType, dims ...int64) (*Tensor, error) {
	var made uintptr
	if err := check(native.Tensor_create(0, int(dtype), dims, 1, &made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// TensorOf is a tensor with a copy of elements, in row-major order; without dims of rank 1.
func TensorOf[T Element](elements []T, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(elements))}
	}
	var made uintptr
	if err := check(native.Tensor_from_bytes(0, int(DTypeOf[T]()), dims, bytesOf(elements),
		&made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// Scalar is a tensor of rank 0.
func Scalar[T Element](element T) (*Tensor, error) {
	return TensorOf([]T{element}, []int64{}...)
}

// StringTensor is a tensor of byte strings; without dims of rank 1.
func StringTensor(texts []string, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(texts))}
	}
	ends := make([]int64, len(texts))
	var bytes []byte
	for i, text := range texts {
		bytes = append(bytes, text...)
		ends[i] = int64(len(bytes))
	}
	var made uintptr
	if err := check(native.Tensor_from_strings(0, dims, ends, bytes, &made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

func bytesOf[T Element](elements []T) []byte {
	if len(elements) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&elements[0])),
		uintptr(len(elements))*unsafe.Sizeof(elements[0]))
}

// DType is 0 for a closed tensor.
func (t *Tensor) DType() DType {
	pointer, err := t.use()
	if err != nil {
		return 0
	}
	defer t.o.done()
	return DType(native.Tensor_dtype(pointer))
}

// Dims are the sizes of the axes; nil for a closed tensor.
func (t *Tensor) Dims() []int64 {
	pointer, err := t.use()
	if err != nil {
		return nil
	}
	defer t.o.done()
	dims := make([]int64, native.Tensor_rank(pointer))
	for i := range dims {
		dims[i] = native.Tensor_dim(pointer, int64(i))
	}
	return dims
}

// Len is the number of elements; 0 for a closed tensor.
func (t *Tensor) Len() int {
	pointer, err := t.use()
	if err != nil {
		return 0
	}
	defer t.o.done()
	return int(native.Tensor_element_count(pointer))
}

// IsReadOnly says that MutableSlice refuses; Copy makes a tensor that does not.
func (t *Tensor) IsReadOnly() bool {
	pointer, err := t.use()
	if err != nil {
		return true
	}
	defer t.o.done()
	return native.Tensor_is_read_only(pointer)
}

// IsContiguous says that the elements lie in row-major order without gaps, as Slice wants them.
func (t *Tensor) IsContiguous() bool {
	pointer, err := t.use()
	if err != nil {
		return false
	}
	defer t.o.done()
	return native.Tensor_is_contiguous(pointer)
}

// Address is where the elements lie, 0 for a closed tensor.
func (t *Tensor) Address() uintptr {
	pointer, err := t.use()
	if err != nil {
		return 0
	}
	defer t.o.done()
	return native.Tensor_address(pointer)
}

// Equal compares dtype, dims and elements; NaN equals NaN.
func (t *Tensor) Equal(other *Tensor) bool {
	left, err := t.use()
	if err != nil {
		return false
	}
	defer t.o.done()
	right, err := other.use()
	if err != nil {
		return false
	}
	defer other.o.done()
	return native.Tensor_equal(left, right)
}

// String is for people, "int64[3] [0 1 2]".
func (t *Tensor) String() string {
	pointer, err := t.use()
	if err != nil {
		return "<" + err.Error() + ">"
	}
	defer t.o.done()
	var text uintptr
	if err := check(native.Tensor_to_string(pointer, &text)); err != nil {
		return "<" + err.Error() + ">"
	}
	return takeText(text)
}

func (t *Tensor) derive(make func(pointer uintptr, made *uintptr) uintptr) (*Tensor, error) {
	pointer, err := t.use()
	if err != nil {
		return nil, err
	}
	defer t.o.done()
	var made uintptr
	if err := check(make(pointer, &made)); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// Cut is a view of the elements [start, stop) along axis.
func (t *Tensor) Cut(axis int, start, stop int64) (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_slice(pointer, int64(axis), start, stop, made)
	})
}

// Reshape is the same elements under other dims, of which one may be -1; a view where possible.
func (t *Tensor) Reshape(dims ...int64) (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_reshape(pointer, dims, made)
	})
}

// Cast is a copy of another dtype.
func (t *Tensor) Cast(dtype DType) (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_cast(pointer, int(dtype), made)
	})
}

// Copy is a contiguous, writable copy.
func (t *Tensor) Copy() (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_copy(pointer, made)
	})
}

// Keep is a second reference to the same memory, which outlives the value that t is a part of.
func (t *Tensor) Keep() (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_from(pointer, made)
	})
}

// Close ends the reference. A tensor that is a part of a value ends with the value.
func (t *Tensor) Close() error {
	if t != nil && !t.part {
		t.o.close()
	}
	return nil
}

// Slice is the tensor's memory as a slice, without a copy: read it, and see the package's comment
// for how long. A tensor of another dtype, or one with gaps (Copy closes them), is
// ErrInvalidArgument.
func Slice[T Element](t *Tensor) ([]T, error) {
	pointer, err := t.use()
	if err != nil {
		return nil, err
	}
	defer t.o.done()
	return sliceOf[T](pointer, native.Tensor_address(pointer))
}

// MutableSlice is Slice for writing; a read-only tensor is ErrFailedPrecondition.
func MutableSlice[T Element](t *Tensor) ([]T, error) {
	pointer, err := t.use()
	if err != nil {
		return nil, err
	}
	defer t.o.done()
	var address uintptr
	if err := check(native.Tensor_mutable_address(pointer, &address)); err != nil {
		return nil, err
	}
	return sliceOf[T](pointer, address)
}

// View calls f with the tensor's memory, which stays until f returns even when the tensor is closed
// meanwhile.
func View[T Element](t *Tensor, f func(elements []T) error) error {
	pointer, err := t.use()
	if err != nil {
		return err
	}
	defer t.o.done()
	elements, err := sliceOf[T](pointer, native.Tensor_address(pointer))
	if err != nil {
		return err
	}
	return f(elements)
}

func sliceOf[T Element](pointer, address uintptr) ([]T, error) {
	have, want := DType(native.Tensor_dtype(pointer)), DTypeOf[T]()
	if have != want && !(want == Uint16 && (have == Float16 || have == BFloat16)) {
		return nil, invalidArgument("a slice of %v over a tensor of %v: Cast gives one of another dtype",
			want, have)
	}
	if !native.Tensor_is_contiguous(pointer) {
		return nil, invalidArgument("a slice needs elements without gaps between them: take a Copy")
	}
	count := native.Tensor_element_count(pointer)
	if count == 0 {
		return []T{}, nil
	}
	return unsafe.Slice((*T)(pointerAt(address)), count), nil
}

// Strings are the elements of a tensor of byte strings, copied.
func (t *Tensor) Strings() ([]string, error) {
	pointer, err := t.use()
	if err != nil {
		return nil, err
	}
	defer t.o.done()
	if have := DType(native.Tensor_dtype(pointer)); have != Bytes {
		return nil, invalidArgument("strings of a tensor of %v", have)
	}
	if !native.Tensor_is_contiguous(pointer) {
		return nil, invalidArgument("strings need elements without gaps between them: take a Copy")
	}
	type view struct {
		data uintptr
		size uintptr
	}
	count := native.Tensor_element_count(pointer)
	if count == 0 {
		return []string{}, nil
	}
	texts := make([]string, count)
	for i, element := range unsafe.Slice((*view)(pointerAt(native.Tensor_address(pointer))), count) {
		texts[i] = string(bytesAt(element.data, int64(element.size)))
	}
	return texts, nil
}

// number reads a tensor of one element.
func (t *Tensor) number() (integer int64, real float64, err error) {
	pointer, err := t.use()
	if err != nil {
		return 0, 0, err
	}
	defer t.o.done()
	if count := native.Tensor_element_count(pointer); count != 1 {
		return 0, 0, invalidArgument("a number of a tensor with %d elements", count)
	}
	at := pointerAt(native.Tensor_address(pointer))
	switch dtype := DType(native.Tensor_dtype(pointer)); dtype {
	case Float32:
		real = float64(*(*float32)(at))
	case Float64:
		real = *(*float64)(at)
	case Bool, Uint8:
		integer = int64(*(*uint8)(at))
		real = float64(integer)
	case Int8:
		integer = int64(*(*int8)(at))
		real = float64(integer)
	case Int16:
		integer = int64(*(*int16)(at))
		real = float64(integer)
	case Int32:
		integer = int64(*(*int32)(at))
		real = float64(integer)
	case Int64:
		integer = *(*int64)(at)
		real = float64(integer)
	case Uint16:
		integer = int64(*(*uint16)(at))
		real = float64(integer)
	case Uint32:
		integer = int64(*(*uint32)(at))
		real = float64(integer)
	case Uint64:
		unsigned := *(*uint64)(at)
		if unsigned > math.MaxInt64 {
			return 0, 0, &Error{Code: ErrOutOfRange, Message: fmt.Sprintf("%d is no int64", unsigned)}
		}
		integer, real = int64(unsigned), float64(unsigned)
	default:
		return 0, 0, invalidArgument("a number of a tensor of %v: Cast gives one that can be read", dtype)
	}
	runtime.KeepAlive(t)
	return integer, real, nil
}

// Float64 is the one number of the tensor.
func (t *Tensor) Float64() (float64, error) {
	_, real, err := t.number()
	return real, err
}

// Int64 is the one integer of the tensor; ErrInvalidArgument when it is a float.
func (t *Tensor) Int64() (int64, error) {
	if dtype := t.DType(); dtype == Float32 || dtype == Float64 {
		return 0, invalidArgument("an integer of a tensor of %v", dtype)
	}
	integer, _, err := t.number()
	return integer, err
}
