package tutti

import (
	"context"

	"tutti.dev/tutti/internal/native"
)

// Compression of a record file.
type Compression int

// The compressions.
const (
	Uncompressed Compression = 1
	Gzip         Compression = 2
	Zlib         Compression = 3
)

// TFRecords are the records of files.
func TFRecords(files ...string) *Dataset { return defaultRuntime.TFRecords(files...) }

// TFRecords of this runtime.
func (r *Runtime) TFRecords(files ...string) *Dataset {
	return r.TFRecordsOf(r.names(files))
}

// names is a dataset of strings.
func (r *Runtime) names(texts []string) *Dataset {
	tensor, err := r.StringTensor(texts)
	if err != nil {
		return datasetOf(0, err)
	}
	defer tensor.Close()
	value, err := OfTensor(tensor)
	if err != nil {
		return datasetOf(0, err)
	}
	defer value.Close()
	return r.FromTensorSlices(value)
}

// TFRecordsOf are the records of the files that a dataset names.
func TFRecordsOf(files *Dataset, options ...Option) *Dataset {
	return defaultRuntime.TFRecordsOf(files, options...)
}

// TFRecordsOf of this runtime.
func (r *Runtime) TFRecordsOf(files *Dataset, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := files.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer files.o.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_tf_record(runtime, pointer, op.compression, op.bufferSize,
			op.parallelReads, op.name, made)
	}))
}

// FixedLengthRecords are records of equal size from the files that a dataset names.
func FixedLengthRecords(files *Dataset, recordBytes int64, options ...Option) *Dataset {
	return defaultRuntime.FixedLengthRecords(files, recordBytes, options...)
}

// FixedLengthRecords of this runtime.
func (r *Runtime) FixedLengthRecords(files *Dataset, recordBytes int64,
	options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := files.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer files.o.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_fixed_length_record(runtime, pointer, recordBytes, op.compression,
			op.header, op.footer, op.bufferSize, op.parallelReads, op.name, made)
	}))
}

// TextLines are the lines of text files, without their ends: LF, or CR and LF.
func TextLines(files ...string) *Dataset { return defaultRuntime.TextLines(files...) }

// TextLines of this runtime.
func (r *Runtime) TextLines(files ...string) *Dataset {
	return r.TextLinesOf(r.names(files))
}

// TextLinesOf are the lines of the files that a dataset names.
func TextLinesOf(files *Dataset, options ...Option) *Dataset {
	return defaultRuntime.TextLinesOf(files, options...)
}

// TextLinesOf of this runtime.
func (r *Runtime) TextLinesOf(files *Dataset, options ...Option) *Dataset {
	op := operationOf(options)
	pointer, err := files.use()
	if err != nil {
		return datasetOf(0, err)
	}
	defer files.o.done()
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_text_line(runtime, pointer, op.compression, op.bufferSize,
			op.parallelReads, op.name, made)
	}))
}

// SQLRows are the rows that a query gives on a SQLite database, as tuples of scalars, in its order.
// driverName is "sqlite", dataSourceName the database's file, which is opened to be read, and
// outputTypes has a DType for each column; NULL is 0, false or empty. SQLite's library is loaded
// when the first query runs. A row with a value that its DType cannot hold is an
// ErrInvalidArgument, and the next one follows; a query that cannot be run is one, too, with
// SQLite's text, and ends the dataset; without the file it is an ErrNotFound. Iterators resume by
// asking again, so that a query should say "order by".
func SQLRows(driverName, dataSourceName, query string, outputTypes []DType,
	options ...Option) *Dataset {
	return defaultRuntime.SQLRows(driverName, dataSourceName, query, outputTypes, options...)
}

// SQLRows of this runtime.
func (r *Runtime) SQLRows(driverName, dataSourceName, query string, outputTypes []DType,
	options ...Option) *Dataset {
	op := operationOf(options)
	dtypes := make([]int64, len(outputTypes))
	for i, dtype := range outputTypes {
		dtypes[i] = int64(dtype)
	}
	return r.dataset(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Dataset_sql(runtime, driverName, dataSourceName, query, dtypes, op.name, made)
	}))
}

// RecordWriter writes a TFRecord file. Close gives the file its name, also where it is deferred and
// the function returns an error: call Abandon first where the file must be whole or not be.
//
// In a function that gives a dataset to FlatMap, Interleave or GroupByWindow nothing is written
// yet: a writer that is made there notes the datasets that it is given, and the files are written,
// each whole or not at all, before the dataset that the function gives has its first element; where
// one cannot be written, that element has failed. ElementSpec writes nothing. An iterator that is
// restored behind the first element writes nothing either, one from before it the same files again.
// In other functions of datasets it is an ErrFailedPrecondition.
type RecordWriter struct{ o *object }

