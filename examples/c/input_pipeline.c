/* An input pipeline that prepares its data once: shards of records are read several at a time,
 * parsed, mapped to lists of different lengths, kept on disk and in memory, shuffled and padded.
 *
 *   build/release/examples/c/input_pipeline SNAPSHOT_FOLDER [DATA_FOLDER]
 *
 * Of each digit the list of its inked pixels is wanted. The function that makes it is called in the
 * first epoch alone: later epochs have the cache, and a definition that is made anew, as by the
 * next run of the program, has the snapshot. The same program stands in examples/python, java and
 * go. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

enum { kPixels = 64, kHalfBlack = 8, kBatch = 32, kPadding = -1 };

static atomic_long calls;

static void check(tutti_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "input_pipeline: %s: %s\n", tutti_code_get_name(tutti_status_get_code(status)),
          tutti_status_get_message(status));
  tutti_status_release(status);
  exit(1);
}

/* The records of the file whose name is `in`. */
static tutti_status *read_shard(tutti_context *context, const tutti_value *in, tutti_value **out,
                                void *user_data) {
  (void)context;
  (void)user_data;
  tutti_dataset *name = NULL, *records = NULL;
  tutti_status *status = tutti_dataset_create_from_tensors(NULL, in, NULL, &name);
  if (!status) status = tutti_dataset_create_tf_record(NULL, name, NULL, &records);
  if (!status) status = tutti_value_create_dataset(records, out);
  tutti_dataset_release(records);
  tutti_dataset_release(name);
  return status;
}

/* The numbers of the pixels that are at least half black, as many as there are; the label. */
static tutti_status *ink(tutti_context *context, const tutti_value *digit, tutti_value **out,
                         void *user_data) {
  (void)context;
  (void)user_data;
  atomic_fetch_add(&calls, 1);
  const tutti_tensor *image = NULL;
  tutti_value *parts[2] = {NULL, NULL};
  tutti_status *status = tutti_value_find_tensor(digit, "image", &image);
  if (!status) status = tutti_value_find(digit, "label", &parts[1]);
  if (!status) {
    const float *pixels = tutti_tensor_get_data(image);
    int64_t numbers[kPixels], count = 0;
    for (int64_t i = 0; i < kPixels; ++i) {
      if (pixels[i] >= kHalfBlack) numbers[count++] = i;
    }
    tutti_tensor *inked = NULL;
    status = tutti_tensor_create_from_data(NULL, TUTTI_DTYPE_INT64, 1, &count, numbers,
                                           (size_t)count * sizeof(*numbers), &inked);
    if (!status) status = tutti_value_create_tensor(inked, &parts[0]);
    tutti_tensor_release(inked);
  }
  if (!status) status = tutti_value_create_tuple(2, (const tutti_value *const *)parts, out);
  tutti_value_release(parts[0]);
  tutti_value_release(parts[1]);
  return status;
}

/* A snapshot goes by the names of the functions that stand in its pipeline. */
static void register_functions(void) {
  const int64_t any[] = {-1};
  tutti_spec *parts[2] = {NULL, NULL}, *both = NULL;
  tutti_treespec *leaf = NULL, *pair = NULL;
  check(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 1, any, &parts[0]));
  check(tutti_spec_create_tensor(TUTTI_DTYPE_INT64, 0, NULL, &parts[1]));
  check(tutti_treespec_create_leaf(&leaf));
  const tutti_treespec *leaves[] = {leaf, leaf};
  check(tutti_treespec_create_sequence(TUTTI_NODE_TUPLE, 2, leaves, &pair));
  check(tutti_spec_create_from_leaves(pair, 2, (const tutti_spec *const *)parts, &both));
  tutti_function_options options = TUTTI_FUNCTION_OPTIONS_INIT;
  const tutti_callback shard = {read_shard, NULL, NULL}, inked = {ink, NULL, NULL};
  check(tutti_function_register(NULL, "input_pipeline.read_shard", shard, &options));
  options.output_spec = both;
  check(tutti_function_register(NULL, "input_pipeline.ink", inked, &options));
  tutti_spec_release(both);
  tutti_treespec_release(pair);
  tutti_treespec_release(leaf);
  tutti_spec_release(parts[1]);
  tutti_spec_release(parts[0]);
}

