/* Iterators: one walk over a dataset's elements. The end is success with no element. */
#ifndef TUTTI_ITERATOR_H_
#define TUTTI_ITERATOR_H_

#include <tutti/call.h>
#include <tutti/dataset.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_iterator_options {
  size_t struct_size;
  const char *name;
} tutti_iterator_options;
#define TUTTI_ITERATOR_OPTIONS_INIT \
  { sizeof(tutti_iterator_options), NULL }

/* Starts at the first element.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_create(const tutti_dataset *dataset,
                                              const tutti_iterator_options *options,
                                              const tutti_call_options *call,
                                              tutti_iterator **out_iterator);

/* The next element, or *out_value = NULL at the end, then and ever after. An error belongs to the
 * element: the next call goes on behind it where the source can, and repeats it where not.
 * DEADLINE_EXCEEDED and CANCELLED lose nothing. When the process has no more memory for the element
 * (RESOURCE_EXHAUSTED), the position may be lost: then next and save say so until a restore.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_next(tutti_iterator *iterator,
                                            const tutti_call_options *call,
                                            tutti_value **out_value);

/* The next element as an optional leaf; empty at the end, of the iterator's element spec.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_next_optional(tutti_iterator *iterator,
                                                     const tutti_call_options *call,
                                                     tutti_value **out_optional);

/* Borrowed; NULL only for NULL.
 * Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_spec *tutti_iterator_get_element_spec(const tutti_iterator *iterator);

/* The position as bytes: elements that were delivered count, elements made ahead do not.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_save(tutti_iterator *iterator,
                                            const tutti_call_options *call,
                                            tutti_bytes **out_state);

/* Goes to a saved position of an iterator over an equal dataset, whose names, prefetch sizes,
 * num_parallel_calls and sizes of readers' buffers may be others. INVALID_ARGUMENT when the bytes
 * are of another dataset, or of a release with another format or another version of an operation,
 * which the message names: then start afresh, or restore with that release. On any failure the
 * iterator is where it was.
 * Context: computing. Threads: one at a time. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_restore(tutti_iterator *iterator, const void *state,
                                               size_t size, const tutti_call_options *call);

/* The plan of the dataset with what this iterator has done so far, as "text", "json" or "svg":
where
 * the option experimental_stats.profile is set, of each operation its rows and about their bytes,
 * the time in it and in which it waited for its input, calls of its function and whether they are
 * callbacks, calls at once, and how full its buffer was; and the bottleneck, with the change that
 * would help. What was chosen for TUTTI_AUTOTUNE is there in any case. A restore begins anew. It
 * may be asked while another thread iterates, and when the iterator is closed. INVALID_ARGUMENT for
 * another format. Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_explain(const tutti_iterator *iterator, const char *format,
                                               tutti_bytes **out_text);

/* Stops and joins the iterator's threads; later calls are FAILED_PRECONDITION.
 * Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_iterator_close(tutti_iterator *iterator,
                                             const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_iterator_retain(const tutti_iterator *iterator);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_iterator_release(const tutti_iterator *iterator);

TUTTI_END_DECLS

#endif /* TUTTI_ITERATOR_H_ */
