package tutti

import (
	"context"
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
