package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Iterator goes through a dataset:
//
//	for iterator.Next() {
//		element := iterator.Value()
//	}
//	return iterator.Err()
type Iterator struct {
	o      *object
	ctx    context.Context // of Next, as database/sql has it
	value  Value
	err    error
	native *cursorFunctions
}

// DistributedIterator is an Iterator through a distributed dataset, whose elements are steps: their
// leaves are per-replica values, or, where this process has one replica, tensors. Give them to Run
// as they are, whole or in parts: they tell it the rows of the step (ReplicaContext.GlobalRows).
type DistributedIterator = Iterator

func (i *Iterator) object() *object {
	if i == nil {
		return nil
	}
	return i.o
}

// cursorFunctions are those of the library for one of the two kinds of iterators.
type cursorFunctions struct {
	next     func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	optional func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	spec     func(pointer uintptr, made *uintptr) uintptr
	save     func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
	restore  func(pointer uintptr, state []byte, call *native.CallOptions) uintptr
	explain  func(pointer uintptr, format string, made *uintptr) uintptr
	close    func(pointer uintptr, call *native.CallOptions) uintptr
	add      func(checkpoint uintptr, name string, pointer uintptr) uintptr
	// Of a distributed iterator.
	saveJoint func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr
}

var iteratorFunctions = cursorFunctions{native.Iterator_next, native.Iterator_next_optional,
	native.Iterator_element_spec, native.Iterator_save, native.Iterator_restore,
	native.Iterator_explain, native.Iterator_close, native.Checkpoint_add_iterator, nil}

var distributedFunctions = cursorFunctions{native.Distributed_iterator_next,
	native.Distributed_iterator_next_optional, native.Distributed_iterator_element_spec,
	native.Distributed_iterator_save, native.Distributed_iterator_restore,
	native.Distributed_iterator_explain,
	native.Distributed_iterator_close, native.Checkpoint_add_distributed_iterator,
	native.Distributed_iterator_save_joint}

// Iterator starts at the first element. ctx is that of every Next, too.
func (d *Dataset) Iterator(ctx context.Context) (*Iterator, error) {
	if _, err := defaultRuntime.Place(ctx); err != nil {
		return nil, err
	}
	made, err := waitOut(ctx, d, native.Iterator_create)
	if err != nil {
		return nil, err
	}
	return &Iterator{o: own(made, "iterator", native.Tutti_iterator_release), ctx: ctx,
		native: &iteratorFunctions}, nil
}

// use is that of object for one that the package made.
func (i *Iterator) use() (uintptr, error) { return i.object().use() }

func (i *Iterator) done() { i.o.done() }

// Next goes to the next element; false at the end and for an error. Next after an error goes on
// behind the element that failed; a deadline or a cancellation loses nothing.
func (i *Iterator) Next() bool { return i != nil && i.NextContext(i.ctx) }

// NextContext is Next with a context of its own.
func (i *Iterator) NextContext(ctx context.Context) bool {
	if i == nil {
		return false
	}
	made, err := waitOut(ctx, i,
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return i.native.next(pointer, call, made)
		})
	i.value, i.err = ownValue(made), err
	return made != 0
}

// Value is the element that Next went to. It is the caller's, to close or to leave to the garbage
// collector.
func (i *Iterator) Value() Value {
	if i == nil {
		return Value{}
	}
	return i.value
}

// Err is what ended Next, nil for the end of the dataset.
func (i *Iterator) Err() error {
	if i == nil {
		_, err := i.use()
		return err
	}
	return i.err
}

// NextOptional is the next element as an optional leaf, which is empty at the end.
func (i *Iterator) NextOptional(ctx context.Context) (Value, error) {
	made, err := waitOut(ctx, i,
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return i.native.optional(pointer, call, made)
		})
	return ownValue(made), err
}

// ElementSpec describes the elements.
func (i *Iterator) ElementSpec() (*Spec, error) {
	return as(ownSpec)(readOut(i, func(pointer uintptr, made *uintptr) uintptr {
		return i.native.spec(pointer, made)
	}))
}

// Save is the position.
func (i *Iterator) Save(ctx context.Context) ([]byte, error) {
	made, err := waitOut(ctx, i,
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return i.native.save(pointer, call, made)
		})
	return takeBytes(made), err
}

// SaveJoint is the position of all workers of a DistributedIterator, the same bytes on each; all
// call it behind the same step. Any number of workers goes on from it by Restore, which all of them
// call then, with every element that is left once: what the workers had left is dealt to those that
// go on, in turn where several share it. ErrFailedPrecondition where that cannot be promised: for
// data that all workers read whole (policy OFF), a generator's, an order that is not deterministic,
// PER_REPLICA. ErrInvalidArgument for an iterator through a dataset that is not distributed.
func (i *Iterator) SaveJoint(ctx context.Context) ([]byte, error) {
	if i != nil && i.native.saveJoint == nil {
		return nil, invalidArgument("a joint position is that of a distributed iterator: distribute " +
			"the dataset, or call Save")
	}
	made, err := waitOut(ctx, i,
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return i.native.saveJoint(pointer, call, made)
		})
	return takeBytes(made), err
}

// Restore goes to a saved position of an iterator over an equal dataset, whose names, prefetch
// sizes and numbers of parallel calls may be others. ErrInvalidArgument for that of another
// dataset, or of a release with another format or another version of an operation; the iterator
// stays where it was.
func (i *Iterator) Restore(ctx context.Context, state []byte) error {
	return wait(ctx, i, func(pointer uintptr, call *native.CallOptions) uintptr {
		return i.native.restore(pointer, state, call)
	})
}

// Explain is the plan with what this iterator has done so far, as "text", "json" or "svg". Where
// the option experimental_stats.profile is set: of each operation its rows and about their bytes,
// the time in it and in which it waited for its input, its function's calls and whether they are
// callbacks, calls at once, how full its buffer was; and the bottleneck, with the change that would
// help. What Autotune has chosen is there in any case. A restore begins anew. Any goroutine may
// ask. Of an iterator over a distributed dataset a row of the run is a step, and the consumer is
// who asks for steps: where that one waits and this worker's pipelines are in time, the bottleneck
// is the other workers, or what lies between.
func (i *Iterator) Explain(format string) (string, error) {
	return readText(i, func(pointer uintptr, made *uintptr) uintptr {
		return i.native.explain(pointer, format, made)
	})
}

// Close stops and joins its threads.
func (i *Iterator) Close() error {
	return closeWith(i.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return i.native.close(pointer, call)
	})
}