func (w *RecordWriter) object() *object {
	if w == nil {
		return nil
	}
	return w.o
}

func ownRecordWriter(pointer uintptr) *RecordWriter {
	return &RecordWriter{own(pointer, "record writer", native.Tutti_tf_record_writer_release)}
}

// NewRecordWriter overwrites path. Of the options WithCompression and WithCompressionLevel count.
func NewRecordWriter(path string, options ...Option) (*RecordWriter, error) {
	return defaultRuntime.NewRecordWriter(path, options...)
}

// NewRecordWriter of this runtime.
func (r *Runtime) NewRecordWriter(path string, options ...Option) (*RecordWriter, error) {
	op := operationOf(options)
	return as(ownRecordWriter)(r.make(func(runtime uintptr, made *uintptr) uintptr {
		return native.Record_writer_create(runtime, path, op.compression, op.level, made)
	}))
}

// Write writes one record.
func (w *RecordWriter) Write(record []byte) (int, error) {
	pointer, err := w.object().use()
	if err != nil {
		return 0, err
	}
	defer w.object().done()
	if err := check(native.Record_writer_write(pointer, record)); err != nil {
		return 0, err
	}
	return len(record), nil
}

// WriteExample writes a tf.train.Example of the features, as MakeExample makes it.
func (w *RecordWriter) WriteExample(features Value) error {
	return withExample(features, func(given uintptr) error {
		return wait(nil, w.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
			return native.Record_writer_write_example(pointer, given)
		})
	})
}

// MakeExample is a serialised tf.train.Example, which ParseExample reads and every other program
// that knows the format: of a dict of tensors and texts. Integers and booleans become an
// int64_list, floats a float_list, byte strings and texts a bytes_list, with the elements in
// row-major order. Equal features give equal bytes. ErrInvalidArgument, with the detail "key", for
// anything else.
func MakeExample(features Value) ([]byte, error) {
	var made uintptr
	err := withExample(features, func(given uintptr) error {
		return check(native.Example_create(given, &made))
	})
	return takeBytes(made), err
}

func withExample(features Value, call func(given uintptr) error) error {
	value, end, err := given(features)
	if err != nil {
		return err
	}
	defer end()
	pointer, err := value.use()
	if err != nil {
		return err
	}
	defer value.done()
	return call(pointer)
}

// ExampleWriter writes a TFRecord file of tf.train.Examples. It is a RecordWriter whose records are
// the features that Write is given.
type ExampleWriter struct{ records *RecordWriter }

// NewExampleWriter overwrites path. Of the options WithCompression and WithCompressionLevel count.
func NewExampleWriter(path string, options ...Option) (*ExampleWriter, error) {
	return defaultRuntime.NewExampleWriter(path, options...)
}

// NewExampleWriter of this runtime.
func (r *Runtime) NewExampleWriter(path string, options ...Option) (*ExampleWriter, error) {
	records, err := r.NewRecordWriter(path, options...)
	if err != nil {
		return nil, err
	}
	return &ExampleWriter{records}, nil
}

// Write writes one example: a tensor, a number, a text, or a slice of these for each name.
func (w *ExampleWriter) Write(features map[string]any) error {
	value, err := From(features)
	if err != nil {
		return err
	}
	defer value.Close()
	return w.records.WriteExample(value)
}

// Abandon closes without the new file: what stood there before stays.
func (w *ExampleWriter) Abandon() error { return w.records.Abandon() }

// Close flushes, syncs and closes; after an error what stood there before stays.
func (w *ExampleWriter) Close() error { return w.records.Close() }

// WriteDataset writes every element of a dataset of byte-string scalars.
func (w *RecordWriter) WriteDataset(ctx context.Context, dataset *Dataset) error {
	records, err := dataset.use()
	if err != nil {
		return err
	}
	defer dataset.o.done()
	return wait(ctx, w.object(), func(pointer uintptr, call *native.CallOptions) uintptr {
		return native.Record_writer_write_dataset(pointer, records, call)
	})
}

// Abandon closes without the new file: what stood there before stays. A deferred Close behind it
// does nothing.
func (w *RecordWriter) Abandon() error {
	return closeWith(w.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Record_writer_abandon(pointer)
	})
}

// Close flushes, syncs and closes; after an error what stood there before stays.
func (w *RecordWriter) Close() error {
	return closeWith(w.object(), func(pointer uintptr, _ *native.CallOptions) uintptr {
		return native.Record_writer_close(pointer)
	})
}
