#include "datasets.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "data_options.h"
#include "functions.h"
#include "plain_ops.h"
#include "record_files.h"
#include "specs.h"
#include "strategies.h"

namespace conformance {
namespace {

// ---- from_generator ----

// The spec that every element fits: dims that differ are unknown, and ranks.
Spec SpecOfAll(const std::vector<Value> &elements) {
  Spec first;
  Check(tutti_spec_create_from_value(elements.at(0).get(), first.out()));
  std::vector<Spec> leaves(tutti_spec_get_leaf_count(first.get()));
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const tutti_tensor *tensor = tutti_value_get_leaf_tensor(elements[0].get(), leaf);
    const size_t rank = tutti_tensor_get_rank(tensor);
    const int64_t *begin = tutti_tensor_get_dims(tensor);
    std::vector<int64_t> dims(begin, begin + rank);
    bool same_rank = true;
    for (const Value &element : elements) {
      const tutti_tensor *other = tutti_value_get_leaf_tensor(element.get(), leaf);
      same_rank = same_rank && tutti_tensor_get_rank(other) == rank;
      for (size_t axis = 0; same_rank && axis < rank; ++axis) {
        if (tutti_tensor_get_dims(other)[axis] != dims[axis]) dims[axis] = TUTTI_UNKNOWN_DIMENSION;
      }
    }
    Check(tutti_spec_create_tensor(tutti_tensor_get_dtype(tensor),
                                   same_rank ? static_cast<int64_t>(rank) : TUTTI_UNKNOWN_RANK,
                                   dims.data(), leaves[leaf].out()));
  }
  std::vector<const tutti_spec *> handles;
  for (const Spec &leaf : leaves) handles.push_back(leaf.get());
  Spec spec;
  Check(tutti_spec_create_from_leaves(tutti_spec_get_treespec(first.get()), handles.size(),
                                      handles.data(), spec.out()));
  return spec;
}

// What a generator gives: its i-th iteration list i, later ones the last.
struct Passes {
  std::vector<std::vector<Value>> lists;
  std::atomic<size_t> started{0};
};

// The state of one iteration.
struct Position {
  std::shared_ptr<const Passes> passes;
  size_t pass, next;
};
const char kPositionTag = 0;

Value StartPass(const std::shared_ptr<Passes> &passes) {
  const size_t pass = std::min(passes->started++, passes->lists.size() - 1);
  Value state;
  Check(tutti_value_create_host_object(
      &kPositionTag, new Position{passes, pass, 0},
      [](void *position) { delete static_cast<Position *>(position); }, state.out()));
  return state;
}

Value NextOfPass(tutti_context *, const Value &state) {
  auto *position =
      static_cast<Position *>(tutti_value_get_leaf_host_object(state.get(), 0, &kPositionTag));
  const std::vector<Value> &elements = position->passes->lists[position->pass];
  return position->next < elements.size() ? elements[position->next++] : Value();
}

Dataset FromGenerator(const Json &op) {
  const bool by_pass = op.contains("elements_by_pass");
  CheckKeys(op, {"op", by_pass ? "elements_by_pass" : "elements", "signature"});
  const Json lists = by_pass ? op.at("elements_by_pass") : Json::array({op.at("elements")});
  const auto passes = std::make_shared<Passes>();
  std::vector<Value> all;
  for (const Json &list : lists) {
    std::vector<Value> &pass = passes->lists.emplace_back();
    for (const Json &element : list) pass.push_back(ValueOf(element));
    all.insert(all.end(), pass.begin(), pass.end());
  }
  if (all.empty() && !op.contains("signature")) {
    throw NotCovered("a generator of no elements, whose spec nothing tells");
  }
  const Spec spec =
      op.contains("signature") ? DescribedSpec(op.at("signature")) : SpecOfAll(all);
  const Body start = [passes](tutti_context *, const Value &) { return StartPass(passes); };
  const std::string fingerprint = lists.dump();
  tutti_generator_options options = TUTTI_GENERATOR_OPTIONS_INIT;
  options.fingerprint = fingerprint.c_str();
  Dataset dataset;
  Check(tutti_dataset_create_from_generator(CurrentRuntime(), StoredCallback(start),
                                            StoredCallback(NextOfPass), spec.get(), &options,
                                            dataset.out()));
  return dataset;
}

// ---- the other sources ----

Dataset Range(const Json &op) {
  CheckKeys(op, {"op", "start", "stop", "step", "output_type"});
  tutti_range_options options = TUTTI_RANGE_OPTIONS_INIT;
  if (op.contains("output_type")) options.dtype = DTypeOf(op.at("output_type"));
  Dataset dataset;
  Check(tutti_dataset_create_range(CurrentRuntime(), op.value("start", int64_t{0}), op.at("stop"),
                                   op.value("step", int64_t{1}), &options, dataset.out()));
  return dataset;
}

Dataset FromTensors(const Json &op) {
  CheckKeys(op, {"op", "value"});
  const auto create = op.at("op") == "from_tensors" ? tutti_dataset_create_from_tensors
                                                    : tutti_dataset_create_from_tensor_slices;
  Dataset dataset;
  Check(create(CurrentRuntime(), ValueOf(op.at("value")).get(), nullptr, dataset.out()));
  return dataset;
}

// A structure of datasets as one value.
Value ValueOfDatasets(const Json &structure) {
  Value value;
  if (!structure.contains("t") && !structure.contains("d")) {
    Check(tutti_value_create_dataset(BuildDataset(structure).get(), value.out()));
    return value;
  }
  const bool is_tuple = structure.contains("t");
  std::vector<std::string> names;
  std::vector<Value> parts;
  for (const auto &[key, part] : structure.at(is_tuple ? "t" : "d").items()) {
    names.push_back(key);
    parts.push_back(ValueOfDatasets(part));
  }
  std::vector<const char *> keys;
  std::vector<const tutti_value *> handles;
  for (const std::string &name : names) keys.push_back(name.c_str());
  for (const Value &part : parts) handles.push_back(part.get());
  Check(is_tuple
            ? tutti_value_create_tuple(handles.size(), handles.data(), value.out())
            : tutti_value_create_dict(handles.size(), keys.data(), handles.data(), value.out()));
  return value;
}

Dataset Zip(const Json &op) {
  CheckKeys(op, {"op", "inputs"});
  Dataset dataset;
  Check(tutti_dataset_create_zip(CurrentRuntime(), ValueOfDatasets(op.at("inputs")).get(), nullptr,
                                 dataset.out()));
  return dataset;
}

tutti_tristate TristateOf(const Json &op, const char *name) {
  if (!op.contains(name)) return TUTTI_UNSET;
  return op.at(name).get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
}

Dataset ChooseFromDatasets(const Json &op) {
  CheckKeys(op, {"op", "inputs", "choices", "stop_on_empty_dataset"});
  tutti_choose_from_datasets_options options = TUTTI_CHOOSE_FROM_DATASETS_OPTIONS_INIT;
  options.stop_on_empty_dataset = TristateOf(op, "stop_on_empty_dataset");
  const Dataset choices = BuildDataset(op.at("choices"));
  Dataset dataset;
  Check(tutti_dataset_create_choose_from_datasets(CurrentRuntime(),
                                                  ValueOfDatasets(op.at("inputs")).get(),
                                                  choices.get(), &options, dataset.out()));
  return dataset;
}

Dataset SampleFromDatasets(const Json &op) {
  CheckKeys(op, {"op", "inputs", "weights", "seed", "stop_on_empty_dataset",
                 "rerandomize_each_iteration"});
  tutti_sample_from_datasets_options options = TUTTI_SAMPLE_FROM_DATASETS_OPTIONS_INIT;
  Value weights;
  if (op.contains("weights") && op.at("weights").is_object()) {
    const Dataset vectors = BuildDataset(op.at("weights"));
    Check(tutti_value_create_dataset(vectors.get(), weights.out()));
    options.weights = weights.get();
  } else if (op.contains("weights")) {
    weights = ValueOf(Json{{"dtype", "float64"}, {"v", op.at("weights")}});
    options.weights = weights.get();
  }
  options.stop_on_empty_dataset = TristateOf(op, "stop_on_empty_dataset");
  options.rerandomize_each_iteration = TristateOf(op, "rerandomize_each_iteration");
  const int64_t seed = op.value("seed", int64_t{0});
  Dataset dataset;
  Check(tutti_dataset_create_sample_from_datasets(
      CurrentRuntime(), ValueOfDatasets(op.at("inputs")).get(),
      op.contains("seed") ? &seed : nullptr, &options, dataset.out()));
  return dataset;
}

// ---- files ----

// A dataset of texts.
Dataset Texts(const std::vector<std::string> &texts) {
  std::vector<tutti_string_view> views;
  for (const std::string &text : texts) views.push_back({text.data(), text.size()});
  const int64_t count = static_cast<int64_t>(texts.size());
  Tensor tensor;
  Check(tutti_tensor_create_from_strings(CurrentRuntime(), 1, &count, views.size(), views.data(),
                                         tensor.out()));
  Dataset dataset;
  Check(tutti_dataset_create_from_tensor_slices(CurrentRuntime(), ValueOf(tensor).get(),
                                                nullptr, dataset.out()));
  return dataset;
}

Dataset Paths(const Json &op) {
  CheckKeys(op, {"op", "files"});
  return Texts(op.at("files"));
}

Dataset ListFiles(const Json &op) {
  CheckKeys(op, {"op", "file_pattern", "shuffle", "seed"});
  std::vector<const char *> patterns;
  for (const Json &pattern : op.at("file_pattern")) {
    patterns.push_back(pattern.get_ref<const std::string &>().c_str());
  }
  tutti_list_files_options options = TUTTI_LIST_FILES_OPTIONS_INIT;
  if (op.contains("shuffle")) {
    options.shuffle = op.at("shuffle").get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
  }
  if (op.contains("seed")) options.seed = {1, op.at("seed").get<int64_t>()};
  Dataset dataset;
  Check(tutti_dataset_create_list_files(CurrentRuntime(), patterns.size(), patterns.data(),
                                        &options, dataset.out()));
  return dataset;
}

tutti_compression CompressionOf(const Json &op) {
  if (!op.contains("compression_type")) return TUTTI_UNSET;
  const std::string name = op.at("compression_type");
  if (name == "GZIP") return TUTTI_COMPRESSION_GZIP;
  if (name == "ZLIB") return TUTTI_COMPRESSION_ZLIB;
  return static_cast<tutti_compression>(TUTTI_COMPRESSION_ZLIB + 1);  // one that there is not
}

// What all readers take.
template <class Options>
Options ReaderOptions(const Json &op, Options options) {
  options.compression = CompressionOf(op);
  options.buffer_size = op.value("buffer_size", int64_t{0});
  options.num_parallel_reads = op.value("num_parallel_reads", int64_t{0});
  return options;
}

// The numbers in TFRecord files.
Dataset Records(const Json &op) {
  CheckKeys(op, {"op", "files", "compression_type", "buffer_size", "num_parallel_reads"});
  const std::vector<std::string> paths = RecordFiles(op.at("files"));
  std::vector<const char *> texts;
  for (const std::string &path : paths) texts.push_back(path.c_str());
  const auto options = ReaderOptions(op, tutti_tf_record_options TUTTI_TF_RECORD_OPTIONS_INIT);
  Dataset dataset;
  Check(tutti_dataset_create_tf_record_from_paths(CurrentRuntime(), texts.size(), texts.data(),
                                                  &options, dataset.out()));
  Check(tutti_dataset_map(dataset.out(), NumberOfRecord().get(), nullptr));
  return dataset;
}

Dataset TextLines(const Json &op) {
  CheckKeys(op, {"op", "files", "compression_type", "buffer_size", "num_parallel_reads"});
  const auto options = ReaderOptions(op, tutti_text_line_options TUTTI_TEXT_LINE_OPTIONS_INIT);
  Dataset dataset;
  Check(tutti_dataset_create_text_line(CurrentRuntime(), Texts(op.at("files")).get(), &options,
                                       dataset.out()));
  return dataset;
}

Dataset FixedLengthRecords(const Json &op) {
  CheckKeys(op, {"op", "files", "record_bytes", "header_bytes", "footer_bytes",
                 "compression_type", "buffer_size", "num_parallel_reads"});
  auto options = ReaderOptions(
      op, tutti_fixed_length_record_options TUTTI_FIXED_LENGTH_RECORD_OPTIONS_INIT);
  options.header_bytes = op.value("header_bytes", int64_t{0});
  options.footer_bytes = op.value("footer_bytes", int64_t{0});
  Dataset dataset;
  Check(tutti_dataset_create_fixed_length_record(CurrentRuntime(), Texts(op.at("files")).get(),
                                                 op.at("record_bytes"), &options, dataset.out()));
  return dataset;
}

// `database` is a file by now.
Dataset Sql(const Json &op) {
  CheckKeys(op, {"op", "database", "query", "output_types", "driver_name"});
  std::vector<tutti_dtype> types;
  for (const Json &type : op.at("output_types")) types.push_back(DTypeOf(type));
  Dataset dataset;
  Check(tutti_dataset_create_sql(
      CurrentRuntime(), op.value("driver_name", "sqlite").c_str(),
      op.at("database").get<std::string>().c_str(), op.at("query").get<std::string>().c_str(),
      types.size(), types.data(), nullptr, dataset.out()));
  return dataset;
}

// ---- transformations that are more than their arguments; the plain ones are generated ----

void Map(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "fn", "arg", "num_parallel_calls", "deterministic"});
  tutti_map_options options = TUTTI_MAP_OPTIONS_INIT;
  options.num_parallel_calls = op.value("num_parallel_calls", int64_t{0});
  if (op.contains("deterministic")) {
    options.deterministic = op.at("deterministic").get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
  }
  Check(tutti_dataset_map(
      dataset->out(), NamedFunction(op, ElementSpecOf(*dataset)).get(), &options));
}

