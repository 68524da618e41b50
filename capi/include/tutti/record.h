/* Writing TFRecord files: u64 length | masked crc32c(length) | data | masked crc32c(data),
 * little-endian. */
#ifndef TUTTI_RECORD_H_
#define TUTTI_RECORD_H_

#include <tutti/call.h>
#include <tutti/dataset.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_tf_record_writer_options {
  size_t struct_size;
  tutti_compression compression;          /* default none */
  tutti_optional_int64 compression_level; /* 0 to 9; default 6 */
} tutti_tf_record_writer_options;
#define TUTTI_TF_RECORD_WRITER_OPTIONS_INIT             \
  {                                                     \
    sizeof(tutti_tf_record_writer_options), 0, { 0, 0 } \
  }

/* Overwrites `path`: the new file stands there, whole, after tutti_tf_record_writer_close.
 *
 * In a function that gives a dataset to flat_map, interleave or group_by_window nothing is written
 * yet: a writer that is made there notes the datasets that it is given until the function returns,
 * and the files are written, each whole or not at all, before the dataset that the function gives
 * has its first element; where one cannot be written, that element has failed. Whoever looks at an
 * element only, to learn its spec, writes nothing. A state that was saved behind the first element
 * is gone on from without writing, one from before it writes the same files again. In other dataset
 * functions it is FAILED_PRECONDITION.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_create(tutti_runtime *runtime, const char *path,
                                                      const tutti_tf_record_writer_options *options,
                                                      tutti_tf_record_writer **out_writer);

/* One record. FAILED_PRECONDITION for a writer that was made in a dataset function.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_write(tutti_tf_record_writer *writer,
                                                     const void *data, size_t size);

/* A serialised tf.train.Example: `features` is a dict (or a named tuple) of tensors and texts.
 * Integers and booleans become an int64_list, floats a float_list, byte strings and texts a
 * bytes_list, with the elements in row-major order; shapes are the reader's to know
 * (tutti_function_create_parse_example). Equal features give equal bytes. INVALID_ARGUMENT, with
 * the detail "key", for complex numbers, integers beyond int64, and what is no tensor or text.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_example_create(const tutti_value *features, tutti_bytes **out_bytes);

/* tutti_example_create as one record.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_write_example(tutti_tf_record_writer *writer,
                                                             const tutti_value *features);

/* Every element of `dataset`, which must be byte-string scalars. In a dataset function that is
 * noted, for a writer that was made in it; for others it is FAILED_PRECONDITION.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_write_dataset(tutti_tf_record_writer *writer,
                                                             const tutti_dataset *dataset,
                                                             const tutti_call_options *call);

/* Flushes, syncs and closes; after an error what stood there before stays. A writer released
 * without close is flushed without a report. In a dataset function only for one that was made in
 * it.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_close(tutti_tf_record_writer *writer);

/* Closes without the new file, of which not everything has been written: what stood under its path
 * before stays, whole, or nothing. Without effect on a writer that is closed. In a dataset function
 * only for one that was made in it, which is not written then.
 * Context: building. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_abandon(tutti_tf_record_writer *writer);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tf_record_writer_retain(const tutti_tf_record_writer *writer);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tf_record_writer_release(const tutti_tf_record_writer *writer);

TUTTI_END_DECLS

#endif /* TUTTI_RECORD_H_ */
