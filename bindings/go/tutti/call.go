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
	if replica, ok := ctx.(*ReplicaContext); ok {
		ctx = replica.limits() // its calls end with the Run
	}
	if ctx == nil {
		return nil, nothing, nil
	}
	done := ctx.Done()
	deadline, timed := ctx.Deadline()
	hints, hinted := ctx.Value(communicationKey{}).(CommunicationOptions)
	stream, ordered := ctx.Value(streamKey{}).(*Stream)
	if done == nil && !timed && !hinted && !ordered {
		return nil, nothing, nil
	}
	if cause := ctx.Err(); cause != nil {
		return nil, nothing, contextError(cause)
	}
	call = &native.CallOptions{StructSize: unsafe.Sizeof(native.CallOptions{})}
	if hinted {
		call = hints.call()
	}
	free := nothing
	if ordered {
		if call.Stream, err = stream.object().use(); err != nil {
			return nil, nothing, err
		}
		free = stream.object().done
	}
	if timed {
		call.Timeout = int64(time.Until(deadline))
		if call.Timeout <= 0 {
			call.Timeout = math.MinInt64
		}
	}
	if done == nil {
		return call, free, nil
	}
	if err := check(native.Cancellation_create(&call.Cancellation)); err != nil {
		free()
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
		free()
	}, nil
}

// limited is a timeout as the library takes it: 0 is no limit.
func limited(timeout time.Duration) int64 {
	if timeout == 0 {
		return math.MaxInt64
	}
	return int64(timeout)
}

func contextError(cause error) error {
	code := ErrCancelled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = ErrDeadlineExceeded
	}
	return &Error{Code: code, Message: "before the call: " + cause.Error(), original: cause}
}

// blocking is one call on an object that may wait and makes a value; limit is for a context without
// a deadline, nil for none and 0 for as long as it takes.
func blocking(ctx context.Context, limit *time.Duration, o user, operand Value,
	call func(pointer, operand uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (Value, error) {
	pointer, err := o.use()
	if err != nil {
		return Value{}, err
	}
	defer o.done()
	in, err := operand.use()
	if err != nil {
		return Value{}, err
	}
	defer operand.done()
	options, end, err := callOf(ctx)
	if err != nil {
		return Value{}, err
	}
	defer end()
	if limit != nil && options == nil {
		options = &native.CallOptions{StructSize: unsafe.Sizeof(native.CallOptions{})}
	}
	if limit != nil && options.Timeout == 0 {
		options.Timeout = limited(*limit)
	}
	var made uintptr
	if err := check(call(pointer, in, options, &made)); err != nil {
		return Value{}, err
	}
	return ownValue(made), nil
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
