package tutti

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func empty(*ReplicaContext, Value) (Value, error) { return Value{}, nil }

// objects are one of every kind, made by the strategy's runtime.
type objects struct {
	runtime      *Runtime
	strategy     *Strategy
	variable     *Variable
	tensor       *Tensor
	value        Value
	spec         *Spec
	future       *Future
	function     *Function
	dataset      *Dataset
	options      *DataOptions
	iterator     *Iterator
	distributed  *DistributedDataset
	steps        *DistributedIterator
	checkpoint   *Checkpoint
	manager      *CheckpointManager
	writer       *RecordWriter
	communicator *Communicator
	plan         *BucketPlan
	cluster      *Cluster
	clusterSpec  *ClusterSpec
	resolver     *ClusterResolver
	device       *DeviceSpec
	replica      *ReplicaContext
}

func allObjects(t *testing.T) *objects {
	t.Helper()
	o := &objects{runtime: must[*Runtime](t)(NewRuntime(nil))}
	o.strategy = must[*Strategy](t)(o.runtime.NewMirroredStrategy(nil,
		StrategyOptions{Devices: []string{"CPU:0", "CPU:1"}}))
	o.tensor = must[*Tensor](t)(TensorIn(o.runtime, []float64{1, 2}))
	o.value = must[Value](t)(OfTensor(o.tensor))
	o.spec = must[*Spec](t)(SpecOf(o.value))
	o.variable = must[*Variable](t)(o.strategy.NewVariable(nil, o.tensor, VariableOptions{}))
	o.future = must[*Future](t)(o.runtime.NewFuture())
	o.function = o.runtime.NewFunction(plusOne, FunctionOptions{})
	o.dataset = o.runtime.Range(0, 8, 1).Batch(2)
	o.options = must[*DataOptions](t)(NewDataOptions())
	o.iterator = must[*Iterator](t)(o.dataset.Iterator(nil))
	o.distributed = must[*DistributedDataset](t)(o.strategy.DistributeDataset(nil, o.dataset,
		InputOptions{}))
	o.steps = must[*DistributedIterator](t)(o.distributed.Iterator(nil))
	o.checkpoint = must[*Checkpoint](t)(o.strategy.NewCheckpoint())
	o.manager = must[*CheckpointManager](t)(o.checkpoint.Manager(t.TempDir(), 1, ""))
	o.writer = must[*RecordWriter](t)(o.runtime.NewRecordWriter(filepath.Join(t.TempDir(), "r")))
	ranks := must[[]*Communicator](t)(o.runtime.NewLocalCommunicators(2, ""))
	o.communicator = ranks[0]
	o.plan = must[*BucketPlan](t)(ranks[0].NewBucketPlan(Sum,
		[]*Tensor{must[*Tensor](t)(TensorIn(o.runtime, []float64{1}))}, BucketPlanOptions{}))
	t.Cleanup(func() { ranks[1].Close() })
	o.clusterSpec = must[*ClusterSpec](t)(NewClusterSpec(
		map[string][]string{"worker": reserve(t, 1)}))
	first := int64(0)
	o.resolver = must[*ClusterResolver](t)(NewSimpleClusterResolver(o.clusterSpec,
		ResolverOptions{TaskType: "worker", TaskID: &first}))
	o.cluster = must[*Cluster](t)(o.runtime.Join(nil, o.resolver, 1))
	o.device = must[*DeviceSpec](t)(ParseDeviceSpec("CPU:0"))
	var once sync.Once
	if _, err := o.strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		once.Do(func() { o.replica = r })
		return Value{}, nil
	}, Value{}); err != nil {
		t.Fatal(err)
	}
	return o
}

