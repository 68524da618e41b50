/* One worker of an elastic job, which adds up, again and again, until another one is lost; goes on
 * with those that are left, and then with the one that takes the free seat.
 *
 *   elastic_worker WORKERS CALLS
 *
 * The cluster comes from TF_CONFIG, the rest from TUTTI_* variables; TUTTI_RESTART, of `tutti run`,
 * is not 0 for the one that comes later. Every sum of every epoch is checked. Lines on stdout:
 *
 *   ready pid=P
 *   lost CODE: MESSAGE
 *   shrunk size=S epoch=E
 *   grown size=S epoch=E
 *   done
 *
 * Exit status: 0 done, 2 wrong arguments, 3 a call failed that must not, 4 a wrong sum. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { ELEMENTS = 20000 };

static void check(tutti_status *status) {
  if (status == NULL) return;
  printf("error %s: %s\n", tutti_code_get_name(tutti_status_get_code(status)),
         tutti_status_get_message(status));
  exit(3);
}

static tutti_communicator *communicator = NULL;
static tutti_tensor *in = NULL, *out = NULL;

/* The `number`-th sum of this epoch: rank r brings r + number in every element. */
static tutti_status *add_up(int64_t number) {
  const int64_t size = tutti_communicator_get_size(communicator);
  const int64_t mine = tutti_communicator_get_rank(communicator) + number;
  const int64_t sum = size * (size - 1) / 2 + size * number;
  void *data = NULL;
  check(tutti_tensor_get_mutable_data(in, &data));
  int64_t *numbers = data;
  for (int64_t i = 0; i < ELEMENTS; ++i) numbers[i] = mine;
  tutti_status *status =
      tutti_communicator_all_reduce(communicator, in, TUTTI_REDUCE_SUM, NULL, out);
  if (status != NULL) return status;
  const int64_t *sums = tutti_tensor_get_data(out);
  for (int64_t i = 0; i < ELEMENTS; ++i) {
    if (sums[i] == sum) continue;
    printf("wrong sum: %" PRId64 " instead of %" PRId64 "\n", sums[i], sum);
    exit(4);
  }
  return NULL;
}

static void add_up_often(int64_t calls) {
  for (int64_t i = 0; i < calls; ++i) check(add_up(i));
}

static void say_epoch(const char *what) {
  printf("%s size=%" PRId64 " epoch=%" PRId64 "\n", what,
         tutti_communicator_get_size(communicator), tutti_communicator_get_epoch(communicator));
}

static void go_over_to(tutti_communicator *next) {
  check(tutti_communicator_close(communicator, NULL));
  tutti_communicator_release(communicator);
  communicator = next;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int64_t workers = atoll(argv[1]);
  const int64_t calls = atoll(argv[2]);
  const char *restart = getenv("TUTTI_RESTART");
  const int comes_later = restart != NULL && strcmp(restart, "0") != 0;
  setvbuf(stdout, NULL, _IOLBF, 0);

  const int64_t dims[] = {ELEMENTS};
  tutti_cluster *cluster = NULL;
  check(tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster));
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_INT64, 1, dims, NULL, &in));
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_INT64, 1, dims, NULL, &out));
  check(tutti_communicator_create(cluster, NULL, NULL, &communicator));
  if (!comes_later) {
    printf("ready pid=%ld\n", (long)getpid());
    tutti_status *lost = NULL;
    for (int64_t i = 0; lost == NULL; ++i) lost = add_up(i);
    printf("lost %s: %s\n", tutti_code_get_name(tutti_status_get_code(lost)),
           tutti_status_get_message(lost));
    tutti_communicator_revoke(communicator, tutti_status_get_message(lost));
    tutti_status_release(lost);
    tutti_communicator *next = NULL;
    check(tutti_communicator_shrink(communicator, NULL, &next));
    go_over_to(next);
    say_epoch("shrunk");
    add_up_often(calls);
    check(tutti_communicator_grow(communicator, workers, NULL, &next));
    go_over_to(next);
  }
  say_epoch("grown");
  add_up_often(calls);
  printf("done\n");
  tutti_tensor_release(out);
  tutti_tensor_release(in);
  check(tutti_communicator_close(communicator, NULL));
  tutti_communicator_release(communicator);
  check(tutti_cluster_close(cluster, NULL));
  tutti_cluster_release(cluster);
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
