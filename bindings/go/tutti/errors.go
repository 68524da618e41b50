package tutti

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/cgo"
	"runtime/debug"
	"unsafe"

	"tutti.dev/tutti/internal/native"
)

// Code is a canonical error code. It is an error itself, so that errors.Is(err,
// tutti.ErrOutOfRange) asks for it.
type Code int

// The codes, numbered as gRPC numbers them.
const (
	ErrCancelled          Code = 1
	ErrUnknown            Code = 2
	ErrInvalidArgument    Code = 3
	ErrDeadlineExceeded   Code = 4
	ErrNotFound           Code = 5
	ErrAlreadyExists      Code = 6
	ErrPermissionDenied   Code = 7
	ErrResourceExhausted  Code = 8
	ErrFailedPrecondition Code = 9
	ErrAborted            Code = 10
	ErrOutOfRange         Code = 11
	ErrUnimplemented      Code = 12
	ErrInternal           Code = 13
	ErrUnavailable        Code = 14
	ErrDataLoss           Code = 15
	ErrUnauthenticated    Code = 16
)

// Error is the code's name, "OUT_OF_RANGE".
func (c Code) Error() string { return native.Code_name(int(c)) }

// Error is what went wrong: who, what was expected, what was found.
type Error struct {
	Code    Code
	Message string
	// Details are for programs: "rank", "op", "row" and so on; int64, float64 or string.
	Details map[string]any
	// Causes are what led to it.
	Causes []error

	original error
}

// Error is the code's name and the message.
func (e *Error) Error() string { return e.Code.Error() + ": " + e.Message }

// Is compares codes; context.Canceled and context.DeadlineExceeded are codes, too.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	return e.Code == ErrCancelled && target == context.Canceled ||
		e.Code == ErrDeadlineExceeded && target == context.DeadlineExceeded
}

// Unwrap is the error that a function of yours returned, where one is behind this error; else the
// first cause.
func (e *Error) Unwrap() error {
	if e.original != nil {
		return e.original
	}
	if len(e.Causes) > 0 {
		return e.Causes[0]
	}
	return nil
}

// PanicError is a panic in a function that the library called.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is "panic: " and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the value of the panic where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func failedPrecondition(message string) error {
	return &Error{Code: ErrFailedPrecondition, Message: message}
}

func invalidArgument(format string, arguments ...any) error {
	return &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}

// check makes the error of a status, which it takes over; nil for success.
func check(status uintptr) error {
	if status == 0 {
		return nil
	}
	err := errorOf(status)
	native.Tutti_status_release(status)
	return err
}

// errorOf reads a borrowed status.
func errorOf(status uintptr) *Error {
	err := &Error{
		Code:    Code(native.Status_code(status)),
		Message: native.Status_message(status),
	}
	for i, count := int64(0), native.Status_detail_count(status); i < count; i++ {
		if err.Details == nil {
			err.Details = make(map[string]any)
		}
		key := native.Status_detail_key(status, i)
		switch native.Status_detail_kind(status, i) {
		case 1:
			err.Details[key] = native.Status_detail_int64(status, i)
		case 2:
			err.Details[key] = native.Status_detail_double(status, i)
		case 3:
			var size int64
			address := native.Status_detail_text(status, i, &size)
			err.Details[key] = string(bytesAt(address, size))
		}
	}
	for i, count := int64(0), native.Status_cause_count(status); i < count; i++ {
		err.Causes = append(err.Causes, errorOf(native.Status_cause(status, i)))
	}
	if handle := native.Status_go_error(status); handle != 0 {
		err.original = cgo.Handle(handle).Value().(error)
	}
	return err
}

// statusOf is a new status that carries err.
func statusOf(err error) uintptr {
	if err == nil {
		return 0
	}
	var details map[string]any
	var own *Error
	code, message := ErrUnknown, err.Error()
	var plain Code
	var panicked *PanicError
	switch {
	case errors.As(err, &own):
		code, details = own.Code, own.Details
		if own == err {
			message = own.Message
		}
	case errors.As(err, &plain) && plain >= ErrCancelled && plain <= ErrUnauthenticated:
		code = plain
	case errors.As(err, &panicked):
		code = ErrInternal
	case errors.Is(err, context.DeadlineExceeded):
		code = ErrDeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = ErrCancelled
	case errors.Is(err, fs.ErrNotExist):
		code = ErrNotFound
	case errors.Is(err, fs.ErrExist):
		code = ErrAlreadyExists
	case errors.Is(err, fs.ErrPermission):
		code = ErrPermissionDenied
	}
	status := native.Status_of_go_error(int(code), message, uintptr(cgo.NewHandle(err)))
	for key, value := range details {
		switch value := value.(type) {
		case int64:
			native.Status_add_int64(status, key, value)
		case int:
			native.Status_add_int64(status, key, int64(value))
		case string:
			native.Status_add_text(status, key, value)
		}
	}
	return status
}

// panicStatus is the status of a recovered panic.
func panicStatus(value any) uintptr {
	return statusOf(&PanicError{Value: value, Stack: debug.Stack()})
}

// bytesAt is native memory as a slice.
func bytesAt(address uintptr, size int64) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointerAt(address)), size)
}

// pointerAt turns an address of native memory into a pointer. The garbage collector does not move
// or free what lies there.
func pointerAt(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// text reads a byte buffer, which it takes over.
func takeText(buffer uintptr) string { return string(takeBytes(buffer)) }

func takeBytes(buffer uintptr) []byte {
	if buffer == 0 {
		return nil
	}
	var size int64
	address := native.Bytes_address(buffer, &size)
	copied := append([]byte(nil), bytesAt(address, size)...)
	native.Tutti_bytes_release(buffer)
	return copied
}
