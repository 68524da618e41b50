package tutti

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func saysWrong(t *testing.T, err error, code Code, part string) {
	t.Helper()
	wants(t, err, code)
	if !strings.Contains(err.Error(), part) {
		t.Fatalf("%q is not in %v", part, err)
	}
}

func restOfSteps(t *testing.T, steps *DistributedIterator) []string {
	t.Helper()
	var texts []string
	for steps.Next() {
		texts = append(texts, steps.Value().String())
	}
	if steps.Err() != nil {
		t.Fatal(steps.Err())
	}
	return texts
}

// Pipeline i is 10 i, 10 i + 1, 10 i + 2 in batches of two.
func onePipeline(input InputContext) *Dataset {
	start := int64(10 * input.InputPipelineID)
	return Range(start, start+3, 1).Batch(2)
}

func TestEveryReplicaHasAPipelineOfItsOwnWhichIsSavedAndRestored(t *testing.T) {
	strategy := twoReplicas(t)
	for _, onDevice := range []bool{false, true} {
		dataset := must[*DistributedDataset](t)(strategy.DistributeFromFunction(nil, onePipeline,
			InputOptions{ReplicationMode: InputPerReplica, PlaceDatasetOnDevice: onDevice}))
		steps := must[*DistributedIterator](t)(dataset.Iterator(nil))
		if !steps.Next() || steps.Value().String() != "PerReplica:{0: [0 1], 1: [10 11]}" {
			t.Fatal(steps.Err())
		}
		state := must[[]byte](t)(steps.Save(nil))
		again := must[*DistributedIterator](t)(dataset.Iterator(nil))
		if err := again.Restore(nil, state); err != nil {
			t.Fatal(err)
		}
		want := []string{"PerReplica:{0: [2], 1: [12]}"}
		for _, walk := range []*DistributedIterator{steps, again} {
			if got := restOfSteps(t, walk); !reflect.DeepEqual(got, want) {
				t.Fatal(got)
			}
			walk.Close()
		}
	}
}

// workOn is what workers over so many ranks take from there, in so many steps (-1: all), and the
// joint position behind that.
func workOn(t *testing.T, count int, state []byte, steps int) ([]int64, []byte) {
	t.Helper()
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(count))
	taken := make([][]int64, count)
	joint := make([][]byte, count)
	failures := make([]error, count)
	var working sync.WaitGroup
	for i := range ranks {
		working.Add(1)
		go func(i int) {
			defer working.Done()
			failures[i] = func() error {
				strategy, err := ranks[i].NewStrategy(nil)
				if err != nil {
					return err
				}
				defer strategy.Close()
				dataset, err := strategy.DistributeFromFunction(nil, func(input InputContext) *Dataset {
					return Range(0, 24, 1).Shard(int64(input.NumInputPipelines),
						int64(input.InputPipelineID)).Batch(2)
				})
				if err != nil {
					return err
				}
				iterator, err := dataset.Iterator(nil)
				if err != nil {
					return err
				}
				defer iterator.Close()
				if state != nil {
					if err := iterator.Restore(nil, state); err != nil {
						return err
					}
				}
				for n := 0; n != steps && iterator.Next(); n++ {
					tensor, err := iterator.Value().Tensor()
					if err != nil {
						return err
					}
					numbers, err := Slice[int64](tensor)
					if err != nil {
						return err
					}
					taken[i] = append(taken[i], numbers...)
				}
				if iterator.Err() != nil {
					return iterator.Err()
				}
				joint[i], err = iterator.SaveJoint(nil)
				return err
			}()
		}(i)
	}
	working.Wait()
	var all []int64
	for i := range ranks {
		if failures[i] != nil {
			t.Fatal(failures[i])
		}
		if !bytes.Equal(joint[i], joint[0]) {
			t.Fatal("the joint positions differ")
		}
		all = append(all, taken[i]...)
		ranks[i].Close()
	}
	return all, joint[0]
}

func TestAnyNumberOfWorkersGoesOn(t *testing.T) {
	first, state := workOn(t, 3, nil, 1)
	second, state := workOn(t, 1, state, 2)
	third, _ := workOn(t, 4, state, -1)
	if len(first) != 6 || len(second) != 4 {
		t.Fatal(first, second)
	}
	seen := map[int64]int{}
	for _, number := range append(append(first, second...), third...) {
		seen[number]++
	}
	for number := int64(0); number < 24; number++ {
		if seen[number] != 1 {
			t.Fatal(number, "came so often:", seen[number])
		}
	}
	if len(seen) != 24 {
		t.Fatal(seen)
	}
}

