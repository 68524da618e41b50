package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// issue is one call with tensors that goes on when issue has returned.
func (c *Communicator) issue(ctx context.Context, tensors []*Tensor,
	call func(pointer uintptr, tensors []uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (*Future, error) {
	var future *Future
	err := c.with(tensors, func(pointer uintptr, used []uintptr) error {
		options, end, err := callOf(ctx)
		if err != nil {
			return err
		}
		var made uintptr
		if err := check(call(pointer, used, options, &made)); err != nil {
			end()
			return err
		}
		future = ownFuture(made)
		if options != nil && options.Cancellation != 0 {
			// The context is watched until the call is done. Where that cannot be told, it is watched
			// until it ends itself.
			_ = future.OnReady(end)
		}
		return nil
	})
	return future, err
}

// AllReduceAsync is AllReduce as a future without a value.
func (c *Communicator) AllReduceAsync(ctx context.Context, op ReduceOp,
	input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_reduce_async(pointer, tensors[0], int(op), call, tensors[1], made)
		})
}

// AllReduceManyAsync is AllReduceMany as a future without a value.
func (c *Communicator) AllReduceManyAsync(ctx context.Context, op ReduceOp,
	inputs, outputs []*Tensor) (*Future, error) {
	return c.issue(ctx, both(inputs, outputs),
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_reduce_many_async(pointer, tensors[:len(inputs)], int(op), call,
				tensors[len(inputs):], made)
		})
}

// ReduceAsync is Reduce as a future without a value.
func (c *Communicator) ReduceAsync(ctx context.Context, op ReduceOp, root int,
	input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input, orAbsent(output)},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_reduce_async(pointer, tensors[0], int(op), int64(root), call,
				tensors[1], made)
		})
}

// BroadcastAsync is Broadcast as a future without a value.
func (c *Communicator) BroadcastAsync(ctx context.Context, root int,
	tensor *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_broadcast_async(pointer, int64(root), call, tensors[0], made)
		})
}

// ReduceScatterAsync is ReduceScatter as a future without a value.
func (c *Communicator) ReduceScatterAsync(ctx context.Context, op ReduceOp,
	input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_reduce_scatter_async(pointer, tensors[0], int(op), call, tensors[1],
				made)
		})
}

// AllGatherAsync is AllGather as a future, whose value is the tensor.
func (c *Communicator) AllGatherAsync(ctx context.Context, input *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_gather_async(pointer, tensors[0], call, made)
		})
}

// AllGatherIntoAsync is AllGatherInto as a future without a value.
func (c *Communicator) AllGatherIntoAsync(ctx context.Context,
	input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_gather_into_async(pointer, tensors[0], call, tensors[1], made)
		})
}

// GatherAsync is Gather as a future, whose value is the tensor at rank root and none at the others.
func (c *Communicator) GatherAsync(ctx context.Context, root int, input *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_gather_async(pointer, tensors[0], int64(root), call, made)
		})
}

// ScatterAsync is Scatter as a future without a value.
func (c *Communicator) ScatterAsync(ctx context.Context, root int,
	input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{orAbsent(input), output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_scatter_async(pointer, tensors[0], int64(root), call, tensors[1],
				made)
		})
}

// AllToAllAsync is AllToAll as a future without a value.
func (c *Communicator) AllToAllAsync(ctx context.Context, input, output *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_to_all_async(pointer, tensors[0], call, tensors[1], made)
		})
}

// SendAsync is Send as a future without a value.
func (c *Communicator) SendAsync(ctx context.Context, to int, tensor *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_send_async(pointer, tensors[0], int64(to), call, made)
		})
}

// ReceiveAsync is Receive as a future without a value.
func (c *Communicator) ReceiveAsync(ctx context.Context, from int,
	tensor *Tensor) (*Future, error) {
	return c.issue(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_receive_async(pointer, int64(from), call, tensors[0], made)
		})
}

// BarrierAsync is Barrier as a future without a value.
func (c *Communicator) BarrierAsync(ctx context.Context) (*Future, error) {
	return c.issue(ctx, nil,
		func(pointer uintptr, _ []uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_barrier_async(pointer, call, made)
		})
}
