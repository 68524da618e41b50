package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Communicator is one rank among several: the collectives, each called by every rank in the same
// order.
type Communicator struct{ o *object }

func (c *Communicator) object() *object {
	if c == nil {
		return nil
	}
	return c.o
}

func ownCommunicator(pointer uintptr) *Communicator {
	return &Communicator{own(pointer, "communicator", native.Tutti_communicator_release)}
}

// NewLocalCommunicators are ranks of this process, for a goroutine each.
func NewLocalCommunicators(size int) ([]*Communicator, error) {
	return defaultRuntime.NewLocalCommunicators(size, "")
}

// NewLocalCommunicators of this runtime. Name may be empty.
func (r *Runtime) NewLocalCommunicators(size int, name string) ([]*Communicator, error) {
	if size < 1 || size > 65536 {
		return nil, invalidArgument("a communicator of %d ranks cannot be made", size)
	}
	made := make([]uintptr, size)
	if err := r.with(func(runtime uintptr) uintptr {
		return native.Communicator_create_local(runtime, int64(size), name, made)
	}); err != nil {
		return nil, err
	}
	ranks := make([]*Communicator, size)
	for i, pointer := range made {
		ranks[i] = ownCommunicator(pointer)
	}
	return ranks, nil
}

// NewCommunicator has one rank per worker; every worker calls it.
func (c *Cluster) NewCommunicator(ctx context.Context, name string) (*Communicator, error) {
	return as(ownCommunicator)(waitOut(ctx, c.object(),
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_create(pointer, name, call, made)
		}))
}

func (c *Communicator) number(read func(uintptr) int64) int {
	return int(ask(c.object(), -1, read))
}

// Rank of this end; -1 when closed.
func (c *Communicator) Rank() int { return c.number(native.Communicator_rank) }

// Size is the number of ranks; -1 when closed.
func (c *Communicator) Size() int { return c.number(native.Communicator_size) }

// Epoch counts the communicators of one name.
func (c *Communicator) Epoch() int { return c.number(native.Communicator_epoch) }

// Transport is "in_process", "shared_memory", "tcp" or "mixed".
func (c *Communicator) Transport() string {
	return ask(c.object(), "", native.Communicator_transport)
}

// collective is one call with tensors.
func (c *Communicator) collective(ctx context.Context, tensors []*Tensor,
	call func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr) error {
	pointer, err := c.object().use()
	if err != nil {
		return err
	}
	defer c.object().done()
	used := make([]uintptr, len(tensors))
	for i, tensor := range tensors {
		if used[i], err = tensor.use(); err != nil {
			return err
		}
		defer tensor.o.done()
	}
	options, end, err := callOf(ctx)
	if err != nil {
		return err
	}
	defer end()
	return check(call(pointer, used, options))
}

// AllReduce folds input of all ranks into output of every rank; output may be input.
func (c *Communicator) AllReduce(ctx context.Context, op ReduceOp, input, output *Tensor) error {
	return c.collective(ctx, []*Tensor{input, output},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_reduce(pointer, tensors[0], int(op), call, tensors[1])
		})
}

// Broadcast copies tensor of rank root into tensor of every other rank.
func (c *Communicator) Broadcast(ctx context.Context, root int, tensor *Tensor) error {
	return c.collective(ctx, []*Tensor{tensor},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_broadcast(pointer, int64(root), call, tensors[0])
		})
}

// AllGather joins input of all ranks along axis 0.
func (c *Communicator) AllGather(ctx context.Context, input *Tensor) (*Tensor, error) {
	var made uintptr
	if err := c.collective(ctx, []*Tensor{input},
		func(pointer uintptr, tensors []uintptr, call *native.CallOptions) uintptr {
			return native.Communicator_all_gather(pointer, tensors[0], call, &made)
		}); err != nil {
		return nil, err
	}
	return ownTensor(made), nil
}

// Barrier returns when every rank has called it.
func (c *Communicator) Barrier(ctx context.Context) error {
	return c.collective(ctx, nil, func(pointer uintptr, _ []uintptr, call *native.CallOptions) uintptr {
		return native.Communicator_barrier(pointer, call)
	})
}

// Abort makes all calls on all ranks fail with ErrAborted and the message.
func (c *Communicator) Abort(message string) {
	pointer, err := c.object().use()
	if err != nil {
		return
	}
	defer c.object().done()
	native.Communicator_abort(pointer, message)
}

// Close leaves; peers that need this rank fail with ErrUnavailable.
func (c *Communicator) Close() error { return closeWith(c.object(), native.Communicator_close) }
