package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// absent stands for a tensor that this rank leaves out.
var absent = &Tensor{o: lend(0, "absent tensor")}

func orAbsent(tensor *Tensor) *Tensor {
	if tensor == nil {
		return absent
	}
	return tensor
}

// with uses the rank and the tensors for one call.
func (c *Communicator) with(tensors []*Tensor,
	call func(pointer uintptr, tensors []uintptr) error) error {
	pointer, err := c.object().use()
	if err != nil {
		return err
	}
	defer c.object().done()
	return withTensors(tensors, func(used []uintptr) error { return call(pointer, used) })
}

func withTensors(tensors []*Tensor, call func(tensors []uintptr) error) error {
	used := make([]uintptr, len(tensors))
	for i, tensor := range tensors {
		pointer, end, err := tensor.shared()
		if err != nil {
			return err
		}
		defer end()
		used[i] = pointer
	}
	return call(used)
}

// collective is one call with tensors.
func (c *Communicator) collective(ctx context.Context, tensors []*Tensor,
	call func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr) error {
	return c.with(tensors, func(pointer uintptr, used []uintptr) error {
		options, end, err := callOf(ctx)
		if err != nil {
			return err
		}
		defer end()
		return check(call(pointer, used, options))
	})
}

// making is a collective that makes a tensor; nil where it made none on this rank.
func (c *Communicator) making(ctx context.Context, input *Tensor,
	call func(pointer, input uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (*Tensor, error) {
	var made uintptr
	err := c.collective(ctx, []*Tensor{input},
		func(pointer uintptr, tensors []uintptr, options *native.CallOptions) uintptr {
			return call(pointer, tensors[0], options, &made)
		})
	if err != nil || made == 0 {
		return nil, err
	}
	return ownTensor(made), nil
}

// AllReduce folds input of all ranks into output of every rank; output may be input.
func (c *Communicator) AllReduce(ctx context.Context, op ReduceOp, input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_reduce(pointer, tensors[0], int(op), call, tensors[1])
		})
}

// AllReduceMany is AllReduce of several tensors, of any dtypes and dims, in one call: outputs[i],
// which may be inputs[i], from inputs[i].
func (c *Communicator) AllReduceMany(ctx context.Context, op ReduceOp,
	inputs, outputs []*Tensor) error {
	return c.collective(ctx, both(inputs, outputs),
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_reduce_many(pointer, tensors[:len(inputs)], int(op), call,
				tensors[len(inputs):])
		})
}

func both(inputs, outputs []*Tensor) []*Tensor {
	return append(append(make([]*Tensor, 0, len(inputs)+len(outputs)), inputs...), outputs...)
}

// Reduce folds input of all ranks into output of rank root, which may be its input. The others may
// give nil for output.
func (c *Communicator) Reduce(ctx context.Context, op ReduceOp, root int,
	input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, orAbsent(output)},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_reduce(pointer, tensors[0], int(op), int64(root), call, tensors[1])
		})
}

// Broadcast copies tensor of rank root into tensor of every other rank.
func (c *Communicator) Broadcast(ctx context.Context, root int, tensor *Tensor) error {
	return c.collective(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_broadcast(pointer, int64(root), call, tensors[0])
		})
}

// ReduceScatter folds input [size * m, ...] of all ranks; rank r gets rows [r * m, (r + 1) * m) of
// the result in output [m, ...], which may be that part of its input.
func (c *Communicator) ReduceScatter(ctx context.Context, op ReduceOp,
	input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_reduce_scatter(pointer, tensors[0], int(op), call, tensors[1])
		})
}

// AllGather joins input [n, ...] of all ranks along axis 0 into a new tensor; n may differ between
// ranks.
func (c *Communicator) AllGather(ctx context.Context, input *Tensor) (*Tensor, error) {
	return c.making(ctx, input, native.Communicator_all_gather)
}

// AllGatherInto joins input [m, ...], equal on all ranks, into output [size * m, ...] in rank
// order. Input may be this rank's own part of output.
func (c *Communicator) AllGatherInto(ctx context.Context, input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_gather_into(pointer, tensors[0], call, tensors[1])
		})
}