// failing are calls that need an object that can be used, of every kind.
func (o *objects) failing(t *testing.T) map[string]func() error {
	file := filepath.Join(t.TempDir(), "f")
	one := must[*Tensor](t)(TensorOf([]float64{1, 2}))
	last := func(_ any, err error) error { return err }
	return map[string]func() error{
		"run":           func() error { return last(o.strategy.Run(nil, empty, Value{})) },
		"reduce":        func() error { return last(o.strategy.Reduce(nil, Sum, Value{})) },
		"gather":        func() error { return last(o.strategy.Gather(nil, Value{}, 0)) },
		"local results": func() error { return last(o.strategy.LocalResults(Value{})) },
		"per replica":   func() error { return last(o.strategy.PerReplica()) },
		"new variable": func() error {
			return last(o.strategy.NewVariable(nil, one, VariableOptions{}))
		},
		"distribute": func() error {
			return last(o.strategy.Distribute(nil, Range(0, 2, 1).Batch(2)))
		},
		"new checkpoint":       func() error { return last(o.strategy.NewCheckpoint()) },
		"resolver of strategy": func() error { return last(o.strategy.ClusterResolver()) },
		"read":                 func() error { return last(o.variable.Read(nil)) },
		"data":                 func() error { return last(o.variable.Data(nil)) },
		"assign":               func() error { return o.variable.Assign(nil, one) },
		"strategy of variable": func() error { return last(o.variable.Strategy()) },
		"variable in a value":  func() error { return last(OfVariable(o.variable)) },
		"slice":                func() error { return last(Slice[float64](o.tensor)) },
		"mutable slice":        func() error { return last(MutableSlice[float64](o.tensor)) },
		"view": func() error {
			return View(o.tensor, func([]float64) error { return nil })
		},
		"strings":           func() error { return last(o.tensor.Strings()) },
		"copy":              func() error { return last(o.tensor.Copy()) },
		"copy to":           func() error { return o.tensor.CopyTo(one) },
		"copy to it":        func() error { return one.CopyTo(o.tensor) },
		"tensor in a value": func() error { return last(OfTensor(o.tensor)) },
		"export":            func() error { return last(DLPackVersioned.Export(o.tensor, false)) },
		"equal specs":       func() error { return last(o.spec.Leaves()) },
		"optional spec":     func() error { return last(OptionalSpec(o.spec)) },
		"wait":              func() error { return o.future.Wait(nil) },
		"complete":          func() error { return o.future.Complete(Value{}, nil) },
		"on ready":          func() error { return o.future.OnReady(func() {}) },
		"map":               func() error { return Range(0, 1, 1).MapWith(o.function).Err() },
		"element spec":      func() error { return last(o.dataset.ElementSpec(nil)) },
		"iterate":           func() error { return last(o.dataset.Iterator(nil)) },
		"batch":             func() error { return o.dataset.Batch(2).Err() },
		"concatenate":       func() error { return Range(0, 1, 1).Concatenate(o.dataset).Err() },
		"with options":      func() error { return Range(0, 1, 1).WithOptions(o.options).Err() },
		"set option":        func() error { return o.options.SetBool("deterministic", true) },
		"next": func() error {
			if o.iterator.Next() {
				t.Error("a step")
			}
			return o.iterator.Err()
		},
		"next optional":    func() error { return last(o.iterator.NextOptional(nil)) },
		"save":             func() error { return last(o.iterator.Save(nil)) },
		"restore":          func() error { return o.iterator.Restore(nil, nil) },
		"spec of iterator": func() error { return last(o.iterator.ElementSpec()) },
		"iterate steps":    func() error { return last(o.distributed.Iterator(nil)) },
		"explain":          func() error { return last(o.distributed.Explain()) },
		"next step": func() error {
			if o.steps.Next() {
				t.Error("a step")
			}
			return o.steps.Err()
		},
		"add":           func() error { return o.checkpoint.AddTensor("t", one) },
		"write":         func() error { return o.checkpoint.Write(nil, file) },
		"manager":       func() error { return last(o.checkpoint.Manager(t.TempDir(), 1, "")) },
		"save latest":   func() error { return last(o.manager.Save(nil, 1)) },
		"latest":        func() error { return last(o.manager.Latest()) },
		"list":          func() error { return last(o.manager.List()) },
		"write record":  func() error { return last(o.writer.Write([]byte("r"))) },
		"write records": func() error { return o.writer.WriteDataset(nil, Range(0, 1, 1)) },
		"barrier":       func() error { return o.communicator.Barrier(nil) },
		"broadcast":     func() error { return o.communicator.Broadcast(nil, 0, one) },
		"split":         func() error { return last(o.communicator.Split(nil, 0, 0, "")) },
		"reduce later":  func() error { return last(o.communicator.ReduceAsync(nil, Sum, 0, one, one)) },
		"gather rows":   func() error { return last(o.communicator.Gather(nil, 0, one)) },
		"shrink":        func() error { return last(o.communicator.Shrink(nil)) },
		"grow":          func() error { return last(o.communicator.Grow(nil, 1)) },
		"plan": func() error {
			return last(o.communicator.NewBucketPlan(Sum, nil, BucketPlanOptions{}))
		},
		"ready":         func() error { return o.plan.Ready(0) },
		"wait for plan": func() error { return o.plan.Wait(nil) },
		"check":         func() error { return o.cluster.Check() },
		"describe":      func() error { return last(o.cluster.DescribeWorker(0)) },
		"communicator":  func() error { return last(o.cluster.NewCommunicator(nil, "")) },
		"json":          func() error { return last(o.clusterSpec.JSON()) },
		"resolver": func() error {
			return last(NewSimpleClusterResolver(o.clusterSpec, ResolverOptions{}))
		},
		"spec":         func() error { return last(o.resolver.ClusterSpec()) },
		"task type":    func() error { return last(o.resolver.TaskType()) },
		"accelerators": func() error { return last(o.resolver.NumAccelerators()) },
		"merge devices": func() error {
			return last(o.device.Merge(must[*DeviceSpec](t)(ParseDeviceSpec("CPU:0"))))
		},
		"all reduce": func() error { return last(o.replica.AllReduce(Sum, Value{})) },
		"all gather": func() error {
			return last(o.replica.With(context.Background()).AllGather(Value{}, 0))
		},
		"merge call": func() error {
			return last(o.replica.MergeCall(func(*Strategy, Value) (Value, error) {
				return Value{}, nil
			}, Value{}))
		},
		"its strategy":   func() error { return last(o.replica.Strategy()) },
		"its runtime":    func() error { return last(o.replica.Runtime()) },
		"value's tensor": func() error { return last(o.value.Tensor()) },
	}
}

