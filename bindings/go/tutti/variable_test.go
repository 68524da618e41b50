package tutti

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

func read(t *testing.T, variable *Variable) []float64 {
	t.Helper()
	tensor := must[*Tensor](t)(variable.Read(nil))
	defer tensor.Close()
	return append([]float64(nil), must[[]float64](t)(Slice[float64](tensor))...)
}

func TestVariablesAreWrittenByReplicas(t *testing.T) {
	strategy := twoReplicas(t)
	initial := must[*Tensor](t)(TensorOf([]float64{1, 2}))
	variable := must[*Variable](t)(strategy.NewVariable(nil, initial,
		VariableOptions{Name: "w", Aggregation: AggregateSum}))
	defer variable.Close()
	if variable.Name() != "w" || variable.DType() != Float64 || !variable.IsTrainable() ||
		!reflect.DeepEqual(variable.Dims(), []int64{2}) || variable.Aggregation() != AggregateSum {
		t.Fatal(variable)
	}
	_, err := strategy.Run(nil, func(r *ReplicaContext, _ Value) (Value, error) {
		step, err := TensorOf([]float64{1, float64(r.ReplicaID())})
		if err != nil {
			return Value{}, err
		}
		defer step.Close()
		return Value{}, variable.AssignSub(r, step)
	}, Value{})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, variable); !reflect.DeepEqual(got, []float64{-1, 1}) {
		t.Fatal(got)
	}
	live := must[*Tensor](t)(variable.Data(nil))
	defer live.Close()
	_, err = MutableSlice[float64](live)
	wants(t, err, ErrFailedPrecondition)
	if err := variable.Assign(nil, initial); err != nil {
		t.Fatal(err)
	}
	if got := must[[]float64](t)(Slice[float64](live)); got[1] != 2 {
		t.Fatal(got)
	}
	names, copies, err := variable.Copies()
	if err != nil || !reflect.DeepEqual(names, []string{"w", "w/replica_1"}) ||
		!copies[1].Equal(initial) {
		t.Fatal(names, err)
	}
	wrong := must[*Tensor](t)(TensorOf([]float32{1, 2}))
	wants(t, variable.Assign(nil, wrong), ErrInvalidArgument)
}

func TestCheckpointsRestoreVariablesAndPositions(t *testing.T) {
	strategy := twoReplicas(t)
	initial := must[*Tensor](t)(TensorOf([]float64{4}))
	variable := must[*Variable](t)(strategy.NewVariable(nil, initial, VariableOptions{}))
	steps := must[*DistributedIterator](t)(strategy.Distribute(nil, Range(0, 8, 1).Batch(2)))
	defer steps.Close()
	steps.Next()
	checkpoint := must[*Checkpoint](t)(strategy.NewCheckpoint())
	defer checkpoint.Close()
	if err := checkpoint.AddVariable("w", variable); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.AddDistributedIterator("steps", steps); err != nil {
		t.Fatal(err)
	}
	manager := must[*CheckpointManager](t)(checkpoint.Manager(filepath.Join(t.TempDir(), "c"), 2, ""))
	defer manager.Close()
	if _, found, err := manager.RestoreLatest(nil); found || err != nil {
		t.Fatal(found, err)
	}
	prefix := must[string](t)(manager.Save(nil, 7))
	steps.Next()
	want := steps.Value().String()
	other := must[*Tensor](t)(TensorOf([]float64{9}))
	if err := variable.Assign(nil, other); err != nil {
		t.Fatal(err)
	}
	step, found, err := manager.RestoreLatest(nil)
	if step != 7 || !found || err != nil || read(t, variable)[0] != 4 {
		t.Fatal(step, found, err)
	}
	if steps.Next(); steps.Value().String() != want {
		t.Fatal(steps.Value(), want)
	}
	if latest := must[string](t)(manager.Latest()); latest != prefix {
		t.Fatal(latest, prefix)
	}
	if list := must[[]string](t)(manager.List()); !reflect.DeepEqual(list, []string{prefix}) {
		t.Fatal(list)
	}
	_, err = checkpoint.Restore(nil, prefix+"-not")
	wants(t, err, ErrNotFound)
}

func TestTheOrderOfAddingIsNotTheOrderOfACheckpoint(t *testing.T) {
	names, folder := []string{"b", "é", "a", "Z", "a/b"}, t.TempDir()
	together(t, 2, nil, func(r *Runtime, resolver Resolver, worker int) error {
		strategy, err := r.NewMultiWorkerMirroredStrategy(nil,
			StrategyOptions{Resolver: resolver, Devices: []string{"CPU:0"}})
		if err != nil {
			return err
		}
		defer strategy.Close()
		variables := make([]*Variable, len(names))
		for i := range names {
			initial, err := TensorIn(r, []float64{float64(i)})
			if err != nil {
				return err
			}
			if variables[i], err = strategy.NewVariable(nil, initial, VariableOptions{}); err != nil {
				return err
			}
		}
		checkpoint, err := strategy.NewCheckpoint()
		if err != nil {
			return err
		}
		defer checkpoint.Close()
		for i := range names { // each worker in an order of its own
			at := (i*(1+worker) + worker) % len(names)
			if err := checkpoint.AddVariable(names[at], variables[at]); err != nil {
				return err
			}
		}
		prefix := filepath.Join(folder, "c")
		if err := checkpoint.Save(nil, prefix, 3); err != nil {
			return err
		}
		for _, variable := range variables {
			other, err := TensorIn(r, []float64{-1})
			if err != nil {
				return err
			}
			if err := variable.Assign(nil, other); err != nil {
				return err
			}
		}
		if step, err := checkpoint.Restore(nil, prefix); step != 3 || err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for i, variable := range variables {
			if got := read(t, variable)[0]; got != float64(i) {
				return fmt.Errorf("%s is %v", names[i], got)
			}
		}
		return nil
	})
}

