package tutti

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"

	"tutti.dev/tutti/internal/native"
)

// exprTrace is one call of a traced function, with the first error in it.
type exprTrace struct {
	o      *object
	err    error
	around *exprTrace // in whose function it is traced
}

// runningTraces are those that are being made, by goroutine, the innermost last.
type runningTraces struct {
	mutex sync.Mutex // guards all below
	by    map[uint64][]*exprTrace
}

var running = runningTraces{by: map[uint64][]*exprTrace{}}

// goroutine is the number of this one, as the head of its stack has it; 0 where it cannot be read.
func goroutine() uint64 {
	var head [64]byte
	text := bytes.TrimPrefix(head[:runtime.Stack(head[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	number, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// begin makes t the innermost trace of this goroutine until end is called.
func (r *runningTraces) begin(t *exprTrace) (end func()) {
	number := goroutine()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	traces := r.by[number]
	if len(traces) > 0 {
		t.around = traces[len(traces)-1]
	}
	r.by[number] = append(traces, t)
	return func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if r.by[number] = r.by[number][:len(traces)]; len(traces) == 0 {
			delete(r.by, number)
		}
	}
}

func (r *runningTraces) innermost() *exprTrace {
	number := goroutine()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if traces := r.by[number]; len(traces) > 0 {
		return traces[len(traces)-1]
	}
	return nil
}

// isWithin says whether t is other, or is traced inside of its function.
func (t *exprTrace) isWithin(other *exprTrace) bool {
	for t != nil && t != other {
		t = t.around
	}
	return t != nil
}

// innermost is the trace to which an operation of x and others is added, which captures what is of
// those around it. On a goroutine that traces nothing it is the innermost one of the operands.
func (x Expr) innermost(others []any) *exprTrace {
	if inner := running.innermost(); inner != nil {
		return inner
	}
	inner := x.trace
	for _, other := range others {
		if given, ok := other.(Expr); ok && given.trace != nil && given.trace.isWithin(inner) {
			inner = given.trace
		}
	}
	return inner
}

// nodeOf is the node that x is in t, which captures it where it is of a function around.
func (t *exprTrace) nodeOf(x Expr, what string) (int64, error) {
	node, err := x.leaf(what)
	if err != nil || x.trace == t {
		return node, err
	}
	if x.trace.o.isClosed() {
		return 0, &Error{Code: ErrFailedPrecondition, Message: what +
			": an Expr was used after the function that it was given to had returned"}
	}
	if !t.isWithin(x.trace) {
		return 0, invalidArgument("%s: an Expr of another trace is used", what)
	}
	// Function by function.
	outer, err := t.around.nodeOf(x, what)
	if err != nil {
		return 0, err
	}
	pointer, err := t.around.o.use()
	if err != nil {
		return 0, err
	}
	defer t.around.o.done()
	captured := t.add(func(trace uintptr, made *int64) uintptr {
		return native.Expression_capture(trace, pointer, outer, made)
	})
	return captured.node, t.err
}

// traceOf is the function that call makes in a trace of its own.
func traceOf(element *Spec, call func(trace *exprTrace, x Expr) (uintptr, error)) *Function {
	spec, err := element.use()
	if err != nil {
		return &Function{err: err}
	}
	defer element.done()
	var pointer uintptr
	if err := check(native.Expression_create(spec, &pointer)); err != nil {
		return &Function{err: err}
	}
	trace := &exprTrace{o: own(pointer, "trace", native.Tutti_expression_release)}
	defer trace.o.close()
	defer running.begin(trace)()
	var leaf int64
	return functionOf(call(trace, trace.placeholder(spec, []int64{}, &leaf)))
}
