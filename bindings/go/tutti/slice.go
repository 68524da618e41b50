package tutti

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

// Slice is the tensor's memory as a slice, without a copy: read it, and see the package's comment
// for how long. A tensor of another dtype, or one with gaps (Copy closes them), is
// ErrInvalidArgument, one on a GPU ErrFailedPrecondition.
func Slice[T Element](t *Tensor) ([]T, error) {
	pointer, err := t.use()
	if err != nil {
		return nil, err
	}
	defer t.o.done()
	return sliceOf[T](pointer, native.Tensor_data(pointer))
}

// MutableSlice is Slice for writing; a read-only tensor is ErrFailedPrecondition, and so is that of
// a value, whose memory other passes and other replicas read: Copy gives one that can be written.
func MutableSlice[T Element](t *Tensor) ([]T, error) {
	pointer, err := t.forWriting()
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
	elements, err := sliceOf[T](pointer, native.Tensor_data(pointer))
	if err != nil {
		return err
	}
	return f(elements)
}

func sliceOf[T Element](pointer, address uintptr) ([]T, error) {
	if native.Tensor_cuda_device(pointer) >= 0 {
		return nil, failedPrecondition("a slice over a tensor on a GPU, whose elements the host cannot " +
			"touch: CopyToDevice makes a copy on \"CPU:0\"")
	}
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
	elements := (*view)(pointerAt(native.Tensor_data(pointer)))
	for i, element := range unsafe.Slice(elements, count) {
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
	if native.Tensor_cuda_device(pointer) >= 0 {
		return 0, 0, failedPrecondition("a number of a tensor on a GPU: CopyToDevice makes a copy on " +
			"\"CPU:0\"")
	}
	at := pointerAt(native.Tensor_data(pointer))
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
