// What a team's fold writes has the same bits on a thread whose host has changed how floats are
// computed.

#include "core/strategy/team_reduce.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/tensor/float_mode.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

std::string Written(const TeamFold& fold) {
  std::string bytes(static_cast<size_t>(fold.folded->num_elements()) * ItemSize(fold.dtype), '\0');
  fold.WriteTo(bytes.data());
  return bytes;
}

TEST(TeamFold, WritesTheSameMeanWhateverTheFloatModeOfTheThread) {
  if (kFloatModeBits == 0) GTEST_SKIP() << "the modes of this processor are not known";
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    TeamFold fold;
    fold.op = ReduceOp::kMean;
    fold.dtype = dtype;
    fold.num_replicas = 3;
    fold.folded = Tensor::Vector<float>({2e-38f, 1.0f, 2.0f, -5.0f, 1e-39f});
    fold.is_result = false;
    const std::string expected = Written(fold);
    const uint64_t before = GetFloatMode();
    SetFloatMode(before | kFloatModeBits);
    const std::string found = Written(fold);
    SetFloatMode(before);
    EXPECT_EQ(found, expected) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace tutti
