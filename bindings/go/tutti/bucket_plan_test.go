package tutti

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAPlanMayMakeTheGradients(t *testing.T) {
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		like := zeros(3)
		plan, err := c.NewBucketPlan(Sum, []*Tensor{like, like}, BucketPlanOptions{OwnTensors: true})
		if err != nil {
			return err
		}
		var gradients []*Tensor
		for i := 0; i < 2; i++ {
			gradients = append(gradients, sure(plan.Tensor(i)))
			sure(MutableSlice[float64](gradients[i]))[2] = float64(10*i + 1)
			if err := plan.Ready(i); err != nil {
				return err
			}
		}
		if err := plan.Wait(ctx); err != nil {
			return err
		}
		for _, none := range []int{2, -1} {
			if _, err := plan.Tensor(none); !errors.Is(err, ErrInvalidArgument) {
				return fmt.Errorf("tensor %d: %v", none, err)
			}
		}
		plan.Close()
		for i, gradient := range gradients {
			if got := sure(Slice[float64](gradient)); got[0] != 0 || got[2] != float64(size*(10*i+1)) {
				return fmt.Errorf("gradient %d: %v", i, got)
			}
		}
		return nil
	})
}

func TestGradientsAreReducedInWhateverOrderTheyAreReady(t *testing.T) {
	generator := random(t)
	seeds := make([]int64, size)
	for r := range seeds {
		seeds[r] = generator.Int63()
	}
	onRanks(t, size, func(ctx context.Context, c *Communicator) error {
		order := rand.New(rand.NewSource(seeds[c.Rank()]))
		gradients := []*Tensor{zeros(2, 2), zeros(3), zeros(1), zeros(0)}
		plan, err := c.NewBucketPlan(Mean, gradients, BucketPlanOptions{BytesPerPack: 32})
		if err != nil {
			return err
		}
		defer plan.Close()
		if plan.NumBuckets() != 2 {
			return fmt.Errorf("%d buckets", plan.NumBuckets())
		}
		for step := 0; step < 5; step++ {
			var all sync.WaitGroup
			failures := make([]error, len(gradients))
			for _, i := range order.Perm(len(gradients)) {
				written := sure(MutableSlice[float64](gradients[i]))
				for j := range written {
					written[j] = float64(step + i + j + c.Rank())
				}
				all.Add(1)
				go func(i int) { // any goroutine tells
					defer all.Done()
					failures[i] = plan.Ready(i)
				}(i)
			}
			if err := plan.Wait(ctx); err != nil {
				return err
			}
			all.Wait()
			for i, gradient := range gradients {
				if failures[i] != nil {
					return failures[i]
				}
				for j, got := range sure(Slice[float64](gradient)) {
					if got != float64(step+i+j+1) {
						return fmt.Errorf("step %d, gradient %d: %v", step, i, gradient)
					}
				}
			}
		}
		return nil
	})
}

func TestANanIsNamedByTheGradientThatHasIt(t *testing.T) {
	passes(t, EnableCheckNumerics()) // for the process
	defer DisableCheckNumerics()
	onRanks(t, 2, func(ctx context.Context, c *Communicator) error {
		bad := 1.0
		if c.Rank() == 1 {
			bad = math.NaN()
		}
		gradients := []*Tensor{zeros(2), sure(TensorOf([]float64{1, bad}))}
		plan, err := c.NewBucketPlan(Sum, gradients,
			BucketPlanOptions{Names: []string{"weights", "bias"}})
		if err != nil {
			return err
		}
		defer plan.Close()
		_ = plan.Ready(0)
		_ = plan.Ready(1)
		err = plan.Wait(ctx)
		if !errors.Is(err, ErrInvalidArgument) {
			return fmt.Errorf("%v", err)
		}
		for _, part := range []string{"rank 1: all_reduce #1",
			"the input of tensor 1 (bias), float64[2], is not finite"} {
			if !strings.Contains(err.Error(), part) {
				return fmt.Errorf("no %q in %v", part, err)
			}
		}
		return nil
	})
}

func TestWrongUseOfABucketPlanIsAnError(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
	defer ranks[0].Close()
	defer ranks[1].Close()
	plan := must[*BucketPlan](t)(ranks[0].NewBucketPlan(Sum, []*Tensor{zeros(2), zeros(2)},
		BucketPlanOptions{}))
	if plan.NumBuckets() != 1 {
		t.Fatal(plan.NumBuckets())
	}
	for _, index := range []int{-1, 2, 1 << 40} {
		wants(t, plan.Ready(index), ErrInvalidArgument)
	}
	if err := plan.Ready(1); err != nil {
		t.Fatal(err)
	}
	wants(t, plan.Ready(1), ErrFailedPrecondition)
	// A gradient that never comes ends with the context, and so does the epoch.
	limited, end := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer end()
	wants(t, plan.Wait(limited), ErrDeadlineExceeded)
	wants(t, ranks[1].Barrier(soon(t)), ErrDeadlineExceeded)
	for i := 0; i < 2; i++ { // again it is nothing
		if err := plan.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, plan.Ready(0), ErrFailedPrecondition)
	wants(t, plan.Wait(nil), ErrFailedPrecondition)
	if plan.NumBuckets() != 0 {
		t.Fatal("buckets of a closed plan")
	}
}

func TestACancelledWaitForGradientsEndsTheEpoch(t *testing.T) {
	ranks := must[[]*Communicator](t)(NewLocalCommunicators(2))
	defer ranks[0].Close()
	defer ranks[1].Close()
	plan := must[*BucketPlan](t)(ranks[0].NewBucketPlan(Sum, []*Tensor{zeros(2)}, BucketPlanOptions{}))
	defer plan.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if err := plan.Wait(ctx); !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := ranks[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := plan.Wait(soon(t)); err == nil || strings.Contains(err.Error(), "plan is closed") {
		t.Fatal(err)
	}
}
