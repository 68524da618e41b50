/* Forks while the runtime runs. In the child every call but release fails with a message that says
 * why; releasing works, and the child ends promptly. The parent goes on undisturbed. */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/expect.h"

static tutti_status *nothing(tutti_context *context, const tutti_value *in, tutti_value **out,
                             void *user_data) {
  (void)context;
  (void)in;
  (void)user_data;
  return tutti_value_create_none(out);
}

typedef struct things {
  tutti_strategy *strategy;
  tutti_dataset *numbers;
  tutti_iterator *iterator;
  tutti_value *value;
} things;

static void in_the_child(things *things) {
  tutti_tensor *tensor = NULL;
  tutti_value *value = NULL;
  const char *forked = "forked";
  EXPECT(!tutti_runtime_is_running(NULL));
  EXPECT_ERROR(tutti_tensor_create(NULL, TUTTI_DTYPE_INT8, 0, NULL, NULL, &tensor),
               TUTTI_FAILED_PRECONDITION, forked);
  EXPECT_ERROR(tutti_iterator_next(things->iterator, NULL, &value), TUTTI_FAILED_PRECONDITION,
               forked);
  EXPECT_ERROR(tutti_strategy_run(things->strategy, nothing, NULL, NULL, NULL, &value),
               TUTTI_FAILED_PRECONDITION, forked);
  EXPECT_ERROR(tutti_runtime_shutdown(NULL, NULL), TUTTI_FAILED_PRECONDITION, forked);
  EXPECT(tensor == NULL && value == NULL);
  tutti_value_release(things->value);
  tutti_iterator_release(things->iterator);
  tutti_dataset_release(things->numbers);
  tutti_strategy_release(things->strategy);
}

int main(void) {
  const char *devices[] = {"CPU:0", "CPU:1"};
  things things = {NULL, NULL, NULL, NULL};
  tutti_value *none = NULL, *next = NULL;
  EXPECT_OK(tutti_strategy_create_mirrored(NULL, 2, devices, NULL, NULL, &things.strategy));
  EXPECT_OK(tutti_strategy_run(things.strategy, nothing, NULL, NULL, NULL, &none));
  EXPECT_OK(tutti_dataset_create_range(NULL, 0, 10, 1, NULL, &things.numbers));
  EXPECT_OK(tutti_dataset_prefetch(&things.numbers, 2, NULL));
  EXPECT_OK(tutti_iterator_create(things.numbers, NULL, NULL, &things.iterator));
  EXPECT_OK(tutti_iterator_next(things.iterator, NULL, &things.value));

  fflush(NULL);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    in_the_child(&things);
    exit(0);
  }
  int how = 0;
  EXPECT(waitpid(child, &how, 0) == child);
  EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 0);

  EXPECT_OK(tutti_iterator_next(things.iterator, NULL, &next));
  EXPECT(*(const int64_t *)tutti_tensor_get_data(tutti_value_get_leaf_tensor(next, 0)) == 1);
  tutti_value_release(next);
  tutti_value_release(none);
  tutti_value_release(things.value);
  tutti_iterator_release(things.iterator);
  tutti_dataset_release(things.numbers);
  tutti_strategy_release(things.strategy);
  EXPECT_OK(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
