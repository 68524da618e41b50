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
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_create(tutti_runtime *runtime, const char *path,
                                                      const tutti_tf_record_writer_options *options,
                                                      tutti_tf_record_writer **out_writer);

/* One record.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_write(tutti_tf_record_writer *writer,
                                                     const void *data, size_t size);

/* Every element of `dataset`, which must be byte-string scalars.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_write_dataset(tutti_tf_record_writer *writer,
                                                             const tutti_dataset *dataset,
                                                             const tutti_call_options *call);

/* Flushes, syncs and closes; after an error what stood there before stays. A writer released
 * without close is flushed without a report.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_close(tutti_tf_record_writer *writer);

/* Closes without the new file, of which not everything has been written: what stood under its path
 * before stays, whole, or nothing. Without effect on a writer that is closed.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_tf_record_writer_abandon(tutti_tf_record_writer *writer);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tf_record_writer_retain(const tutti_tf_record_writer *writer);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_tf_record_writer_release(const tutti_tf_record_writer *writer);

TUTTI_END_DECLS

#endif /* TUTTI_RECORD_H_ */
