package tutti

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// onGPUs is onRanks of two ranks, each with a tensor of 1, 2, 3, 4 times its number on its GPU.
func onGPUs(t *testing.T, way CommunicationImplementation,
	work func(ctx context.Context, r *Runtime, c *Communicator, mine *Tensor) error) {
	t.Helper()
	r := twoGPUs(t)
	defer r.Shutdown(context.Background())
	onRanks(t, 2, func(ctx context.Context, c *Communicator) error {
		times := float64(c.Rank() + 1)
		here, err := TensorIn(r, []float64{times, 2 * times, 3 * times, 4 * times})
		if err != nil {
			return err
		}
		device := []string{"GPU:0", "GPU:1"}[c.Rank()]
		there, err := r.CopyToDevice(ctx, here, MemoryOptions{Device: device})
		if err != nil {
			return err
		}
		defer there.Close()
		hinted, err := WithCommunication(ctx, WithImplementation(way))
		if err != nil {
			return err
		}
		return work(hinted, r, c, there)
	})
}

func holdsThere(ctx context.Context, r *Runtime, tensor *Tensor, want ...float64) error {
	if tensor.CudaDevice() < 0 {
		return errors.New("the result lies on the host")
	}
	here, err := r.CopyToDevice(ctx, tensor, MemoryOptions{Device: "CPU:0"})
	if err != nil {
		return err
	}
	return holds(here, want...)
}

func TestGPUCollectivesFuturesAndGroups(t *testing.T) {
	for _, way := range []CommunicationImplementation{CommunicationAuto, CommunicationNCCL} {
		onGPUs(t, way, func(ctx context.Context, r *Runtime, c *Communicator, mine *Tensor) error {
			peer := 1 - c.Rank()
			theirs, err := mine.Copy()
			if err != nil {
				return err
			}
			many, err := mine.Copy()
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				err = c.Send(ctx, peer, mine)
			} else {
				err = c.Receive(ctx, peer, theirs)
			}
			if err != nil {
				return err
			}
			var futures []*Future
			issue := func(future *Future, failed error) {
				if failed == nil {
					futures = append(futures, future)
				} else if err == nil {
					err = failed
				}
			}
			if c.Rank() == 1 {
				issue(c.SendAsync(ctx, peer, mine))
			} else {
				issue(c.ReceiveAsync(ctx, peer, theirs))
			}
			issue(c.AllReduceManyAsync(ctx, Sum, []*Tensor{mine, many}, []*Tensor{mine, many}))
			issue(c.AllGatherAsync(ctx, mine))
			for _, future := range futures {
				if err == nil {
					_, err = future.Result(ctx)
				}
			}
			if err != nil {
				return err
			}
			times := float64(peer + 1)
			for _, err := range []error{holdsThere(ctx, r, mine, 3, 6, 9, 12),
				holdsThere(ctx, r, many, 3, 6, 9, 12),
				holdsThere(ctx, r, theirs, times, 2*times, 3*times, 4*times)} {
				if err != nil {
					return err
				}
			}
			part, err := c.Split(ctx, 0, -c.Rank(), "turned")
			if err != nil {
				return err
			}
			defer part.Close()
			if err := part.Broadcast(ctx, 0, theirs); err != nil { // of rank 1 here
				return err
			}
			return holdsThere(ctx, r, theirs, 1, 2, 3, 4)
		})
	}
}

func TestGPUCollectivesKeepTheOrderOfAStream(t *testing.T) {
	onGPUs(t, CommunicationAuto,
		func(ctx context.Context, r *Runtime, c *Communicator, mine *Tensor) error {
			own := must[*Stream](t)(r.NewStream([]string{"GPU:0", "GPU:1"}[c.Rank()]))
			defer own.Close()
			future, err := c.AllReduceAsync(own.In(ctx), Sum, mine, mine)
			if err == nil {
				_, err = future.Result(ctx)
			}
			if err == nil {
				err = own.Synchronize(ctx)
			}
			if err != nil {
				return err
			}
			return holdsThere(ctx, r, mine, 3, 6, 9, 12)
		})
	onGPUs(t, CommunicationAuto,
		func(ctx context.Context, r *Runtime, c *Communicator, mine *Tensor) error {
			other := must[*Stream](t)(r.NewStream([]string{"GPU:1", "GPU:0"}[c.Rank()]))
			defer other.Close()
			err := c.AllReduce(other.In(ctx), Sum, mine, mine)
			if !errors.Is(err, ErrInvalidArgument) ||
				!strings.Contains(err.Error(), "pass one of theirs") {
				t.Error("another device's stream: ", err)
			}
			closed := must[*Stream](t)(r.NewStream("GPU:0"))
			closed.Close()
			if err := c.Barrier(closed.In(ctx)); !errors.Is(err, ErrFailedPrecondition) {
				t.Error("a closed stream: ", err)
			}
			return nil
		})
}
