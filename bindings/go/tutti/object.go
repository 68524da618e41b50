package tutti

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"tutti.dev/tutti/internal/native"
)

// object is one reference to something of the library. Uses are counted, so that a Close beside a
// running call releases only when the call has returned.
type object struct {
	pointer atomic.Uintptr
	release func(uintptr)
	what    string
	ended   string       // why it cannot be used any more, where that is not Close
	net     *safetyNet   // releases what nobody closes; nil for what ends anyway
	state   atomic.Int64 // uses, and closedBit
	former  *object      // what it was before become: a call under way may use it; guarded by becoming
}

var becoming sync.Mutex

const closedBit = 1 << 62

// safetyNet releases what belongs to an object that nobody closed. It is reached from that object
// alone, goes with it, and then its finalizer runs. Setting a finalizer takes a lock of the whole
// process, and taking it back another one: the net of an object that was closed keeps it and goes
// to the next object.
type safetyNet struct {
	pointer atomic.Uintptr // 0 when nothing is to be released
	release func(uintptr)
}

func (n *safetyNet) fall() {
	if pointer := n.pointer.Swap(0); pointer != 0 {
		n.release(pointer)
	}
}

var idleNets = sync.Pool{New: func() any {
	n := &safetyNet{}
	runtime.SetFinalizer(n, (*safetyNet).fall)
	return n
}}

// own takes over a reference; the garbage collector releases it if nobody does before.
func own(pointer uintptr, what string, release func(uintptr)) *object {
	n := idleNets.Get().(*safetyNet)
	n.release = release
	n.pointer.Store(pointer)
	o := &object{release: release, what: what, net: n}
	o.pointer.Store(pointer)
	return o
}

// lend is for a reference that ends by end.
func lend(pointer uintptr, what string) *object {
	o := &object{what: what, release: leave,
		ended: " has ended: it lives as long as the function that it was passed to runs; Keep it there"}
	o.pointer.Store(pointer)
	return o
}

// become changes what it stands for to what change makes of that, which takes over neither. What it
// stood for goes with it.
func (o *object) become(change func(pointer uintptr, made *uintptr) error) error {
	pointer, err := o.use()
	if err != nil {
		return err
	}
	defer o.done()
	becoming.Lock()
	defer becoming.Unlock()
	pointer = o.pointer.Load() // another one may have been faster
	var made uintptr
	if err := change(pointer, &made); err != nil {
		return err
	}
	before := own(pointer, o.what, o.release)
	before.former, o.former = o.former, before
	o.pointer.Store(made)
	if o.net != nil {
		o.net.pointer.Store(made)
	}
	return nil
}

func leave(uintptr) {}

// use gives the pointer until done is called.
func (o *object) use() (uintptr, error) {
	if o == nil {
		return 0, invalidArgument("an object that package tutti made is needed, not nil")
	}
	if o.state.Add(1)&closedBit != 0 {
		o.done()
		if o.ended != "" {
			return 0, failedPrecondition("the " + o.what + o.ended)
		}
		return 0, failedPrecondition("the " + o.what + " is closed")
	}
	return o.pointer.Load(), nil
}

func (o *object) done() {
	if o.state.Add(-1) == closedBit {
		o.free()
	}
}

// free runs once: the uses of a closed object may come to nothing more than once.
func (o *object) free() {
	if o.state.CompareAndSwap(closedBit, closedBit|1<<61) {
		if n := o.net; n != nil {
			o.net = nil
			n.pointer.Store(0)
			idleNets.Put(n)
		}
		o.release(o.pointer.Load())
		o.former.close()
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
	if o.state.Load() == closedBit {
		o.free()
	}
}

func (o *object) isClosed() bool { return o == nil || o.state.Load()&closedBit != 0 }

// user is what can be used for a call: an object, or what has one.
type user interface {
	use() (uintptr, error)
	done()
}

// ask reads something of an object; missing is the answer of one that cannot be used.
func ask[T any](o user, missing T, read func(pointer uintptr) T) T {
	pointer, err := o.use()
	if err != nil {
		return missing
	}
	defer o.done()
	return read(pointer)
}

// readOut is a call that gives one thing of an object.
func readOut(o user, call func(pointer uintptr, made *uintptr) uintptr) (made uintptr, err error) {
	pointer, err := o.use()
	if err != nil {
		return 0, err
	}
	defer o.done()
	err = check(call(pointer, &made))
	return made, err
}

func readText(o user, call func(pointer uintptr, made *uintptr) uintptr) (string, error) {
	made, err := readOut(o, call)
	return takeText(made), err
}

// waitOut is readOut for a call that may wait.
func waitOut(ctx context.Context, o user,
	call func(pointer uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (made uintptr, err error) {
	pointer, err := o.use()
	if err != nil {
		return 0, err
	}
	defer o.done()
	options, end, err := callOf(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	err = check(call(pointer, options, &made))
	return made, err
}

// wait is waitOut for a call that gives nothing.
func wait(ctx context.Context, o user,
	call func(pointer uintptr, call *native.CallOptions) uintptr) error {
	_, err := waitOut(ctx, o, func(pointer uintptr, options *native.CallOptions, _ *uintptr) uintptr {
		return call(pointer, options)
	})
	return err
}

// as makes what a call gave an object of the package.
func as[T any](own func(pointer uintptr) T) func(pointer uintptr, err error) (T, error) {
	return func(pointer uintptr, err error) (made T, failure error) {
		if err != nil {
			return made, err
		}
		return own(pointer), nil
	}
}

// closeWith closes what has a close of its own; again it is nothing.
func closeWith(o *object, call func(pointer uintptr, call *native.CallOptions) uintptr) error {
	if o.isClosed() {
		return nil
	}
	pointer, err := o.use()
	if err != nil {
		return nil
	}
	err = check(call(pointer, nil))
	o.done()
	o.close()
	return err
}
