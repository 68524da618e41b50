package tutti

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is reached through an element belongs to the dataset: another pass reads the same memory.
func TestElementsAreReadOnly(t *testing.T) {
	numbers := must[*Tensor](t)(TensorOf([]int64{1, 2, 3}))
	dataset := FromTensors(must[Value](t)(OfTensor(numbers)))
	first := must[*Iterator](t)(dataset.Iterator(context.Background()))
	defer first.Close()
	if !first.Next() {
		t.Fatal(first.Err())
	}
	element := first.Value()
	tensor := must[*Tensor](t)(element.Tensor())
	if !tensor.IsReadOnly() {
		t.Error("the tensor of an element can be written")
	}
	kept := must[*Tensor](t)(tensor.Keep())
	cut := must[*Tensor](t)(tensor.Cut(0, 1, 3))
	same := must[*Tensor](t)(tensor.Reshape(3, 1))
	for _, shared := range []*Tensor{tensor, kept, cut, same} {
		if _, err := MutableSlice[int64](shared); !errors.Is(err, ErrFailedPrecondition) {
			t.Errorf("%v: %v", shared, err)
		}
	}
	source := must[*Tensor](t)(TensorOf([]int64{9, 9, 9}))
	if err := source.CopyTo(tensor); !errors.Is(err, ErrFailedPrecondition) {
		t.Error(err)
	}
	alone := must[[]*Communicator](t)(NewLocalCommunicators(1))[0]
	defer alone.Close()
	if err := alone.AllReduce(context.Background(), Sum, source, tensor); err == nil {
		t.Error("a collective wrote into an element")
	}
	copied := must[*Tensor](t)(tensor.Copy())
	must[[]int64](t)(MutableSlice[int64](copied))[0] = 99
	got := must[[]int64](t)(SliceAt[int64](element, ""))
	if !reflect.DeepEqual(got, []int64{1, 2, 3}) {
		t.Error(got)
	}
	if got := must[[]int64](t)(Slice[int64](must[*Tensor](t)(numbers.ReadOnly()))); got[2] != 3 {
		t.Error(got)
	}
}

