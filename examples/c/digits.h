/* The handwritten digits of examples/data as distributed datasets. */
#ifndef EXAMPLES_C_DIGITS_H_
#define EXAMPLES_C_DIGITS_H_

#include <tutti/tutti.h>

typedef enum digits_part { DIGITS_TRAINING, DIGITS_HELD_OUT } digits_part;

/* Batches {"image": float32[b, 64], "label": int64[b]} of the examples in `folder` (NULL: found by
 * looking upwards from the working directory for examples/data, and then where this program was
 * built), cut over the replicas of `strategy`. The training part is shuffled by `seed`. Several
 * workers share every batch (the auto-shard policy DATA): the examples have numbers, which decide
 * to what part they belong, only where every worker reads all files. */
tutti_status *digits_open(tutti_strategy *strategy, const char *folder, digits_part part,
                          int64_t batch, int64_t seed, tutti_distributed_dataset **out_digits);

/* The tensor itself where it lies in host memory, a copy of what lies on a GPU: for plain C to
 * read. To be released. */
tutti_status *digits_on_host(const tutti_tensor *tensor, tutti_tensor **out_tensor);

/* The two tensors of a replica's batch, on the host, to be released also after an error.
 * INVALID_ARGUMENT when a label is no digit. */
tutti_status *digits_check(const tutti_value *batch, tutti_tensor **out_images,
                           tutti_tensor **out_labels);

#endif /* EXAMPLES_C_DIGITS_H_ */