static tutti_function *create_parser(void) {
  const int64_t pixels[] = {kPixels};
  tutti_feature image = TUTTI_FEATURE_INIT, label = TUTTI_FEATURE_INIT;
  image.key = "image";
  image.dtype = TUTTI_DTYPE_FLOAT32;
  image.rank = 1;
  image.dims = pixels;
  label.key = "label";
  label.dtype = TUTTI_DTYPE_INT64;
  const tutti_feature *features[] = {&image, &label};
  tutti_function *parser = NULL;
  check(tutti_function_create_parse_example(NULL, 2, features, &parser));
  return parser;
}

/* Batches ([n, longest], [n]) of int64. */
static tutti_dataset *pipeline(const char *data, const char *snapshot) {
  char pattern[4096];
  snprintf(pattern, sizeof(pattern), "%s/digits-*.tfrecord", data);
  const char *patterns[] = {pattern};
  tutti_list_files_options in_order = TUTTI_LIST_FILES_OPTIONS_INIT;
  in_order.shuffle = TUTTI_FALSE;
  tutti_function *shard = NULL, *parser = create_parser(), *inked = NULL;
  check(tutti_function_create_registered(NULL, "input_pipeline.read_shard", &shard));
  check(tutti_function_create_registered(NULL, "input_pipeline.ink", &inked));

  tutti_dataset *digits = NULL;
  check(tutti_dataset_create_list_files(NULL, 1, patterns, &in_order, &digits));
  tutti_interleave_options four = TUTTI_INTERLEAVE_OPTIONS_INIT;
  four.cycle_length.present = 1;
  four.cycle_length.value = 4;
  four.block_length = 16;
  four.num_parallel_calls = 4;
  check(tutti_dataset_interleave(&digits, shard, &four));
  check(tutti_dataset_map(&digits, parser, NULL));
  check(tutti_dataset_map(&digits, inked, NULL));
  check(tutti_dataset_snapshot(&digits, snapshot, NULL));
  check(tutti_dataset_cache(&digits, "", NULL));
  const int64_t seed = 1;
  check(tutti_dataset_shuffle(&digits, 500, &seed, NULL));
  tutti_padded_batch_options padded = TUTTI_PADDED_BATCH_OPTIONS_INIT;
  tutti_value *padding = NULL;
  check(tutti_value_create_int64(kPadding, &padding));
  padded.padding_values = padding;
  check(tutti_dataset_padded_batch(&digits, kBatch, &padded));
  check(tutti_dataset_prefetch(&digits, 2, NULL));

  tutti_value_release(padding);
  tutti_function_release(inked);
  tutti_function_release(parser);
  tutti_function_release(shard);
  return digits;
}

static void walk(const tutti_dataset *batches, int definition, int epoch) {
  long count = 0, digits = 0, inked = 0;
  atomic_store(&calls, 0);
  tutti_iterator *iterator = NULL;
  check(tutti_iterator_create(batches, NULL, NULL, &iterator));
  for (tutti_value *batch = NULL;; tutti_value_release(batch)) {
    check(tutti_iterator_next(iterator, NULL, &batch));
    if (batch == NULL) break;
    const tutti_tensor *pixels = tutti_value_get_leaf_tensor(batch, 0);
    const int64_t *numbers = tutti_tensor_get_data(pixels);
    for (int64_t i = 0; i < tutti_tensor_get_element_count(pixels); ++i) {
      inked += numbers[i] != kPadding;
    }
    digits += (long)tutti_tensor_get_element_count(tutti_value_get_leaf_tensor(batch, 1));
    ++count;
  }
  tutti_iterator_release(iterator);
  printf("definition %d, epoch %d: %ld batches, %ld digits, %ld inked pixels, %ld calls\n",
         definition, epoch, count, digits, inked, atomic_load(&calls));
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: input_pipeline SNAPSHOT_FOLDER [DATA_FOLDER]\n");
    return 2;
  }
  register_functions();
  for (int definition = 1; definition <= 2; ++definition) {
    tutti_dataset *batches = pipeline(argc == 3 ? argv[2] : "examples/data", argv[1]);
    for (int epoch = 1; epoch <= 2; ++epoch) walk(batches, definition, epoch);
    tutti_dataset_release(batches);
  }
  check(tutti_runtime_shutdown(NULL, NULL));
  return 0;
}
