package tutti

import (
	"context"
	"runtime/cgo"

	"tutti.dev/tutti/internal/native"
)

// Future is a value or an error that comes later.
type Future struct{ o *object }

// NewFuture is one that Complete completes.
func NewFuture() (*Future, error) { return defaultRuntime.NewFuture() }

// NewFuture of this runtime.
func (r *Runtime) NewFuture() (*Future, error) {
	made, err := r.make(native.Future_create)
	if err != nil {
		return nil, err
	}
	return &Future{own(made, "future", native.Tutti_future_release)}, nil
}

// Complete ends it, once, with failure or, when that is nil, with value.
func (f *Future) Complete(value Value, failure error) error {
	pointer, err := f.o.use()
	if err != nil {
		return err
	}
	defer f.o.done()
	in, err := value.use()
	if err != nil {
		return err
	}
	defer value.done()
	return check(native.Future_complete(pointer, statusOf(failure), in))
}

// IsDone says that it is completed.
func (f *Future) IsDone() bool {
	pointer, err := f.o.use()
	if err != nil {
		return false
	}
	defer f.o.done()
	return native.Future_is_done(pointer)
}

// Wait returns when it is done; its error is that of the waiting.
func (f *Future) Wait(ctx context.Context) error {
	_, err := blocking(ctx, f.o, Value{},
		func(pointer, _ uintptr, call *native.CallOptions, _ *uintptr) uintptr {
			return native.Future_wait(pointer, call)
		})
	return err
}

// Result waits and gives how it ended.
func (f *Future) Result(ctx context.Context) (Value, error) {
	if err := f.Wait(ctx); err != nil {
		return Value{}, err
	}
	made, err := readOut(f.o, native.Future_result)
	return ownValue(made), err
}

// OnReady calls fn on a thread of the runtime when it is done, at once if it is.
func (f *Future) OnReady(fn func()) error {
	if fn == nil {
		return invalidArgument("on_ready: a function is needed, not nil")
	}
	pointer, err := f.o.use()
	if err != nil {
		return err
	}
	defer f.o.done()
	handle := cgo.NewHandle(fn)
	defer handle.Delete()
	return check(native.Future_on_ready(pointer, uintptr(handle)))
}

// Close ends the reference.
func (f *Future) Close() error {
	f.o.close()
	return nil
}
