// Transformations of datasets, each of which replaces the handle it is given, and reading
// definitions.
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

using namespace tutti;
using namespace tutti::capi;

namespace {

// Puts what `make` makes of *dataset in its place and takes the old reference; untouched on
// failure.
template <class Options, class Make>
tutti_status *Transform(const char *function, tutti_dataset **dataset, const Options *options,
                        Make &&make) {
  return Guard(function, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, dataset);
    if (*dataset == nullptr) return NullArgument(function, "*dataset", 0);
    TUTTI_ASSIGN_OR_RETURN(const Options set, ReadOptions(call, options));
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, make(call, *FromHandle(*dataset), set));
    ReleaseHandle(*dataset);
    *dataset = Give(std::move(made));
    return OkStatus();
  });
}

std::string Name(const char *name) { return std::string(TextOr(name, "")); }

using DatasetResult = Result<Ref<Dataset>>;

}  // namespace

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

tutti_status *tutti_dataset_filter(tutti_dataset **dataset, tutti_function *predicate,
                                   const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     TUTTI_REQUIRE(call, predicate);
                     return input.Filter(Ref<Function>::Retain(FromHandle(predicate)),
                                         Name(set.name));
                   });
}

tutti_status *tutti_dataset_batch(tutti_dataset **dataset, int64_t batch_size,
                                  const tutti_batch_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     TUTTI_ASSIGN_OR_RETURN(const bool drop, ReadTristate(call, set.drop_remainder,
                                                                          false, "drop_remainder"));
                     return input.Batch(batch_size, drop, Name(set.name));
                   });
}

tutti_status *tutti_dataset_repeat(tutti_dataset **dataset, int64_t count,
                                   const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Repeat(count, Name(set.name));
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

tutti_status *tutti_dataset_take(tutti_dataset **dataset, int64_t count,
                                 const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Take(count, Name(set.name));
                   });
}

tutti_status *tutti_dataset_skip(tutti_dataset **dataset, int64_t count,
                                 const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Skip(count, Name(set.name));
                   });
}

tutti_status *tutti_dataset_shard(tutti_dataset **dataset, int64_t num_shards, int64_t index,
                                  const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Shard(num_shards, index, Name(set.name));
                   });
}

tutti_status *tutti_dataset_concatenate(tutti_dataset **dataset, const tutti_dataset *other,
                                        const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call call, const Dataset &input, const auto &set) -> DatasetResult {
                     TUTTI_REQUIRE(call, other);
                     return input.Concatenate(*FromHandle(other), Name(set.name));
                   });
}

tutti_status *tutti_dataset_enumerate(tutti_dataset **dataset, int64_t start,
                                      const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Enumerate(start, Name(set.name));
                   });
}

tutti_status *tutti_dataset_prefetch(tutti_dataset **dataset, int64_t buffer_size,
                                     const tutti_transform_options *options) {
  return Transform(__func__, dataset, options,
                   [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
                     return input.Prefetch(buffer_size, Name(set.name));
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
