// Transformations of datasets that are more than their arguments (the plain ones are generated),
// and reading definitions.
#include "core/dataset/graph/dataset.h"

#include <tutti/dataset.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "capi/src/bytes.h"
#include "capi/src/data_options.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "capi/src/transform.h"
#include "core/dataset/graph/run_report.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_dataset_map(tutti_dataset **dataset, tutti_function *function,
                                const tutti_map_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     TUTTI_REQUIRE(call, function);
                     MapOptions read;
                     read.name = Name(set.name);
                     read.num_parallel_calls = set.num_parallel_calls;
                     if (set.deterministic != TUTTI_UNSET) {
                       TUTTI_ASSIGN_OR_RETURN(
                           read.deterministic,
                           ReadTristate(call, set.deterministic, true, "deterministic"));
                     }
                     return input.Map(Ref<Function>::Retain(FromHandle(function)), std::move(read));
                   });
}

tutti_status *tutti_dataset_shuffle(tutti_dataset **dataset, int64_t buffer_size,
                                    const int64_t *seed, const tutti_shuffle_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     ShuffleOptions read;
                     read.name = Name(set.name);
                     if (seed != nullptr) read.seed = *seed;
                     TUTTI_ASSIGN_OR_RETURN(read.reshuffle_each_iteration,
                                            ReadTristate(call, set.reshuffle_each_iteration, true,
                                                         "reshuffle_each_iteration"));
                     return input.Shuffle(buffer_size, std::move(read));
                   });
}

tutti_status *tutti_dataset_shuffle_and_repeat(tutti_dataset **dataset, int64_t buffer_size,
                                               int64_t count, const int64_t *seed,
                                               const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     ShuffleOptions read;
                     read.name = Name(set.name);
                     if (seed != nullptr) read.seed = *seed;
                     TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> shuffled,
                                            input.Shuffle(buffer_size, std::move(read)));
                     return shuffled->Repeat(count, Name(set.name));
                   });
}

tutti_status *tutti_dataset_snapshot(tutti_dataset **dataset, const char *path,
                                     const tutti_snapshot_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     TUTTI_REQUIRE(call, path);
                     SnapshotOptions read;
                     read.name = Name(set.name);
                     read.compression = TextOr(set.compression, "AUTO");
                     read.shard_func = Ref<Function>::Retain(FromHandle(set.shard_func));
                     read.reader_func = Ref<Function>::Retain(FromHandle(set.reader_func));
                     return input.Snapshot(path, std::move(read));
                   });
}

tutti_status *tutti_dataset_with_options(tutti_dataset **dataset,
                                         const tutti_data_options *options) {
  const tutti_transform_options *none = nullptr;
  return Transform(__func__, dataset, none,
                   [&](Call call, const Dataset &input, const auto &) -> DatasetResult {
                     TUTTI_REQUIRE(call, options);
                     return input.WithOptions(FromHandle(options)->options);
                   });
}

tutti_status *tutti_dataset_replace_options(tutti_dataset **dataset,
                                            const tutti_data_options *options) {
  const tutti_transform_options *none = nullptr;
  return Transform(__func__, dataset, none,
                   [&](Call call, const Dataset &input, const auto &) -> DatasetResult {
                     TUTTI_REQUIRE(call, options);
                     return input.ReplaceOptions(FromHandle(options)->options);
                   });
}

int64_t tutti_dataset_get_cardinality(const tutti_dataset *dataset) {
  return dataset == nullptr ? 0 : FromHandle(dataset)->cardinality();
}

tutti_status *tutti_dataset_element_spec(const tutti_dataset *dataset,
                                         const tutti_call_options *call_options,
                                         tutti_spec **out_spec) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_spec);
    const Dataset &object = *FromHandle(dataset);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment()->environment(), call_options));
    TUTTI_ASSIGN_OR_RETURN(auto spec, object.GetElementSpec(wait));
    *out_spec = Give(std::move(spec));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_get_promised_spec(const tutti_dataset *dataset,
                                              tutti_spec **out_spec) {
  return Guard(__func__, From::kAny, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_spec);
    Ref<const ElementSpec> spec = FromHandle(dataset)->promised_spec();
    *out_spec = spec ? Give(std::move(spec)) : nullptr;
    return OkStatus();
  });
}

