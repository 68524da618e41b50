// Options of datasets.
#include "capi/src/data_options.h"

#include <tutti/dataset.h>

#include <string>
#include <vector>

#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/roots.h"
#include "core/base/log.h"
#include "core/base/text.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_data_options_create(tutti_data_options **out_options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_options);
    *out_options = Give(MakeRef<DataOptionsHandle>());
    return OkStatus();
  });
}

tutti_status *tutti_data_options_set_int64(tutti_data_options *options, const char *key,
                                           int64_t value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key);
    return FromHandle(options)->options.SetInt(key, value);
  });
}

tutti_status *tutti_data_options_set_bool(tutti_data_options *options, const char *key,
                                          int32_t value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key);
    return FromHandle(options)->options.SetBool(key, value != 0);
  });
}

tutti_status *tutti_data_options_clear(tutti_data_options *options, const char *key) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key);
    return FromHandle(options)->options.Clear(key);
  });
}

tutti_status *tutti_data_options_read(const tutti_data_options *options, const char *key,
                                      tutti_optional_int64 *out_value) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, key, out_value);
    TUTTI_ASSIGN_OR_RETURN(const auto value, FromHandle(options)->options.Read(key));
    *out_value = {value.has_value(), value.value_or(0)};
    return OkStatus();
  });
}

tutti_status *tutti_data_options_merge(const tutti_data_options *options,
                                       const tutti_data_options *other,
                                       tutti_data_options **out_options) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, other, out_options);
    std::vector<std::string> changed;
    auto merged = MakeRef<DataOptionsHandle>(
        FromHandle(options)->options.Merge(FromHandle(other)->options, &changed));
    if (!changed.empty()) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, nullptr));
      root->log().Warning(Format("merging dataset options changes {}", JoinAll(changed, ", ")));
    }
    *out_options = Give(std::move(merged));
    return OkStatus();
  });
}

int32_t tutti_data_options_equal(const tutti_data_options *left, const tutti_data_options *right) {
  if (left == nullptr || right == nullptr) return left == right;
  return FromHandle(left)->options == FromHandle(right)->options;
}

tutti_status *tutti_data_options_to_string(const tutti_data_options *options,
                                           tutti_bytes **out_text) {
  return Guard(__func__, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, options, out_text);
    *out_text = GiveBytes(FromHandle(options)->options.ToString());
    return OkStatus();
  });
}

void tutti_data_options_retain(const tutti_data_options *options) { RetainHandle(options); }
void tutti_data_options_release(const tutti_data_options *options) { ReleaseHandle(options); }
