package tutti

import (
	"context"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// twoGPUs is a runtime with a fake driver that has two GPUs; the test gpu.go says where it is.
func twoGPUs(t *testing.T) *Runtime {
	t.Helper()
	if os.Getenv("TUTTI_CUDA_DRIVER") == "" {
		t.Skip("without a driver, TUTTI_CUDA_DRIVER")
	}
	return must[*Runtime](t)(NewRuntime(nil))
}

func TestGPUTensorsGoThereAndComeBack(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	here := must[*Tensor](t)(TensorIn(r, []float32{1, 2, 3, 4}, 2, 2))
	there := must[*Tensor](t)(r.CopyToDevice(ctx, here, MemoryOptions{Device: "GPU:0"}))
	second := must[*Tensor](t)(r.CopyToDevice(ctx, there, MemoryOptions{Device: "GPU:1"}))
	back := must[*Tensor](t)(r.CopyToDevice(ctx, second, MemoryOptions{Pinned: true}))
	if !back.Equal(here) || !second.Equal(here) || back.CudaDevice() != -1 {
		t.Fatal(back, second)
	}
	if got := must[string](t)(second.Device()); second.CudaDevice() != 1 ||
		got != "/job:localhost/replica:0/task:0/device:GPU:1" {
		t.Fatal(got)
	}
	if got := there.String(); got != "float32[2,2] <on GPU:0>" {
		t.Fatal(got)
	}
	zeros := must[*Tensor](t)(r.NewTensorOn(MemoryOptions{Device: "GPU:1"}, Float32, 2, 2))
	if err := there.CopyTo(zeros); err != nil || !zeros.Equal(here) {
		t.Fatal(err)
	}
	placed := must[context.Context](t)(WithDevice(ctx, "GPU:1"))
	if moved := must[*Tensor](t)(r.PlaceTensor(placed, here)); moved.CudaDevice() != 1 {
		t.Fatal(moved)
	}
	const sentence = "lies on GPU:0, and this needs elements in the host's memory"
	_, err := there.Cast(Int32)
	saysWrong(t, err, ErrFailedPrecondition, sentence)
	_, err = Slice[float32](there)
	saysWrong(t, err, ErrFailedPrecondition, "on a GPU")
	_, err = r.CopyToDevice(ctx, here, MemoryOptions{Device: "GPU:9"})
	saysWrong(t, err, ErrNotFound, "no GPU:9")
	_, err = r.NewTensorOn(MemoryOptions{Device: "GPU:0"}, Int8, 1<<30)
	saysWrong(t, err, ErrResourceExhausted, "1073741824 bytes of its memory")
	for _, tensor := range []*Tensor{there, second, zeros} {
		tensor.Close()
	}
}

func TestGPUTensorsAreReducedWhereTheyLie(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	ranks := must[[]*Communicator](t)(r.NewLocalCommunicators(2, "gpus"))
	tensors := make([]*Tensor, 2)
	for rank, device := range []string{"GPU:0", "GPU:1"} {
		here := must[*Tensor](t)(TensorIn(r, []float32{1, 2, float32(rank), 4}))
		tensors[rank] = must[*Tensor](t)(r.CopyToDevice(ctx, here, MemoryOptions{Device: device}))
	}
	errs := make(chan error, 2)
	gathered := make([]*Tensor, 2)
	for rank := range ranks {
		go func(rank int) {
			err := ranks[rank].AllReduce(ctx, Sum, tensors[rank], tensors[rank])
			if err == nil {
				gathered[rank], err = ranks[rank].AllGather(ctx, tensors[rank])
			}
			errs <- err
		}(rank)
	}
	for range ranks {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	expected := must[*Tensor](t)(TensorIn(r, []float32{2, 4, 1, 8, 2, 4, 1, 8}))
	for rank, tensor := range gathered {
		if tensor.CudaDevice() != int64(rank) || !tensor.Equal(expected) {
			t.Fatal(rank, tensor)
		}
	}
	host := must[*Tensor](t)(r.CopyToDevice(ctx, tensors[0], MemoryOptions{Pinned: true}))
	saysWrong(t, ranks[0].AllReduce(ctx, Sum, tensors[0], host), ErrInvalidArgument,
		"the tensors of a rank's call lie on one device")
}

func TestGPURanksThatDisagreeAreToldSo(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	ranks := must[[]*Communicator](t)(r.NewLocalCommunicators(2, "gpus"))
	here := must[*Tensor](t)(TensorIn(r, []float32{1, 2}))
	there := must[*Tensor](t)(r.CopyToDevice(ctx, here, MemoryOptions{Device: "GPU:0"}))
	errs := make(chan error, 2)
	for rank, tensor := range []*Tensor{here, there} {
		go func(c *Communicator, tensor *Tensor) {
			errs <- c.AllReduce(ctx, Sum, tensor, tensor)
		}(ranks[rank], tensor)
	}
	for range ranks {
		saysWrong(t, <-errs, ErrInvalidArgument,
			"rank 1: all_reduce #1 got tensors on a GPU, rank 0 on the host")
	}
}

func TestGPUAnOldNcclSaysWhichWouldDo(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	if !strings.Contains(os.Getenv("TUTTI_NCCL_LIBRARY"), "2_17") {
		t.Skip("without an NCCL of 2.17")
	}
	if told := must[string](t)(r.DescribePlugins()); !strings.Contains(told, "NCCL 2.17.3 (") ||
		!strings.Contains(told, "is too old; 2.18 or newer is needed: install one") {
		t.Fatal(told)
	}
}

func TestGPUsArePresentedAsLogicalOnesThatCountTheirMemory(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	saysWrong(t, r.SetLogicalDeviceConfiguration("GPU:0",
		LogicalDeviceConfiguration{MemoryLimit: 1 << 30}), ErrInvalidArgument,
		"are 1073741824 bytes together, and GPU:0 has 67108864")
	parts := []LogicalDeviceConfiguration{{MemoryLimit: 1 << 20}, {}}
	if err := r.SetLogicalDeviceConfiguration("GPU:0", parts...); err != nil {
		t.Fatal(err)
	}
	if got := must[[]LogicalDeviceConfiguration](t)(
		r.LogicalDeviceConfigurations("GPU:0")); len(got) != 2 || got[0] != parts[0] ||
		got[1] != parts[1] {
		t.Fatal(got)
	}
	if got := must[[]string](t)(r.Devices("GPU")); len(got) != 3 {
		t.Fatal(got)
	}
	held := must[*Tensor](t)(r.NewTensorOn(MemoryOptions{Device: "GPU:1"}, Float32, 100))
	if used := must[int64](t)(r.UsedBytes("GPU:1")); used != 400 || held.CudaDevice() != 0 {
		t.Fatal(used, held)
	}
	held.Close()
	if peak := must[int64](t)(r.PeakBytes("GPU:1")); peak != 400 {
		t.Fatal(peak)
	}
	if err := r.ResetPeakBytes("GPU:1"); err != nil {
		t.Fatal(err)
	}
	if peak := must[int64](t)(r.PeakBytes("GPU:1")); peak != 0 {
		t.Fatal(peak)
	}
	saysWrong(t, r.ResetPeakBytes("CPU:0"), ErrInvalidArgument, "name a GPU")
	_, err := r.NewTensorOn(MemoryOptions{Device: "GPU:0"}, Int8, 1<<20+1)
	saysWrong(t, err, ErrResourceExhausted, "0 of its limit of 1048576 are in use")
}

func TestGPUStreamsAndEventsOrderWork(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	stream := must[*Stream](t)(r.NewStream("GPU:0"))
	other := must[*Stream](t)(r.NewStream("GPU:1"))
	begin := must[*Event](t)(r.NewEvent("GPU:0", true))
	end := must[*Event](t)(r.NewEvent("GPU:0", true))
	here := must[*Tensor](t)(TensorIn(r, []float32{1, 2}))
	if err := begin.Record(stream); err != nil {
		t.Fatal(err)
	}
	onStream := MemoryOptions{Device: "GPU:0", Stream: stream}
	there := must[*Tensor](t)(r.CopyToDevice(ctx, here, onStream))
	for _, err := range []error{end.Record(stream), end.Synchronize(ctx), stream.WaitEvent(end),
		other.WaitEvent(end), other.WaitStream(stream), stream.Synchronize(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := must[bool](t)(end.Query()); !took {
		t.Fatal("the event is not reached")
	}
	if took, err := begin.Elapsed(end); err != nil || took < 0 {
		t.Fatal(took, err)
	}
	if again := must[*Stream](t)(r.WrapStream("GPU:0", stream.Handle())); again.Device() != "GPU:0" ||
		again.Handle() != stream.Handle() {
		t.Fatal(again)
	}
	own := must[*Stream](t)(r.StreamOf("GPU:1"))
	if same := must[*Stream](t)(r.StreamOfCudaDevice(1)); same.Handle() != own.Handle() {
		t.Fatal(same)
	}
	_, err := r.WrapStream("GPU:0", 0)
	saysWrong(t, err, ErrInvalidArgument, "stream 0 says nothing")
	_, err = r.NewStream("CPU:0")
	saysWrong(t, err, ErrInvalidArgument, "CPU:0 has no streams")
	_, err = r.CopyToDevice(ctx, there, MemoryOptions{Device: "GPU:0", Stream: other})
	saysWrong(t, err, ErrInvalidArgument, "the stream is one of GPU:1")
	saysWrong(t, end.Record(other), ErrInvalidArgument, "on a stream of GPU:1")
	stream.Close()
	saysWrong(t, stream.Synchronize(ctx), ErrFailedPrecondition, "is closed")
}

func TestGPUMemoryGoesByAddressAndStream(t *testing.T) {
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	ctx := context.Background()
	here := must[*Tensor](t)(TensorIn(r, []float32{1, 2}))
	there := must[*Tensor](t)(r.CopyToDevice(ctx, here, MemoryOptions{Device: "GPU:0"}))
	own := must[*Stream](t)(r.StreamOf("GPU:0"))
	for _, stream := range []int64{-1, 1, 2, own.Handle()} {
		managed := must[unsafe.Pointer](t)(DLPackVersioned.ExportOn(there, false, stream))
		taken := must[*Tensor](t)(DLPackVersioned.ImportIn(r, managed))
		if taken.Address() != there.Address() || !taken.Equal(here) {
			t.Fatal(taken)
		}
		taken.Close()
	}
	_, err := DLPackVersioned.ExportOn(there, false, 0)
	saysWrong(t, err, ErrInvalidArgument, "stream 0 says nothing")
	wrapped := must[*Tensor](t)(r.Wrap(pointerAt(there.Address()), 8, Float32, []int64{2},
		WrapOptions{Device: "GPU:0"}))
	if !wrapped.Equal(here) || wrapped.CudaDevice() != 0 {
		t.Fatal(wrapped)
	}
	wrapped.Close()
}
