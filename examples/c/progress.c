#include "progress.h"

#include <stdlib.h>

enum { EPOCH, LOSS, CORRECT, ROWS, NUMBERS };

struct saver {
  tutti_tensor *numbers; /* the progress, where a checkpoint finds it */
  tutti_checkpoint *checkpoint;
  tutti_checkpoint_manager *manager;
};

/* A saver of the progress alone. */
static tutti_status *create_plain(tutti_strategy *strategy, const char *folder, saver *saver) {
  const int64_t dims[] = {NUMBERS};
  tutti_status *status =
      tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT64, 1, dims, NULL, &saver->numbers);
  if (!status) status = tutti_checkpoint_create(strategy, &saver->checkpoint);
  if (!status) {
    status = tutti_checkpoint_add_tensor(saver->checkpoint, "progress", saver->numbers);
  }
  if (!status) {
    status = tutti_checkpoint_manager_create(saver->checkpoint, folder, NULL, &saver->manager);
  }
  return status;
}

static void release_parts(saver *saver) {
  tutti_checkpoint_manager_release(saver->manager);
  tutti_checkpoint_release(saver->checkpoint);
  tutti_tensor_release(saver->numbers);
}

tutti_status *saver_find(tutti_strategy *strategy, const char *folder, progress *progress) {
  saver saver = {NULL, NULL, NULL};
  int64_t step = -1;
  tutti_status *status = create_plain(strategy, folder, &saver);
  if (!status) status = tutti_checkpoint_manager_restore_latest(saver.manager, NULL, &step);
  if (!status && step >= 0) {
    const double *numbers = tutti_tensor_get_data(saver.numbers);
    progress->epoch = (int64_t)numbers[EPOCH];
    progress->steps = step;
    progress->sum.loss = numbers[LOSS];
    progress->sum.correct = (int64_t)numbers[CORRECT];
    progress->sum.rows = (int64_t)numbers[ROWS];
  }
  release_parts(&saver);
  return status;
}

tutti_status *saver_create(tutti_strategy *strategy, const char *folder, const progress *progress,
                           tutti_variable *weights, tutti_variable *velocity,
                           tutti_distributed_iterator *batches, saver **out_saver) {
  int64_t step = -1;
  saver *saver = calloc(1, sizeof(*saver));
  if (saver == NULL) return tutti_status_create(TUTTI_RESOURCE_EXHAUSTED, "out of memory");
  tutti_status *status = create_plain(strategy, folder, saver);
  tutti_checkpoint *checkpoint = saver->checkpoint;
  if (!status) status = tutti_checkpoint_add_variable(checkpoint, "weights", weights);
  if (!status) status = tutti_checkpoint_add_variable(checkpoint, "velocity", velocity);
  if (!status) status = tutti_checkpoint_add_distributed_iterator(checkpoint, "batches", batches);
  if (!status && progress->sum.rows > 0) {
    status = tutti_checkpoint_manager_restore_latest(saver->manager, NULL, &step);
  }
  if (status) {
    saver_release(saver);
  } else {
    *out_saver = saver;
  }
  return status;
}

tutti_status *saver_save(saver *saver, const progress *progress) {
  void *data = NULL;
  tutti_status *status = tutti_tensor_get_mutable_data(saver->numbers, &data);
  if (status) return status;
  double *numbers = data;
  numbers[EPOCH] = (double)progress->epoch;
  numbers[LOSS] = progress->sum.loss;
  numbers[CORRECT] = (double)progress->sum.correct;
  numbers[ROWS] = (double)progress->sum.rows;
  return tutti_checkpoint_manager_save(saver->manager, progress->steps, NULL, NULL);
}

void saver_release(saver *saver) {
  if (saver == NULL) return;
  release_parts(saver);
  free(saver);
}
