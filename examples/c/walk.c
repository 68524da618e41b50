/* The shortest walk through the house: the numbers 0 to 9 from a dataset, in batches of four, over
 * two replicas that add them up together. Prints one line per step and the total. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static void check(tutti_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "walk: %s: %s\n", tutti_code_get_name(tutti_status_get_code(status)),
          tutti_status_get_message(status));
  tutti_status_release(status);
  exit(1);
}

/* Runs once per replica, concurrently: adds up its part of the batch, gives the sum over all
 * replicas, and adds its own sum to the variable, which adds those of all replicas. */
static tutti_status *step(tutti_context *replica, const tutti_value *batch, tutti_value **out,
                          void *user_data) {
  tutti_variable *total = user_data;
  const tutti_tensor *numbers = tutti_value_get_leaf_tensor(batch, 0);
  const int64_t *data = tutti_tensor_get_data(numbers);
  int64_t sum = 0;
  for (int64_t i = 0; i < tutti_tensor_get_element_count(numbers); ++i) sum += data[i];

  tutti_value *mine = NULL;
  tutti_status *status = tutti_value_create_int64(sum, &mine);
  if (!status) {
    const tutti_tensor *added = tutti_value_get_leaf_tensor(mine, 0);
    status = tutti_variable_assign_add(total, replica, added, NULL);
  }
  if (!status) status = tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, mine, NULL, out);
  tutti_value_release(mine);
  return status;
}

int main(void) {
  const char *devices[] = {"CPU:0", "CPU:1"};
  tutti_strategy *strategy = NULL;
  check(tutti_strategy_create_mirrored(NULL, 2, devices, NULL, NULL, &strategy));

  tutti_variable_options summed = TUTTI_VARIABLE_OPTIONS_INIT;
  summed.name = "total";
  summed.aggregation = TUTTI_AGGREGATION_SUM;
  tutti_tensor *zero = NULL;
  tutti_variable *total = NULL;
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_INT64, 0, NULL, NULL, &zero));
  check(tutti_variable_create(strategy, zero, &summed, NULL, &total));

  tutti_dataset *numbers = NULL;
  tutti_distributed_dataset *distributed = NULL;
  tutti_distributed_iterator *steps = NULL;
  check(tutti_dataset_create_range(NULL, 0, 10, 1, NULL, &numbers));
  check(tutti_dataset_batch(&numbers, 4, NULL));
  check(tutti_strategy_distribute_dataset(strategy, numbers, NULL, NULL, &distributed));
  check(tutti_distributed_iterator_create(distributed, NULL, &steps));

  for (tutti_value *batch = NULL;; tutti_value_release(batch)) {
    check(tutti_distributed_iterator_next(steps, NULL, &batch));
    if (batch == NULL) break;
    tutti_value *sums = NULL;
    tutti_bytes *text = NULL;
    check(tutti_strategy_run(strategy, step, total, batch, NULL, &sums));
    check(tutti_value_to_string(sums, &text));
    printf("sum of the step: %s\n", tutti_bytes_get_view(text).data);
    tutti_bytes_release(text);
    tutti_value_release(sums);
  }

  tutti_tensor *result = NULL;
  check(tutti_variable_read(total, NULL, NULL, &result));
  printf("total: %lld\n", (long long)*(const int64_t *)tutti_tensor_get_data(result));

  tutti_tensor_release(result);
  tutti_distributed_iterator_release(steps);
  tutti_distributed_dataset_release(distributed);
  tutti_dataset_release(numbers);
  tutti_variable_release(total);
  tutti_tensor_release(zero);
  tutti_strategy_release(strategy);
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
