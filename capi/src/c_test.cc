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

Tensor Floats(const std::vector<float> &values) {
  const int64_t dims[] = {static_cast<int64_t>(values.size())};
  Tensor tensor;
  EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_FLOAT32, 1, dims, values.data(),
                                          values.size() * sizeof(float), &tensor));
  return tensor;
}

std::vector<float> FloatsIn(const tutti_tensor *tensor) {
  if (tutti_tensor_get_dtype(tensor) != TUTTI_DTYPE_FLOAT32) return {};
  const auto *data = static_cast<const float *>(tutti_tensor_get_data(tensor));
  return std::vector<float>(data, data + tutti_tensor_get_element_count(tensor));
}

Value ValueOf(const tutti_tensor *tensor) {
  Value value;
  EXPECT_OK(tutti_value_create_tensor(tensor, &value));
  return value;
}

}  // namespace tutti::capi_test
