package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// DeviceSpec names a device, in part: "/job:worker/task:1/device:GPU:0".
type DeviceSpec struct{ o *object }

func (d *DeviceSpec) object() *object {
	if d == nil {
		return nil
	}
	return d.o
}

// DeviceFields are the fields of a DeviceSpec; "" and nil are not given.
type DeviceFields struct {
	Job         string
	Replica     *int64
	Task        *int64
	DeviceType  string
	DeviceIndex *int64
}

func makeDeviceSpec(make func(made *uintptr) uintptr) (*DeviceSpec, error) {
	var made uintptr
	if err := check(make(&made)); err != nil {
		return nil, err
	}
	return &DeviceSpec{own(made, "device spec", native.Tutti_device_spec_release)}, nil
}

// ParseDeviceSpec reads a name; ErrInvalidArgument says what is wrong with it.
func ParseDeviceSpec(text string) (*DeviceSpec, error) {
	return makeDeviceSpec(func(made *uintptr) uintptr { return native.Device_spec_parse(text, made) })
}

// NewDeviceSpec is made of fields.
func NewDeviceSpec(fields DeviceFields) (*DeviceSpec, error) {
	return makeDeviceSpec(func(made *uintptr) uintptr {
		return native.Device_spec_create(fields.Job, optional(fields.Replica), optional(fields.Task),
			fields.DeviceType, optional(fields.DeviceIndex), made)
	})
}

// Merge is inner where its fields are given, else d.
func (d *DeviceSpec) Merge(inner *DeviceSpec) (*DeviceSpec, error) {
	outerPointer, err := d.object().use()
	if err != nil {
		return nil, err
	}
	defer d.object().done()
	innerPointer, err := inner.object().use()
	if err != nil {
		return nil, err
	}
	defer inner.object().done()
	return makeDeviceSpec(func(made *uintptr) uintptr {
		return native.Device_spec_merge(outerPointer, innerPointer, made)
	})
}

// Fields of the spec.
func (d *DeviceSpec) Fields() (fields DeviceFields) {
	pointer, err := d.object().use()
	if err != nil {
		return fields
	}
	defer d.object().done()
	fields.Job, fields.DeviceType = native.Device_spec_job(pointer), native.Device_spec_type(pointer)
	for i, field := range []**int64{&fields.Replica, &fields.Task, &fields.DeviceIndex} {
		if number := native.Device_spec_number(pointer, i); number >= 0 {
			*field = &number
		}
	}
	return fields
}

// String is the canonical name.
func (d *DeviceSpec) String() string {
	return ask(d.object(), "", native.Device_spec_text)
}

// Equal compares all fields.
func (d *DeviceSpec) Equal(other *DeviceSpec) bool {
	left, err := d.object().use()
	if err != nil {
		return false
	}
	defer d.object().done()
	right, err := other.object().use()
	if err != nil {
		return false
	}
	defer other.object().done()
	return native.Device_spec_equal(left, right)
}

// Close ends the reference.
func (d *DeviceSpec) Close() error {
	d.object().close()
	return nil
}

type deviceKey struct{}

// WithDevice is ctx with a device scope: the device of ctx, with what text names in its place.
func WithDevice(ctx context.Context, text string) (context.Context, error) {
	spec, err := ParseDeviceSpec(text)
	if err != nil {
		return nil, err
	}
	if outer := CurrentDevice(ctx); outer != nil {
		if spec, err = outer.Merge(spec); err != nil {
			return nil, err
		}
	}
	return context.WithValue(ctx, deviceKey{}, spec), nil
}

// CurrentDevice is the device scope of ctx, nil without one.
func CurrentDevice(ctx context.Context) *DeviceSpec {
	spec, _ := ctx.Value(deviceKey{}).(*DeviceSpec)
	return spec
}