func TestAWaitThatTakesLongNamesTheTensor(t *testing.T) {
	runtime := must[*Runtime](t)(NewRuntime(map[string]string{"wait_warning": "20ms"}))
	defer runtime.Shutdown(soon(t))
	lines := make(chan string, 100)
	if err := runtime.SetLog(func(_, line string) { lines <- line }); err != nil {
		t.Fatal(err)
	}
	alone := must[[]*Communicator](t)(runtime.NewLocalCommunicators(1, ""))[0]
	defer alone.Close()
	plan := must[*BucketPlan](t)(alone.NewBucketPlan(Sum, []*Tensor{zeros(2), zeros(3)},
		BucketPlanOptions{Names: []string{"bias", "weight"}}))
	defer plan.Close()
	if text := plan.String(); text != "bucket plan of 2 tensors (SUM) in 1 buckets, 0 steps" {
		t.Error(text)
	}
	if err := plan.Ready(0); err != nil {
		t.Fatal(err)
	}
	go func() {
		for line := range lines {
			if strings.Contains(line, "not ready: 1 (weight)") {
				break
			}
		}
		_ = plan.Ready(1)
	}()
	if err := plan.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointsOfACommunicatorAreOfAllRanks(t *testing.T) {
	folder := t.TempDir()
	onRanks(t, 2, func(ctx context.Context, c *Communicator) error {
		weights := sure(TensorOf([]float64{5, 6}))
		checkpoint, err := c.NewCheckpoint()
		if err != nil {
			return err
		}
		defer checkpoint.Close()
		steps := sure(Range(0, 9, 1).Iterator(ctx))
		defer steps.Close()
		for i := 0; i <= c.Rank(); i++ {
			steps.Next()
		}
		if err := errors.Join(checkpoint.AddTensor("w", weights),
			checkpoint.AddIterator("steps", steps)); err != nil {
			return err
		}
		if err := checkpoint.Save(ctx, filepath.Join(folder, "ckpt"), 1); err != nil {
			return err
		}
		sure(MutableSlice[float64](weights))[0] = 0
		steps.Next()
		if _, err := checkpoint.Restore(ctx, filepath.Join(folder, "ckpt")); err != nil {
			return err
		}
		steps.Next()
		if next := sure(steps.Value().Int64()); next != int64(c.Rank()+1) {
			return fmt.Errorf("rank %d goes on with %d", c.Rank(), next)
		}
		if sure(Slice[float64](weights))[0] != 5 {
			return fmt.Errorf("the weights are %v", weights)
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(folder, "ckpt.worker-1-of-2.safetensors")); err != nil {
		t.Error(err)
	}
}

func TestARunThatTakesTooLongFailsThoughNobodyWaits(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0"))
	defer strategy.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := strategy.Run(ctx, func(*ReplicaContext, Value) (Value, error) {
		<-ctx.Done()
		return OfInt64(1)
	}, Value{})
	if !errors.Is(err, ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestAStateOfAnotherDatasetSaysWhatDiffers(t *testing.T) {
	two := must[*Iterator](t)(Range(0, 9, 1).Batch(2).Iterator(context.Background()))
	defer two.Close()
	three := must[*Iterator](t)(Range(0, 9, 1).Batch(3).Iterator(context.Background()))
	defer three.Close()
	err := three.Restore(soon(t), must[[]byte](t)(two.Save(soon(t))))
	if err == nil || !strings.Contains(err.Error(),
		"was batch(batch_size=2) and is batch(batch_size=3) here") {
		t.Error(err)
	}
}

func TestAStrategyHasACommunicator(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	if cluster, err := strategy.Cluster(); cluster != nil || err != nil {
		t.Error(cluster, err)
	}
	ranks := must[*Communicator](t)(strategy.Communicator(soon(t)))
	defer ranks.Close()
	if ranks.Size() != 1 || ranks.String() != "communicator, rank 0 of 1, epoch 1, in_process" {
		t.Error(ranks)
	}
}

func TestWholeValuesGoBetweenRanks(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		mine := sure(From(map[string]any{"rank": c.Rank(), "name": fmt.Sprint("worker ", c.Rank())}))
		defer mine.Close()
		all, err := c.AllGatherValue(ctx, mine)
		if err != nil {
			return err
		}
		for i, value := range all {
			name, rank := sure(value.TextAt("name")), sure(value.Int64At("rank"))
			if rank != int64(i) || name != fmt.Sprint("worker ", i) {
				return fmt.Errorf("%d: %d %q", i, rank, name)
			}
		}
		var config Value
		if c.Rank() == 1 {
			config = sure(From(struct{ Rate float64 }{0.5}))
		}
		got, err := c.BroadcastValue(ctx, 1, config)
		if err != nil {
			return err
		}
		if rate := sure(got.Float64At("Rate")); rate != 0.5 {
			return fmt.Errorf("rate %v", rate)
		}
		again := sure(ParseValue(sure(got.Serialize())))
		if again.String() != got.String() {
			return fmt.Errorf("%v, %v", again, got)
		}
		return nil
	})
}

func TestFromMakesValuesOfGosOwn(t *testing.T) {
	type pair struct {
		Image  [][]float32 `tutti:"image"`
		Label  int64
		Hidden int `tutti:"-"`
		inner  int
	}
	value := must[Value](t)(From(map[string]any{
		"pair": pair{Image: [][]float32{{1, 2}, {3, 4}}, Label: 7, inner: 1},
		"all":  []any{true, "text", nil}, "bytes": []byte{1, 2}, "names": []string{"a", "b"},
		"kept": must[*Tensor](t)(TensorOf([]int32{5}))}))
	defer value.Close()
	if got := must[[]float32](t)(SliceAt[float32](value, "pair/image")); !reflect.DeepEqual(got,
		[]float32{1, 2, 3, 4}) {
		t.Error(got)
	}
	if got := must[int64](t)(value.Int64At("pair/Label")); got != 7 {
		t.Error(got)
	}
	if got := must[string](t)(value.TextAt("all/1")); got != "text" {
		t.Error(got)
	}
	if _, err := value.Get("pair/Hidden"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for _, bad := range []any{map[int]int{1: 2}, make(chan int), [][]int{{1}, {2, 3}},
		map[string]any{"deep": []any{1, func() {}}}} {
		if _, err := From(bad); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%T: %v", bad, err)
		}
	}
	_, err := From(map[string]any{"deep": []any{1, func() {}}})
	if err == nil || !strings.Contains(err.Error(), "deep/1 is a func()") {
		t.Error(err)
	}
}

func TestWhatIsPrintedSaysWhatItIs(t *testing.T) {
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	future := must[*Future](t)(NewFuture())
	for said, expected := range map[string]string{
		strategy.String(): "strategy, 2 replicas", future.String(): "future, under way",
		Mean.String(): "mean", SyncOnRead.String(): "on read", AutoShardOff.String(): "off",
		ReduceOp(99).String(): "unknown (99)", Gzip.String(): "gzip",
		NewFunction(nil, FunctionOptions{}).String(): "function that failed: INVALID_ARGUMENT: " +
			"a function is needed, not nil",
		defaultRuntime.String():    "default runtime",
		(&Communicator{}).String(): "closed communicator",
	} {
		if said != expected {
			t.Errorf("%q, expected %q", said, expected)
		}
	}
	strategy.Close()
	if said := strategy.String(); said != "closed strategy" {
		t.Error(said)
	}
}

func TestExamplesAreWritten(t *testing.T) {
	features := must[Value](t)(From(map[string]any{"a": 1}))
	defer features.Close()
	if got := hex.EncodeToString(must[[]byte](t)(MakeExample(features))); got !=
		"0a0c0a0a0a016112051a030a0101" {
		t.Error(got)
	}
	path := filepath.Join(t.TempDir(), "train.tfrecord")
	examples := must[*ExampleWriter](t)(NewExampleWriter(path))
	for i := 0; i < 2; i++ {
		err := examples.Write(map[string]any{"image": []float32{float32(i), 1}, "label": i})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := examples.Close(); err != nil {
		t.Fatal(err)
	}
	parsed := TFRecords(path).MapWith(ParseExample(map[string]Feature{
		"image": {DType: Float32, Dims: []int64{2}}, "label": {DType: Int64}}))
	iterator := must[*Iterator](t)(parsed.Iterator(context.Background()))
	defer iterator.Close()
	for i := int64(0); iterator.Next(); i++ {
		if label := must[int64](t)(iterator.Value().Int64At("label")); label != i {
			t.Error(label)
		}
	}
	if err := iterator.Err(); err != nil {
		t.Error(err)
	}
}
