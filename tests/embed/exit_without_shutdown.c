/* Ends without shutting the runtime down, while threads of it run and wait: the process must end
 * promptly and cleanly all the same.
 *
 *   exit_without_shutdown return|exit */
#include <pthread.h>
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
  pthread_t waiter;
  if (pthread_create(&waiter, NULL, wait_for_ever, future) != 0) return 1;
  if (argc > 1 && strcmp(argv[1], "exit") == 0) exit(0);
  return 0;
}
