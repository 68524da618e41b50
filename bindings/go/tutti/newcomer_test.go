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

func init() {
	roles["save for oneself"] = func() error {
		folder := os.Getenv("TUTTI_GO_TEST_FOLDER")
		strategy := sure(DefaultStrategy())
		checkpoint := sure(strategy.NewCheckpoint())
		weights := sure(TensorOf([]float64{5, 6}))
		if err := checkpoint.AddTensor("w", weights); err != nil {
			return err
		}
		ctx := context.Background()
		for _, err := range []error{checkpoint.Save(ctx, filepath.Join(folder, "a"), 1),
			checkpoint.Write(ctx, filepath.Join(folder, "a.safetensors"))} {
			if !errors.Is(err, ErrFailedPrecondition) {
				return fmt.Errorf("it was saved: %v", err)
			}
			for _, words := range []string{"worker 1 of 2 of a job, as TF_CONFIG says",
				"overwrite each other's files", "the communicator or the cluster"} {
				if !strings.Contains(err.Error(), words) {
					return err
				}
			}
		}
		own := sure(sure(NewLocalCommunicators(1))[0].NewCheckpoint())
		return errors.Join(own.AddTensor("w", weights), own.Save(ctx, filepath.Join(folder, "b"), 1))
	}
}

func TestInAJobOfSeveralACheckpointForOneselfIsRefused(t *testing.T) {
	folder := t.TempDir()
	p := start(t, "save for oneself", "TUTTI_GO_TEST_FOLDER="+folder, `TF_CONFIG={"cluster":
		{"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "task": {"type": "worker", "index": 1}}`)
	if err := p.finish(); err != nil {
		t.Fatal(err, p.err.String())
	}
	if files := sure(filepath.Glob(filepath.Join(folder, "a*"))); len(files) != 0 {
		t.Error(files)
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

func TestOptionsAreFunctionsOfTheirKind(t *testing.T) {
	naming := WithName("w")
	variable := collect([]VariableOption{naming, nil, WithAggregation(AggregateSum), WithShape(-1),
		WithSynchronization(SyncOnRead), WithTrainable(false)}, VariableOption.ofVariable)
	if expected := (VariableOptions{Name: "w", Aggregation: AggregateSum, NotTrainable: true,
		Synchronization: SyncOnRead, Shape: []int64{-1}}); !reflect.DeepEqual(variable, expected) {
		t.Error(variable)
	}
	strategy := collect([]StrategyOption{StrategyOptions{Name: "gone", Devices: []string{"CPU:1"}},
		naming, WithBytesPerPack(7), WithTimeout(time.Second), WithImplementation(CommunicationRing)},
		StrategyOption.ofStrategy)
	if expected := (StrategyOptions{Name: "w", Devices: []string{"CPU:1"},
		Communication: CommunicationOptions{Timeout: Limit(time.Second), BytesPerPack: 7,
			Implementation: CommunicationRing}}); !reflect.DeepEqual(strategy, expected) {
		t.Error(strategy)
	}
	plan := collect([]BucketPlanOption{WithNames("a", "b"), WithBytesPerPack(9), WithOwnTensors()},
		BucketPlanOption.ofBucketPlan)
	if expected := (BucketPlanOptions{Names: []string{"a", "b"}, BytesPerPack: 9,
		OwnTensors: true}); !reflect.DeepEqual(plan, expected) {
		t.Error(plan)
	}
	input := collect([]InputOption{WithRebatch(RebatchEven), WithPrefetch(false),
		WithReplicationMode(InputPerReplica), WithDatasetOnDevice()}, InputOption.ofInput)
	if expected := (InputOptions{RebatchEven, true, InputPerReplica, true}); input != expected {
		t.Error(input)
	}
	slabs := collect([]FunctionOption{naming, WithSlab(), WithOutput(nil)}, FunctionOption.ofFunction)
	op := operationOf([]Option{naming, WithSlab(), nil, WithSeed(3)})
	if !slabs.Slab || slabs.Name != "w" || !op.slab || op.name != "w" || op.seed != 3 {
		t.Error(slabs, op)
	}
	run := collect([]RunOption{WithDynamicBatchSize(false), WithBucketizing(true)}, RunOption.ofRun)
	update := collect([]UpdateOption{WithGrouped(false)}, UpdateOption.ofUpdate)
	if run != (RunOptions{true, true}) || !update.Ungrouped {
		t.Error(run, update)
	}
	wrap := collect([]WrapOption{WithStrides(2, 1), WithReadOnly(), WithRelease(nothing)},
		WrapOption.ofWrap)
	if len(wrap.Strides) != 2 || !wrap.ReadOnly || wrap.Release == nil {
		t.Error(wrap)
	}
	dump := collect([]DumpOption{WithDebugMode(DebugShape), WithCircularBufferSize(0),
		WithOps("all_"), WithDTypes(func(DType) bool { return true })}, DumpOption.ofDump)
	if dump.Mode != DebugShape || *dump.CircularBufferSize != 0 || dump.OpRegex != "all_" ||
		dump.DTypes == nil {
		t.Error(dump)
	}
}

func TestOptionsReachTheCallsThatTakeThem(t *testing.T) {
	ctx := context.Background()
	spec := must[*ClusterSpec](t)(NewClusterSpec(map[string][]string{"worker": {"a:1", "b:2"}}))
	resolver := must[*ClusterResolver](t)(NewSimpleClusterResolver(spec, WithTask("worker", 1),
		WithRPCLayer("grpc"), WithEnvironment("here"), WithNumAccelerators(3), WithMaster("m:3")))
	if id, known, err := resolver.TaskID(); id != 1 || !known || err != nil {
		t.Error(id, known, err)
	}
	for address, master := range map[string]string{
		"grpc://m:3": must[string](t)(resolver.Master()),
		"grpc://a:1": must[string](t)(resolver.Master(WithTask("worker", 0)))} {
		if master != address {
			t.Errorf("%q, expected %q", master, address)
		}
	}
	if _, err := WithCommunication(ctx, WithBytesPerPack(-1)); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	strategy := must[*Strategy](t)(DefaultRuntime().NewMirroredStrategy(ctx,
		WithDevices("CPU:0", "CPU:1"), WithTimeout(time.Minute)))
	defer strategy.Close()
	steps := must[*DistributedDataset](t)(strategy.DistributeDataset(ctx,
		Range(0, 8, 1).Batch(4), WithPrefetch(false)))
	defer steps.Close()
	variable := must[*Variable](t)(strategy.NewVariable(ctx, zeros(2), WithName("bias")))
	defer variable.Close()
	if strategy.NumReplicasInSync() != 2 || variable.Name() != "bias" {
		t.Error(strategy, variable)
	}
}

func TestAFailedFunctionNamesTheRecordOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(path, []byte("a\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("no b is wanted")
	for _, calls := range []int{0, 2} {
		lines := must[*Iterator](t)(TextLines(path).Map(func(line Value) (Value, error) {
			text, err := line.Text()
			if err == nil && text == "b" {
				err = wrong
			}
			return line, err
		}, WithParallelCalls(calls)).Iterator(context.Background()))
		for lines.Next() {
		}
		var failed *Error
		if err := lines.Err(); !errors.Is(err, wrong) || !errors.As(err, &failed) ||
			!strings.Contains(err.Error(), fmt.Sprintf("element 1 (record 1 of %q)", path)) ||
			failed.Details["source_file"] != path || failed.Details["source_record"] != int64(1) {
			t.Error(err)
		}
		lines.Close()
	}
}
