package tutti

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// The net of a closed object serves the next one: each is released once, closed or not.
func TestEveryReferenceIsReleasedOnce(t *testing.T) {
	const each = 100
	var closed, dropped atomic.Int64
	for round := 0; round < each; round++ {
		o := own(1, "thing", func(uintptr) { closed.Add(1) })
		o.close()
		o.close()
		own(1, "thing", func(uintptr) { dropped.Add(1) })
	}
	end := time.Now().Add(time.Minute)
	for dropped.Load() < each && time.Now().Before(end) {
		runtime.GC()
		runtime.Gosched()
	}
	// The pool lets its nets go at the second collection.
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
	if closed.Load() != each || dropped.Load() != each {
		t.Errorf("of %d each, closed ones were released %d times and dropped ones %d times", each,
			closed.Load(), dropped.Load())
	}
}
