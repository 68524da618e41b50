/* Trains a two-layer perceptron on handwritten digits, on the replicas of one or several workers.
 *
 *   train_digits [--replicas N | --devices NAMES] [--epochs E] [--batch B] [--seed S] [--data DIR]
 *                [--checkpoints DIR] [--save-every STEPS]
 *   tutti run --workers 2 --replicas 2 -- train_digits ...
 *
 * Each replica computes the gradient of its part of a batch, scaled by one over the rows of the
 * whole batch; all_reduce adds the gradients, so that every replica takes the same step. At the end
 * the accuracy on the held-out fifth is printed, and the SHA-256 of each replica's weights: the
 * program fails when the accuracy is under 95 % or two replicas' weights differ in a bit.
 *
 * With --devices GPU:0,GPU:1 weights and velocities lie on GPUs, and gradients are added up there;
 * this program computes on copies in the host's memory.
 *
 * With --checkpoints, weights and place in the data are saved every few steps, and a program that
 * is started again goes on from there, to the same losses. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#include "digits.h"
#include "perceptron.h"
#include "progress.h"

static const double kLearningRate = 0.1;
static const double kMomentum = 0.9;
static const double kLowestAccuracy = 95.0;

typedef struct arguments {
  int64_t replicas;    /* of this worker; 0: as TUTTI_REPLICAS says */
  const char *devices; /* of this worker's replicas, "GPU:0,GPU:1"; NULL: CPUs */
  int64_t epochs, batch, seed, save_every;
  const char *data;        /* NULL: looked for in the tree */
  const char *checkpoints; /* NULL: none */
} arguments;

/* What the replica functions share: the weights have one copy per replica, kept equal; each replica
 * has a velocity of its own, which comes out equal because the gradients do. */
typedef struct model {
  tutti_strategy *strategy;
  tutti_variable *weights;
  tutti_variable *velocity;
} model;

static void check(tutti_status *status, const char *what) {
  if (status == NULL) return;
  fprintf(stderr, "train_digits: %s: %s: %s\n", what,
          tutti_code_get_name(tutti_status_get_code(status)), tutti_status_get_message(status));
  tutti_status_release(status);
  /* A worker that leaves without a goodbye counts as dead. */
  tutti_call_options limit = TUTTI_CALL_OPTIONS_INIT;
  limit.timeout = 5000000000;
  tutti_status_release(tutti_runtime_shutdown(NULL, &limit));
  exit(1);
}

/* ---- one replica's part of a step ---- */

/* Scores a replica's batch with its weights. With `gradient` this is the forward and backward pass.
 */
static tutti_status *score_batch(tutti_context *replica, const tutti_value *batch,
                                 const model *model, double *gradient, tutti_value **out) {
  const tutti_tensor *live = NULL;
  tutti_tensor *images = NULL, *labels = NULL, *weights = NULL;
  perceptron_score score = {0.0, 0};
  int64_t rows = 0;
  tutti_status *status = digits_check(batch, &images, &labels);
  if (!status) status = tutti_variable_get_data(model->weights, replica, &live);
  if (!status) status = digits_on_host(live, &weights);
  if (!status) {
    rows = tutti_tensor_get_element_count(labels);
    const double scale = 1.0 / (double)tutti_context_get_global_rows(replica);
    score = perceptron_run(tutti_tensor_get_data(weights), rows, tutti_tensor_get_data(images),
                           tutti_tensor_get_data(labels), scale, gradient);
  }
  tutti_tensor_release(weights);
  tutti_tensor_release(labels);
  tutti_tensor_release(images);
  if (status) return status;

  const char *keys[] = {"loss", "correct", "rows"};
  tutti_value *parts[3] = {NULL, NULL, NULL};
  status = tutti_value_create_float64(score.loss, &parts[0]);
  if (!status) status = tutti_value_create_int64(score.correct, &parts[1]);
  if (!status) status = tutti_value_create_int64(rows, &parts[2]);
  if (!status) status = tutti_value_create_dict(3, keys, (const tutti_value *const *)parts, out);
  for (int i = 0; i < 3; ++i) tutti_value_release(parts[i]);
  return status;
}

