package tutti

import (
	"runtime"
	"sync/atomic"
)

// object is one reference to something of the library. Uses are counted, so that a Close beside a
// running call releases only when the call has returned.
type object struct {
	pointer uintptr
	release func(uintptr)
	what    string
	ended   string       // why it cannot be used any more, where that is not Close
	state   atomic.Int64 // uses, and closedBit
}

const closedBit = 1 << 62

// own takes over a reference; the garbage collector releases it if nobody does before.
func own(pointer uintptr, what string, release func(uintptr)) *object {
	o := &object{pointer: pointer, release: release, what: what}
	runtime.SetFinalizer(o, (*object).close)
	return o
}

// lend is for a reference that ends by end.
func lend(pointer uintptr, what string) *object {
	return &object{pointer: pointer, what: what, release: leave,
		ended: " has ended: it lives as long as the function that it was passed to runs; Keep it there"}
}

func leave(uintptr) {}

// use gives the pointer until done is called.
func (o *object) use() (uintptr, error) {
	if o == nil {
		return 0, failedPrecondition("this object was not made by package tutti")
	}
	if o.state.Add(1)&closedBit != 0 {
		o.done()
		if o.ended != "" {
			return 0, failedPrecondition("the " + o.what + o.ended)
		}
		return 0, failedPrecondition("the " + o.what + " is closed")
	}
	return o.pointer, nil
}

func (o *object) done() {
	if o.state.Add(-1) == closedBit {
		o.free()
	}
}

// free runs once: the uses of a closed object may come to nothing more than once.
func (o *object) free() {
	if o.state.CompareAndSwap(closedBit, closedBit|1<<61) {
		o.release(o.pointer)
	}
}

func (o *object) close() {
	if o == nil {
		return
	}
	for {
		state := o.state.Load()
		if state&closedBit != 0 {
			return
		}
		if o.state.CompareAndSwap(state, state|closedBit) {
			break
		}
	}
	runtime.SetFinalizer(o, nil)
	if o.state.Load() == closedBit {
		o.free()
	}
}

// isClosed is for methods without an error.
func (o *object) isClosed() bool { return o == nil || o.state.Load()&closedBit != 0 }
