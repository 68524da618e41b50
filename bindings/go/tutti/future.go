package tutti

import (
	"context"
	"runtime/cgo"

	"tutti.dev/tutti/internal/native"
)

// Future is a value or an error that comes later.
type Future struct{ o *object }

func (f *Future) object() *object {
	if f == nil {
		return nil
	}
	return f.o
}

func ownFuture(pointer uintptr) *Future {
	return &Future{own(pointer, "future", native.Tutti_future_release)}
}

// NewFuture is one that Complete completes.
func NewFuture() (*Future, error) { return defaultRuntime.NewFuture() }

// NewFuture of this runtime.
func (r *Runtime) NewFuture() (*Future, error) {
	return as(ownFuture)(r.make(native.Future_create))
}

// Complete ends it, once, with failure or, when that is nil, with value.
func (f *Future) Complete(value Value, failure error) error {
	pointer, err := f.object().use()
	if err != nil {
		return err
	}
	defer f.object().done()
	in, err := value.use()
	if err != nil {
		return err
	}
	defer value.done()
	return check(native.Future_complete(pointer, statusOf(failure), in))
}

// IsDone says that it is completed.
func (f *Future) IsDone() bool {
	return ask(f.object(), false, native.Future_is_done)
}

// Wait returns when it is done; its error is that of the waiting.
func (f *Future) Wait(ctx context.Context) error {
	return wait(ctx, f.object(), native.Future_wait)
}

// Result waits and gives how it ended.
func (f *Future) Result(ctx context.Context) (Value, error) {
	if err := f.Wait(ctx); err != nil {
		return Value{}, err
	}
	made, err := readOut(f.object(), native.Future_result)
	return ownValue(made), err
}

// OnReady calls fn on a thread of the runtime when it is done, at once if it is.
func (f *Future) OnReady(fn func()) error {
	if fn == nil {
		return invalidArgument("on_ready: a function is needed, not nil")
	}
	pointer, err := f.object().use()
	if err != nil {
		return err
	}
	defer f.object().done()
	handle := cgo.NewHandle(fn)
	defer handle.Delete()
	return check(native.Future_on_ready(pointer, uintptr(handle)))
}

// Close ends the reference.
func (f *Future) Close() error {
	f.object().close()
	return nil
}

// String is for people: whether it is done.
func (f *Future) String() string {
	switch {
	case f.object().isClosed():
		return "closed future"
	case f.IsDone():
		return "future, done"
	}
	return "future, under way"
}
