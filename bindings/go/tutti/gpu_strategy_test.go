package tutti

import (
	"context"
	"reflect"
	"testing"
)

// hostFloats are the elements of a tensor, wherever it lies.
func hostFloats(t *testing.T, r *Runtime, tensor *Tensor) []float32 {
	t.Helper()
	here := must[*Tensor](t)(r.CopyToDevice(context.Background(), tensor,
		MemoryOptions{Device: "CPU:0"}))
	defer here.Close()
	return append([]float32{}, must[[]float32](t)(Slice[float32](here))...)
}

func TestGPUStrategiesKeepVariablesAndReduceThere(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	strategy := must[*Strategy](t)(r.NewMirroredStrategy(ctx))
	defer strategy.Close()
	full := []string{"/job:localhost/replica:0/task:0/device:GPU:0",
		"/job:localhost/replica:0/task:0/device:GPU:1"}
	if got := strategy.WorkerDevicesInFull(); !reflect.DeepEqual(got, full) {
		t.Fatal(got)
	}
	initial := must[*Tensor](t)(TensorIn(r, []float32{1, 2}, 2))
	defer initial.Close()
	variable := must[*Variable](t)(strategy.NewVariable(nil, initial,
		VariableOptions{Name: "v", Aggregation: AggregateSum}))
	defer variable.Close()
	if got := variable.CopyDevices(); !reflect.DeepEqual(got, full) {
		t.Fatal(got)
	}
	result := must[Value](t)(strategy.Run(ctx, func(replica *ReplicaContext, _ Value) (Value, error) {
		own, err := variable.Read(replica)
		if err != nil {
			return Value{}, err
		}
		defer own.Close()
		if err := variable.AssignAdd(replica, own); err != nil {
			return Value{}, err
		}
		value, err := OfTensor(own)
		if err != nil {
			return Value{}, err
		}
		defer value.Close()
		return replica.AllReduce(Sum, value)
	}, Value{}))
	defer result.Close()
	for i, part := range must[[]Value](t)(strategy.LocalResults(result)) {
		tensor := must[*Tensor](t)(part.Tensor())
		if got := hostFloats(t, r, tensor); tensor.CudaDevice() != int64(i) ||
			!reflect.DeepEqual(got, []float32{2, 4}) {
			t.Fatal(i, got, tensor.CudaDevice())
		}
		part.Close()
	}
	if got := hostFloats(t, r, must[*Tensor](t)(variable.Read(ctx))); !reflect.DeepEqual(got,
		[]float32{3, 6}) {
		t.Fatal(got)
	}
	sum := must[Value](t)(strategy.Reduce(ctx, Sum, result))
	defer sum.Close()
	total := must[*Tensor](t)(sum.Tensor())
	if got := must[[]float32](t)(Slice[float32](total)); !reflect.DeepEqual(got, []float32{4, 8}) {
		t.Fatal(got)
	}
	_, err := r.NewMirroredStrategy(ctx, StrategyOptions{Devices: []string{"GPU:0", "GPU:9"}})
	saysWrong(t, err, ErrInvalidArgument, "no GPU:9")
}