func TestLocalCommunicators(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(3))
	var all sync.WaitGroup
	for _, rank := range ranks {
		all.Add(1)
		go func(rank *Communicator) {
			defer all.Done()
			mine := must[*Tensor](t)(TensorOf([]float32{float32(rank.Rank()), 1}))
			defer mine.Close()
			gathered, err := rank.AllGather(nil, mine)
			if err != nil || gathered.Len() != 6 {
				t.Error(gathered, err)
			}
			if err := rank.AllReduce(nil, Sum, mine, mine); err != nil {
				t.Error(err)
			}
			if got, _ := Slice[float32](mine); !reflect.DeepEqual(got, []float32{3, 3}) {
				t.Error(got)
			}
			if err := rank.Barrier(nil); err != nil {
				t.Error(err)
			}
		}(rank)
	}
	all.Wait()
	limited, end := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer end()
	err := ranks[0].Barrier(limited)
	wants(t, err, ErrDeadlineExceeded)
	ranks[1].Close()
	wants(t, ranks[1].Barrier(nil), ErrFailedPrecondition)
	_, err = NewLocalCommunicators(0)
	wants(t, err, ErrInvalidArgument)
}

func TestFuturesAreCompletedOnce(t *testing.T) {
	future := must[*Future](t)(NewFuture())
	defer future.Close()
	told := make(chan struct{})
	if err := future.OnReady(func() { close(told) }); err != nil {
		t.Fatal(err)
	}
	limited, end := context.WithTimeout(context.Background(), time.Millisecond)
	defer end()
	wants(t, future.Wait(limited), ErrDeadlineExceeded)
	number := must[Value](t)(OfInt64(5))
	if err := future.Complete(number, nil); err != nil {
		t.Fatal(err)
	}
	<-told
	value := must[Value](t)(future.Result(nil))
	if must[int64](t)(value.Int64()) != 5 || !future.IsDone() {
		t.Fatal(value)
	}
	wants(t, future.Complete(number, nil), ErrFailedPrecondition)
	failed := must[*Future](t)(NewFuture())
	original := errors.New("mine")
	if err := failed.Complete(Value{}, original); err != nil {
		t.Fatal(err)
	}
	if _, err := failed.Result(nil); !errors.Is(err, original) {
		t.Fatal(err)
	}
}

func TestClusterSpecsAndResolvers(t *testing.T) {
	spec := must[*ClusterSpec](t)(NewClusterSpec(map[string][]string{"worker": {"a:1", "b:2"}}))
	if !reflect.DeepEqual(spec.Jobs(), []string{"worker"}) ||
		!reflect.DeepEqual(spec.Tasks("worker"), map[int]string{0: "a:1", 1: "b:2"}) {
		t.Fatal(spec.Jobs(), spec.Tasks("worker"))
	}
	task := int64(1)
	resolver := must[*ClusterResolver](t)(NewSimpleClusterResolver(spec,
		ResolverOptions{TaskType: "worker", TaskID: &task}))
	if id, ok, err := resolver.TaskID(); id != 1 || !ok || err != nil {
		t.Fatal(id, ok, err)
	}
	if got := must[string](t)(resolver.TaskType()); got != "worker" {
		t.Fatal(got)
	}
	_, err := ParseClusterSpec("{")
	wants(t, err, ErrInvalidArgument)
	t.Setenv("TF_CONFIG",
		`{"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}`)
	config := must[*ClusterResolver](t)(NewTFConfigClusterResolver(ResolverOptions{}))
	if id, _, _ := config.TaskID(); id != 0 {
		t.Fatal(id)
	}
}

func TestAWorkerAloneIsAMultiWorkerStrategy(t *testing.T) {
	strategy := must[*Strategy](t)(NewMultiWorkerMirroredStrategy(nil, "CPU:0", "CPU:1"))
	defer strategy.Close()
	if strategy.NumWorkers() != 1 || strategy.NumReplicasInSync() != 2 {
		t.Fatal(strategy.NumWorkers(), strategy.NumReplicasInSync())
	}
	resolver := must[*ClusterResolver](t)(strategy.ClusterResolver())
	if spec := must[*ClusterSpec](t)(resolver.ClusterSpec()); len(spec.Jobs()) != 0 {
		t.Fatal(spec.Jobs())
	}
	mirrored := must[*Strategy](t)(NewMirroredStrategy("CPU:0"))
	defer mirrored.Close()
	if none, err := mirrored.ClusterResolver(); none != nil || err != nil {
		t.Fatal(none, err)
	}
}
