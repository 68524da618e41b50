/* Elastic jobs: the others go on when a worker dies, and another process takes its place.
 *
 *   cc elastic.c -o elastic $(pkg-config --cflags --libs tutti)
 *   tutti run --workers 3 --elastic --max-restarts 1 -- ./elastic */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

static void check(tutti_status *status, const char *what) {
  if (tutti_status_report(status, what) != TUTTI_OK) exit(1);
}

/* The furthest step that a rank has come to, which is 0 of a newcomer. */
static tutti_status *furthest(tutti_communicator *ranks, int64_t *step) {
  tutti_value *mine = NULL;
  tutti_value *all = NULL;
  tutti_status *status = tutti_value_create_int64(*step, &mine);
  if (status == NULL) status = tutti_communicator_all_gather_value(ranks, mine, NULL, &all);
  for (int64_t i = 0; status == NULL && i < tutti_communicator_get_size(ranks); ++i) {
    const int64_t *theirs = tutti_tensor_get_data(tutti_value_get_leaf_tensor(all, (size_t)i));
    if (*theirs > *step) *step = *theirs;
  }
  tutti_value_release(mine);
  tutti_value_release(all);
  return status;
}

/* 1 on every rank, summed. */
static tutti_status *count(tutti_communicator *ranks, int64_t *total) {
  const int64_t one = 1;
  tutti_tensor *sum = NULL;
  tutti_status *status =
      tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_INT64, 0, NULL, &one, sizeof one, &sum);
  if (status == NULL) {
    status = tutti_communicator_all_reduce(ranks, sum, TUTTI_REDUCE_SUM, NULL, sum);
  }
  if (status == NULL) *total = *(const int64_t *)tutti_tensor_get_data(sum);
  tutti_tensor_release(sum);
  return status;
}

/* Whether a rank is gone: then all that are left come together again. */
static int is_loss(tutti_status *status) {
  const tutti_code code = tutti_status_get_code(status);
  return code == TUTTI_UNAVAILABLE || code == TUTTI_ABORTED;
}

int main(void) {
  tutti_cluster *cluster = NULL;
  tutti_communicator *ranks = NULL;
  check(tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster), "join");
  /* A newcomer waits here for the others' grow. */
  check(tutti_communicator_create(cluster, NULL, NULL, &ranks), "communicator");
  int64_t step = 0;
  int64_t total = 0;
  check(furthest(ranks, &step), "first step");
  while (step < 5) {
    if (step == 2 && tutti_cluster_get_worker(cluster) == 2 &&
        strcmp(getenv("TUTTI_RESTART"), "0") == 0) {
      kill(getpid(), SIGKILL);
    }
    tutti_status *status = count(ranks, &total);
    if (status == NULL) {
      ++step;
      continue;
    }
    if (!is_loss(status)) check(status, "step");
    tutti_status_release(status);
    /* Who is content with those that are left calls tutti_communicator_shrink instead. */
    tutti_communicator *grown = NULL;
    check(tutti_communicator_grow(ranks, tutti_cluster_get_worker_count(cluster), NULL, &grown),
          "grow");
    check(tutti_communicator_close(ranks, NULL), "close");
    tutti_communicator_release(ranks);
    ranks = grown;
    check(furthest(ranks, &step), "step after a loss");
  }
  printf("worker %" PRId64 ": %" PRId64 " ranks at the end\n", tutti_cluster_get_worker(cluster),
         total);
  check(tutti_communicator_close(ranks, NULL), "close");
  tutti_communicator_release(ranks);
  check(tutti_cluster_close(cluster, NULL), "close");
  tutti_cluster_release(cluster);
  return 0;
}
