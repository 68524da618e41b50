/* What calls cost in C: the floor that overhead.py compares the bindings with. The programs of the
 * other languages measure the same work in the same way: the count doubles until a loop takes
 * `seconds`, which is the warm-up too; then every sample is one such loop, and its time per call in
 * microseconds is a line of the output.
 *
 *   overhead_c MEASURE SECONDS SAMPLES
 *
 * The measure ping_pong is none of the library: the round trip of a cache line between two threads,
 * which says how near to each other a virtual machine's cores are at the moment. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

static void check(tutti_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "overhead_c: %s: %s\n", tutti_code_get_name(tutti_status_get_code(status)),
          tutti_status_get_message(status));
  tutti_status_release(status);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double seconds;
static int samples;

/* `work` does something `count` times. */
static void measure(void (*work)(void *subject, int64_t count), void *subject) {
  int64_t count = 1;
  for (;; count *= 2) {
    const double start = now();
    work(subject, count);
    if (now() - start >= seconds) break;
  }
  for (int i = 0; i < samples; ++i) {
    const double start = now();
    work(subject, count);
    printf("%.4f\n", (now() - start) * 1e6 / (double)count);
  }
}

static tutti_strategy *mirrored(size_t replicas) {
  const char *devices[] = {"CPU:0", "CPU:1"};
  tutti_strategy *strategy = NULL;
  check(tutti_strategy_create_mirrored(NULL, replicas, devices, NULL, NULL, &strategy));
  return strategy;
}

/* ---- replicas */

typedef struct reductions {
  int64_t elements;
  int64_t count;
} reductions;

static tutti_status *reduce(tutti_context *replica, const tutti_value *in, tutti_value **out,
                            void *user_data) {
  const reductions *all = user_data;
  tutti_tensor *tensor = NULL;
  tutti_value *operand = NULL;
  (void)in;
  (void)out;
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, &all->elements, NULL, &tensor));
  check(tutti_value_create_tensor(tensor, &operand));
  tutti_status *status = NULL;
  for (int64_t i = 0; i < all->count && status == NULL; ++i) {
    tutti_value *sum = NULL;
    status = tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, operand, NULL, &sum);
    tutti_value_release(sum);
  }
  tutti_value_release(operand);
  tutti_tensor_release(tensor);
  return status;
}

static int64_t elements_to_reduce;

static void all_reduces(void *strategy, int64_t count) {
  reductions all = {elements_to_reduce, count};
  tutti_value *none = NULL;
  check(tutti_strategy_run(strategy, reduce, &all, NULL, NULL, &none));
  tutti_value_release(none);
}

static void measure_all_reduce(int64_t elements) {
  tutti_strategy *strategy = mirrored(2);
  elements_to_reduce = elements;
  measure(all_reduces, strategy);
  tutti_strategy_release(strategy);
}

static tutti_status *nothing(tutti_context *context, const tutti_value *in, tutti_value **out,
                             void *user_data) {
  (void)context;
  (void)in;
  (void)out;
  (void)user_data;
  return NULL;
}

static void runs(void *strategy, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    tutti_value *none = NULL;
    check(tutti_strategy_run(strategy, nothing, NULL, NULL, NULL, &none));
    tutti_value_release(none);
  }
}

static void measure_run(size_t replicas) {
  tutti_strategy *strategy = mirrored(replicas);
  measure(runs, strategy);
  tutti_strategy_release(strategy);
}

static tutti_status *merge(tutti_context *replica, const tutti_value *in, tutti_value **out,
                           void *user_data) {
  const int64_t count = *(const int64_t *)user_data;
  (void)in;
  (void)out;
  for (int64_t i = 0; i < count; ++i) {
    tutti_value *none = NULL;
    tutti_status *status = tutti_context_merge_call(replica, nothing, NULL, NULL, NULL, &none);
    if (status != NULL) return status;
    tutti_value_release(none);
  }
  return NULL;
}

static void merge_calls(void *strategy, int64_t count) {
  tutti_value *none = NULL;
  check(tutti_strategy_run(strategy, merge, &count, NULL, NULL, &none));
  tutti_value_release(none);
}

static void measure_merge_call(void) {
  tutti_strategy *strategy = mirrored(1);
  measure(merge_calls, strategy);
  tutti_strategy_release(strategy);
}

static int64_t counted;

static void counts(void *strategy, int64_t count) {
  for (int64_t i = 0; i < count; ++i) counted += tutti_strategy_get_num_replicas_in_sync(strategy);
}

static void measure_getter(void) {
  tutti_strategy *strategy = mirrored(1);
  measure(counts, strategy);
  tutti_strategy_release(strategy);
}

