package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Checkpoint is a set of named things that are saved and restored together.
type Checkpoint struct{ o *object }

func (c *Checkpoint) object() *object {
	if c == nil {
		return nil
	}
	return c.o
}

func ownCheckpoint(pointer uintptr) *Checkpoint {
	return &Checkpoint{own(pointer, "checkpoint", native.Tutti_checkpoint_release)}
}

// NewCheckpoint is empty.
func (s *Strategy) NewCheckpoint() (*Checkpoint, error) {
	return as(ownCheckpoint)(readOut(s, native.Checkpoint_create))
}

// NewCheckpoint is one that the ranks of c save and restore together, without a strategy. Its calls
// are calls of c, of which nothing else may be under way. In a process that is one of several
// workers a checkpoint of a strategy of its own is not saved (ErrFailedPrecondition): the workers
// would overwrite each other's files.
func (c *Communicator) NewCheckpoint() (*Checkpoint, error) {
	return as(ownCheckpoint)(readOut(c.object(), native.Checkpoint_create_for_communicator))
}

// NewCheckpoint is one that all workers save and restore together; each of them calls it.
func (c *Cluster) NewCheckpoint(ctx context.Context) (*Checkpoint, error) {
	ranks, err := c.NewCommunicator(ctx, "checkpoint")
	if err != nil {
		return nil, err
	}
	checkpoint, err := ranks.NewCheckpoint()
	if err != nil {
		_ = ranks.Close()
		return nil, err
	}
	// It closes itself when the checkpoint, which holds it, is gone.
	ranks.o.close()
	return checkpoint, nil
}

func (c *Checkpoint) add(o user, name string,
	add func(checkpoint uintptr, name string, thing uintptr) uintptr) error {
	thing, err := o.use()
	if err != nil {
		return err
	}
	defer o.done()
	return wait(nil, c.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return add(pointer, name, thing)
	})
}

// AddVariable saves and restores a variable.
func (c *Checkpoint) AddVariable(name string, variable *Variable) error {
	return c.add(variable.object(), name, native.Checkpoint_add_variable)
}

// AddIterator saves and restores the position of an iterator, of a distributed one, too.
func (c *Checkpoint) AddIterator(name string, iterator *Iterator) error {
	return c.add(iterator, name, func(checkpoint uintptr, name string, thing uintptr) uintptr {
		return iterator.native.add(checkpoint, name, thing)
	})
}

// AddDistributedIterator is AddIterator.
func (c *Checkpoint) AddDistributedIterator(name string, iterator *DistributedIterator) error {
	return c.AddIterator(name, iterator)
}

// AddTensor saves a tensor, and restores into its memory.
func (c *Checkpoint) AddTensor(name string, tensor *Tensor) error {
	thing, end, err := tensor.shared()
	if err != nil {
		return err
	}
	defer end()
	return wait(nil, c.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Checkpoint_add_tensor(pointer, name, thing)
	})
}

// Save writes the checkpoint of a step.
func (c *Checkpoint) Save(ctx context.Context, prefix string, step int64) error {
	return wait(ctx, c.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_save(pointer, prefix, step, call)
	})
}

// Restore reads what Save wrote and gives the step.
func (c *Checkpoint) Restore(ctx context.Context, prefix string) (int64, error) {
	var step native.OptionalInt64
	err := wait(ctx, c.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_restore(pointer, prefix, call, &step)
	})
	return step.Value, err
}

// Write writes a file without a step.
func (c *Checkpoint) Write(ctx context.Context, path string) error {
	return wait(ctx, c.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_write(pointer, path, call)
	})
}

// Read reads what Write wrote.
func (c *Checkpoint) Read(ctx context.Context, path string) error {
	return wait(ctx, c.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_read(pointer, path, call)
	})
}

// Close ends the reference.
func (c *Checkpoint) Close() error {
	c.object().close()
	return nil
}

// CheckpointManager numbers the checkpoints of a directory and keeps the last.
type CheckpointManager struct{ o *object }

func (m *CheckpointManager) object() *object {
	if m == nil {
		return nil
	}
	return m.o
}

func ownCheckpointManager(pointer uintptr) *CheckpointManager {
	return &CheckpointManager{own(pointer, "checkpoint manager",
		native.Tutti_checkpoint_manager_release)}
}

// Manager keeps maxToKeep checkpoints in directory; name is "" for the usual.
func (c *Checkpoint) Manager(directory string, maxToKeep int,
	name string) (*CheckpointManager, error) {
	return as(ownCheckpointManager)(readOut(c.object(), func(pointer uintptr, made *uintptr) uintptr {
		return native.Checkpoint_manager_create(pointer, directory, int64(maxToKeep), name, made)
	}))
}

// Save writes the checkpoint of a step and gives its prefix.
func (m *CheckpointManager) Save(ctx context.Context, step int64) (string, error) {
	made, err := waitOut(ctx, m.object(),
		func(pointer uintptr, call *native.CallOptions, made *uintptr) uintptr {
			return native.Checkpoint_manager_save(pointer, step, call, made)
		})
	return takeText(made), err
}

// RestoreLatest restores the last checkpoint and gives its step, and whether there is one.
func (m *CheckpointManager) RestoreLatest(ctx context.Context) (int64, bool, error) {
	var step native.OptionalInt64
	err := wait(ctx, m.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_manager_restore_latest(pointer, call, &step)
	})
	return step.Value, step.Present != 0, err
}

// Latest is the prefix of the last checkpoint, "" when there is none.
func (m *CheckpointManager) Latest() (string, error) {
	return readText(m.object(), native.Checkpoint_manager_latest)
}

// List are the prefixes of the checkpoints, the oldest first.
func (m *CheckpointManager) List() ([]string, error) {
	made, err := readOut(m.object(), native.Checkpoint_manager_list)
	if err != nil {
		return nil, err
	}
	list := ownValue(made)
	defer list.Close()
	prefixes := make([]string, list.Len())
	for i := range prefixes {
		entry, err := list.At(i)
		if err != nil {
			return nil, err
		}
		if prefixes[i], err = entry.Text(); err != nil {
			return nil, err
		}
		entry.Close()
	}
	return prefixes, nil
}

// Close ends the reference.
func (m *CheckpointManager) Close() error {
	m.object().close()
	return nil
}
