// Datasets from nothing that are more than their arguments (the plain ones are generated): slices
// of tensors, generators, files; and zip, which joins several.
#include <tutti/dataset.h>

#include <string>
#include <utility>
#include <vector>

#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/sql.h"
#include "core/dataset/records/tf_record.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<RecordCompression> ReadCompression(tutti_compression compression, const char *what) {
  if (compression == TUTTI_UNSET) return RecordCompression::kNone;
  const auto read = static_cast<RecordCompression>(compression);
  TUTTI_RETURN_IF_ERROR(CheckRecordCompression(read, what));
  return read;
}

Result<std::vector<std::string>> ReadTexts(Call call, size_t count, const char *const *texts,
                                           const char *parameter) {
  std::vector<std::string> read;
  for (size_t i = 0; i < count; ++i) {
    if (texts == nullptr || texts[i] == nullptr) {
      return NullArgument(call.function, parameter, 0).With("index", i);
    }
    read.emplace_back(texts[i]);
  }
  return read;
}

// Datasets that are made from others live in the others' runtime.
Status CheckSameRuntime(Call call, const tutti_runtime *runtime, const Dataset &input) {
  if (runtime == nullptr || FromHandle(runtime) == &input.environment()->environment()) {
    return OkStatus();
  }
  return InvalidArgument("{}: the input dataset belongs to another runtime; pass that one or NULL",
                         call.function);
}

// Of the datasets in a value. Where there are none it is the core that says so, in the runtime that
// was named.
Result<Ref<DatasetEnvironment>> EnvironmentOf(Call call, tutti_runtime *runtime,
                                              const tutti_value *datasets) {
  if (const tutti_dataset *first = tutti_value_get_leaf_dataset(datasets, 0)) {
    TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(first)));
    return FromHandle(first)->environment();
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
  return root->datasets();
}

}  // namespace

