package tutti

import (
	"runtime/cgo"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

// WrapOptions describe memory that a tensor is laid over.
type WrapOptions struct {
	// Strides in elements, one per axis; may be negative. None: row-major without gaps.
	Strides []int64
	// ReadOnly says that nobody writes through the tensor.
	ReadOnly bool
	// Device is the GPU that the memory is of, "GPU:0"; "": it is the host's.
	Device string
	// Release is called once, on a thread of the library, when nobody uses the memory any more, and
	// also when Wrap fails.
	Release func()
}

// Wrap is a tensor over size bytes of memory, without a copy. The memory must not be of Go's
// garbage collector, which does not know of the tensor: memory from C, or mapped from a file.
func Wrap(memory unsafe.Pointer, size int, dtype DType, dims []int64,
	options ...WrapOption) (*Tensor, error) {
	return defaultRuntime.Wrap(memory, size, dtype, dims, options...)
}

// Wrap in this runtime.
func (r *Runtime) Wrap(memory unsafe.Pointer, size int, dtype DType, dims []int64,
	options ...WrapOption) (*Tensor, error) {
	chosen := collect(options, WrapOption.ofWrap)
	if size < 0 || len(chosen.Strides) != 0 && len(chosen.Strides) != len(dims) {
		if chosen.Release != nil {
			chosen.Release()
		}
		return nil, invalidArgument("wrap: %d bytes, %d dims and %d strides do not go together", size,
			len(dims), len(chosen.Strides))
	}
	var release cgo.Handle
	if chosen.Release != nil {
		release = cgo.NewHandle(chosen.Release)
	}
	runtime, err := r.use()
	if err != nil {
		if chosen.Release != nil {
			release.Delete()
			chosen.Release()
		}
		return nil, err
	}
	defer r.done()
	var made uintptr
	err = check(native.Tensor_wrap(runtime, uintptr(memory), int64(size), int(dtype), dims,
		chosen.Strides, chosen.ReadOnly, chosen.Device, uintptr(release), &made))
	return as(ownTensor)(made, err)
}

// DLPack is a form of DLPack, https://dmlc.github.io/dlpack, the exchange format of array
// libraries.
type DLPack bool

// The forms: DLManagedTensorVersioned, and DLManagedTensor of before 1.0, which cannot say that a
// tensor is read-only.
const (
	DLPackVersioned   DLPack = true
	DLPackUnversioned DLPack = false
)

// Export gives the tensor to another library, which calls the deleter of the structure; Delete does
// so where no library took it. With copied the memory is a fresh copy, else that of the tensor. A
// read-only tensor cannot be given unversioned without a copy: ErrFailedPrecondition. Of a tensor
// on a GPU the default stream waits for the library's work on it.
func (d DLPack) Export(tensor *Tensor, copied bool) (unsafe.Pointer, error) {
	return d.export(tensor, copied, nil)
}

// ExportOn is Export of a tensor on a GPU to a receiver whose stream waits for the library's work
// on it: 1 is the default stream, 2 that of the calling thread, else a handle; -1: nobody waits; 0
// says nothing and is ErrInvalidArgument.
func (d DLPack) ExportOn(tensor *Tensor, copied bool, stream int64) (unsafe.Pointer, error) {
	return d.export(tensor, copied, []int64{stream})
}

func (d DLPack) export(tensor *Tensor, copied bool, stream []int64) (unsafe.Pointer, error) {
	pointer, end, err := tensor.shared()
	if err != nil {
		return nil, err
	}
	defer end()
	var made uintptr
	err = check(native.Tensor_to_dlpack(pointer, bool(d), copied, stream, &made))
	return pointerAt(made), err
}

// Import takes a tensor over from another library, without a copy, and calls its deleter with the
// last use; when it fails, the caller keeps the structure. The producer of one on a GPU has to be
// given the handle of StreamOfCudaDevice, on which it is used.
func (d DLPack) Import(managed unsafe.Pointer) (*Tensor, error) {
	return d.ImportIn(defaultRuntime, managed)
}

// ImportIn is Import in a runtime.
func (d DLPack) ImportIn(r *Runtime, managed unsafe.Pointer) (*Tensor, error) {
	if managed == nil {
		return nil, invalidArgument("a DLPack structure is needed, not nil")
	}
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Tensor_from_dlpack(runtime, bool(d), uintptr(managed), made)
	}))
}

// Delete calls the deleter of a structure that no library took.
func (d DLPack) Delete(managed unsafe.Pointer) {
	if managed != nil {
		native.Dlpack_delete(bool(d), uintptr(managed))
	}
}
