package tutti

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestDeviceSpecsAreParsedAndMerged(t *testing.T) {
	spec := must[*DeviceSpec](t)(ParseDeviceSpec("/job:worker/task:0/device:cpu:3"))
	fields := spec.Fields()
	if fields.Job != "worker" || *fields.Task != 0 || fields.DeviceType != "CPU" ||
		*fields.DeviceIndex != 3 || fields.Replica != nil {
		t.Fatal(fields)
	}
	if again := must[*DeviceSpec](t)(NewDeviceSpec(fields)); !again.Equal(spec) {
		t.Fatal(again, spec)
	}
	for _, text := range []string{"/device:", "/job:worker/tsk:1", "foo"} {
		_, err := ParseDeviceSpec(text)
		wants(t, err, ErrInvalidArgument)
	}
}

func TestDeviceScopesNest(t *testing.T) {
	outer := must[context.Context](t)(WithDevice(context.Background(), "/job:train"))
	inner := must[context.Context](t)(WithDevice(outer, "/device:GPU:1"))
	if got := CurrentDevice(inner).String(); got != "/job:train/device:GPU:1" {
		t.Fatal(got)
	}
	if CurrentDevice(context.Background()) != nil || CurrentDevice(outer).String() != "/job:train" {
		t.Fatal("the outer scope has changed")
	}
}

const cpu1 = "/job:localhost/replica:0/task:0/device:CPU:1"

// placeAll makes one of each of what can be made on the device of ctx.
func placeAll(t *testing.T, ctx context.Context) map[string]error {
	t.Helper()
	var runtime *Runtime
	strategy := must[*Strategy](t)(DefaultStrategy())
	defer strategy.Close()
	one := must[*Tensor](t)(TensorOf([]float32{1}))
	all := make(map[string]error)
	_, all["place"] = runtime.Place(ctx)
	_, all["tensor"] = runtime.PlaceTensor(ctx, one)
	_, all["variable"] = strategy.NewVariable(ctx, one, VariableOptions{})
	_, all["run"] = strategy.Run(ctx, func(*ReplicaContext, Value) (Value, error) {
		return Value{}, nil
	}, Value{})
	iterator, err := Range(0, 3, 1).Iterator(ctx)
	if all["dataset"] = err; err == nil {
		iterator.Close()
	}
	return all
}

func TestWhatIsMadeInAScopeLiesThere(t *testing.T) {
	var runtime *Runtime
	ctx := must[context.Context](t)(WithDevice(context.Background(), "CPU:1"))
	if got := must[string](t)(runtime.Place(ctx)); got != cpu1 {
		t.Fatal(got)
	}
	one := must[*Tensor](t)(TensorOf([]float32{1, 2}))
	placed := must[*Tensor](t)(runtime.PlaceTensor(ctx, one))
	if got := must[string](t)(placed.Device()); got != cpu1 || !placed.Equal(one) {
		t.Fatal(got)
	}
	if got := must[string](t)(one.Device()); !strings.HasSuffix(got, "/device:CPU:0") {
		t.Fatal(got)
	}
	for name, err := range placeAll(t, ctx) {
		if err != nil {
			t.Fatal(name, err)
		}
	}
}

func TestAReplicaFunctionBeginsOnItsReplicasDevice(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	outer := must[context.Context](t)(WithDevice(context.Background(), "CPU:3"))
	result := must[Value](t)(strategy.Run(outer,
		func(r *ReplicaContext, args Value) (Value, error) {
			own := fmt.Sprintf("/device:CPU:%d", r.ReplicaID())
			if got := CurrentDevice(r).String(); got != own {
				return Value{}, fmt.Errorf("on %s, not on %s", got, own)
			}
			inner, err := WithDevice(r, "/job:train")
			if err != nil {
				return Value{}, err
			}
			if got := CurrentDevice(inner).String(); got != "/job:train"+own {
				return Value{}, errors.New(got)
			}
			place, err := (*Runtime)(nil).Place(r)
			if err != nil || !strings.HasSuffix(place, own) {
				return Value{}, fmt.Errorf("%s, %w", place, err)
			}
			return Value{}, nil
		}, Value{}))
	defer result.Close()
	plain := must[*Strategy](t)(DefaultStrategy())
	defer plain.Close()
	same := must[Value](t)(plain.Run(outer, func(r *ReplicaContext, args Value) (Value, error) {
		if got := CurrentDevice(r).String(); got != "/device:CPU:3" {
			return Value{}, errors.New(got)
		}
		return Value{}, nil
	}, Value{}))
	defer same.Close()
}

