package tutti

import (
	"context"
	"time"

	"tutti.dev/tutti/internal/native"
)

// Stream is a stream of a GPU, on which work is done in the order of the calls, later than they
// return.
type Stream struct{ o *object }

func (s *Stream) object() *object {
	if s == nil {
		return nil
	}
	return s.o
}

func ownStream(pointer uintptr) *Stream {
	return &Stream{own(pointer, "stream", native.Tutti_stream_release)}
}

// NewStream is a new stream of the GPU device, "GPU:0". ErrInvalidArgument for a CPU, ErrNotFound
// names the devices that there are.
func (r *Runtime) NewStream(device string) (*Stream, error) {
	return as(ownStream)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Stream_create(runtime, device, made)
	}))
}

// WrapStream is a stream of another library's on the same device, by CUDA's handle: 1 is the
// default stream, 2 that of the calling thread; ErrInvalidArgument for 0 and for another device's.
// It stays its owner's, who must not destroy it before Close.
func (r *Runtime) WrapStream(device string, handle int64) (*Stream, error) {
	return as(ownStream)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Stream_wrap(runtime, device, handle, made)
	}))
}

// StreamOf is the stream on which the library works on a device by itself.
func (r *Runtime) StreamOf(device string) (*Stream, error) {
	return as(ownStream)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_stream(runtime, device, made)
	}))
}

// StreamOfCudaDevice is StreamOf of the device that CUDA numbers so, as DLPack does.
func (r *Runtime) StreamOfCudaDevice(index int64) (*Stream, error) {
	return as(ownStream)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_find_stream(runtime, index, made)
	}))
}

// In gives calls of communicators the order of the stream: each comes behind what has been given to
// the stream before, and what is given to it afterwards comes behind the results: after the call,
// or after its future is done. ErrInvalidArgument for calls whose tensors do not lie on its GPU,
// ErrFailedPrecondition for a closed stream.
func (s *Stream) In(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, streamKey{}, s)
}

type streamKey struct{}

// Handle is CUDA's handle, 0 for a closed stream.
func (s *Stream) Handle() int64 { return ask(s.object(), 0, native.Stream_handle) }

// Device is the short name of the device, "GPU:0"; "" for a closed stream.
func (s *Stream) Device() string { return ask(s.object(), "", native.Stream_device) }

// Synchronize waits until all that has been given to the stream is done; ErrDataLoss for an error
// of that work. When ctx ends before, the work goes on.
func (s *Stream) Synchronize(ctx context.Context) error {
	return wait(ctx, s.object(), native.Stream_synchronize)
}

// WaitEvent lets what is given to the stream later run after event, of whichever device. It does
// not wait.
func (s *Stream) WaitEvent(event *Event) error {
	return withTwo(s.object(), event.object(), native.Stream_wait_event)
}

// WaitStream lets what is given to the stream later run after all that earlier has now. It does not
// wait.
func (s *Stream) WaitStream(earlier *Stream) error {
	return withTwo(s.object(), earlier.object(), native.Stream_wait_stream)
}

// Close ends the reference; what was given to the stream goes on.
func (s *Stream) Close() error {
	s.object().close()
	return nil
}

// Event is a point in the work of a stream. Until it is recorded it counts as reached.
type Event struct{ o *object }

func (e *Event) object() *object {
	if e == nil {
		return nil
	}
	return e.o
}

// NewEvent is an event of the GPU device; Elapsed takes one that is timed.
func (r *Runtime) NewEvent(device string, timed bool) (*Event, error) {
	asked := 2
	if timed {
		asked = 1
	}
	return as(func(pointer uintptr) *Event {
		return &Event{own(pointer, "event", native.Tutti_event_release)}
	})(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Event_create(runtime, device, asked, made)
	}))
}

// Record makes it reached when what has been given to stream is done. ErrInvalidArgument for a
// stream of another device.
func (e *Event) Record(stream *Stream) error {
	return withTwo(e.object(), stream.object(), native.Event_record)
}

// Query is whether it is reached.
func (e *Event) Query() (bool, error) {
	pointer, err := e.object().use()
	if err != nil {
		return false, err
	}
	defer e.object().done()
	var reached int64
	err = check(native.Event_query(pointer, &reached))
	return reached != 0, err
}

// Synchronize waits until it is reached; errors as of Stream.Synchronize.
func (e *Event) Synchronize(ctx context.Context) error {
	return wait(ctx, e.object(), native.Event_synchronize)
}

// Elapsed is the time of the device from this event to a later one; both timed, and reached.
func (e *Event) Elapsed(end *Event) (time.Duration, error) {
	var nanoseconds int64
	err := withTwo(e.object(), end.object(), func(begin, end uintptr) uintptr {
		return native.Event_read_elapsed(begin, end, &nanoseconds)
	})
	return time.Duration(nanoseconds), err
}

// Close ends the reference.
func (e *Event) Close() error {
	e.object().close()
	return nil
}

// withTwo is a call on two objects.
func withTwo(left, right *object, call func(left, right uintptr) uintptr) error {
	first, err := left.use()
	if err != nil {
		return err
	}
	defer left.done()
	second, err := right.use()
	if err != nil {
		return err
	}
	defer right.done()
	return check(call(first, second))
}

// MemoryOptions say where a tensor is made.
type MemoryOptions struct {
	// Device is "GPU:0"; "": the host.
	Device string
	// Pinned is host memory that GPUs copy from and to without staging; ErrNotFound without a GPU.
	Pinned bool
	// Stream that does a copy; nil: the library's own of the GPU that takes part.
	Stream *Stream
}

// NewTensorOn is a tensor of zeros as options say, without their Stream.
func (r *Runtime) NewTensorOn(options MemoryOptions, dtype DType, dims ...int64) (*Tensor, error) {
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Tensor_create(runtime, int(dtype), dims, 1, options.Device,
			pinnedOf(options), made)
	}))
}

func pinnedOf(options MemoryOptions) int {
	if options.Pinned {
		return 1
	}
	return 0
}

// CopyToDevice is a contiguous copy on options.Device ("": "CPU:0"), from wherever tensor lies. One
// that the host takes part in is done on return, one between GPUs in the order of the stream.
// ErrInvalidArgument for byte strings and for another device's stream; ErrResourceExhausted says
// what was asked for and what is free.
func (r *Runtime) CopyToDevice(ctx context.Context, tensor *Tensor,
	options MemoryOptions) (*Tensor, error) {
	if options.Device == "" {
		options.Device = "CPU:0"
	}
	runtime, err := r.use()
	if err != nil {
		return nil, err
	}
	defer r.done()
	var stream uintptr
	if options.Stream != nil {
		if stream, err = options.Stream.object().use(); err != nil {
			return nil, err
		}
		defer options.Stream.object().done()
	}
	return as(ownTensor)(waitOut(ctx, tensor,
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Tensor_copy_to(runtime, pointer, options.Device, stream, pinnedOf(options),
				call, made)
		}))
}

// CudaDevice is what CUDA calls the device on which the tensor lies; -1 for one in host memory.
func (t *Tensor) CudaDevice() int64 { return ask(t, -1, native.Tensor_cuda_device) }
