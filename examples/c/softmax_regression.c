/* Softmax regression on handwritten digits: the shortest training program over several workers.
 *
 *   softmax_regression [--epochs E] [--data DIR]
 *
 * Alone or under `tutti run --workers 4 -- ...`. The same program stands in examples/python,
 * examples/java and examples/go; all four compute in float32 in the same order, so that any of them
 * gives the same weights, bit for bit, and the four can be the workers of one job
 * (`examples/run polyglot`). */
#include <errno.h>
#include <math.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { PIXELS = 64, CLASSES = 10, PARAMETERS = (PIXELS + 1) * CLASSES };
enum { BATCH = 64 }; /* rows over all replicas of all workers */
static const float kLearningRate = 0.5f;

static void check(tutti_status *status, const char *what) {
  if (status == NULL) return;
  fflush(stdout);
  fprintf(stderr, "softmax_regression: %s: %s: %s\n", what,
          tutti_code_get_name(tutti_status_get_code(status)), tutti_status_get_message(status));
  tutti_status_release(status);
  /* A worker that leaves without a goodbye counts as dead. */
  tutti_call_options limit = TUTTI_CALL_OPTIONS_INIT;
  limit.timeout = 5000000000;
  tutti_status_release(tutti_runtime_shutdown(NULL, &limit));
  exit(1);
}

/* ---- data */

/* Every record of `folder` as {"image": float32[64], "label": int64}. */
static tutti_dataset *open_examples(const char *folder) {
  static const char kFiles[] = "/digits-*.tfrecord";
  char *pattern = malloc(strlen(folder) + sizeof(kFiles));
  if (pattern == NULL) abort();
  strcat(strcpy(pattern, folder), kFiles);
  const char *patterns[] = {pattern};
  tutti_list_files_options in_order = TUTTI_LIST_FILES_OPTIONS_INIT;
  in_order.shuffle = TUTTI_FALSE;
  const int64_t pixels[] = {PIXELS};
  tutti_feature image = TUTTI_FEATURE_INIT, label = TUTTI_FEATURE_INIT;
  image.key = "image";
  image.dtype = TUTTI_DTYPE_FLOAT32;
  image.rank = 1;
  image.dims = pixels;
  label.key = "label";
  label.dtype = TUTTI_DTYPE_INT64;
  const tutti_feature *features[] = {&image, &label};

  tutti_dataset *files = NULL, *examples = NULL;
  tutti_function *parser = NULL;
  check(tutti_dataset_create_list_files(NULL, 1, patterns, &in_order, &files),
        "finding the digits");
  free(pattern);
  check(tutti_dataset_create_tf_record(NULL, files, NULL, &examples), "opening the digits");
  check(tutti_function_create_parse_example(NULL, 2, features, &parser), "opening the digits");
  check(tutti_dataset_map(&examples, parser, NULL), "opening the digits");
  /* Read and parsed once, by the first pass. */
  check(tutti_dataset_cache(&examples, NULL, NULL), "opening the digits");
  tutti_function_release(parser);
  tutti_dataset_release(files);
  return examples;
}

static tutti_dataset *fifth_of(const tutti_dataset *examples, int64_t fifth) {
  tutti_dataset *part = (tutti_dataset *)examples;
  tutti_dataset_retain(part); /* a transformation takes the reference that it is given */
  check(tutti_dataset_shard(&part, 5, fifth, NULL), "taking a fifth");
  return part;
}

/* The batches of each replica. Each of several workers reads files of its own, for datasets are
 * sharded by themselves. */
static tutti_distributed_dataset *distribute(tutti_strategy *strategy, tutti_dataset *part) {
  tutti_distributed_dataset *batches = NULL;
  check(tutti_dataset_batch(&part, BATCH, NULL), "making batches");
  check(tutti_strategy_distribute_dataset(strategy, part, NULL, NULL, &batches),
        "distributing the digits");
  tutti_dataset_release(part);
  return batches;
}

static tutti_distributed_dataset *open_training(tutti_strategy *strategy,
                                                const tutti_dataset *examples) {
  const int64_t seed = 1;
  tutti_dataset *training = fifth_of(examples, 0);
  for (int64_t i = 1; i < 4; ++i) {
    tutti_dataset *fifth = fifth_of(examples, i);
    check(tutti_dataset_concatenate(&training, fifth, NULL), "joining the fifths");
    tutti_dataset_release(fifth);
  }
  check(tutti_dataset_shuffle(&training, 2000, &seed, NULL), "shuffling");
  return distribute(strategy, training);
}