void FlatMap(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "fn", "arg"});
  Check(tutti_dataset_flat_map(dataset->out(), NamedFunction(op, ElementSpecOf(*dataset)).get(),
                               nullptr));
}

void Interleave(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "fn", "arg", "cycle_length", "block_length", "num_parallel_calls",
                 "deterministic"});
  tutti_interleave_options options = TUTTI_INTERLEAVE_OPTIONS_INIT;
  if (op.contains("cycle_length")) {
    options.cycle_length = {1, op.at("cycle_length").get<int64_t>()};
  }
  options.block_length = op.value("block_length", int64_t{1});
  options.num_parallel_calls = op.value("num_parallel_calls", int64_t{0});
  if (op.contains("deterministic")) {
    options.deterministic = op.at("deterministic").get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
  }
  Check(tutti_dataset_interleave(
      dataset->out(), NamedFunction(op, ElementSpecOf(*dataset)).get(), &options));
}

void GroupByWindow(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "key_func", "key_arg", "reduce_func", "reduce_arg", "window_size"});
  tutti_group_by_window_options options = TUTTI_GROUP_BY_WINDOW_OPTIONS_INIT;
  options.window_size = {1, op.at("window_size").get<int64_t>()};
  Check(tutti_dataset_group_by_window(dataset->out(),
                                      KeyFunction(op, ElementSpecOf(*dataset)).get(),
                                      WindowFunction(op, ElementSpecOf(*dataset)).get(), &options));
}

