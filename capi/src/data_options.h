// DataOptionsHandle: what tutti_data_options is, the core's value type with a reference count.
#ifndef TUTTI_CAPI_SRC_DATA_OPTIONS_H_
#define TUTTI_CAPI_SRC_DATA_OPTIONS_H_

#include <utility>

#include "core/base/ref.h"
#include "core/dataset/graph/dataset_options.h"

namespace tutti::capi {

class DataOptionsHandle final : public RefCounted {
 public:
  explicit DataOptionsHandle(DatasetOptions set = {}) : options(std::move(set)) {}

  DatasetOptions options;
};

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_DATA_OPTIONS_H_