func TestWhatIsNotThereIsAnErrorOfWhatIsPlacedThere(t *testing.T) {
	var runtime *Runtime
	gone := must[context.Context](t)(WithDevice(context.Background(), "GPU:77"))
	for name, err := range placeAll(t, gone) {
		t.Log(name)
		saysWrong(t, err, ErrNotFound, "no GPU:77; it has CPU:0 to CPU:")
	}
	other := must[context.Context](t)(WithDevice(context.Background(), "/job:ps"))
	for name, err := range placeAll(t, other) {
		t.Log(name)
		saysWrong(t, err, ErrUnimplemented, "another task")
	}
	if must[bool](t)(runtime.SoftDevicePlacement()) {
		t.Fatal("soft placement is on by default")
	}
	if err := runtime.SetSoftDevicePlacement(true); err != nil {
		t.Fatal(err)
	}
	defer runtime.SetSoftDevicePlacement(false)
	for name, err := range placeAll(t, gone) {
		if err != nil || !must[bool](t)(runtime.SoftDevicePlacement()) {
			t.Fatal(name, err)
		}
	}
}

func TestPhysicalDevicesAreConfiguredUntilDevicesAreUsed(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	if got := must[[]string](t)(own.PhysicalDevices("CPU")); len(got) != 1 ||
		got[0] != "/physical_device:CPU:0" {
		t.Fatal(got)
	}
	if got := must[[]LogicalDeviceConfiguration](t)(
		own.LogicalDeviceConfigurations("CPU:0")); got != nil {
		t.Fatal(got)
	}
	any := LogicalDeviceConfiguration{}
	saysWrong(t, own.SetLogicalDeviceConfiguration("CPU:0",
		LogicalDeviceConfiguration{MemoryLimit: 1024}), ErrInvalidArgument, "leave memory_limit out")
	saysWrong(t, own.SetLogicalDeviceConfiguration("GPU:77", any), ErrNotFound, "physical device")
	if err := own.SetLogicalDeviceConfiguration("CPU:0", any, any); err != nil {
		t.Fatal(err)
	}
	if got := must[[]LogicalDeviceConfiguration](t)(
		own.LogicalDeviceConfigurations("CPU:0")); len(got) != 2 {
		t.Fatal(got)
	}
	if err := own.SetVisibleDevices("GPU"); err != nil {
		t.Fatal(err)
	}
	saysWrong(t, own.SetVisibleDevices("CPU"), ErrInvalidArgument, "cannot be hidden")
	if got := must[[]string](t)(own.VisibleDevices("")); len(got) != 1 {
		t.Fatal(got)
	}
	if got := must[[]string](t)(own.Devices("CPU")); len(got) != 2 {
		t.Fatal(got)
	}
	saysWrong(t, own.SetLogicalDeviceConfiguration("CPU:0", any), ErrFailedPrecondition,
		"in use already")
}

func TestADatasetsFunctionsLiveInItsRuntime(t *testing.T) {
	own := must[*Runtime](t)(NewRuntime(nil))
	defer own.Close()
	dataset := own.Range(0, 3, 1).Map(plusOne).Filter(func(element Value) (bool, error) {
		number, err := element.Int64()
		return number > 1, err
	})
	if got := integers(t, dataset); len(got) != 2 {
		t.Fatal(got)
	}
	if err := own.Shutdown(nil); err != nil {
		t.Fatal(err)
	}
	_, err := dataset.Iterator(nil)
	wants(t, err, ErrFailedPrecondition)
	_, err = dataset.Take(1).Iterator(nil)
	wants(t, err, ErrFailedPrecondition)
}