tutti_status *tutti_dataset_create_from_tensor_slices(tutti_runtime *runtime,
                                                      const tutti_value *value,
                                                      const tutti_source_options *options,
                                                      tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, value, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(
        auto dataset,
        Dataset::FromTensorSlices(root->datasets(), Ref<const Value>::Retain(FromHandle(value)),
                                  std::string(TextOr(set.name, ""))));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_from_generator(tutti_runtime *runtime, tutti_callback start,
                                                  tutti_callback next, const tutti_spec *spec,
                                                  const tutti_generator_options *options,
                                                  tutti_dataset **out_dataset) {
  GivenCallback given_start(start);
  GivenCallback given_next(next);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    CallbackExecutor *executor = &root->callback_executor();
    const Result<tutti_generator_options> read = ReadOptions(call, options);
    StoredCallbackOptions stored;
    if (read.ok()) stored.fingerprint = TextOr(read->fingerprint, "");
    TUTTI_ASSIGN_OR_RETURN(auto start_function, given_start.Take(call, "start", executor, stored));
    TUTTI_ASSIGN_OR_RETURN(auto next_function, given_next.Take(call, "next", executor, stored));
    TUTTI_REQUIRE(call, spec, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const auto set, read);
    TUTTI_ASSIGN_OR_RETURN(auto dataset,
                           Dataset::FromGenerator(root->datasets(), std::move(start_function),
                                                  std::move(next_function),
                                                  Ref<const ElementSpec>::Retain(FromHandle(spec)),
                                                  std::string(TextOr(set.name, ""))));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_list_files(tutti_runtime *runtime, size_t count,
                                              const char *const *patterns,
                                              const tutti_list_files_options *options,
                                              tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(auto texts, ReadTexts(call, count, patterns, "patterns"));
    ListFilesOptions read;
    read.name = TextOr(set.name, "");
    read.seed = ReadOptional(set.seed);
    TUTTI_ASSIGN_OR_RETURN(read.shuffle, ReadTristate(call, set.shuffle, true, "shuffle"));
    TUTTI_ASSIGN_OR_RETURN(
        auto dataset, MakeListFilesDataset(root->datasets(), std::move(texts), std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

namespace {

Result<TfRecordOptions> ReadTfRecordOptions(Call call, const tutti_tf_record_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  TfRecordOptions read;
  read.name = TextOr(set.name, "");
  read.buffer_bytes = set.buffer_size;
  read.num_parallel_reads = set.num_parallel_reads;
  TUTTI_ASSIGN_OR_RETURN(read.compression, ReadCompression(set.compression, "tf_record"));
  return read;
}

}  // namespace

tutti_status *tutti_dataset_create_tf_record(tutti_runtime *runtime, const tutti_dataset *files,
                                             const tutti_tf_record_options *options,
                                             tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, files, out_dataset);
    TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(files)));
    TUTTI_ASSIGN_OR_RETURN(TfRecordOptions read, ReadTfRecordOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(auto dataset, MakeTfRecordDataset(*FromHandle(files), std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_tf_record_from_paths(tutti_runtime *runtime, size_t count,
                                                        const char *const *paths,
                                                        const tutti_tf_record_options *options,
                                                        tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(TfRecordOptions read, ReadTfRecordOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const auto texts, ReadTexts(call, count, paths, "paths"));
    TUTTI_ASSIGN_OR_RETURN(auto dataset,
                           MakeTfRecordDataset(root->datasets(), texts, std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_fixed_length_record(
    tutti_runtime *runtime, const tutti_dataset *files, int64_t record_bytes,
    const tutti_fixed_length_record_options *options, tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, files, out_dataset);
    TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(files)));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    FixedLengthRecordFormat format;
    format.record_bytes = record_bytes;
    format.header_bytes = set.header_bytes;
    format.footer_bytes = set.footer_bytes;
    FixedLengthRecordOptions read;
    read.name = TextOr(set.name, "");
    read.buffer_bytes = set.buffer_size;
    read.num_parallel_reads = set.num_parallel_reads;
    TUTTI_ASSIGN_OR_RETURN(read.compression,
                           ReadCompression(set.compression, "fixed_length_record"));
    TUTTI_ASSIGN_OR_RETURN(
        auto dataset, MakeFixedLengthRecordDataset(*FromHandle(files), format, std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_text_line(tutti_runtime *runtime, const tutti_dataset *files,
                                             const tutti_text_line_options *options,
                                             tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, files, out_dataset);
    TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(files)));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TextLineOptions read;
    read.name = TextOr(set.name, "");
    read.buffer_bytes = set.buffer_size;
    read.num_parallel_reads = set.num_parallel_reads;
    TUTTI_ASSIGN_OR_RETURN(read.compression, ReadCompression(set.compression, "text_line"));
    TUTTI_ASSIGN_OR_RETURN(auto dataset, MakeTextLineDataset(*FromHandle(files), std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_sql(tutti_runtime *runtime, const char *driver_name,
                                       const char *data_source_name, const char *query,
                                       size_t type_count, const tutti_dtype *output_types,
                                       const tutti_source_options *options,
                                       tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, driver_name, data_source_name, query, out_dataset);
    TUTTI_REQUIRE_ARRAY(call, type_count, output_types);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    SqlDatasetOptions read = {driver_name, data_source_name, query, {}, {}};
    read.name = TextOr(set.name, "");
    for (size_t i = 0; i < type_count; ++i) {
      read.output_types.push_back(static_cast<DType>(output_types[i]));
    }
    TUTTI_ASSIGN_OR_RETURN(auto dataset, MakeSqlDataset(root->datasets(), std::move(read)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_zip(tutti_runtime *runtime, const tutti_value *datasets,
                                       const tutti_source_options *options,
                                       tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, datasets, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const Ref<DatasetEnvironment> environment,
                           EnvironmentOf(call, runtime, datasets));
    TUTTI_ASSIGN_OR_RETURN(auto dataset, Dataset::Zip(environment, *FromHandle(datasets),
                                                      std::string(TextOr(set.name, ""))));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_choose_from_datasets(
    tutti_runtime *runtime, const tutti_value *datasets, const tutti_dataset *choice_dataset,
    const tutti_choose_from_datasets_options *options, tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, datasets, choice_dataset, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(const bool stops, ReadTristate(call, set.stop_on_empty_dataset, true,
                                                          "stop_on_empty_dataset"));
    TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(choice_dataset)));
    TUTTI_ASSIGN_OR_RETURN(const Ref<DatasetEnvironment> environment,
                           EnvironmentOf(call, runtime, datasets));
    TUTTI_ASSIGN_OR_RETURN(
        auto dataset,
        Dataset::ChooseFromDatasets(environment, *FromHandle(datasets),
                                    *FromHandle(choice_dataset), stops,
                                    std::string(TextOr(set.name, ""))));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_sample_from_datasets(
    tutti_runtime *runtime, const tutti_value *datasets, const int64_t *seed,
    const tutti_sample_from_datasets_options *options, tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, datasets, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    SampleOptions sample;
    sample.name = TextOr(set.name, "");
    if (set.weights != nullptr) {
      sample.weights = Ref<const Value>::Retain(FromHandle(set.weights));
      if (const tutti_dataset *vectors = tutti_value_get_leaf_dataset(set.weights, 0)) {
        TUTTI_RETURN_IF_ERROR(CheckSameRuntime(call, runtime, *FromHandle(vectors)));
      }
    }
    if (seed != nullptr) sample.seed = *seed;
    TUTTI_ASSIGN_OR_RETURN(
        sample.stop_on_empty_dataset,
        ReadTristate(call, set.stop_on_empty_dataset, false, "stop_on_empty_dataset"));
    TUTTI_ASSIGN_OR_RETURN(
        sample.rerandomize_each_iteration,
        ReadTristate(call, set.rerandomize_each_iteration, true, "rerandomize_each_iteration"));
    TUTTI_ASSIGN_OR_RETURN(const Ref<DatasetEnvironment> environment,
                           EnvironmentOf(call, runtime, datasets));
    TUTTI_ASSIGN_OR_RETURN(auto dataset,
                           Dataset::SampleFromDatasets(environment, *FromHandle(datasets),
                                                       std::move(sample)));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}
