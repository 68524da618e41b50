package tutti

import (
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

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

func (t *Tensor) done() { t.o.done() }

// shared is use for what may hand out the memory: that of a value cannot be written through it.
func (t *Tensor) shared() (pointer uintptr, end func(), err error) {
	pointer, err = t.use()
	if err != nil || !t.part {
		return pointer, t.done, err
	}
	var view uintptr
	if err := check(native.Tensor_as_read_only(pointer, &view)); err != nil {
		t.done()
		return 0, nil, err
	}
	return view, func() {
		native.Tutti_tensor_release(view)
		t.done()
	}, nil
}

// forWriting refuses a tensor that is a part of a value: other passes over a dataset, and other
// replicas, read the same memory.
func (t *Tensor) forWriting() (uintptr, error) {
	if t != nil && t.part {
		return 0, failedPrecondition("a tensor that is a part of a value is read-only; Copy gives " +
			"one that can be written")
	}
	return t.use()
}

// NewTensor is a tensor of zeros. Fill it through MutableSlice.
func NewTensor(dtype DType, dims ...int64) (*Tensor, error) {
	return defaultRuntime.NewTensor(dtype, dims...)
}

// NewTensor in memory of this runtime.
func (r *Runtime) NewTensor(dtype DType, dims ...int64) (*Tensor, error) {
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Tensor_create(runtime, int(dtype), dims, 1, "", 0, made)
	}))
}

// TensorOf is a tensor with a copy of elements, in row-major order; without dims of rank 1.
func TensorOf[T Element](elements []T, dims ...int64) (*Tensor, error) {
	return TensorIn(defaultRuntime, elements, dims...)
}

// TensorIn is TensorOf in memory of a runtime.
func TensorIn[T Element](r *Runtime, elements []T, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(elements))}
	}
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Tensor_from_bytes(runtime, int(DTypeOf[T]()), dims, bytesOf(elements), made)
	}))
}

// Scalar is a tensor of rank 0, of the dtype of its element: Scalar(5) of Int64, as an int is.
func Scalar[T Element](element T) (*Tensor, error) {
	return TensorOf([]T{element}, []int64{}...)
}

// StringTensor is a tensor of byte strings; without dims of rank 1.
func StringTensor(texts []string, dims ...int64) (*Tensor, error) {
	return defaultRuntime.StringTensor(texts, dims...)
}

// StringTensor in memory of this runtime.
func (r *Runtime) StringTensor(texts []string, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(texts))}
	}
	ends := make([]int64, len(texts))
	var bytes []byte
	for i, text := range texts {
		bytes = append(bytes, text...)
		ends[i] = int64(len(bytes))
	}
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Tensor_from_strings(runtime, dims, ends, bytes, made)
	}))
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
	return DType(ask(t, 0, native.Tensor_dtype))
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

// Strides are the distances between neighbours along each axis, in elements; nil for a closed
// tensor.
func (t *Tensor) Strides() []int64 {
	return ask(t, nil, func(pointer uintptr) []int64 {
		strides := make([]int64, native.Tensor_rank(pointer))
		for i := range strides {
			strides[i] = native.Tensor_stride(pointer, int64(i))
		}
		return strides
	})
}

// ByteSize is Len times the size of an element.
func (t *Tensor) ByteSize() int { return int(ask(t, 0, native.Tensor_byte_size)) }

// Len is the number of elements; 0 for a closed tensor.
func (t *Tensor) Len() int {
	return int(ask(t, 0, native.Tensor_element_count))
}

// IsReadOnly says that MutableSlice refuses; Copy makes a tensor that does not.
func (t *Tensor) IsReadOnly() bool {
	return ask(t, true, func(pointer uintptr) bool {
		return t.part || native.Tensor_is_read_only(pointer)
	})
}

// IsContiguous says that the elements lie in row-major order without gaps, as Slice wants them.
func (t *Tensor) IsContiguous() bool {
	return ask(t, false, native.Tensor_is_contiguous)
}

// Address is where the elements lie, on whichever device; 0 for a closed tensor.
func (t *Tensor) Address() uintptr {
	return uintptr(ask(t, 0, native.Tensor_address))
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
	return as(ownTensor)(readOut(t, make))
}

// view is derive for what may be the same memory.
func (t *Tensor) view(make func(pointer uintptr, made *uintptr) uintptr) (*Tensor, error) {
	pointer, end, err := t.shared()
	if err != nil {
		return nil, err
	}
	defer end()
	var made uintptr
	err = check(make(pointer, &made))
	return as(ownTensor)(made, err)
}

// Cut is a view of the elements [start, stop) along axis.
func (t *Tensor) Cut(axis int, start, stop int64) (*Tensor, error) {
	return t.view(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_slice(pointer, int64(axis), start, stop, made)
	})
}

// Reshape is the same elements under other dims, of which one may be -1; a view where possible.
func (t *Tensor) Reshape(dims ...int64) (*Tensor, error) {
	return t.view(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_reshape(pointer, dims, made)
	})
}

// Cast is a copy of another dtype.
func (t *Tensor) Cast(dtype DType) (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_cast(pointer, int(dtype), made)
	})
}

// Convert has the elements in another dtype that holds them, as elements of datasets are converted
// to a declared one: integers in integers that hold each of them, numbers in floats (rounded), real
// numbers in complex ones. ErrInvalidArgument names the first element that does not fit.
func (t *Tensor) Convert(dtype DType) (*Tensor, error) {
	return t.view(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_convert(pointer, int(dtype), made)
	})
}

// ReadOnly is the same memory, which cannot be written through what this gives. The tensors of a
// value are so.
func (t *Tensor) ReadOnly() (*Tensor, error) { return t.derive(native.Tensor_as_read_only) }

// Copy is a contiguous, writable copy, on the same device.
func (t *Tensor) Copy() (*Tensor, error) {
	return t.derive(func(pointer uintptr, made *uintptr) uintptr {
		return native.Tensor_copy(pointer, made)
	})
}

// CopyTo copies the elements into destination, which has the same dtype and dims and is writable,
// wherever both lie.
func (t *Tensor) CopyTo(destination *Tensor) error {
	to, err := destination.forWriting()
	if err != nil {
		return err
	}
	defer destination.done()
	return wait(nil, t, func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Tensor_copy_into(pointer, to)
	})
}

// Keep is a second reference to the same memory, which outlives the value that t is a part of.
func (t *Tensor) Keep() (*Tensor, error) {
	return t.view(func(pointer uintptr, made *uintptr) uintptr {
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