void BucketBySequenceLength(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "key_func", "key_arg", "bucket_boundaries", "bucket_batch_sizes",
                 "pad_to_bucket_boundary", "no_padding", "drop_remainder"});
  tutti_bucket_by_sequence_length_options options = TUTTI_BUCKET_BY_SEQUENCE_LENGTH_OPTIONS_INIT;
  options.pad_to_bucket_boundary = TristateOf(op, "pad_to_bucket_boundary");
  options.no_padding = TristateOf(op, "no_padding");
  options.drop_remainder = TristateOf(op, "drop_remainder");
  const auto vector = [&](const char *name) {
    return ValueOf(Json{{"dtype", "int64"}, {"v", op.at(name)}});
  };
  Check(tutti_dataset_bucket_by_sequence_length(
      dataset->out(), KeyFunction(op, ElementSpecOf(*dataset)).get(),
      vector("bucket_boundaries").get(), vector("bucket_batch_sizes").get(), &options));
}

// Shapes of padded_shapes: a list of sizes, null where one is not fixed, becomes a vector of int64.
Json Sizes(const Json &shapes) {
  if (shapes.is_array()) {
    Json sizes = Json::array();
    for (const Json &size : shapes) sizes.push_back(size.is_null() ? Json(-1) : size);
    return Json{{"dtype", "int64"}, {"v", sizes}};
  }
  if (!shapes.is_object()) return shapes;
  Json all = shapes;
  for (auto &[key, parts] : all.items()) {
    for (auto &[name, part] : parts.items()) part = Sizes(part);
  }
  return all;
}