static tutti_status *evaluate_step(tutti_context *replica, const tutti_value *batch,
                                   tutti_value **out, void *user_data) {
  return score_batch(replica, batch, user_data, NULL, out);
}

/* velocity = momentum * velocity + learning rate * gradient; weights -= velocity. */
static tutti_status *descend(tutti_context *replica, const model *model,
                             const tutti_tensor *gradient) {
  const int64_t dims[] = {PERCEPTRON_PARAMETERS};
  const tutti_tensor *live = NULL;
  tutti_tensor *velocity = NULL, *total = NULL, *update = NULL;
  void *data = NULL;
  tutti_status *status = tutti_variable_get_data(model->velocity, replica, &live);
  if (!status) status = digits_on_host(live, &velocity);
  if (!status) status = digits_on_host(gradient, &total);
  if (!status) status = tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT64, 1, dims, NULL, &update);
  if (!status) status = tutti_tensor_get_mutable_data(update, &data);
  if (!status) {
    const double *old = tutti_tensor_get_data(velocity), *sum = tutti_tensor_get_data(total);
    double *fresh = data;
    for (int i = 0; i < PERCEPTRON_PARAMETERS; ++i) {
      fresh[i] = kMomentum * old[i] + kLearningRate * sum[i];
    }
    status = tutti_variable_assign(model->velocity, replica, update, NULL);
  }
  if (!status) status = tutti_variable_assign_sub(model->weights, replica, update, NULL);
  tutti_tensor_release(update);
  tutti_tensor_release(total);
  tutti_tensor_release(velocity);
  return status;
}

/* Puts a copy of the gradient on the replica's GPU, where it has one, in its place. */
static tutti_status *move_to_gpu(const tutti_context *replica, tutti_tensor **gradient) {
  const char *device = tutti_context_get_device(replica);
  if (strncmp(device, "GPU", 3) != 0) return NULL;
  tutti_tensor *there = NULL;
  tutti_status *status = tutti_tensor_copy_to(NULL, *gradient, device, NULL, NULL, &there);
  if (status) return status;
  tutti_tensor_release(*gradient);
  *gradient = there;
  return NULL;
}

static tutti_status *train_step(tutti_context *replica, const tutti_value *batch, tutti_value **out,
                                void *user_data) {
  const model *model = user_data;
  const int64_t dims[] = {PERCEPTRON_PARAMETERS};
  tutti_tensor *gradient = NULL;
  tutti_value *mine = NULL, *sum = NULL;
  void *data = NULL;
  tutti_status *status = tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT64, 1, dims, NULL, &gradient);
  if (!status) status = tutti_tensor_get_mutable_data(gradient, &data);
  if (!status) status = score_batch(replica, batch, model, data, out);
  if (!status) status = move_to_gpu(replica, &gradient);
  if (!status) status = tutti_value_create_tensor(gradient, &mine);
  if (!status) status = tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, mine, NULL, &sum);
  if (!status) status = descend(replica, model, tutti_value_get_leaf_tensor(sum, 0));
  tutti_value_release(sum);
  tutti_value_release(mine);
  tutti_tensor_release(gradient);
  return status;
}

/* ---- an epoch over all replicas ---- */

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const void *number(const tutti_value *value, const char *key) {
  const tutti_tensor *tensor = NULL;
  check(tutti_value_find_tensor(value, key, &tensor), "reading a sum");
  return tutti_tensor_get_data(tensor);
}

/* Runs `step` on the next batch and adds what the replicas of all workers give to `sum`; 0 at the
 * end of the data. */
