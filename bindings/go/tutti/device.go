package tutti

import (
	"context"
	"strings"

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

// WithDevice is ctx with a device scope: the device of ctx, with what text names in its place. What
// is made and run with it lies on that device: variables, runs and iterators, where no strategy
// says otherwise, for a strategy has devices of its own. A device that is not there is no error
// here, but NotFound of what is made on it first, which names the devices that there are
// (Runtime.SetSoftDevicePlacement takes the CPU instead); a device of another job is Unimplemented.
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

// CurrentDevice is the device scope of ctx, nil without one: a replica's or an update's context is
// one of its device.
func CurrentDevice(ctx context.Context) *DeviceSpec {
	if ctx == nil {
		return nil
	}
	spec, _ := ctx.Value(deviceKey{}).(*DeviceSpec)
	return spec
}

// deviceOf is the text of the device scope of ctx, "" without one.
func deviceOf(ctx context.Context) string {
	if spec := CurrentDevice(ctx); spec != nil {
		return spec.String()
	}
	return ""
}

// Place is the full name of the device on which something is made with ctx, "" without a device
// scope. NotFound for a device that is not there.
func (r *Runtime) Place(ctx context.Context) (string, error) {
	spec := CurrentDevice(ctx)
	if spec == nil {
		return "", nil
	}
	return r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_place(runtime, spec.String(), made)
	})
}

// PlaceTensor is tensor on the device of ctx, itself without one; of a CPU it is the same memory.
func (r *Runtime) PlaceTensor(ctx context.Context, tensor *Tensor) (*Tensor, error) {
	spec := CurrentDevice(ctx)
	if spec == nil {
		return tensor, nil
	}
	pointer, err := tensor.use()
	if err != nil {
		return nil, err
	}
	defer tensor.o.done()
	return as(ownTensor)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_place_tensor(runtime, spec.String(), pointer, made)
	}))
}

// Device is the full name of the device on which the tensor lies.
func (t *Tensor) Device() (string, error) {
	return readText(t, native.Device_of_tensor)
}

// LogicalDeviceConfiguration is one of the logical devices that a physical one is presented as.
type LogicalDeviceConfiguration struct {
	// MemoryLimit in bytes; 0: none, which a CPU must have, whose logical devices share its memory.
	MemoryLimit int64
}

// PhysicalDevices are the devices of this machine of a type ("CPU", "GPU"; "" for all),
// "/physical_device:CPU:0" and so on.
func (r *Runtime) PhysicalDevices(deviceType string) ([]string, error) {
	text, err := r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_list_physical(runtime, deviceType, made)
	})
	return strings.Fields(text), err
}

// VisibleDevices are the physical devices of a type ("" for all) that are used.
func (r *Runtime) VisibleDevices(deviceType string) ([]string, error) {
	text, err := r.text(func(runtime uintptr, made *uintptr) uintptr {
		return native.Device_list_visible(runtime, deviceType, made)
	})
	return strings.Fields(text), err
}

// SetVisibleDevices uses of a type ("" for all) these physical devices only. InvalidArgument where
// no CPU is left: the host cannot be hidden. FailedPrecondition for a change when devices have been
// used, by a strategy, a variable, a device scope or a list of devices.
func (r *Runtime) SetVisibleDevices(deviceType string, devices ...string) error {
	names, err := joined(devices)
	if err != nil {
		return err
	}
	return r.with(func(runtime uintptr) uintptr {
		return native.Device_set_visible(runtime, deviceType, names)
	})
}

// SetLogicalDeviceConfiguration presents a physical device as these logical ones, which are then
// all that there are; those of a GPU share its memory. InvalidArgument for a memory limit of a CPU,
// and for limits that are together more than a GPU has; FailedPrecondition as above.
func (r *Runtime) SetLogicalDeviceConfiguration(device string,
	logical ...LogicalDeviceConfiguration) error {
	limits := make([]int64, len(logical))
	for i, one := range logical {
		limits[i] = one.MemoryLimit
	}
	return r.with(func(runtime uintptr) uintptr {
		return native.Device_set_logical(runtime, device, limits)
	})
}

// LogicalDeviceConfigurations are what a physical device was set to be presented as; nil where it
// was not set.
func (r *Runtime) LogicalDeviceConfigurations(device string) ([]LogicalDeviceConfiguration, error) {
	var count native.OptionalInt64
	err := r.with(func(runtime uintptr) uintptr {
		return native.Device_read_logical(runtime, device, &count)
	})
	if err != nil || count.Present == 0 {
		return nil, err
	}
	all := make([]LogicalDeviceConfiguration, count.Value)
	for i := range all {
		err := r.with(func(runtime uintptr) uintptr {
			return native.Device_read_logical_limit(runtime, device, int64(i), &all[i].MemoryLimit)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// UsedBytes are those that the tensors of a device ("GPU:0") take; of a CPU those of all tensors
// and buffers. NotFound for a device that is not there.
func (r *Runtime) UsedBytes(device string) (int64, error) {
	var bytes int64
	err := r.with(func(runtime uintptr) uintptr {
		return native.Device_read_used_bytes(runtime, device, &bytes)
	})
	return bytes, err
}

// PeakBytes are the most that they have been, since the runtime began or ResetPeakBytes.
func (r *Runtime) PeakBytes(device string) (int64, error) {
	var bytes int64
	err := r.with(func(runtime uintptr) uintptr {
		return native.Device_read_peak_bytes(runtime, device, &bytes)
	})
	return bytes, err
}

// ResetPeakBytes makes the peak of a GPU what is used now. InvalidArgument for a CPU.
func (r *Runtime) ResetPeakBytes(device string) error {
	return r.with(func(runtime uintptr) uintptr {
		return native.Device_reset_peak_bytes(runtime, device)
	})
}

// SetSoftDevicePlacement says whether what is made on a device that is not there, or cannot hold
// tensors, lies on CPU:0; else it is an error.
func (r *Runtime) SetSoftDevicePlacement(enabled bool) error {
	value := "0"
	if enabled {
		value = "1"
	}
	return r.Set("soft_device_placement", value)
}

// SoftDevicePlacement says whether that has been switched on.
func (r *Runtime) SoftDevicePlacement() (bool, error) {
	value, err := r.Setting("soft_device_placement")
	return value == "1", err
}
