/* A strategy on GPUs by the C interface, with a fake driver that has two: variables lie there, and
 * replicas reduce there. Ends with the number of what is wrong. */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

static int wrong;

static void CheckAt(int line, int right, const char *what) {
  if (right) return;
  ++wrong;
  fprintf(stderr, "line %d: %s\n", line, what);
}
#define CHECK(condition) CheckAt(__LINE__, condition, #condition)

static void OkAt(int line, tutti_status *status) {
  CheckAt(line, status == NULL, status == NULL ? "" : tutti_status_get_message(status));
  tutti_status_release(status);
}
#define OK(call) OkAt(__LINE__, call)

/* Adds its copy of the variable to all copies, and gives the sum of what it has read. */
static tutti_status *Step(tutti_context *context, const tutti_value *in, tutti_value **out,
                          void *user_data) {
  (void)in;
  tutti_tensor *own = NULL;
  tutti_value *value = NULL;
  tutti_variable *const variable = user_data;
  tutti_status *status = tutti_variable_read(variable, context, NULL, &own);
  if (status == NULL) status = tutti_variable_assign_add(variable, context, own, NULL);
  if (status == NULL) status = tutti_value_create_tensor(own, &value);
  if (status == NULL) {
    status = tutti_context_all_reduce(context, TUTTI_REDUCE_SUM, value, NULL, out);
  }
  tutti_value_release(value);
  tutti_tensor_release(own);
  return status;
}

int main(void) {
  const float numbers[] = {1, 2};
  const int64_t dims[] = {2};
  tutti_strategy *strategy = NULL;
  OK(tutti_strategy_create_mirrored(NULL, 0, NULL, NULL, NULL, &strategy));
  CHECK(tutti_strategy_get_num_replicas_in_sync(strategy) == 2);
  tutti_tensor *initial = NULL;
  OK(tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_FLOAT32, 1, dims, numbers, sizeof(numbers),
                                   &initial));
  tutti_variable_options options = TUTTI_VARIABLE_OPTIONS_INIT;
  options.aggregation = TUTTI_AGGREGATION_SUM;
  tutti_variable *variable = NULL;
  OK(tutti_variable_create(strategy, initial, &options, NULL, &variable));
  CHECK(strstr(tutti_variable_get_copy_device(variable, 1), "GPU:1") != NULL);
  CHECK(tutti_tensor_get_cuda_device(tutti_variable_get_copy(variable, 1)) == 1);

  tutti_value *sums = NULL;
  OK(tutti_strategy_run(strategy, Step, variable, NULL, NULL, &sums));
  tutti_value *total = NULL;
  OK(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, sums, NULL, NULL, &total));
  const tutti_tensor *on_host = tutti_value_get_leaf_tensor(total, 0);
  CHECK(tutti_tensor_get_cuda_device(on_host) == -1);
  const float *found = tutti_tensor_get_data(on_host);
  CHECK(found != NULL && found[0] == 4 && found[1] == 8);

  tutti_tensor *now = NULL;
  tutti_tensor *copy = NULL;
  OK(tutti_variable_read(variable, NULL, NULL, &now));
  CHECK(tutti_tensor_get_cuda_device(now) == 0);
  OK(tutti_tensor_copy_to(NULL, now, "CPU:0", NULL, NULL, &copy));
  found = tutti_tensor_get_data(copy);
  CHECK(found != NULL && found[0] == 3 && found[1] == 6);

  const char *names[] = {"GPU:0", "GPU:9"};
  tutti_strategy *none = NULL;
  tutti_status *refused = tutti_strategy_create_mirrored(NULL, 2, names, NULL, NULL, &none);
  CHECK(tutti_status_get_code(refused) == TUTTI_INVALID_ARGUMENT);
  CHECK(strstr(tutti_status_get_message(refused), "no GPU:9; it has CPU:0 to CPU:1023") != NULL);
  tutti_status_release(refused);

  tutti_tensor_release(copy);
  tutti_tensor_release(now);
  tutti_value_release(total);
  tutti_value_release(sums);
  tutti_variable_release(variable);
  tutti_tensor_release(initial);
  OK(tutti_strategy_close(strategy, NULL));
  tutti_strategy_release(strategy);
  return wrong;
}