static int take_step(const model *model, tutti_fn step, tutti_distributed_iterator *batches,
                     totals *sum) {
  tutti_value *batch = NULL, *scores = NULL, *score = NULL;
  check(tutti_distributed_iterator_next(batches, NULL, &batch), "reading a batch");
  if (batch == NULL) return 0;
  check(tutti_strategy_run(model->strategy, step, (void *)model, batch, NULL, &scores),
        "running a step");
  check(tutti_strategy_reduce(model->strategy, TUTTI_REDUCE_SUM, scores, NULL, NULL, &score),
        "adding up the replicas");
  sum->loss += *(const double *)number(score, "loss");
  sum->correct += *(const int64_t *)number(score, "correct");
  sum->rows += *(const int64_t *)number(score, "rows");
  tutti_value_release(score);
  tutti_value_release(scores);
  tutti_value_release(batch);
  return 1;
}

/* One walk over the training part, in an order of its own: the epoch is part of the seed. */
static void train_epoch(const model *model, const arguments *arguments, progress *progress) {
  tutti_distributed_dataset *digits = NULL;
  tutti_distributed_iterator *batches = NULL;
  check(digits_open(model->strategy, arguments->data, DIGITS_TRAINING, arguments->batch,
                    arguments->seed + progress->epoch, &digits),
        "opening the digits");
  check(tutti_distributed_iterator_create(digits, NULL, &batches), "starting an epoch");
  saver *saver = NULL;
  if (arguments->checkpoints) {
    check(saver_create(model->strategy, arguments->checkpoints, progress, model->weights,
                       model->velocity, batches, &saver),
          "preparing the checkpoints");
  }
  while (take_step(model, train_step, batches, &progress->sum)) {
    ++progress->steps;
    if (saver && progress->steps % arguments->save_every == 0) {
      check(saver_save(saver, progress), "saving a checkpoint");
    }
  }
  saver_release(saver);
  tutti_distributed_iterator_release(batches);
  tutti_distributed_dataset_release(digits);
}

static void train(const model *model, const arguments *arguments) {
  const int talks = tutti_strategy_get_worker(model->strategy) == 0;
  progress progress = {1, 0, {0.0, 0, 0}};
  if (arguments->checkpoints) {
    check(saver_find(model->strategy, arguments->checkpoints, &progress), "reading a checkpoint");
    if (talks && progress.steps > 0) {
      printf("going on after step %lld, in epoch %lld\n", (long long)progress.steps,
             (long long)progress.epoch);
    }
  }
  for (; progress.epoch <= arguments->epochs; ++progress.epoch) {
    const double start = seconds();
    const int64_t rows_before = progress.sum.rows;
    train_epoch(model, arguments, &progress);
    const totals sum = progress.sum;
    const double elapsed = seconds() - start, loss = sum.loss / (double)sum.rows;
    if (talks) {
      printf("epoch %2lld/%lld: loss %.10f, accuracy %5.2f %%, %.0f examples/s\n",
             (long long)progress.epoch, (long long)arguments->epochs, loss,
             100.0 * (double)sum.correct / (double)sum.rows,
             (double)(sum.rows - rows_before) / elapsed);
      fflush(stdout);
    }
    if (!isfinite(loss)) {
      fprintf(stderr, "train_digits: the loss is not finite\n");
      exit(1);
    }
    progress.sum = (totals){0.0, 0, 0};
  }
}

/* The accuracy on the held-out part, in percent. */
static double evaluate(const model *model, const arguments *arguments) {
  tutti_distributed_dataset *digits = NULL;
  tutti_distributed_iterator *batches = NULL;
  totals sum = {0.0, 0, 0};
  check(digits_open(model->strategy, arguments->data, DIGITS_HELD_OUT, arguments->batch, 0,
                    &digits),
        "opening the digits");
  check(tutti_distributed_iterator_create(digits, NULL, &batches), "starting the evaluation");
  while (take_step(model, evaluate_step, batches, &sum)) {
  }
  tutti_distributed_iterator_release(batches);
  tutti_distributed_dataset_release(digits);
  return sum.rows ? 100.0 * (double)sum.correct / (double)sum.rows : 0.0;
}

/* ---- making and judging the model ---- */

