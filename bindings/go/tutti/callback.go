package tutti

import (
	"context"
	"runtime/cgo"
	"time"

	"tutti.dev/tutti/internal/native"
)

// ReplicaFunc runs once per replica, concurrently. args end with it.
type ReplicaFunc func(replica *ReplicaContext, args Value) (Value, error)

// MergeFunc runs once for all replicas, in cross-replica context; strategy and args end with it.
type MergeFunc func(strategy *Strategy, args Value) (Value, error)

// callback is a Go function as the library calls it. The result of run is a reference.
type callback struct {
	run func(kind int32, context, in uintptr) (uintptr, error)
}

// Call is native.Callback.
func (c *callback) Call(kind int32, context, in uintptr) (out, status uintptr) {
	returned := false
	defer func() {
		if !returned {
			native.RefuseExit()
			out, status = 0, panicStatus(recover())
		}
	}()
	out, err := c.run(kind, context, in)
	if err != nil {
		out, status = 0, statusOf(err)
	}
	returned = true
	return out, status
}

// lent is a borrowed value; end is called when the function has returned.
func lent(in uintptr) (value Value, end func()) {
	if in == 0 {
		return Value{}, nothing
	}
	o := lend(in, "value")
	return Value{o}, o.close
}

// result makes the reference that a function's result is.
func result(value Value, err error) (uintptr, error) {
	if err != nil {
		return 0, err
	}
	return value.retained()
}

// borrowed makes a handle for the time of one call.
func borrowed(run func(kind int32, context, in uintptr) (uintptr, error)) cgo.Handle {
	return cgo.NewHandle(native.Callback(&callback{run}))
}

func replicaCallback(ctx context.Context, timeout *time.Duration, fn ReplicaFunc) cgo.Handle {
	if ctx == nil {
		ctx = context.Background()
	}
	return borrowed(func(_ int32, pointer, in uintptr) (uintptr, error) {
		replica := &ReplicaContext{Context: ctx, o: lend(pointer, "replica context"),
			timeout: timeout}
		defer replica.o.close()
		args, end := lent(in)
		defer end()
		return result(fn(replica, args))
	})
}

func mergeCallback(timeout *time.Duration, fn MergeFunc) cgo.Handle {
	return borrowed(func(_ int32, pointer, in uintptr) (uintptr, error) {
		// It ends here in any case: a finalizer would be work for nothing.
		strategy := &Strategy{timeout: timeout,
			o: &object{what: "strategy", release: native.Tutti_strategy_release}}
		strategy.o.pointer.Store(pointer)
		defer strategy.o.close()
		args, end := lent(in)
		defer end()
		return result(fn(strategy, args))
	})
}

func updateCallback(ctx context.Context, fn UpdateFunc) cgo.Handle {
	if ctx == nil {
		ctx = context.Background()
	}
	return borrowed(func(_ int32, pointer, in uintptr) (uintptr, error) {
		update := &UpdateContext{Context: ctx, o: lend(pointer, "update context")}
		defer update.o.close()
		args, end := lent(in)
		defer end()
		return result(fn(update, args))
	})
}

func elementCallback(fn func(element Value) (Value, error)) cgo.Handle {
	return borrowed(func(_ int32, _, in uintptr) (uintptr, error) {
		element, end := lent(in)
		defer end()
		return result(fn(element))
	})
}