// quiet are calls without an error, which give something empty.
func (o *objects) quiet() []any {
	return []any{o.strategy.NumReplicasInSync(), o.strategy.WorkerDevices(), o.strategy.TypeName(),
		o.variable.Name(), o.variable.Dims(), o.variable.IsTrainable(), o.tensor.Len(), o.tensor.Dims(),
		o.tensor.Strides(), o.tensor.Address(), o.future.IsDone(), o.communicator.Transport(),
		o.plan.NumBuckets(), o.clusterSpec.Jobs(), o.clusterSpec.Tasks("worker"), o.device.String(),
		o.replica.Device(), o.value.Kind(), o.value.Len(), o.value.Keys()}
}

func TestANilObjectIsAnError(t *testing.T) {
	none := &objects{}
	for name, call := range none.failing(t) {
		if name == "value's tensor" {
			continue // the zero Value is none
		}
		err := call()
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, answer := range none.quiet() {
		if !reflect.ValueOf(answer).IsZero() {
			t.Errorf("answer %d is %v", i, answer)
		}
	}
	for _, closer := range []interface{ Close() error }{none.strategy, none.variable, none.tensor,
		none.value, none.spec, none.future, none.function, none.dataset, none.options, none.iterator,
		none.distributed, none.checkpoint, none.manager, none.writer, none.communicator, none.plan,
		none.cluster, none.clusterSpec, none.resolver, none.device} {
		if err := closer.Close(); err != nil {
			t.Errorf("%T: %v", closer, err)
		}
	}
	if none.replica.ReplicaID() != -1 || none.communicator.Rank() != -1 ||
		none.cluster.Worker() != -1 ||
		!none.replica.IsCancelled() {
		t.Error("something of nothing")
	}
}

func TestAClosedObjectIsAnError(t *testing.T) {
	all := allObjects(t)
	for _, closer := range []interface{ Close() error }{all.variable, all.tensor, all.value, all.spec,
		all.future, all.function, all.dataset, all.options, all.iterator, all.steps, all.distributed,
		all.checkpoint, all.manager, all.writer, all.plan, all.communicator, all.cluster, all.clusterSpec,
		all.resolver, all.device, all.strategy, all.runtime} {
		for i := 0; i < 2; i++ { // again it is nothing
			if err := closer.Close(); err != nil {
				t.Errorf("%T: %v", closer, err)
			}
		}
	}
	for name, call := range all.failing(t) {
		err := call()
		if !errors.Is(err, ErrFailedPrecondition) ||
			!strings.Contains(err.Error(), "closed") && !strings.Contains(err.Error(), "has ended") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, answer := range all.quiet() {
		if !reflect.ValueOf(answer).IsZero() {
			t.Errorf("answer %d is %v", i, answer)
		}
	}
	_, err := all.runtime.NewTensor(Float32, 1)
	wants(t, err, ErrFailedPrecondition)
	_, err = all.runtime.Join(nil, nil, 1)
	wants(t, err, ErrFailedPrecondition)
	wants(t, all.runtime.Range(0, 1, 1).Err(), ErrFailedPrecondition)
	wants(t, all.runtime.Set("log_level", "info"), ErrFailedPrecondition)
}

func TestWhatLivesInARuntimeEndsWithItsShutdown(t *testing.T) {
	all := allObjects(t)
	if err := all.runtime.Shutdown(nil); err != nil {
		t.Fatal(err)
	}
	calls := all.failing(t)
	for _, name := range []string{"run", "next", "next step", "barrier", "iterate", "iterate steps",
		"new variable", "communicator"} {
		if err := calls[name](); err == nil {
			t.Errorf("%s: no error", name)
		} else if full := (*Error)(nil); !errors.As(err, &full) || full.Message == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What needs no thread of the runtime stays.
	if got := must[[]float64](t)(Slice[float64](all.tensor)); got[1] != 2 {
		t.Fatal(got)
	}
}

// C would read each of them up to the NUL, and write another file or find another function.
func TestATextWithANulIsAnErrorAndNotCutOff(t *testing.T) {
	folder := t.TempDir()
	strategy := must[*Strategy](t)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	checkpoint := must[*Checkpoint](t)(strategy.NewCheckpoint())
	defer checkpoint.Close()
	_, writer := NewRecordWriter(folder + "/a\x00b")
	_, spec := ParseClusterSpec("{}\x00")
	_, device := ParseDeviceSpec("/device:CPU:0\x00")
	_, registered := RegisteredFunction("a\x00b")
	ctx := context.Background()
	_, cached := Range(0, 3, 1).Cache(folder + "/a\x00b").Iterator(ctx)
	_, named := Range(0, 3, 1).Take(1, WithName("a\x00b")).Iterator(ctx)
	parsed := ParseExample(map[string]Feature{"a\x00b": {DType: Int64}})
	defer parsed.Close()
	_, mapped := Range(0, 3, 1).MapWith(parsed).Iterator(ctx)
	failures := map[string]error{
		"a path of a writer":     writer,
		"a path of a checkpoint": checkpoint.Write(ctx, folder+"/a\x00b"),
		"a cluster spec":         spec,
		"a device":               device,
		"a registered function":  registered,
		"a setting":              Set("log_level", "error\x00"),
		"a file of a cache":      cached,
		"a name of an operation": named,
		"a feature":              mapped,
	}
	for what, err := range failures {
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "NUL") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Errorf("files were made: %v, %v", files, err)
	}
}

func TestANilFunctionIsAnError(t *testing.T) {
	strategy := twoReplicas(t)
	spec := must[*Spec](t)(TensorSpec(Int64))
	_, err := strategy.Run(nil, nil, Value{})
	wants(t, err, ErrInvalidArgument)
	_, err = strategy.DistributeValues(nil, nil)
	wants(t, err, ErrInvalidArgument)
	_, err = strategy.DistributeFromFunction(nil, nil, InputOptions{})
	wants(t, err, ErrInvalidArgument)
	_, err = strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		return r.MergeCall(nil, Value{})
	}, Value{})
	wants(t, err, ErrInvalidArgument)
	wants(t, Range(0, 1, 1).Map(nil).Err(), ErrInvalidArgument)
	wants(t, Range(0, 1, 1).MapWith(nil).Err(), ErrInvalidArgument)
	wants(t, Range(0, 1, 1).Filter(nil).Err(), ErrInvalidArgument)
	wants(t, FromGenerator(nil, spec).Err(), ErrInvalidArgument)
	wants(t, RegisterFunction("nil", nil, FunctionOptions{}), ErrInvalidArgument)
	future := must[*Future](t)(NewFuture())
	wants(t, future.OnReady(nil), ErrInvalidArgument)
	// A generator that is none is the error of the iteration.
	iterator := must[*Iterator](t)(FromGenerator(func() (Generator, error) {
		return nil, nil
	}, spec).Iterator(nil))
	defer iterator.Close()
	if iterator.Next() {
		t.Fatal("an element of nothing")
	}
	wants(t, iterator.Err(), ErrInvalidArgument)
}