void PaddedBatch(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "batch_size", "padded_shapes", "padding_values", "drop_remainder"});
  const Value shapes = ValueOf(Sizes(op.value("padded_shapes", Json())));
  const Value values = ValueOf(op.value("padding_values", Json()));
  tutti_padded_batch_options options = TUTTI_PADDED_BATCH_OPTIONS_INIT;
  options.padded_shapes = shapes.get();
  options.padding_values = values.get();
  if (op.contains("drop_remainder")) {
    options.drop_remainder = op.at("drop_remainder").get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
  }
  Check(tutti_dataset_padded_batch(dataset->out(), op.at("batch_size"), &options));
}

void DenseToSparseBatch(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "batch_size", "row_shape"});
  const Value row_shape = ValueOf(Sizes(op.at("row_shape")));
  Check(tutti_dataset_dense_to_sparse_batch(dataset->out(), op.at("batch_size"), row_shape.get(),
                                            nullptr));
}

void Snapshot(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "path", "compression", "shard_func", "shard_arg", "reader_func",
                 "reader_arg"});
  tutti_snapshot_options options = TUTTI_SNAPSHOT_OPTIONS_INIT;
  const Json compression = op.value("compression", Json("AUTO"));
  const std::string name = compression.is_null() ? "NONE" : compression.get<std::string>();
  options.compression = name.c_str();
  const auto function = [&op](const std::string &which) {
    if (!op.contains(which + "_func")) return Function();
    return NamedFunction(Json{{"fn", op.at(which + "_func")},
                              {"arg", op.value(which + "_arg", Json())}},
                         Spec());
  };
  const Function sharder = function("shard"), reader = function("reader");
  options.shard_func = sharder.get();
  options.reader_func = reader.get();
  Check(tutti_dataset_snapshot(dataset->out(), op.at("path").get<std::string>().c_str(),
                               &options));
}

