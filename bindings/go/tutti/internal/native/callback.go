package native

// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
)

// The kinds of a callback, as tutti_host_kind numbers them.
const (
	Replica        = 1
	Merge          = 2
	Values         = 3
	Element        = 4
	GeneratorStart = 5
	GeneratorNext  = 6
	Input          = 7
)

// Callback is what a handle stands for that the library calls. Context and in are borrowed, but for
// a merge function: context is a reference to its strategy, which it takes over. Out is a reference
// for the library, status too. It must not panic.
type Callback interface {
	Call(kind int32, context, in uintptr) (out, status uintptr)
}

// LogSink is what the handle of a log sink stands for.
type LogSink func(level int32, line string)

// The exported functions below are called by C++ on any thread. A panic that left them would end
// the process, with C++ frames in between.

//export tuttiGoCall
func tuttiGoCall(handle C.uintptr_t, kind C.int32_t, context, in C.uintptr_t,
	out *C.uintptr_t) C.uintptr_t {
	callback := cgo.Handle(handle).Value().(Callback)
	made, status := callback.Call(int32(kind), uintptr(context), uintptr(in))
	*out = C.uintptr_t(made)
	return C.uintptr_t(status)
}

//export tuttiGoRetain
func tuttiGoRetain(handle C.uintptr_t) C.uintptr_t {
	return C.uintptr_t(cgo.NewHandle(cgo.Handle(handle).Value()))
}

//export tuttiGoRelease
func tuttiGoRelease(handle C.uintptr_t) {
	cgo.Handle(handle).Delete()
}

//export tuttiGoNotify
func tuttiGoNotify(handle C.uintptr_t) {
	returned := false
	defer func() {
		if !returned {
			RefuseExit()
			report("a function that is told something", recover())
		}
	}()
	cgo.Handle(handle).Value().(func())()
	returned = true
}

//export tuttiGoLog
func tuttiGoLog(handle C.uintptr_t, level C.int32_t, line *C.char, size C.size_t) {
	returned := false
	defer func() {
		if !returned {
			RefuseExit()
			report("the log sink", recover())
		}
	}()
	cgo.Handle(handle).Value().(LogSink)(int32(level), C.GoStringN(line, C.int(size)))
	returned = true
}

// report is for a function whose caller takes no error.
func report(who string, panicked any) {
	fmt.Fprintf(os.Stderr, "tutti: error: %s panicked: %v\n%s", who, panicked, debug.Stack())
}

// RefuseExit ends the process when the goroutine is in runtime.Goexit. There is no way on from
// there: C++ frames below wait for the function to return, and the goroutine never will; without
// this the thread would hang or the process fail somewhere else. To be called by a deferred
// function before it recovers.
func RefuseExit() {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	for {
		frame, more := frames.Next()
		switch frame.Function {
		case "runtime.gopanic":
			return
		case "runtime.Goexit":
			fmt.Fprintf(os.Stderr, "tutti: fatal: a function that the library called ended its goroutine "+
				"(runtime.Goexit, which FailNow, Fatal and SkipNow of package testing call); it must "+
				"return, or panic\n%s", debug.Stack())
			os.Exit(2)
		}
		if !more {
			return
		}
	}
}
