/* Ends without shutting the runtime down, while threads of it run and wait, and one makes
 * iterators: the process must end promptly and cleanly all the same.
 *
 *   exit_without_shutdown return|exit */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static tutti_status *nothing(tutti_context *context, const tutti_value *in, tutti_value **out,
                             void *user_data) {
  (void)context;
  (void)in;
  (void)user_data;
  return tutti_value_create_none(out);
}

static void destroyed(void *user_data) { (void)user_data; }

static void *wait_for_ever(void *future) {
  tutti_status_release(tutti_future_wait(future, NULL));
  return NULL;
}

static tutti_status *same(tutti_context *context, const tutti_value *in, tutti_value **out,
                          void *user_data) {
  (void)context;
  (void)user_data;
  tutti_value_retain(in);
  *out = (tutti_value *)in;
  return NULL;
}

/* What an element is shows only when there is one: threads start while the iterator is made. */
static void *iterate_for_ever(void *begun) {
  for (int round = 0;; ++round) {
    tutti_callback callback = {same, NULL, NULL};
    tutti_map_options options = TUTTI_MAP_OPTIONS_INIT;
    tutti_dataset *numbers = NULL;
    tutti_function *function = NULL;
    tutti_iterator *iterator = NULL;
    tutti_value *value = NULL;
    options.num_parallel_calls = 2;
    tutti_status *status = tutti_dataset_create_range(NULL, 0, 1000, 1, NULL, &numbers);
    if (!status) status = tutti_function_create(NULL, callback, NULL, &function);
    if (!status) status = tutti_dataset_map(&numbers, function, &options);
    if (!status) status = tutti_dataset_batch(&numbers, 4, NULL);
    if (!status) status = tutti_dataset_prefetch(&numbers, 2, NULL);
    if (!status) status = tutti_iterator_create(numbers, NULL, NULL, &iterator);
    if (!status) status = tutti_iterator_next(iterator, NULL, &value);
    if (status) {
      fprintf(stderr, "%s\n", tutti_status_get_message(status));
      abort();
    }
    tutti_value_release(value);
    tutti_iterator_release(iterator);
    tutti_function_release(function);
    tutti_dataset_release(numbers);
    if (round == 3) sem_post(begun);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const char *devices[] = {"CPU:0", "CPU:1", "CPU:2"};
  tutti_strategy *strategy = NULL;
  tutti_value *none = NULL, *first = NULL;
  tutti_dataset *numbers = NULL;
  tutti_iterator *ahead = NULL;
  tutti_future *future = NULL;
  tutti_function *function = NULL;
  tutti_callback callback = {nothing, NULL, destroyed};
  tutti_status *status = tutti_strategy_create_mirrored(NULL, 3, devices, NULL, NULL, &strategy);
  if (!status) status = tutti_strategy_run(strategy, nothing, NULL, NULL, NULL, &none);
  if (!status) status = tutti_dataset_create_range(NULL, 0, 1000000, 1, NULL, &numbers);
  if (!status) status = tutti_dataset_prefetch(&numbers, 4, NULL);
  if (!status) status = tutti_iterator_create(numbers, NULL, NULL, &ahead);
  if (!status) status = tutti_iterator_next(ahead, NULL, &first);
  if (!status) status = tutti_future_create(NULL, &future);
  if (!status) status = tutti_function_create(NULL, callback, NULL, &function);
  if (status) {
    fprintf(stderr, "%s\n", tutti_status_get_message(status));
    return 1;
  }
  tutti_function_release(function); /* starts the thread that calls back */
  static sem_t begun;
  pthread_t waiter, iterating;
  if (pthread_create(&waiter, NULL, wait_for_ever, future) != 0) return 1;
  if (sem_init(&begun, 0, 0) != 0) return 1;
  if (pthread_create(&iterating, NULL, iterate_for_ever, &begun) != 0) return 1;
  while (sem_wait(&begun) != 0) {
  }
  if (argc > 1 && strcmp(argv[1], "exit") == 0) exit(0);
  return 0;
}
