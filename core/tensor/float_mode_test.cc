// Folds have the same bits on a thread whose host has changed how floats are computed.

#include "core/tensor/float_mode.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/tensor/partial_fold.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// The thread flushes subnormal numbers to zero, and rounds towards zero.
class OddFloatMode {
 public:
  OddFloatMode() : before_(GetFloatMode()) { SetFloatMode(before_ | kFloatModeBits); }
  ~OddFloatMode() { SetFloatMode(before_); }

 private:
  const uint64_t before_;
};

// Subnormal numbers, and some that are not, in any of the dtypes: the upper bits of each decide.
std::vector<uint8_t> Input(DType dtype, int64_t n, uint64_t seed) {
  const size_t item = dtype == DType::kComplex64    ? 4
                      : dtype == DType::kComplex128 ? 8
                                                    : ItemSize(dtype);
  std::vector<uint8_t> bytes(static_cast<size_t>(n) * ItemSize(dtype));
  uint64_t state = seed;
  for (size_t i = 0; i < bytes.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<uint8_t>(state >> 56);
    if (i % item == item - 1) bytes[i] = i / item % 3 == 0 ? 0x3c : 0x00;
    if (i % item == item - 2 && i / item % 3 != 0 && item > 2) bytes[i] = 0x05;
  }
  return bytes;
}

struct Folds {
  std::vector<uint8_t> at_once;
  std::vector<uint8_t> one_by_one;
  bool operator==(const Folds&) const = default;
};

Folds Fold(ReduceOp op, DType dtype, int64_t n, const std::vector<const void*>& inputs) {
  const size_t bytes = static_cast<size_t>(n) * ItemSize(dtype);
  Folds folds{std::vector<uint8_t>(bytes), std::vector<uint8_t>(bytes)};
  EXPECT_TRUE(ReduceInto(op, dtype, inputs, n, folds.at_once.data()).ok());
  const PartialFold fold(op, dtype);
  std::vector<__int128> partial(bytes * static_cast<size_t>(fold.growth()) / 16 + 1);
  fold.Begin(inputs[0], n, partial.data());
  EXPECT_TRUE(fold.Add(inputs[1], n, partial.data()).ok());
  EXPECT_TRUE(fold.Finish(partial.data(), inputs[2], 3, n, folds.one_by_one.data()).ok());
  return folds;
}

TEST(FloatMode, IsTheDefaultInFoldsAndTheHostsAfterThem) {
  if (kFloatModeBits == 0) GTEST_SKIP() << "the modes of this processor are not known";
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64,
                            DType::kComplex64, DType::kComplex128}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd, ReduceOp::kMin,
                              ReduceOp::kMax}) {
      if (!CheckReducible(op, dtype).ok()) continue;
      for (const int64_t n : {int64_t{1}, int64_t{77}, int64_t{2049}}) {
        std::vector<std::vector<uint8_t>> data;
        std::vector<const void*> inputs;
        for (uint64_t seed = 1; seed <= 3; ++seed) data.push_back(Input(dtype, n, seed));
        for (const std::vector<uint8_t>& input : data) inputs.push_back(input.data());
        const Folds expected = Fold(op, dtype, n, inputs);
        const OddFloatMode odd;
        EXPECT_EQ(Fold(op, dtype, n, inputs), expected)
            << ReduceOpName(op) << " of " << n << " " << DTypeName(dtype);
        EXPECT_EQ(GetFloatMode() & kFloatModeBits, kFloatModeBits);
      }
    }
  }
}

// What the mode is for: without it the sum of two subnormal numbers is nothing.
TEST(FloatMode, DecidesWhetherSubnormalNumbersAreKept) {
  if (kFloatModeBits == 0) GTEST_SKIP() << "the modes of this processor are not known";
  volatile float tiny = 1e-40f;
  const uint64_t before = GetFloatMode();
  SetFloatMode(before | kFlushSubnormals);
  float flushed = tiny + tiny;
  volatile float sink = flushed;
  float kept = 1;
  {
    const DefaultFloatMode mode;
    kept = tiny + tiny;
    sink = kept;
  }
  SetFloatMode(before);
  (void)sink;
  EXPECT_EQ(flushed, 0.0f);
  EXPECT_GT(kept, 0.0f);
}

}  // namespace
}  // namespace tutti
