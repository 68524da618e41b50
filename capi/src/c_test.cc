#include "capi/src/c_test.h"

#include <vector>

namespace tutti::capi_test {

Strategy MirroredOver(int replicas) {
  std::vector<std::string> names;
  std::vector<const char *> devices;
  for (int i = 0; i < replicas; ++i) names.push_back("CPU:" + std::to_string(i));
  for (const std::string &name : names) devices.push_back(name.c_str());
  Strategy strategy;
  EXPECT_OK(tutti_strategy_create_mirrored(nullptr, devices.size(), devices.data(), nullptr,
                                           nullptr, &strategy));
  return strategy;
}

Dataset RangeOf(int64_t n) {
  Dataset dataset;
  EXPECT_OK(tutti_dataset_create_range(nullptr, 0, n, 1, nullptr, &dataset));
  return dataset;
}

int64_t NumberIn(const tutti_value *value, size_t leaf) {
  const tutti_tensor *tensor = tutti_value_get_leaf_tensor(value, leaf);
  if (tutti_tensor_get_dtype(tensor) != TUTTI_DTYPE_INT64) return INT64_MIN;
  return *static_cast<const int64_t *>(tutti_tensor_get_data(tensor));
}

}  // namespace tutti::capi_test
