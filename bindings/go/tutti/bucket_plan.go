package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// BucketPlan reduces gradients between the ranks of a communicator while the backward pass goes on:
// consecutive gradients share a bucket, which travels as one asynchronous AllReduce when all of it
// is ready, behind the buckets before it. So ranks may report gradients in different orders.
type BucketPlan struct{ o *object }

// BucketPlanOptions are how gradients are packed.
type BucketPlanOptions struct {
	// BytesPerPack is how large a bucket grows, the same on all ranks; 0: 4 MiB.
	BytesPerPack int64
	// OwnTensors: the plan makes its gradients, see Tensor; those given only say of which dtypes and
	// dims they are.
	OwnTensors bool
	// Names of the gradients, as many as there are, or none: for warnings and errors.
	Names []string
}

// NewBucketPlan plans for gradients in the order in which the backward pass makes them, last layer
// first. They are reduced in place; all ranks give the same dtypes and dims in the same order. One
// that is there twice or cannot be written is ErrInvalidArgument.
func (c *Communicator) NewBucketPlan(op ReduceOp, gradients []*Tensor,
	options ...BucketPlanOption) (*BucketPlan, error) {
	chosen := collect(options, BucketPlanOption.ofBucketPlan)
	names, err := joined(chosen.Names)
	if err != nil {
		return nil, err
	}
	var made uintptr
	err = c.with(gradients, func(pointer uintptr, used []uintptr) error {
		return check(native.Bucket_plan_create(pointer, used, int(op), chosen.BytesPerPack,
			chosen.OwnTensors, names, &made))
	})
	if err != nil {
		return nil, err
	}
	return &BucketPlan{own(made, "bucket plan", native.Tutti_bucket_plan_release)}, nil
}

func (b *BucketPlan) object() *object {
	if b == nil {
		return nil
	}
	return b.o
}

// NumBuckets is how many calls a step makes; 0 when closed.
func (b *BucketPlan) NumBuckets() int {
	return int(ask(b.object(), 0, native.Bucket_plan_bucket_count))
}

// Tensor is what is reduced as gradient index. Of OwnTensors these are zeros that lie side by side
// in memory that all ranks of one machine map, so that large buckets are reduced where they lie.
// It outlives the plan.
func (b *BucketPlan) Tensor(index int) (*Tensor, error) {
	if index < 0 {
		return nil, invalidArgument("there is no gradient %d: they count from 0", index)
	}
	return as(ownTensor)(readOut(b.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Bucket_plan_tensor(pointer, int64(index), made)
	}))
}

// Ready says that gradient index is complete in this step; nobody touches it until Wait has
// returned. One that is ready already is ErrFailedPrecondition. It does not wait, and any goroutine
// may call it.
func (b *BucketPlan) Ready(index int) error {
	if index < 0 {
		return invalidArgument("gradient %d cannot be ready: they count from 0", index)
	}
	return wait(nil, b.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Bucket_plan_ready(pointer, int64(index))
	})
}

// String is for people.
func (b *BucketPlan) String() string {
	text, err := readText(b.object(), native.Bucket_plan_to_string)
	if err != nil {
		return "<" + err.Error() + ">"
	}
	return text
}

// Wait returns when all gradients are ready and reduced, and begins the next step. Where one does
// not become ready, the log warns of it, by its name, after the setting wait_warning (30 s). Any
// failure, an end of the context meanwhile too, ends the epoch of the communicator for all ranks; a
// context that has ended before is refused, and the step is still to be waited for.
func (b *BucketPlan) Wait(ctx context.Context) error {
	return wait(ctx, b.object(), native.Bucket_plan_wait)
}

// Close ends the plan. Calls that are under way go on.
func (b *BucketPlan) Close() error {
	b.object().close()
	return nil
}