void Shuffle(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "buffer_size", "seed", "reshuffle_each_iteration"});
  tutti_shuffle_options options = TUTTI_SHUFFLE_OPTIONS_INIT;
  if (op.contains("reshuffle_each_iteration")) {
    options.reshuffle_each_iteration =
        op.at("reshuffle_each_iteration").get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;
  }
  const int64_t seed = op.value("seed", int64_t{0});
  Check(tutti_dataset_shuffle(dataset->out(), op.at("buffer_size"),
                              op.contains("seed") ? &seed : nullptr, &options));
}

void ShuffleAndRepeat(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "buffer_size", "count", "seed"});
  const int64_t seed = op.value("seed", int64_t{0});
  Check(tutti_dataset_shuffle_and_repeat(dataset->out(), op.at("buffer_size"),
                                         op.value("count", int64_t{-1}),
                                         op.contains("seed") ? &seed : nullptr, nullptr));
}

void WithOptions(const Json &op, Dataset *dataset) {
  CheckKeys(op, {"op", "input", "options"});
  Check(tutti_dataset_with_options(dataset->out(), OptionsOf(op.at("options")).get()));
}

}  // namespace

Dataset BuildDataset(const Json &op) {
  const std::string name = op.at("op");
  if (name == "range") return Range(op);
  if (name == "from_tensors" || name == "from_tensor_slices") return FromTensors(op);
  if (name == "from_generator") return FromGenerator(op);
  if (name == "zip") return Zip(op);
  if (name == "choose_from_datasets") return ChooseFromDatasets(op);
  if (name == "sample_from_datasets") return SampleFromDatasets(op);
  if (name == "records") return Records(op);
  if (name == "text_lines") return TextLines(op);
  if (name == "fixed_length_records") return FixedLengthRecords(op);
  if (name == "paths") return Paths(op);
  if (name == "list_files") return ListFiles(op);
  if (name == "sql") return Sql(op);
  if (name == "apply") {  // a function from a dataset to a dataset: here, one transformation
    CheckKeys(op, {"op", "input", "transformation"});
    Json transformation = op.at("transformation");
    transformation["input"] = op.at("input");
    return BuildDataset(transformation);
  }
  if (name == "window_lists") {  // each window as one batch
    Json windows = op;
    windows["op"] = "window";
    return BuildDataset(Json{{"op", "flat_map"}, {"input", windows}, {"fn", "zip_batch"},
                             {"arg", op.at("size")}});
  }
  Transform transform = name == "map"                  ? Map
                        : name == "flat_map"           ? FlatMap
                        : name == "interleave"         ? Interleave
                        : name == "group_by_window"    ? GroupByWindow
                        : name == "padded_batch"       ? PaddedBatch
                        : name == "bucket_by_sequence_length" ? BucketBySequenceLength
                        : name == "dense_to_sparse_batch" ? DenseToSparseBatch
                        : name == "shuffle"            ? Shuffle
                        : name == "shuffle_and_repeat" ? ShuffleAndRepeat
                        : name == "snapshot"           ? Snapshot
                        : name == "with_options"       ? WithOptions
                                                       : nullptr;
  if (transform == nullptr) {
    const auto found = PlainTransforms().find(name);
    if (found == PlainTransforms().end()) throw NotCovered("the op " + name);
    transform = found->second;
  }
  Dataset dataset = BuildDataset(op.at("input"));
  transform(op, &dataset);
  return dataset;
}

Spec ElementSpecOf(const Dataset &dataset) {
  Spec spec;
  Check(tutti_dataset_element_spec(dataset.get(), nullptr, spec.out()));
  return spec;
}

std::vector<Value> Elements(const Dataset &dataset) {
  Iterator iterator;
  Check(tutti_iterator_create(dataset.get(), nullptr, nullptr, iterator.out()));
  std::vector<Value> elements;
  for (;;) {
    Value element;
    Check(tutti_iterator_next(iterator.get(), nullptr, element.out()));
    if (!element) return elements;
    elements.push_back(std::move(element));
  }
}

}  // namespace conformance
