package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Checkpoint is a set of named things that are saved and restored together.
type Checkpoint struct{ o *object }

// NewCheckpoint is empty.
func (s *Strategy) NewCheckpoint() (*Checkpoint, error) {
	if s == nil {
		return nil, invalidArgument("a strategy is needed, not nil")
	}
	made, err := readOut(s.o, native.Checkpoint_create)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{own(made, "checkpoint", native.Tutti_checkpoint_release)}, nil
}

func (c *Checkpoint) add(o *object, name string,
	add func(checkpoint uintptr, name string, thing uintptr) uintptr) error {
	thing, err := o.use()
	if err != nil {
		return err
	}
	defer o.done()
	return c.addPointer(thing, name, add)
}

func (c *Checkpoint) addPointer(thing uintptr, name string,
	add func(checkpoint uintptr, name string, thing uintptr) uintptr) error {
	pointer, err := c.o.use()
	if err != nil {
		return err
	}
	defer c.o.done()
	return check(add(pointer, name, thing))
}

// AddVariable saves and restores a variable.
func (c *Checkpoint) AddVariable(name string, variable *Variable) error {
	return c.add(variable.o, name, native.Checkpoint_add_variable)
}

// AddIterator saves and restores the position of an iterator.
func (c *Checkpoint) AddIterator(name string, iterator *Iterator) error {
	return c.add(iterator.o, name, native.Checkpoint_add_iterator)
}

// AddDistributedIterator saves and restores the position of an iterator.
func (c *Checkpoint) AddDistributedIterator(name string, iterator *DistributedIterator) error {
	return c.add(iterator.o, name, native.Checkpoint_add_distributed_iterator)
}

// AddTensor saves a tensor, and restores into its memory.
func (c *Checkpoint) AddTensor(name string, tensor *Tensor) error {
	thing, err := tensor.use()
	if err != nil {
		return err
	}
	defer tensor.o.done()
	return c.addPointer(thing, name, native.Checkpoint_add_tensor)
}

// Save writes the checkpoint of a step.
func (c *Checkpoint) Save(ctx context.Context, prefix string, step int64) error {
	return c.file(ctx, func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_save(pointer, prefix, step, call)
	})
}

// Restore reads what Save wrote and gives the step.
func (c *Checkpoint) Restore(ctx context.Context, prefix string) (int64, error) {
	var step native.OptionalInt64
	err := c.file(ctx, func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_restore(pointer, prefix, call, &step)
	})
	return step.Value, err
}

// Write writes a file without a step.
func (c *Checkpoint) Write(ctx context.Context, path string) error {
	return c.file(ctx, func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_write(pointer, path, call)
	})
}

// Read reads what Write wrote.
func (c *Checkpoint) Read(ctx context.Context, path string) error {
	return c.file(ctx, func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Checkpoint_read(pointer, path, call)
	})
}

func (c *Checkpoint) file(ctx context.Context,
	call func(pointer uintptr, call *native.CallOptions) uintptr) error {
	_, err := blocking(ctx, c.o, Value{},
		func(pointer, _ uintptr, options *native.CallOptions, _ *uintptr) uintptr {
			return call(pointer, options)
		})
	return err
}

// Close ends the reference.
func (c *Checkpoint) Close() error {
	c.o.close()
	return nil
}

// CheckpointManager numbers the checkpoints of a directory and keeps the last.
type CheckpointManager struct{ o *object }

// Manager keeps maxToKeep checkpoints in directory; name is "" for the usual.
func (c *Checkpoint) Manager(directory string, maxToKeep int, name string) (*CheckpointManager, error) {
	made, err := readOut(c.o, func(pointer uintptr, made *uintptr) uintptr {
		return native.Checkpoint_manager_create(pointer, directory, int64(maxToKeep), name, made)
	})
	if err != nil {
		return nil, err
	}
	return &CheckpointManager{own(made, "checkpoint manager",
		native.Tutti_checkpoint_manager_release)}, nil
}

// Save writes the checkpoint of a step and gives its prefix.
func (m *CheckpointManager) Save(ctx context.Context, step int64) (string, error) {
	var made uintptr
	_, err := blocking(ctx, m.o, Value{},
		func(pointer, _ uintptr, call *native.CallOptions, _ *uintptr) uintptr {
			return native.Checkpoint_manager_save(pointer, step, call, &made)
		})
	return takeText(made), err
}

// RestoreLatest restores the last checkpoint and gives its step, and whether there is one.
func (m *CheckpointManager) RestoreLatest(ctx context.Context) (int64, bool, error) {
	var step native.OptionalInt64
	_, err := blocking(ctx, m.o, Value{},
		func(pointer, _ uintptr, call *native.CallOptions, _ *uintptr) uintptr {
			return native.Checkpoint_manager_restore_latest(pointer, call, &step)
		})
	if err != nil {
		return 0, false, err
	}
	return step.Value, step.Present != 0, nil
}

// Latest is the prefix of the last checkpoint, "" when there is none.
func (m *CheckpointManager) Latest() (string, error) {
	return readText(m.o, native.Checkpoint_manager_latest)
}

// List are the prefixes of the checkpoints, the oldest first.
func (m *CheckpointManager) List() ([]string, error) {
	made, err := readOut(m.o, native.Checkpoint_manager_list)
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
	m.o.close()
	return nil
}

// RecordWriter writes a TFRecord file.
type RecordWriter struct{ o *object }

// NewRecordWriter overwrites path. Of the options WithCompression counts.
func NewRecordWriter(path string, options ...Option) (*RecordWriter, error) {
	return defaultRuntime.NewRecordWriter(path, options...)
}

// NewRecordWriter of this runtime.
func (r *Runtime) NewRecordWriter(path string, options ...Option) (*RecordWriter, error) {
	op := operationOf(options)
	made, err := r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Record_writer_create(runtime, path, op.compression, nil, made)
	})
	if err != nil {
		return nil, err
	}
	return &RecordWriter{own(made, "record writer", native.Tutti_tf_record_writer_release)}, nil
}

// Write writes one record.
func (w *RecordWriter) Write(record []byte) (int, error) {
	pointer, err := w.o.use()
	if err != nil {
		return 0, err
	}
	defer w.o.done()
	if err := check(native.Record_writer_write(pointer, record)); err != nil {
		return 0, err
	}
	return len(record), nil
}

// WriteDataset writes every element of a dataset of byte-string scalars.
func (w *RecordWriter) WriteDataset(ctx context.Context, dataset *Dataset) error {
	records, err := dataset.use()
	if err != nil {
		return err
	}
	defer dataset.o.done()
	_, err = blocking(ctx, w.o, Value{},
		func(pointer, _ uintptr, call *native.CallOptions, _ *uintptr) uintptr {
			return native.Record_writer_write_dataset(pointer, records, call)
		})
	return err
}

// Close flushes, syncs and closes; an error means that the file may be incomplete.
func (w *RecordWriter) Close() error {
	return closeWith(w.o, func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Record_writer_close(pointer)
	})
}
