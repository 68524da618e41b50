#include "digits.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kHoldOutOf = 5, kHoldOut = 4 }; /* see examples/data/README.md */

/* Writes the folder of the data to `folder`: the nearest examples/data above the working directory,
 * else the one that this program was built beside. */
static void find_folder(char *folder, size_t size) {
  struct stat found;
  char above[PATH_MAX];
  if (getcwd(above, sizeof(above)) != NULL) {
    for (;;) {
      char *end = strrchr(above, '/');
      char shard[PATH_MAX + 64];
      const char *below = "/examples/data/digits-00000-of-00008.tfrecord";
      if (snprintf(shard, sizeof(shard), "%s%s", above, below) < (int)sizeof(shard) &&
          stat(shard, &found) == 0 &&
          snprintf(folder, size, "%s/examples/data", above) < (int)size) {
        return;
      }
      if (end == NULL) break;
      *end = '\0';
    }
  }
  snprintf(folder, size, "%s", DIGITS_BUILT_BESIDE);
}

/* ---- the hold-out, on pairs (number of the record, record) ---- */

static tutti_status *is_in_part(tutti_context *context, const tutti_value *pair, tutti_value **out,
                                void *user_data) {
  (void)context;
  const digits_part part = (digits_part)(intptr_t)user_data;
  const int64_t *number = tutti_tensor_get_data(tutti_value_get_leaf_tensor(pair, 0));
  const unsigned char held_out = *number % kHoldOutOf == kHoldOut;
  const unsigned char wanted = held_out == (part == DIGITS_HELD_OUT);
  tutti_tensor *tensor = NULL;
  tutti_status *status = tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_BOOL, 0, NULL, &wanted,
                                                       sizeof(wanted), &tensor);
  if (!status) status = tutti_value_create_tensor(tensor, out);
  tutti_tensor_release(tensor);
  return status;
}

static tutti_status *second_of_pair(tutti_context *context, const tutti_value *pair,
                                    tutti_value **out, void *user_data) {
  (void)context;
  (void)user_data;
  return tutti_value_child(pair, 1, out);
}

static tutti_status *keep_part(tutti_dataset **records, digits_part part) {
  tutti_function *predicate = NULL, *second = NULL;
  tutti_spec *record = NULL;
  tutti_callback in_part = {is_in_part, (void *)(intptr_t)part, NULL};
  tutti_callback second_part = {second_of_pair, NULL, NULL};
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  tutti_status *status = tutti_spec_create_tensor(TUTTI_DTYPE_BYTES, 0, NULL, &record);
  options.output_spec = record;
  if (!status) status = tutti_function_create(NULL, in_part, NULL, &predicate);
  if (!status) status = tutti_function_create(NULL, second_part, &options, &second);
  if (!status) status = tutti_dataset_enumerate(records, 0, NULL);
  if (!status) status = tutti_dataset_filter(records, predicate, NULL);
  if (!status) status = tutti_dataset_map(records, second, NULL);
  tutti_function_release(second);
  tutti_function_release(predicate);
  tutti_spec_release(record);
  return status;
}

/* ---- reading ---- */

static tutti_status *create_parser(tutti_function **out_parser) {
  const int64_t pixels[] = {64};
  tutti_feature image = TUTTI_FEATURE_INIT, label = TUTTI_FEATURE_INIT;
  image.key = "image";
  image.dtype = TUTTI_DTYPE_FLOAT32;
  image.rank = 1;
  image.dims = pixels;
  label.key = "label";
  label.dtype = TUTTI_DTYPE_INT64;
  const tutti_feature *features[] = {&image, &label};
  return tutti_function_create_parse_example(NULL, 2, features, out_parser);
}

/* The records of all files, one file after the other. */
static tutti_status *open_records(const char *folder, tutti_dataset **out_records) {
  char found[PATH_MAX], pattern[PATH_MAX + 16];
  if (folder == NULL) {
    find_folder(found, sizeof(found));
    folder = found;
  }
  const int length = snprintf(pattern, sizeof(pattern), "%s/digits-*.tfrecord", folder);
  if (length < 0 || (size_t)length >= sizeof(pattern)) {
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, "the name of the data folder is too long");
  }
  const char *patterns[] = {pattern};
  tutti_list_files_options in_order = TUTTI_LIST_FILES_OPTIONS_INIT;
  in_order.shuffle = TUTTI_FALSE;
  tutti_dataset *files = NULL;
  tutti_status *status = tutti_dataset_create_list_files(NULL, 1, patterns, &in_order, &files);
  if (!status) status = tutti_dataset_create_tf_record(NULL, files, NULL, out_records);
  tutti_dataset_release(files);
  return status;
}

static tutti_status *share_batches(tutti_dataset **digits) {
  static const char kPolicy[] = "experimental_distribute.auto_shard_policy";
  enum { DATA = 2 };
  tutti_data_options *options = NULL;
  tutti_status *status = tutti_data_options_create(&options);
  if (!status) status = tutti_data_options_set_int64(options, kPolicy, DATA);
  if (!status) status = tutti_dataset_with_options(digits, options);
  tutti_data_options_release(options);
  return status;
}

tutti_status *digits_open(tutti_strategy *strategy, const char *folder, digits_part part,
                          int64_t batch, int64_t seed, tutti_distributed_dataset **out_digits) {
  tutti_function *parser = NULL;
  tutti_dataset *digits = NULL;
  tutti_status *status = open_records(folder, &digits);
  if (!status) status = keep_part(&digits, part);
  if (!status) status = create_parser(&parser);
  if (!status) status = tutti_dataset_map(&digits, parser, NULL);
  if (!status && part == DIGITS_TRAINING) {
    status = tutti_dataset_shuffle(&digits, 2000, &seed, NULL);
  }
  if (!status) status = tutti_dataset_batch(&digits, batch, NULL);
  if (!status) status = share_batches(&digits);
  if (!status) status = tutti_strategy_distribute_dataset(strategy, digits, NULL, NULL, out_digits);
  tutti_dataset_release(digits);
  tutti_function_release(parser);
  return status;
}

tutti_status *digits_on_host(const tutti_tensor *tensor, tutti_tensor **out_tensor) {
  if (tutti_tensor_get_cuda_device(tensor) >= 0) {
    return tutti_tensor_copy_to(NULL, tensor, "CPU:0", NULL, NULL, out_tensor);
  }
  tutti_tensor_retain(tensor);
  *out_tensor = (tutti_tensor *)tensor;
  return NULL;
}

tutti_status *digits_check(const tutti_value *batch, tutti_tensor **out_images,
                           tutti_tensor **out_labels) {
  const tutti_tensor *images = NULL, *found = NULL;
  tutti_status *status = tutti_value_find_tensor(batch, "image", &images);
  if (!status) status = tutti_value_find_tensor(batch, "label", &found);
  if (!status) status = digits_on_host(images, out_images);
  if (!status) status = digits_on_host(found, out_labels);
  if (status) return status;
  const int64_t *labels = tutti_tensor_get_data(*out_labels);
  for (int64_t i = 0; i < tutti_tensor_get_element_count(*out_labels); ++i) {
    if (labels[i] >= 0 && labels[i] <= 9) continue;
    char message[80];
    snprintf(message, sizeof(message), "row %lld has the label %lld; expected 0 to 9", (long long)i,
             (long long)labels[i]);
    return tutti_status_create(TUTTI_INVALID_ARGUMENT, message);
  }
  return NULL;
}
