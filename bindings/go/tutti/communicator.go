package tutti

import (
	"context"
	"fmt"

	"tutti.dev/tutti/internal/native"
)

// Communicator is one rank among several: the collectives, each called by every rank in the same
// order. A call that differs between ranks is the same ErrInvalidArgument on all of them; results
// are equal in every bit on all ranks. An error, a deadline and a cancelled context end the epoch:
// later calls of every rank fail with the first error. One goroutine at a time calls what does not
// end in Async.
//
// Rows are along axis 0, size is the number of ranks. Outputs overlap nothing but where a call says
// that its output may be its input or a part of it. Tensors of byte strings are for AllGather and
// Gather.
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

// Split makes a communicator of the ranks of one color, ordered by key and then by rank; every rank
// calls it. A rank of a negative color is in none and gets nil. Name may be empty. Its errors leave
// c alone, but the context of the call, which ends the epoch; meanwhile this rank issues nothing.
func (c *Communicator) Split(ctx context.Context, color, key int,
	name string) (*Communicator, error) {
	made, err := waitOut(ctx, c.object(),
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_split(pointer, int64(color), int64(key), name, call, made)
		})
	if err != nil || made == 0 {
		return nil, err
	}
	return ownCommunicator(made), nil
}

// CreateTensor is a tensor of zeros in memory that all ranks of one machine map: calls of it, and
// of views of it, need no copy into shared memory, where it lies so on all ranks (small calls copy
// it all the same: that is faster). Where ranks share no memory it is a tensor like any other. It
// outlives the communicator.
func (c *Communicator) CreateTensor(dtype DType, dims ...int64) (*Tensor, error) {
	return as(ownTensor)(readOut(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Communicator_create_tensor(pointer, int(dtype), dims, made)
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

// String is for people: the rank, of how many, and how they reach each other.
func (c *Communicator) String() string {
	if c.object().isClosed() {
		return "closed communicator"
	}
	return fmt.Sprintf("communicator, rank %d of %d, epoch %d, %s", c.Rank(), c.Size(), c.Epoch(),
		c.Transport())
}

// Abort makes all calls on all ranks fail with ErrAborted and the message.
func (c *Communicator) Abort(message string) { c.tell(message, native.Communicator_abort) }

// Revoke is a gentle Abort: no rank begins another call, those under way may end, and those that
// wait for a rank that will not come fail with ErrAborted and the message.
func (c *Communicator) Revoke(message string) { c.tell(message, native.Communicator_revoke) }

func (c *Communicator) tell(message string, what func(pointer uintptr, message string)) {
	pointer, err := c.object().use()
	if err != nil {
		return
	}
	defer c.object().done()
	what(pointer, message)
}

// Shrink is the next epoch, in an elastic job (the setting elastic) or within a process: the ranks
// that are left, in their old order. All of them call it but those that close theirs, which nobody
// waits for; the epoch of c is revoked. An error says that another rank died meanwhile or gave up:
// then all that are left call it again. C is still to be closed. In a job that is not elastic it
// fails with ErrFailedPrecondition.
func (c *Communicator) Shrink(ctx context.Context) (*Communicator, error) {
	return as(ownCommunicator)(waitOut(ctx, c.object(), native.Communicator_shrink))
}

// Grow is Shrink with all workers that are there, in their order, newcomers too: those call
// NewCommunicator with the same name. It waits until there are at least least ranks; 0 is whoever
// is there. Within a process, and for a part of another communicator (Split), it fails with
// ErrFailedPrecondition.
func (c *Communicator) Grow(ctx context.Context, least int) (*Communicator, error) {
	return as(ownCommunicator)(waitOut(ctx, c.object(),
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Communicator_grow(pointer, int64(least), call, made)
		}))
}

// Close leaves; peers that need this rank fail with ErrUnavailable. Where it is deferred and a
// panic goes by, they hear of the panic, as by Abort.
func (c *Communicator) Close() error {
	if cause := recover(); cause != nil {
		if message := whyPanicked(cause); message != "" {
			c.Abort(fmt.Sprintf("rank %d has left by %s", c.Rank(), message))
		}
		_ = closeWith(c.object(), native.Communicator_close)
		panic(cause)
	}
	return closeWith(c.object(), native.Communicator_close)
}
