/* A pipeline that runs without a callback: the pairs y < x of 0 .. 99 whose sum is a square, in
 * batches, and how many there are.
 *
 *   expressions
 *
 * The same program stands in examples/java and examples/go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

static void check(tutti_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "expressions: %s\n", tutti_status_get_message(status));
  tutti_status_release(status);
  exit(1);
}

static int64_t operation(tutti_expression *trace, const char *name, size_t count,
                         const int64_t *nodes, tutti_dtype dtype) {
  tutti_operation_options options = TUTTI_OPERATION_OPTIONS_INIT;
  options.dtype = dtype;
  int64_t node = -1;
  check(tutti_expression_add_operation(trace, name, count, nodes, &options, &node));
  return node;
}

static int64_t two(tutti_expression *trace, const char *name, int64_t a, int64_t b) {
  return operation(trace, name, 2, (const int64_t[]){a, b}, 0);
}

static int64_t one(tutti_expression *trace, const char *name, int64_t a, tutti_dtype dtype) {
  return operation(trace, name, 1, &a, dtype);
}

/* A number that takes the dtype of what it meets. */
static int64_t number(tutti_expression *trace, int64_t value) {
  tutti_tensor *tensor = NULL;
  int64_t node = -1;
  check(tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_INT64, 0, NULL, &value, sizeof(value),
                                      &tensor));
  check(tutti_expression_add_constant(trace, tensor, TUTTI_TRUE, &node));
  tutti_tensor_release(tensor);
  return node;
}

static tutti_value *result(size_t count, const int64_t *nodes) {
  tutti_value *parts[3] = {NULL}, *tuple = NULL;
  for (size_t i = 0; i < count; ++i) check(tutti_value_create_int64(nodes[i], &parts[i]));
  check(tutti_value_create_tuple(count, (const tutti_value *const *)parts, &tuple));
  for (size_t i = 0; i < count; ++i) tutti_value_release(parts[i]);
  return tuple;
}

/* Whether x + y, the components of an element, is a square. */
static tutti_function *sum_is_square(const tutti_dataset *pairs) {
  tutti_spec *spec = NULL;
  tutti_expression *trace = NULL;
  tutti_function *function = NULL;
  tutti_value *node = NULL;
  int64_t x = -1, y = -1;
  check(tutti_dataset_element_spec(pairs, NULL, &spec));
  check(tutti_expression_create(spec, &trace));
  check(tutti_expression_add_parameter(trace, 0, &x));
  check(tutti_expression_add_parameter(trace, 1, &y));
  const int64_t sum = two(trace, "add", x, y);
  const int64_t root =
      one(trace, "rint", one(trace, "sqrt", one(trace, "cast", sum, TUTTI_DTYPE_FLOAT64), 0), 0);
  const int64_t whole = one(trace, "cast", root, TUTTI_DTYPE_INT64);
  check(tutti_value_create_int64(two(trace, "equal", two(trace, "multiply", whole, whole), sum),
                                 &node));
  check(tutti_expression_create_function(trace, node, &function));
  tutti_value_release(node);
  tutti_expression_release(trace);
  tutti_spec_release(spec);
  return function;
}

/* From x to the pairs (x, y) of all y below it. */
static tutti_function *below(const tutti_dataset *numbers) {
  tutti_spec *spec = NULL;
  tutti_expression *outer = NULL, *inner = NULL;
  tutti_function *pair = NULL, *function = NULL;
  tutti_dataset *range = NULL;
  int64_t x = -1, y = -1, captured = -1;
  check(tutti_dataset_element_spec(numbers, NULL, &spec));
  check(tutti_expression_create(spec, &outer));
  check(tutti_expression_add_parameter(outer, 0, &x));
  tutti_value *bounds = result(3, (const int64_t[]){number(outer, 0), x, number(outer, 1)});
  check(tutti_expression_add_dataset(outer, NULL, "range", NULL, bounds, &range));
  check(tutti_expression_create(spec, &inner));
  check(tutti_expression_add_parameter(inner, 0, &y));
  check(tutti_expression_capture(inner, outer, x, &captured));
  tutti_value *both = result(2, (const int64_t[]){captured, y});
  check(tutti_expression_create_function(inner, both, &pair));
  check(tutti_dataset_map(&range, pair, NULL));
  check(tutti_expression_create_dataset_function(outer, range, &function));
  tutti_value_release(both);
  tutti_value_release(bounds);
  tutti_function_release(pair);
  tutti_dataset_release(range);
  tutti_expression_release(inner);
  tutti_expression_release(outer);
  tutti_spec_release(spec);
  return function;
}

int main(void) {
  tutti_dataset *pairs = NULL;
  check(tutti_dataset_create_range(NULL, 0, 100, 1, NULL, &pairs));
  tutti_function *gives = below(pairs);
  check(tutti_dataset_flat_map(&pairs, gives, NULL));
  tutti_function *square = sum_is_square(pairs);
  check(tutti_dataset_filter(&pairs, square, NULL));
  check(tutti_dataset_batch(&pairs, 128, NULL));

  tutti_iterator *iterator = NULL;
  check(tutti_iterator_create(pairs, NULL, NULL, &iterator));
  int64_t count = 0;
  while (1) {
    tutti_value *batch = NULL;
    check(tutti_iterator_next(iterator, NULL, &batch));
    if (batch == NULL) break;
    count += tutti_tensor_get_dims(tutti_value_get_leaf_tensor(batch, 0))[0];
    tutti_value_release(batch);
  }
  printf("%lld pairs\n", (long long)count);
  tutti_iterator_release(iterator);
  tutti_function_release(square);
  tutti_function_release(gives);
  tutti_dataset_release(pairs);
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