/* ---- the arithmetic */

/* Writes the chances of the classes; gives the likeliest. The last row of the weights are the
 * biases. */
static int softmax(const float *weights, const float *image, float *chances) {
  for (int j = 0; j < CLASSES; ++j) chances[j] = weights[PIXELS * CLASSES + j];
  for (int i = 0; i < PIXELS; ++i) {
    const float pixel = image[i] / 16;
    for (int j = 0; j < CLASSES; ++j) chances[j] += pixel * weights[i * CLASSES + j];
  }
  int best = 0;
  for (int j = 1; j < CLASSES; ++j) best = chances[j] > chances[best] ? j : best;
  const float largest = chances[best];
  float total = 0;
  for (int j = 0; j < CLASSES; ++j) {
    chances[j] = (float)exp(chances[j] - largest);
    total += chances[j];
  }
  for (int j = 0; j < CLASSES; ++j) chances[j] /= total;
  return best;
}

typedef struct score {
  double loss, right, rows; /* summed */
} score;

/* Adds up the scores of `rows` images, and unless `gradient` is NULL the gradient of their loss. */
static score score_rows(const float *weights, int64_t rows, const float *images,
                        const int64_t *labels, float *gradient) {
  score sum = {0, 0, (double)rows};
  for (int64_t row = 0; row < rows; ++row) {
    const float *image = images + row * PIXELS;
    const int label = (int)labels[row];
    float chances[CLASSES];
    sum.right += softmax(weights, image, chances) == label;
    sum.loss -= log(fmax(chances[label], 1e-30));
    if (gradient == NULL) continue;
    chances[label] -= 1; /* from here on gradients of the scores */
    for (int i = 0; i < PIXELS; ++i) {
      const float pixel = image[i] / 16;
      for (int j = 0; j < CLASSES; ++j) gradient[i * CLASSES + j] += pixel * chances[j];
    }
    for (int j = 0; j < CLASSES; ++j) gradient[PIXELS * CLASSES + j] += chances[j];
  }
  return sum;
}

/* ---- the steps: they run once per replica, concurrently, each time on a part of a batch */

static tutti_status *score_batch(tutti_context *replica, const tutti_value *batch,
                                 const tutti_variable *weights, float *gradient,
                                 tutti_value **out) {
  const int64_t dims[] = {3};
  const tutti_tensor *images = NULL, *labels = NULL, *values = NULL;
  tutti_tensor *numbers = NULL;
  tutti_status *status = tutti_value_find_tensor(batch, "image", &images);
  if (!status) status = tutti_value_find_tensor(batch, "label", &labels);
  if (!status) status = tutti_variable_get_data(weights, replica, &values);
  if (status) return status;
  const int64_t rows = tutti_tensor_get_element_count(labels);
  const int64_t *digits = tutti_tensor_get_data(labels);
  for (int64_t row = 0; row < rows; ++row) {
    if (digits[row] < 0 || digits[row] >= CLASSES) {
      return tutti_status_create(TUTTI_INVALID_ARGUMENT, "a label is no digit");
    }
  }
  const score sum = score_rows(tutti_tensor_get_data(values), rows, tutti_tensor_get_data(images),
                               digits, gradient);
  status = tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_FLOAT64, 1, dims, &sum, sizeof(sum),
                                         &numbers);
  if (!status) status = tutti_value_create_tensor(numbers, out);
  tutti_tensor_release(numbers);
  return status;
}

static tutti_status *evaluate_step(tutti_context *replica, const tutti_value *batch,
                                   tutti_value **out, void *weights) {
  return score_batch(replica, batch, weights, NULL, out);
}

static tutti_status *train_step(tutti_context *replica, const tutti_value *batch, tutti_value **out,
                                void *weights) {
  const int64_t dims[] = {PIXELS + 1, CLASSES};
  float gradient[PARAMETERS] = {0};
  tutti_status *status = score_batch(replica, batch, weights, gradient, out);
  if (status) return status;
  const float rows = (float)tutti_context_get_global_rows(replica); /* of the whole batch */
  for (int i = 0; i < PARAMETERS; ++i) gradient[i] *= kLearningRate / rows;
  tutti_tensor *update = NULL;
  status = tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, gradient,
                                         sizeof(gradient), &update);
  /* The variable sums what the replicas of all workers assign. */
  if (!status) status = tutti_variable_assign_sub(weights, replica, update, NULL);
  tutti_tensor_release(update);
  return status;
}

