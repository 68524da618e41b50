// User functions and the native one that parses tf.train.Example.
#include <tutti/function.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/base/error.h"
#include "core/dataset/example/decode_csv.h"
#include "core/dataset/example/parse_example.h"
#include "core/dataset/example/parse_sequence_example.h"
#include "core/function/function_registry.h"

using namespace tutti;
using namespace tutti::capi;

namespace {

Result<StoredCallbackOptions> ReadFunctionOptions(Call call,
                                                  const tutti_function_options *options) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  StoredCallbackOptions read;
  read.name = TextOr(set.name, "");
  read.fingerprint = TextOr(set.fingerprint, "");
  read.reason = TextOr(set.callback_reason, "");
  read.output_spec = Ref<const ElementSpec>::Retain(FromHandle(set.output_spec));
  TUTTI_ASSIGN_OR_RETURN(const bool slab, ReadTristate(call, set.slab, false, "slab"));
  read.granularity = slab ? Granularity::kSlab : Granularity::kRow;
  return read;
}

// `given` is taken over before anything can fail, so that `destroy` runs on the callback thread.
Result<Ref<Function>> MakeFunction(Call call, Runtime &root, GivenCallback &given,
                                   const tutti_function_options *options) {
  Result<StoredCallbackOptions> read = ReadFunctionOptions(call, options);
  TUTTI_ASSIGN_OR_RETURN(auto function,
                         given.Take(call, "callback", &root.callback_executor(),
                                    read.ok() ? std::move(read).value() : StoredCallbackOptions()));
  TUTTI_RETURN_IF_ERROR(read.status());
  return function;
}

Result<ExampleFeature> ReadFeature(Call call, const tutti_feature *feature) {
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, feature));
  if (set.key == nullptr) return NullArgument(call.function, "features[i]->key", 0);
  if (set.rank != 0 && set.dims == nullptr) {
    return NullArgument(call.function, "features[i]->dims", 0);
  }
  TUTTI_RETURN_IF_ERROR(CheckGivenOnHost(call, "features[i]->default_value", set.default_value));
  ExampleFeature read;
  read.key = set.key;
  read.dtype = static_cast<DType>(set.dtype);
  TUTTI_ASSIGN_OR_RETURN(read.shape, Shape::Create(set.dims, set.rank));
  read.default_value = Ref<const Tensor>::Retain(FromHandle(set.default_value));
  read.kind = static_cast<FeatureKind>(set.kind);
  return read;
}

Result<std::vector<ExampleFeature>> ReadFeatures(Call call, size_t count,
                                                 const tutti_feature *const *features) {
  TUTTI_REQUIRE_ARRAY(call, count, features);
  std::vector<ExampleFeature> read;
  for (size_t i = 0; i < count; ++i) {
    if (features[i] == nullptr) return NullArgument(call.function, "features", 0).With("index", i);
    TUTTI_ASSIGN_OR_RETURN(ExampleFeature feature, ReadFeature(call, features[i]));
    read.push_back(std::move(feature));
  }
  return read;
}

}  // namespace

tutti_status *tutti_function_create(tutti_runtime *runtime, tutti_callback callback,
                                    const tutti_function_options *options,
                                    tutti_function **out_function) {
  GivenCallback given(callback);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto function, MakeFunction(call, *root, given, options));
    TUTTI_REQUIRE(call, out_function);
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_function_register(tutti_runtime *runtime, const char *name,
                                      tutti_callback callback,
                                      const tutti_function_options *options) {
  GivenCallback given(callback);
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto function, MakeFunction(call, *root, given, options));
    TUTTI_REQUIRE(call, name);
    return root->functions().Register(name, std::move(function));
  });
}

tutti_status *tutti_function_unregister(tutti_runtime *runtime, const char *name) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    return root->functions().Unregister(name);
  });
}

tutti_status *tutti_function_create_registered(tutti_runtime *runtime, const char *name,
                                               tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, name, out_function);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(auto function, root->functions().Find(name));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_function_create_parse_example(tutti_runtime *runtime, size_t count,
                                                  const tutti_feature *const *features,
                                                  tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_function);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadFeatures(call, count, features));
    TUTTI_ASSIGN_OR_RETURN(auto function, MakeParseExample(std::move(read)));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_function_create_parse_sequence_example(tutti_runtime *runtime, size_t count,
                                                           const tutti_feature *const *features,
                                                           int64_t context_count,
                                                           tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_function);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadFeatures(call, count, features));
    if (context_count < 0 || static_cast<size_t>(context_count) > count) {
      return InvalidArgument("{}: context_count is {}; expected 0 to {}, the number of features",
                             call.function, context_count, count);
    }
    const auto first_list = read.begin() + context_count;
    std::vector<ExampleFeature> lists(std::make_move_iterator(first_list),
                                      std::make_move_iterator(read.end()));
    read.erase(first_list, read.end());
    TUTTI_ASSIGN_OR_RETURN(auto function,
                           MakeParseSequenceExample(std::move(read), std::move(lists)));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

tutti_status *tutti_function_create_decode_csv(tutti_runtime *runtime, size_t count,
                                               const tutti_feature *const *features,
                                               size_t select_count, const int64_t *select_cols,
                                               const tutti_decode_csv_options *options,
                                               tutti_function **out_function) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_function);
    TUTTI_REQUIRE_ARRAY(call, select_count, select_cols);
    TUTTI_RETURN_IF_ERROR(UseRuntime(call, runtime).status());
    TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
    CsvFormat format;
    format.field_delim = TextOr(set.field_delim, ",");
    format.na_value = TextOr(set.na_value, "");
    TUTTI_ASSIGN_OR_RETURN(format.use_quote_delim,
                           ReadTristate(call, set.use_quote_delim, true, "use_quote_delim"));
    format.select_cols.assign(select_cols, select_cols + select_count);
    TUTTI_ASSIGN_OR_RETURN(auto read, ReadFeatures(call, count, features));
    for (ExampleFeature &column : read) {
      if (column.kind != FeatureKind::kFixed) {
        return InvalidArgument("{}: column '{}' is of kind {}; a field is fixed", call.function,
                               column.key, static_cast<int32_t>(column.kind));
      }
      if (column.shape.rank() != 0) {
        return InvalidArgument("{}: a column has the shape {}; a field is a scalar", call.function,
                               column.shape.ToString());
      }
      format.columns.push_back(
          {std::move(column.key), column.dtype, std::move(column.default_value)});
    }
    TUTTI_ASSIGN_OR_RETURN(auto function, MakeDecodeCsv(std::move(format)));
    *out_function = Give(std::move(function));
    return OkStatus();
  });
}

void tutti_function_retain(const tutti_function *function) { RetainHandle(function); }
void tutti_function_release(const tutti_function *function) { ReleaseHandle(function); }
