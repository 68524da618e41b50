/* How far training has come, and checkpoints of it: weights, velocity, place in the data and the
 * sums of the epoch that is running. */
#ifndef EXAMPLES_C_PROGRESS_H_
#define EXAMPLES_C_PROGRESS_H_

#include <stdint.h>
#include <tutti/tutti.h>

typedef struct totals {
  double loss;
  int64_t correct, rows;
} totals;

typedef struct progress {
  int64_t epoch; /* the one that is running, from 1 */
  int64_t steps; /* taken in all */
  totals sum;    /* of this epoch so far */
} progress;

/* Reads into `progress` where the latest checkpoint in `folder` stands; leaves it alone when there
 * is none. Every worker calls it, and everything below. */
tutti_status *saver_find(tutti_strategy *strategy, const char *folder, progress *progress);

/* Saves this epoch's iterator together with the variables. When `progress` stands inside the epoch,
 * as saver_find has left it, all of them are restored. */
typedef struct saver saver;
tutti_status *saver_create(tutti_strategy *strategy, const char *folder, const progress *progress,
                           tutti_variable *weights, tutti_variable *velocity,
                           tutti_distributed_iterator *batches, saver **out_saver);
tutti_status *saver_save(saver *saver, const progress *progress);
void saver_release(saver *saver);

#endif /* EXAMPLES_C_PROGRESS_H_ */