/* One walk over the data: the sum of what the replicas of all workers gave. */
static score walk(tutti_strategy *strategy, tutti_fn step, tutti_variable *weights,
                  tutti_distributed_dataset *data) {
  score sum = {0, 0, 0};
  tutti_distributed_iterator *batches = NULL;
  check(tutti_distributed_iterator_create(data, NULL, &batches), "starting a walk");
  for (tutti_value *batch = NULL;; tutti_value_release(batch)) {
    tutti_value *scores = NULL, *total = NULL;
    check(tutti_distributed_iterator_next(batches, NULL, &batch), "reading a batch");
    if (batch == NULL) break;
    check(tutti_strategy_run(strategy, step, weights, batch, NULL, &scores), "running a step");
    check(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, scores, NULL, NULL, &total),
          "adding up the scores");
    const double *numbers = tutti_tensor_get_data(tutti_value_get_leaf_tensor(total, 0));
    sum.loss += numbers[0];
    sum.right += numbers[1];
    sum.rows += numbers[2];
    tutti_value_release(total);
    tutti_value_release(scores);
  }
  tutti_distributed_iterator_release(batches);
  return sum;
}

/* ---- the program */

static tutti_variable *create_weights(tutti_strategy *strategy) {
  const int64_t dims[] = {PIXELS + 1, CLASSES};
  tutti_variable_options summed = TUTTI_VARIABLE_OPTIONS_INIT;
  summed.name = "weights";
  summed.aggregation = TUTTI_AGGREGATION_SUM;
  tutti_tensor *zeros = NULL;
  tutti_variable *weights = NULL;
  check(tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 2, dims, NULL, &zeros), "making weights");
  check(tutti_variable_create(strategy, zeros, &summed, NULL, &weights), "making weights");
  tutti_tensor_release(zeros);
  return weights;
}

static void print_hash(int64_t worker, const tutti_variable *weights) {
  const tutti_tensor *copy = tutti_variable_get_copy(weights, 0);
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(tutti_tensor_get_data(copy), tutti_tensor_get_byte_size(copy), hash);
  printf("worker %lld (C): weights sha256 ", (long long)worker);
  for (size_t i = 0; i < sizeof(hash); ++i) printf("%02x", hash[i]);
  printf("\n");
}

static void train(long epochs, const char *folder) {
  tutti_strategy *strategy = NULL;
  check(tutti_strategy_create_multi_worker_mirrored(NULL, NULL, NULL, &strategy), /* by TF_CONFIG */
        "joining the workers");
  tutti_variable *weights = create_weights(strategy);
  tutti_dataset *examples = open_examples(folder);
  tutti_distributed_dataset *training = open_training(strategy, examples);
  tutti_distributed_dataset *held_out = distribute(strategy, fifth_of(examples, 4));

  for (long epoch = 1; epoch <= epochs; ++epoch) {
    const score sum = walk(strategy, train_step, weights, training);
    printf("epoch %ld: loss %.6f\n", epoch, sum.loss / sum.rows);
    fflush(stdout);
  }
  const score sum = walk(strategy, evaluate_step, weights, held_out);
  printf("held-out accuracy: %.2f %%\n", 100 * sum.right / sum.rows);
  print_hash(tutti_strategy_get_worker(strategy), weights);

  tutti_distributed_dataset_release(held_out);
  tutti_distributed_dataset_release(training);
  tutti_dataset_release(examples);
  tutti_variable_release(weights);
  tutti_strategy_release(strategy);
  check(tutti_runtime_shutdown(NULL, NULL), "shutting down");
}

int main(int argc, char **argv) {
  long epochs = 20;
  const char *folder = "examples/data";
  for (int i = 1; i < argc; i += 2) {
    char *end = NULL;
    if (i + 1 < argc && strcmp(argv[i], "--data") == 0) {
      folder = argv[i + 1];
    } else if (i + 1 < argc && strcmp(argv[i], "--epochs") == 0) {
      errno = 0;
      epochs = strtol(argv[i + 1], &end, 10);
      if (errno == 0 && end != argv[i + 1] && *end == '\0' && epochs >= 1) continue;
      fprintf(stderr, "softmax_regression: --epochs %s: expected a whole number, 1 or more\n",
              argv[i + 1]);
      return 2;
    } else {
      fprintf(stderr, "usage: softmax_regression [--epochs E] [--data DIR]\n");
      return 2;
    }
  }
  train(epochs, folder);
  return 0;
}