func TestAReadOnlyTensorIsReadOnly(t *testing.T) {
	memory := must[*Tensor](t)(TensorOf([]float32{1, 2, 3, 4}))
	defer memory.Close()
	tensor := must[*Tensor](t)(Wrap(pointerAt(memory.Address()), 16, Float32, []int64{2, 2},
		WrapOptions{ReadOnly: true}))
	defer tensor.Close()
	_, err := MutableSlice[float32](tensor)
	wants(t, err, ErrFailedPrecondition)
	wants(t, memory.CopyTo(tensor), ErrInvalidArgument)
	square := must[*Tensor](t)(memory.Reshape(2, 2))
	wants(t, square.CopyTo(tensor), ErrFailedPrecondition)
	if got := must[[]float32](t)(Slice[float32](tensor)); got[3] != 4 || !tensor.IsReadOnly() {
		t.Fatal(got)
	}
	_, err = DLPackUnversioned.Export(tensor, false)
	wants(t, err, ErrFailedPrecondition)
	_, err = Slice[float64](tensor)
	wants(t, err, ErrInvalidArgument)
	_, err = Wrap(pointerAt(memory.Address()), 8, Float32, []int64{2, 2}, WrapOptions{})
	wants(t, err, ErrInvalidArgument)
}

func TestNoDataIsCopiedOnTheWayToAReplicaAndBack(t *testing.T) {
	strategy := must[*Strategy](t)(NewOneDeviceStrategy("CPU:0"))
	defer strategy.Close()
	tensor := must[*Tensor](t)(NewTensor(Float32, 1000))
	defer tensor.Close()
	slice := must[[]float32](t)(MutableSlice[float32](tensor))
	mine := uintptr(unsafe.Pointer(&slice[0]))
	args := must[Value](t)(OfTensor(tensor))
	defer args.Close()
	var seen uintptr
	result := must[Value](t)(strategy.Run(nil, func(_ *ReplicaContext, args Value) (Value, error) {
		inside, err := args.Tensor()
		if err != nil {
			return Value{}, err
		}
		elements, err := Slice[float32](inside)
		if err != nil {
			return Value{}, err
		}
		seen = uintptr(unsafe.Pointer(&elements[0]))
		return args, nil
	}, args))
	defer result.Close()
	back := must[*Tensor](t)(result.Tensor())
	if mine != tensor.Address() || mine != seen || mine != back.Address() {
		t.Fatalf("%x %x %x %x", mine, tensor.Address(), seen, back.Address())
	}
}