/* Between two processes: both make as many calls, and the first of them prints. */
static void measure_between_processes(int64_t elements) {
  const int64_t count = (int64_t)(seconds * 100000) + 1;
  tutti_cluster *cluster = NULL;
  tutti_communicator *ranks = NULL;
  tutti_tensor *tensor = NULL;
  check(tutti_cluster_join(NULL, NULL, NULL, NULL, &cluster));
  check(tutti_communicator_create(cluster, NULL, NULL, &ranks));
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, &elements, NULL, &tensor));
  for (int sample = -1; sample < samples; ++sample) {
    const double start = now();
    for (int64_t i = 0; i < count; ++i) {
      check(tutti_communicator_all_reduce(ranks, tensor, TUTTI_REDUCE_SUM, NULL, tensor));
    }
    if (sample >= 0 && tutti_communicator_get_rank(ranks) == 0) {
      printf("%.4f\n", (now() - start) * 1e6 / (double)count);
    }
  }
  tutti_tensor_release(tensor);
  check(tutti_communicator_close(ranks, NULL));
  tutti_communicator_release(ranks);
  check(tutti_cluster_close(cluster, NULL));
  tutti_cluster_release(cluster);
}

/* ---- datasets */

static int64_t rows_per_element = 1;

static void elements(void *iterator, int64_t count) {
  for (int64_t i = 0; i < count; i += rows_per_element) {
    tutti_value *element = NULL;
    check(tutti_iterator_next(iterator, NULL, &element));
    tutti_value_release(element);
  }
}

static void batches(void *iterator, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    tutti_value *batch = NULL;
    check(tutti_iterator_next(iterator, NULL, &batch));
    counted += *(const int64_t *)tutti_tensor_get_data(tutti_value_get_leaf_tensor(batch, 0));
    tutti_value_release(batch);
  }
}

/* Takes `dataset` over. */
static void measure_dataset(tutti_dataset *dataset, void (*work)(void *, int64_t)) {
  tutti_iterator *iterator = NULL;
  check(tutti_iterator_create(dataset, NULL, NULL, &iterator));
  measure(work, iterator);
  tutti_iterator_release(iterator);
  tutti_dataset_release(dataset);
}

static tutti_dataset *numbers(void) {
  tutti_dataset *dataset = NULL;
  check(tutti_dataset_create_range(NULL, 0, INT64_MAX, 1, NULL, &dataset));
  return dataset;
}

static tutti_status *identity(tutti_context *context, const tutti_value *in, tutti_value **out,
                              void *user_data) {
  (void)context;
  (void)user_data;
  tutti_value_retain(in);
  *out = (tutti_value *)in;
  return NULL;
}

static void measure_map(void) {
  tutti_dataset *dataset = numbers();
  const tutti_callback callback = {identity, NULL, NULL};
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  tutti_spec *spec = NULL;
  tutti_function *function = NULL;
  check(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 0, NULL, &spec));
  options.output_spec = spec;
  check(tutti_function_create(NULL, callback, &options, &function));
  check(tutti_dataset_map(&dataset, function, NULL));
  check(tutti_dataset_batch(&dataset, 128, NULL));
  rows_per_element = 128;
  measure_dataset(dataset, elements);
  tutti_function_release(function);
  tutti_spec_release(spec);
}

static void measure_batch(void) {
  tutti_dataset *dataset = numbers();
  check(tutti_dataset_batch(&dataset, 128, NULL));
  measure_dataset(dataset, batches);
}

/* ---- the machine */

static atomic_llong ball;

static void *return_ball(void *user_data) {
  for (long long next = 1;; next += 2) {
    long long seen;
    while ((seen = atomic_load(&ball)) != next && seen >= 0) continue;
    if (seen < 0) return user_data;
    atomic_store(&ball, next + 1);
  }
}

/* Ends after `count` round trips. */
static void round_trips(void *subject, int64_t count) {
  pthread_t other;
  (void)subject;
  atomic_store(&ball, 0);
  if (pthread_create(&other, NULL, return_ball, NULL) != 0) abort();
  for (long long next = 1; next < 2 * count; next += 2) {
    atomic_store(&ball, next);
    while (atomic_load(&ball) != next + 1) continue;
  }
  atomic_store(&ball, -1);
  pthread_join(other, NULL);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s MEASURE SECONDS SAMPLES\n", argv[0]);
    return 2;
  }
  const char *name = argv[1];
  seconds = atof(argv[2]);
  samples = atoi(argv[3]);
  if (strcmp(name, "ping_pong") == 0) {
    measure(round_trips, NULL);
  } else if (strcmp(name, "getter") == 0) {
    measure_getter();
  } else if (strcmp(name, "all_reduce_1_KiB") == 0) {
    measure_all_reduce(256);
  } else if (strcmp(name, "all_reduce_1_MiB") == 0) {
    measure_all_reduce(262144);
  } else if (strcmp(name, "processes_1_KiB") == 0) {
    measure_between_processes(256);
  } else if (strcmp(name, "run_1_replica") == 0) {
    measure_run(1);
  } else if (strcmp(name, "run_2_replicas") == 0) {
    measure_run(2);
  } else if (strcmp(name, "merge_call") == 0) {
    measure_merge_call();
  } else if (strcmp(name, "element") == 0) {
    measure_dataset(numbers(), elements);
  } else if (strcmp(name, "batch_of_128") == 0) {
    measure_batch();
  } else if (strcmp(name, "map_of_a_row") == 0) {
    measure_map();
  } else {
    fprintf(stderr, "overhead_c: no measure '%s'\n", name);
    return 2;
  }
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