tutti_status *tutti_dataset_create_from_variant(const tutti_value *variant,
                                                const tutti_spec *element_spec,
                                                const tutti_call_options *call_options,
                                                tutti_dataset **out_dataset) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, variant, element_spec, out_dataset);
    CallOptions wait;
    if (const tutti_dataset *dataset = tutti_value_get_leaf_dataset(variant, 0)) {
      TUTTI_ASSIGN_OR_RETURN(wait, ReadCall(call, FromHandle(dataset)->environment()->environment(),
                                            call_options));
    }
    TUTTI_ASSIGN_OR_RETURN(
        auto dataset, Dataset::FromVariant(*FromHandle(variant), *FromHandle(element_spec), wait));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_reduce(const tutti_dataset *dataset, const tutti_value *initial_state,
                                   tutti_function *reduce_func,
                                   const tutti_call_options *call_options,
                                   tutti_value **out_value) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, initial_state, reduce_func, out_value);
    const Dataset &object = *FromHandle(dataset);
    TUTTI_ASSIGN_OR_RETURN(const CallOptions wait,
                           ReadCall(call, object.environment()->environment(), call_options));
    auto *initial = const_cast<Value *>(FromHandle(initial_state));
    TUTTI_ASSIGN_OR_RETURN(auto state, object.Reduce(Ref<Value>::Retain(initial),
                                                     *FromHandle(reduce_func), wait));
    *out_value = Give(std::move(state));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_options(const tutti_dataset *dataset,
                                    tutti_data_options **out_options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_options);
    *out_options = Give(MakeRef<DataOptionsHandle>(FromHandle(dataset)->options()));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_explain(const tutti_dataset *dataset, tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_text);
    *out_text = GiveBytes(FromHandle(dataset)->Explain());
    return OkStatus();
  });
}

tutti_status *tutti_dataset_explain_as(const tutti_dataset *dataset, const char *format,
                                       tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, format, out_text);
    const Dataset &object = *FromHandle(dataset);
    TUTTI_ASSIGN_OR_RETURN(std::string text, std::string_view(format) == "text"
                                                 ? Result<std::string>(object.Explain())
                                                 : object.ExplainRun().As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_explain_report(const void *data, size_t size, const char *format,
                                           tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, format, out_text);
    TUTTI_REQUIRE_ARRAY(call, size, data);
    const std::string_view json(static_cast<const char *>(data), size);
    TUTTI_ASSIGN_OR_RETURN(const RunReport read, RunReport::FromJson(json));
    TUTTI_ASSIGN_OR_RETURN(std::string text, read.As(format));
    *out_text = GiveBytes(std::move(text));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_serialize(const tutti_dataset *dataset, tutti_bytes **out_bytes) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset, out_bytes);
    TUTTI_ASSIGN_OR_RETURN(std::string bytes, FromHandle(dataset)->Serialize());
    *out_bytes = GiveBytes(std::move(bytes));
    return OkStatus();
  });
}

tutti_status *tutti_dataset_deserialize(tutti_runtime *runtime, const void *data, size_t size,
                                        tutti_dataset **out_dataset) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_dataset);
    TUTTI_REQUIRE_ARRAY(call, size, data);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    const std::string_view bytes(static_cast<const char *>(data), size);
    TUTTI_ASSIGN_OR_RETURN(auto dataset, Dataset::Deserialize(root->datasets(), bytes));
    *out_dataset = Give(std::move(dataset));
    return OkStatus();
  });
}

void tutti_dataset_retain(const tutti_dataset *dataset) { RetainHandle(dataset); }
void tutti_dataset_release(const tutti_dataset *dataset) { ReleaseHandle(dataset); }
