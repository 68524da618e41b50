package tutti_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tutti.dev/tutti"
)

// try gives what a call has made, or ends the example.
func try[T any](made T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return made
}

// One step on two replicas, each of which gets its part of the batch.
func Example() {
	ctx := context.Background()
	strategy := try(tutti.NewMirroredStrategy("CPU:0", "CPU:1"))
	defer strategy.Close()
	steps := try(strategy.Distribute(ctx, tutti.Range(0, 8, 1).Batch(4)))
	defer steps.Close()
	for steps.Next() {
		most := try(strategy.Run(ctx, func(replica *tutti.ReplicaContext,
			batch tutti.Value) (tutti.Value, error) {
			numbers, err := tutti.SliceAt[int64](batch, "")
			if err != nil {
				return tutti.Value{}, err
			}
			last, err := tutti.OfInt64(numbers[len(numbers)-1])
			if err != nil {
				return tutti.Value{}, err
			}
			return replica.AllReduce(tutti.Sum, last)
		}, steps.Value()))
		fmt.Println(steps.Value(), most)
	}
	if err := steps.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// PerReplica:{0: [0 1], 1: [2 3]} PerReplica:{0: 4, 1: 4}
	// PerReplica:{0: [4 5], 1: [6 7]} PerReplica:{0: 12, 1: 12}
}

func ExampleDataset_Map() {
	squares := tutti.Range(0, 5, 1).Map(func(element tutti.Value) (tutti.Value, error) {
		number, err := element.Int64()
		if err != nil {
			return tutti.Value{}, err
		}
		return tutti.OfInt64(number * number)
	}, tutti.WithParallelCalls(2), tutti.WithName("square"))
	batches := try(squares.Batch(3).Iterator(context.Background()))
	defer batches.Close()
	for batches.Next() {
		fmt.Println(batches.Value())
	}
	if err := batches.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// [0 1 4]
	// [9 16]
}

func ExampleDataset_Filter() {
	odd := tutti.Range(0, 7, 1).Filter(func(element tutti.Value) (bool, error) {
		number, err := element.Int64()
		return number%2 == 1, err
	})
	rows := try(odd.Iterator(context.Background()))
	defer rows.Close()
	for rows.Next() {
		fmt.Print(rows.Value(), " ")
	}
	fmt.Println(rows.Err())
	// Output: 1 3 5 <nil>
}

func ExampleFrom() {
	type sample struct {
		Image [][]float32 `tutti:"image"`
		Label int64       `tutti:"label"`
	}
	value := try(tutti.From(sample{Image: [][]float32{{1, 2}, {3, 4}}, Label: 7}))
	defer value.Close()
	fmt.Println(try(value.Int64At("label")), try(tutti.SliceAt[float32](value, "image")))
	// Output: 7 [1 2 3 4]
}

func ExampleIterator_Save() {
	ctx := context.Background()
	numbers := tutti.Range(0, 9, 1)
	before := try(numbers.Iterator(ctx))
	defer before.Close()
	before.Next()
	before.Next()
	state := try(before.Save(ctx))
	after := try(numbers.Iterator(ctx))
	defer after.Close()
	if err := after.Restore(ctx, state); err != nil {
		log.Fatal(err)
	}
	after.Next()
	fmt.Println(after.Value())
	// Output: 2
}

func ExampleStrategy_NewVariable() {
	ctx := context.Background()
	strategy := try(tutti.DefaultRuntime().NewMirroredStrategy(ctx,
		tutti.WithDevices("CPU:0", "CPU:1"), tutti.WithName("two")))
	defer strategy.Close()
	zeros := try(tutti.TensorOf([]float64{0, 0}))
	weights := try(strategy.NewVariable(ctx, zeros, tutti.WithName("weights"),
		tutti.WithAggregation(tutti.AggregateMean)))
	defer weights.Close()
	try(strategy.Run(ctx, func(replica *tutti.ReplicaContext, _ tutti.Value) (tutti.Value, error) {
		step := float64(replica.ReplicaID() + 1)
		change, err := tutti.TensorOf([]float64{step, 10 * step})
		if err != nil {
			return tutti.Value{}, err
		}
		defer change.Close()
		return tutti.Value{}, weights.AssignAdd(replica, change)
	}, tutti.Value{}))
	fmt.Println(try(tutti.Slice[float64](try(weights.Read(ctx)))))
	// Output: [1.5 15]
}

// The ranks of one process; those of a job come from Cluster.NewCommunicator.
func ExampleCommunicator_AllReduce() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ranks := try(tutti.NewLocalCommunicators(2))
	sums := make([][]float32, len(ranks))
	var all sync.WaitGroup
	for i, rank := range ranks {
		all.Add(1)
		go func(i int, rank *tutti.Communicator) {
			defer all.Done()
			defer rank.Close()
			mine := try(tutti.TensorOf([]float32{float32(i), 1}))
			if err := rank.AllReduce(ctx, tutti.Sum, mine, mine); err != nil {
				log.Fatal(err)
			}
			sums[i] = try(tutti.Slice[float32](mine))
		}(i, rank)
	}
	all.Wait()
	fmt.Println(sums)
	// Output: [[1 2] [1 2]]
}

func ExampleCommunicator_NewBucketPlan() {
	ctx := context.Background()
	rank := try(tutti.NewLocalCommunicators(1))[0]
	defer rank.Close()
	bias, weight := try(tutti.TensorOf([]float32{1})), try(tutti.TensorOf([]float32{2, 3}))
	plan := try(rank.NewBucketPlan(tutti.Mean, []*tutti.Tensor{bias, weight},
		tutti.WithNames("bias", "weight"), tutti.WithBytesPerPack(1<<20)))
	defer plan.Close()
	for i := 0; i < 2; i++ { // each when the backward pass has made it
		if err := plan.Ready(i); err != nil {
			log.Fatal(err)
		}
	}
	if err := plan.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan)
	// Output: bucket plan of 2 tensors (MEAN) in 1 buckets, 1 steps
}

func ExampleNewExampleWriter() {
	folder := try(os.MkdirTemp("", "tutti"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "train.tfrecord")
	examples := try(tutti.NewExampleWriter(path))
	for i := 0; i < 2; i++ {
		err := examples.Write(map[string]any{"x": []float32{float32(i), 0.5}, "y": i})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := examples.Close(); err != nil {
		log.Fatal(err)
	}
	records := tutti.TFRecords(path)
	rows := try(records.MapWith(tutti.ParseExample(map[string]tutti.Feature{
		"x": {DType: tutti.Float32, Dims: []int64{2}}, "y": {DType: tutti.Int64}})).Batch(2).
		Iterator(context.Background()))
	defer rows.Close()
	for rows.Next() {
		fmt.Println(rows.Value())
	}
	// Output: {'x': [[0 0.5] [1 0.5]], 'y': [0 1]}
}

// An error says what failed, and errors.Is what kind it is.
func ExampleError() {
	rows := try(tutti.Range(0, 3, 1).Map(func(element tutti.Value) (tutti.Value, error) {
		return tutti.Value{}, os.ErrNotExist
	}).Iterator(context.Background()))
	defer rows.Close()
	fmt.Println(rows.Next(), errors.Is(rows.Err(), os.ErrNotExist))
	_, err := tutti.NewMirroredStrategy("CPU:0", "CPU:0")
	fmt.Println(errors.Is(err, tutti.ErrInvalidArgument))
	// Output:
	// false true
	// true
}