// Gather is AllGather at rank root only: the others get nil.
func (c *Communicator) Gather(ctx context.Context, root int, input *Tensor) (*Tensor, error) {
	return c.making(ctx, input,
		func(pointer, input uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_gather(pointer, input, int64(root), call, made)
		})
}

// Scatter gives rank r rows [r * m, (r + 1) * m) of the input [size * m, ...] of rank root in
// output
// [m, ...], which may be the root's own part of it. The others may give nil for input.
func (c *Communicator) Scatter(ctx context.Context, root int, input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{orAbsent(input), output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_scatter(pointer, tensors[0], int64(root), call, tensors[1])
		})
}

// AllToAll sends rows [p * m, (p + 1) * m) of input [size * m, ...] to rank p; output of the same
// dims gets rank p's rows for this rank in their place.
func (c *Communicator) AllToAll(ctx context.Context, input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_to_all(pointer, tensors[0], call, tensors[1])
		})
}

// AllToAllUneven sends the first sendRows[0] rows of input to rank 0, the next sendRows[1] to rank
// 1 and so on, together all of them. Output is a new tensor of what came, in rank order,
// receivedRows how many rows came from each rank.
func (c *Communicator) AllToAllUneven(ctx context.Context, input *Tensor,
	sendRows []int64) (output *Tensor, receivedRows []int64, err error) {
	receivedRows = make([]int64, len(sendRows))
	output, err = c.making(ctx, input,
		func(pointer, input uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_all_to_all_uneven(pointer, input, sendRows, call, receivedRows, made)
		})
	if err != nil {
		return nil, nil, err
	}
	return output, receivedRows, nil
}

// Send sends tensor to rank to, which calls Receive with the same dtype and dims; neither returns
// before both have come and the bytes have moved, and no other rank takes part. Two ranks that send
// to each other at once wait for each other: let one of them receive first.
func (c *Communicator) Send(ctx context.Context, to int, tensor *Tensor) error {
	return c.collective(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_send(pointer, tensors[0], int64(to), call)
		})
}

// Receive receives into tensor what rank from sends.
func (c *Communicator) Receive(ctx context.Context, from int, tensor *Tensor) error {
	return c.collective(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_receive(pointer, int64(from), call, tensors[0])
		})
}

// Barrier returns when every rank has called it.
func (c *Communicator) Barrier(ctx context.Context) error {
	return c.collective(ctx, nil,
		func(pointer uintptr, _ []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_barrier(pointer, call)
		})
}

// AllGatherValue is what every rank brings, in their order: any structure of tensors and texts,
// another one on each rank. It travels as bytes that every language reads (Value.Serialize); large
// tensors go better by AllGather. A value that cannot be sent is an error on all ranks, and the
// epoch goes on.
func (c *Communicator) AllGatherValue(ctx context.Context, value Value) ([]Value, error) {
	all, err := c.valueCall(ctx, value, native.Communicator_all_gather_value)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	values := make([]Value, all.Len())
	for i := range values {
		if values[i], err = all.At(i); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// BroadcastValue is what rank root brings, on every rank; the others may give the zero Value. Else
// as AllGatherValue.
func (c *Communicator) BroadcastValue(ctx context.Context, root int, value Value) (Value, error) {
	return c.valueCall(ctx, value,
		func(pointer, value uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_broadcast_value(pointer, value, int64(root), call, made)
		})
}

func (c *Communicator) valueCall(ctx context.Context, value Value,
	call func(pointer, value uintptr, call *native.CallOptions,
		made *uintptr) uintptr) (Value, error) {
	value, end, err := given(value)
	if err != nil {
		return Value{}, err
	}
	defer end()
	used, err := value.use()
	if err != nil {
		return Value{}, err
	}
	defer value.done()
	made, err := waitOut(ctx, c.object(),
		func(pointer uintptr, options *native.CallOptions, made *uintptr) uintptr {
			return call(pointer, used, options, made)
		})
	return ownValue(made), err
}
