// Package native is the C side of package tutti: functions of machine words that SWIG generates
// from swig/tutti.i (native.go, native_wrap.cxx), and the way of callbacks back into Go. A release
// of the module carries the generated files; the library is found through pkg-config.
package native

// #cgo pkg-config: tutti
// #cgo CXXFLAGS: -std=c++17 -w
import "C"

// CallOptions has the layout of tutti_call_options.
type CallOptions struct {
	StructSize    uintptr
	Timeout       int64
	Cancellation  uintptr
	Communication uintptr // of CommunicationOptions
	Stream        uintptr
}

// CommunicationOptions has the layout of tutti_communication_options.
type CommunicationOptions struct {
	StructSize     uintptr
	BytesPerPack   int64
	Implementation int32
	_              int32
}

// OptionalInt64 has the layout of tutti_optional_int64.
type OptionalInt64 struct {
	Present int64
	Value   int64
}