func TestAPanicOnAThreadOfTheLibraryIsAnErrorWithItsStack(t *testing.T) {
	broken := func(Value) (Value, error) { panic(&mistake{"broken"}) }
	iterator := must[*Iterator](t)(Range(0, 9, 1).Map(broken,
		WithParallelCalls(2)).Prefetch(2).Iterator(nil))
	defer iterator.Close()
	if iterator.Next() {
		t.Fatal("an element")
	}
	wants(t, iterator.Err(), ErrInternal)
	var panicked *PanicError
	var original *mistake
	if err := iterator.Err(); !errors.As(err, &panicked) || !errors.As(err, &original) ||
		!strings.Contains(string(panicked.Stack), "wrong_use_test.go") {
		t.Fatal(err)
	}
	spec := must[*Spec](t)(TensorSpec(Int64))
	for _, start := range []func() (Generator, error){
		func() (Generator, error) { panic("at the start") },
		func() (Generator, error) {
			return func() (Value, bool, error) { panic("at an element") }, nil
		}} {
		iterator := must[*Iterator](t)(FromGenerator(start, spec).Prefetch(1).Iterator(nil))
		if iterator.Next() || !errors.As(iterator.Err(), &panicked) {
			t.Fatal(iterator.Err())
		}
		iterator.Close()
	}
	strategy := twoReplicas(t)
	_, err := strategy.DistributeFromFunction(nil, func(InputContext) *Dataset {
		panic("no input")
	}, InputOptions{})
	if !errors.As(err, &panicked) {
		t.Fatal(err)
	}
	_, err = strategy.DistributeFromFunction(nil, func(InputContext) *Dataset {
		return nil
	}, InputOptions{})
	wants(t, err, ErrInvalidArgument)
	_, err = strategy.DistributeDataset(nil, Range(0, 4, 1).Batch(2),
		InputOptions{ReplicationMode: InputPerReplica})
	wants(t, err, ErrUnimplemented)
	_, err = strategy.DistributeDataset(nil, Range(0, 4, 1).Batch(2),
		InputOptions{ReplicationMode: InputPerWorker, PlaceDatasetOnDevice: true})
	wants(t, err, ErrInvalidArgument)
	// One that is only told something has nobody to tell: it goes to standard error.
	future := must[*Future](t)(NewFuture())
	defer future.Close()
	if err := future.OnReady(func() { panic("this is part of a test") }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	if err := future.OnReady(func() { close(done) }); err != nil {
		t.Fatal(err)
	}
	if err := future.Complete(Value{}, nil); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestAnErrorOnAThreadOfTheLibraryIsReached(t *testing.T) {
	original := &mistake{"mine"}
	iterator := must[*Iterator](t)(Range(0, 9, 1).Map(func(Value) (Value, error) {
		return Value{}, original
	}, WithParallelCalls(2)).Iterator(nil))
	defer iterator.Close()
	iterator.Next()
	err := iterator.Err()
	wants(t, err, ErrUnknown)
	var found *mistake
	if !errors.Is(err, original) || !errors.As(err, &found) || found != original {
		t.Fatal(err)
	}
	inner := err
	for errors.Unwrap(inner) != nil {
		inner = errors.Unwrap(inner)
	}
	if inner != error(original) {
		t.Fatal(inner)
	}
}

func TestACancelledContextIsTheErrorOfEveryCallThatWaits(t *testing.T) {
	all := allObjects(t)
	defer all.runtime.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	last := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"run":        last(all.strategy.Run(ctx, empty, Value{})),
		"reduce":     last(all.strategy.Reduce(ctx, Sum, Value{})),
		"variable":   last(all.strategy.NewVariable(ctx, all.tensor, VariableOptions{})),
		"read":       last(all.variable.Read(ctx)),
		"iterator":   last(all.dataset.Iterator(ctx)),
		"optional":   last(all.iterator.NextOptional(ctx)),
		"save":       last(all.iterator.Save(ctx)),
		"step":       last(all.steps.NextOptional(ctx)),
		"wait":       all.future.Wait(ctx),
		"barrier":    all.communicator.Barrier(ctx),
		"later":      last(all.communicator.BarrierAsync(ctx)),
		"split":      last(all.communicator.Split(ctx, 0, 0, "")),
		"plan":       all.plan.Wait(ctx),
		"checkpoint": all.checkpoint.Write(ctx, filepath.Join(t.TempDir(), "c")),
		"manager":    last(all.manager.Save(ctx, 1)),
		"join":       last(all.runtime.Join(ctx, all.resolver, 1)),
		"strategy":   last(all.runtime.NewMirroredStrategy(ctx, StrategyOptions{})),
		"shutdown":   all.runtime.Shutdown(ctx),
	} {
		if !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all.iterator.NextContext(ctx) || !errors.Is(all.iterator.Err(), context.Canceled) {
		t.Error(all.iterator.Err())
	}
	if !all.iterator.Next() { // nothing was lost
		t.Error(all.iterator.Err())
	}
}

func TestACloseEndsWhatWaits(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
	defer ranks[1].Close()
	waiting := make(chan error, 1)
	soon := func(call func() error) {
		entered := make(chan struct{})
		go func() {
			close(entered)
			waiting <- call()
		}()
		<-entered
	}
	ended := func(what string, codes ...Code) {
		t.Helper()
		select {
		case err := <-waiting:
			for _, code := range codes {
				if errors.Is(err, code) {
					return
				}
			}
			t.Fatalf("%s: %v", what, err)
		case <-time.After(60 * time.Second):
			t.Fatal(what + " hangs")
		}
	}
	soon(func() error { return ranks[0].Barrier(nil) })
	if err := ranks[0].Close(); err != nil {
		t.Fatal(err)
	}
	ended("a barrier", ErrCancelled, ErrAborted, ErrFailedPrecondition, ErrUnavailable)

	// An iterator whose generator waits; Close waits for the generator to return.
	reached, go_on := make(chan struct{}), make(chan struct{})
	var once sync.Once
	spec := must[*Spec](t)(TensorSpec(Int64))
	iterator := must[*Iterator](t)(FromGenerator(func() (Generator, error) {
		return func() (Value, bool, error) {
			once.Do(func() { close(reached) })
			<-go_on
			number, err := OfInt64(1)
			return number, true, err
		}, nil
	}, spec).Prefetch(1).Iterator(nil))
	soon(func() error {
		if iterator.Next() {
			return ErrCancelled // the element came first
		}
		return iterator.Err()
	})
	<-reached
	closed := make(chan error, 1)
	go func() { closed <- iterator.Close() }()
	close(go_on)
	ended("a next", ErrCancelled, ErrFailedPrecondition)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}

	// A run whose replicas wait for each other for ever.
	strategy := must[*Strategy](t)(NewMirroredStrategy("CPU:0", "CPU:1"))
	inside := make(chan struct{})
	leave := make(chan struct{})
	soon(func() error {
		_, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
			if r.ReplicaID() == 1 {
				<-leave
				return Value{}, nil
			}
			close(inside)
			defer close(leave)
			one, err := OfFloat64(1)
			if err != nil {
				return Value{}, err
			}
			return r.AllReduce(Sum, one)
		}, Value{})
		return err
	})
	<-inside
	if err := strategy.Close(); err != nil {
		t.Fatal(err)
	}
	ended("a run", ErrCancelled, ErrAborted, ErrFailedPrecondition)
}

func TestACollectiveEndsWithAContextOfItsOwnOrTheStrategysTimeout(t *testing.T) {
	for _, options := range []CommunicationOptions{{}, {Timeout: Limit(30 * time.Millisecond)}} {
		strategy := must[*Strategy](t)(defaultRuntime.NewMirroredStrategy(nil,
			StrategyOptions{Devices: []string{"CPU:0", "CPU:1"}, Communication: options}))
		leave := make(chan struct{})
		_, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
			if r.ReplicaID() == 1 {
				<-leave
				return Value{}, nil
			}
			defer close(leave)
			if options.Timeout == nil {
				limited, end := context.WithTimeout(r, 30*time.Millisecond)
				defer end()
				r = r.With(limited)
			}
			return r.AllReduce(Sum, sure(OfFloat64(1)))
		}, Value{})
		wants(t, err, ErrDeadlineExceeded)
		strategy.Close()
	}
	_, err := defaultRuntime.NewMirroredStrategy(nil,
		StrategyOptions{Communication: CommunicationOptions{Timeout: Limit(-1)}})
	wants(t, err, ErrInvalidArgument)
}
