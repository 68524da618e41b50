package tutti

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

func nothing() {}

// callOf turns a context into the options of one call; end is called when the call has returned.
func callOf(ctx context.Context) (call *native.CallOptions, end func(), err error) {
	if ctx == nil {
		return nil, nothing, nil
	}
	if _, ok := ctx.(*ReplicaContext); ok { // its calls end with the Run
		return nil, nothing, nil
	}
	done := ctx.Done()
	deadline, timed := ctx.Deadline()
	if done == nil && !timed {
		return nil, nothing, nil
	}
	if cause := ctx.Err(); cause != nil {
		return nil, nothing, contextError(cause)
	}
	call = &native.CallOptions{StructSize: unsafe.Sizeof(native.CallOptions{})}
	if timed {
		call.Timeout = int64(time.Until(deadline))
		if call.Timeout <= 0 {
			call.Timeout = math.MinInt64
		}
	}
	if done == nil {
		return call, nothing, nil
	}
	if err := check(native.Cancellation_create(&call.Cancellation)); err != nil {
		return nil, nothing, err
	}
	cancellation := call.Cancellation
	returned := make(chan struct{})
	native.Tutti_cancellation_retain(cancellation)
	go func() {
		defer native.Tutti_cancellation_release(cancellation)
		select {
		case <-done:
			// The deadline is the library's own affair, and has another code.
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !timed {
				native.Cancellation_cancel(cancellation, ctx.Err().Error())
			}
		case <-returned:
		}
	}()
	return call, func() {
		close(returned)
		native.Tutti_cancellation_release(cancellation)
	}, nil
}

func contextError(cause error) error {
	code := ErrCancelled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = ErrDeadlineExceeded
	}
	return &Error{Code: code, Message: "before the call: " + cause.Error(), original: cause}
}

// joined is how a list of texts crosses.
func joined(texts []string) (string, error) {
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return "", invalidArgument("%q: a text with a NUL in it cannot be a name", text)
		}
	}
	if len(texts) == 0 {
		return "", nil
	}
	return strings.Join(texts, "\x00") + "\x00", nil
}
