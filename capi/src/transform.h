// What the C functions that make datasets share: a transformation replaces the handle it is given,
// a source gives a new one.
//
//   tutti_status *tutti_dataset_take(tutti_dataset **dataset, int64_t count,
//                                    const tutti_transform_options *options) {
//     return Transform(__func__, dataset, options,
//                      [&](Call, const Dataset &input, const auto &set) -> DatasetResult {
//                        return input.Take(count, Name(set.name));
//                      });
//   }
#ifndef TUTTI_CAPI_SRC_TRANSFORM_H_
#define TUTTI_CAPI_SRC_TRANSFORM_H_

#include <tutti/dataset.h>

#include <string>
#include <utility>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/dataset/graph/dataset.h"

namespace tutti::capi {

using DatasetResult = Result<Ref<Dataset>>;

inline std::string Name(const char *name) { return std::string(TextOr(name, "")); }

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

// Gives what `make` makes in the runtime, the default one for NULL.
template <class Make>
tutti_status *Source(const char *function, tutti_runtime *runtime, tutti_dataset **out_dataset,
                     Make &&make) {
  return Guard(function, From::kBuilding, [&](Call call) -> Status {
    TUTTI_REQUIRE(call, out_dataset);
    TUTTI_ASSIGN_OR_RETURN(const Ref<Runtime> root, UseRuntime(call, runtime));
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, make(call, root->datasets()));
    *out_dataset = Give(std::move(made));
    return OkStatus();
  });
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_TRANSFORM_H_