static tutti_variable *create_row(tutti_strategy *strategy, const char *name, const double *values,
                                  const tutti_variable_options *how) {
  const int64_t dims[] = {PERCEPTRON_PARAMETERS};
  tutti_variable_options options = *how;
  tutti_tensor *initial = NULL;
  tutti_variable *variable = NULL;
  options.name = name;
  check(tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_FLOAT64, 1, dims, values,
                                      PERCEPTRON_PARAMETERS * sizeof(double), &initial),
        name);
  check(tutti_variable_create(strategy, initial, &options, NULL, &variable), name);
  tutti_tensor_release(initial);
  return variable;
}

static tutti_strategy *create_strategy(const arguments *arguments) {
  size_t replicas = (size_t)arguments->replicas;
  if (arguments->devices) {
    replicas = 1;
    for (const char *at = arguments->devices; *at; ++at) replicas += *at == ',';
  }
  char(*names)[16] = calloc(replicas + 1, sizeof(*names));
  const char **devices = calloc(replicas + 1, sizeof(*devices));
  char *given = strdup(arguments->devices ? arguments->devices : "");
  if (names == NULL || devices == NULL || given == NULL) abort();
  char *rest = given;
  for (size_t i = 0; i < replicas; ++i) {
    snprintf(names[i], sizeof(names[i]), "CPU:%d", (int)i);
    devices[i] = arguments->devices ? strsep(&rest, ",") : names[i];
  }
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.device_count = replicas;
  options.devices = devices;
  tutti_strategy *strategy = NULL;
  check(tutti_strategy_create_multi_worker_mirrored(NULL, &options, NULL, &strategy),
        "creating the strategy");
  free(given);
  free(devices);
  free(names);
  return strategy;
}

static model create_model(const arguments *arguments) {
  model model = {create_strategy(arguments), NULL, NULL};

  double weights[PERCEPTRON_PARAMETERS], zeros[PERCEPTRON_PARAMETERS] = {0.0};
  perceptron_init((uint64_t)arguments->seed, weights);
  tutti_variable_options equal = TUTTI_VARIABLE_OPTIONS_INIT;
  equal.aggregation = TUTTI_AGGREGATION_ONLY_FIRST_REPLICA; /* all replicas bring the same update */
  model.weights = create_row(model.strategy, "weights", weights, &equal);
  tutti_variable_options own = TUTTI_VARIABLE_OPTIONS_INIT;
  own.synchronization = TUTTI_SYNCHRONIZATION_ON_READ;
  own.aggregation = TUTTI_AGGREGATION_MEAN;
  model.velocity = create_row(model.strategy, "velocity", zeros, &own);
  return model;
}

/* Prints the hash of the weights of each of this worker's replicas; 1 when those of all workers are
 * equal. */
static int print_hashes(const model *model) {
  enum { BYTES = SHA256_DIGEST_LENGTH };
  const int64_t dims[] = {1, BYTES};
  const size_t count = tutti_variable_get_copy_count(model->weights);
  const tutti_value **parts = calloc(count, sizeof(*parts));
  if (parts == NULL) abort();
  for (size_t replica = 0; replica < count; ++replica) {
    tutti_tensor *copy = NULL;
    unsigned char hash[BYTES];
    check(digits_on_host(tutti_variable_get_copy(model->weights, replica), &copy),
          "reading the weights");
    SHA256(tutti_tensor_get_data(copy), tutti_tensor_get_byte_size(copy), hash);
    tutti_tensor_release(copy);
    printf("worker %lld replica %zu weights sha256: ",
           (long long)tutti_strategy_get_worker(model->strategy), replica);
    for (size_t i = 0; i < BYTES; ++i) printf("%02x", hash[i]);
    printf("\n");

    tutti_tensor *tensor = NULL;
    tutti_value *part = NULL;
    check(tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_UINT8, 2, dims, hash, BYTES, &tensor),
          "keeping a hash");
    check(tutti_value_create_tensor(tensor, &part), "keeping a hash");
    tutti_tensor_release(tensor);
    parts[replica] = part;
  }
  fflush(stdout);

  tutti_value *mine = NULL, *all = NULL;
  check(tutti_strategy_create_per_replica(model->strategy, count, parts, &mine),
        "comparing the hashes");
  check(tutti_strategy_gather(model->strategy, mine, 0, NULL, &all), "comparing the hashes");
  const tutti_tensor *hashes = tutti_value_get_leaf_tensor(all, 0);
  const unsigned char *bytes = tutti_tensor_get_data(hashes);
  int equal = 1;
  for (int64_t i = BYTES; i < tutti_tensor_get_element_count(hashes); ++i) {
    equal = equal && bytes[i] == bytes[i % BYTES];
  }
  tutti_value_release(all);
  tutti_value_release(mine);
  for (size_t replica = 0; replica < count; ++replica) {
    tutti_value_release((tutti_value *)parts[replica]);
  }
  free(parts);
  return equal;
}