func TestWhatHasNoJointPositionSaysSo(t *testing.T) {
	plain := must[*Iterator](t)(Range(0, 4, 1).Iterator(nil))
	defer plain.Close()
	_, err := plain.SaveJoint(nil)
	saysWrong(t, err, ErrInvalidArgument, "distributed iterator")
	strategy := twoReplicas(t)
	dataset := must[*DistributedDataset](t)(strategy.DistributeFromFunction(nil, onePipeline,
		InputOptions{ReplicationMode: InputPerReplica}))
	steps := must[*DistributedIterator](t)(dataset.Iterator(nil))
	defer steps.Close()
	_, err = steps.SaveJoint(nil)
	saysWrong(t, err, ErrFailedPrecondition, "PER_REPLICA")
}

func TestInputOptionsAreRefusedAsDocumented(t *testing.T) {
	strategy := twoReplicas(t)
	replica := InputOptions{ReplicationMode: InputPerReplica}
	_, err := strategy.DistributeDataset(nil, Range(0, 4, 1).Batch(2), replica)
	saysWrong(t, err, ErrUnimplemented, "from_function of a MirroredStrategy")
	one := must[*Strategy](t)(NewOneDeviceStrategy("CPU:0"))
	defer one.Close()
	_, err = one.DistributeFromFunction(nil, onePipeline, replica)
	saysWrong(t, err, ErrUnimplemented, "OneDeviceStrategy")
	_, err = strategy.DistributeFromFunction(nil, onePipeline,
		InputOptions{PlaceDatasetOnDevice: true})
	saysWrong(t, err, ErrInvalidArgument, "needs the replication mode PER_REPLICA")
}

func TestTheSpecOfAStepHasThatOfEachReplica(t *testing.T) {
	strategy := twoReplicas(t)
	dataset := must[*DistributedDataset](t)(
		strategy.DistributeDataset(nil, Range(0, 6, 1).Batch(4), InputOptions{}))
	spec := must[*Spec](t)(dataset.ElementSpec())
	if spec.String() != "PerReplica(int64[?], int64[?])" {
		t.Fatal(spec)
	}
	steps := must[*DistributedIterator](t)(dataset.Iterator(nil))
	defer steps.Close()
	part := must[*Spec](t)(TensorSpec(Int64, UnknownDimension))
	made := must[*Spec](t)(PerReplicaSpec(part, part))
	if !must[*Spec](t)(steps.ElementSpec()).Equal(spec) || !made.Equal(spec) {
		t.Fatal(made)
	}
	leaves := must[[]LeafSpec](t)(spec.Leaves())
	if leaves[0].Kind != KindPerReplica ||
		!leaves[0].Inner.Equal(must[*Spec](t)(TupleSpec(part, part))) {
		t.Fatal(leaves)
	}
	_, err := PerReplicaSpec()
	saysWrong(t, err, ErrInvalidArgument, "a component for each replica")
	_, err = PerReplicaSpec(made)
	saysWrong(t, err, ErrInvalidArgument, "not distributed itself")
}

func TestInputContextsHaveTheDocumentedDefaults(t *testing.T) {
	one := NewInputContext()
	if got := must[int](t)(one.PerReplicaBatchSize(16)); got != 16 || one.NumInputPipelines != 1 {
		t.Fatal(got, one)
	}
	one.NumReplicasInSync = 3
	_, err := one.PerReplicaBatchSize(16)
	saysWrong(t, err, ErrInvalidArgument, "cannot be divided by 3 replicas")
}

func TestNumbersFillUpTheLastStepWithZeros(t *testing.T) {
	dataset := must[*DistributedDataset](t)(twoReplicas(t).DistributeFromFunction(nil,
		func(InputContext) *Dataset { return Range(1, 4, 1) }, InputOptions{}))
	steps := must[*DistributedIterator](t)(dataset.Iterator(nil))
	defer steps.Close()
	want := []string{"PerReplica:{0: 1, 1: 2}", "PerReplica:{0: 3, 1: 0}"}
	if got := restOfSteps(t, steps); !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
}

func TestTensorsBecomeADatasetOfTheirSlices(t *testing.T) {
	strategy := twoReplicas(t)
	numbers := must[*Tensor](t)(TensorOf([]int64{7, 8, 9}))
	rows := strategy.MakeNumpyDataset(must[Value](t)(OfTensor(numbers)))
	steps := must[*DistributedIterator](t)(strategy.Distribute(nil, rows.Batch(2)))
	defer steps.Close()
	want := []string{"PerReplica:{0: [7], 1: [8]}", "PerReplica:{0: [9], 1: []}"}
	if got := restOfSteps(t, steps); !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
	_, err := strategy.MakeNumpyDataset(must[Value](t)(OfInt64(1))).Iterator(nil)
	saysWrong(t, err, ErrInvalidArgument, "from_tensor_slices")
}