static int64_t parse_number(const char *option, const char *text, int64_t least, int64_t most) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && value >= least && value <= most) return value;
  fprintf(stderr, "train_digits: --%s %s: expected a whole number from %lld to %lld\n", option,
          text, (long long)least, (long long)most);
  exit(2);
}

static arguments parse_arguments(int argc, char **argv) {
  static const struct option options[] = {{"replicas", required_argument, NULL, 'r'},
                                          {"devices", required_argument, NULL, 'D'},
                                          {"epochs", required_argument, NULL, 'e'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"data", required_argument, NULL, 'd'},
                                          {"checkpoints", required_argument, NULL, 'c'},
                                          {"save-every", required_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  arguments read = {0, NULL, 20, 16, 1, 25, NULL, NULL};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (option) {
      case 'r':
        read.replicas = parse_number("replicas", optarg, 1, 1024);
        break;
      case 'D':
        read.devices = optarg;
        break;
      case 'e':
        read.epochs = parse_number("epochs", optarg, 1, 1000000);
        break;
      case 'b':
        read.batch = parse_number("batch", optarg, 1, 1000000);
        break;
      case 's':
        read.seed = parse_number("seed", optarg, 0, INT64_MAX);
        break;
      case 'd':
        read.data = optarg;
        break;
      case 'c':
        read.checkpoints = optarg;
        break;
      case 'v':
        read.save_every = parse_number("save-every", optarg, 1, 1000000);
        break;
      default:
        fprintf(option == 'h' ? stdout : stderr,
                "usage: train_digits [--replicas N | --devices NAMES] [--epochs E] [--batch B] "
                "[--seed S]\n                    [--data DIR] [--checkpoints DIR] "
                "[--save-every STEPS]\n");
        exit(option == 'h' ? 0 : 2);
    }
  }
  if (optind == argc) return read;
  fprintf(stderr, "train_digits: unexpected argument '%s'; see --help\n", argv[optind]);
  exit(2);
}

static void print_devices(const char *names) {
  printf("replicas on ");
  for (; *names; ++names) printf(*names == ',' ? ", " : "%c", *names);
  printf("\n");
}

int main(int argc, char **argv) {
  const arguments arguments = parse_arguments(argc, argv);
  const model model = create_model(&arguments);
  const int talks = tutti_strategy_get_worker(model.strategy) == 0;
  if (talks && arguments.devices) print_devices(arguments.devices);
  train(&model, &arguments);
  const double accuracy = evaluate(&model, &arguments);
  if (talks) printf("held-out accuracy: %.2f %%\n", accuracy);
  const int equal = print_hashes(&model);

  tutti_variable_release(model.velocity);
  tutti_variable_release(model.weights);
  tutti_strategy_release(model.strategy);
  check(tutti_runtime_shutdown(NULL, NULL), "shutting down");
  if (!equal) fprintf(stderr, "train_digits: the weights of the replicas differ\n");
  if (accuracy < kLowestAccuracy) {
    fprintf(stderr, "train_digits: the accuracy is under %.0f %%\n", kLowestAccuracy);
  }
  return equal && accuracy >= kLowestAccuracy ? 0 : 1;
}
