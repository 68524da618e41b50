#include "core/tensor/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/tensor/cast.h"
#include "core/tensor/half.h"
#include "core/tensor/partial_fold.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ReduceOp kArithmeticOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kProd};

template <class T>
Ref<Tensor> Vector(std::vector<T> values) {
  return Tensor::FromSpan<T>(Shape({static_cast<int64_t>(values.size())}), values).value();
}

template <class T>
T ReduceScalars(ReduceOp op, std::vector<T> values) {
  std::vector<Ref<Tensor>> tensors;
  std::vector<const Tensor*> pointers;
  for (T value : values) {
    tensors.push_back(Tensor::Scalar(value));
    pointers.push_back(tensors.back().get());
  }
  return Reduce(op, pointers).value()->template item<T>();
}

double ByDefinition(ReduceOp op, const std::vector<double>& values) {
  double result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMean: result += values[i]; break;
      case ReduceOp::kMin: result = std::min(result, values[i]); break;
      case ReduceOp::kMax: result = std::max(result, values[i]); break;
      case ReduceOp::kProd: result *= values[i]; break;
      case ReduceOp::kBitAnd:
      case ReduceOp::kBitOr:
      case ReduceOp::kBitXor: break;  // folded by other tests
    }
  }
  return op == ReduceOp::kMean ? result / static_cast<double>(values.size()) : result;
}

// Small whole numbers of which sums and products are exact in every dtype; sizes around the blocks
// of the kernels.
TEST(Reduce, FoldsEveryDTypeWithEveryOp) {
  std::mt19937 random(11);
  for (size_t count : {1, 2, 3, 4}) {
    for (int64_t size : {1, 3, 63, 64, 65, 511, 512, 513, 1100}) {
      std::vector<std::vector<double>> numbers(count, std::vector<double>(size));
      for (auto& row : numbers) {
        for (double& number : row) number = random() % 3;
      }
      for (int32_t number = 2; number <= 15; ++number) {
        const auto dtype = static_cast<DType>(number);
        std::vector<Ref<Tensor>> inputs;
        std::vector<const Tensor*> pointers;
        for (const auto& row : numbers) {
          inputs.push_back(Cast(*Vector(row), dtype).value());
          pointers.push_back(inputs.back().get());
        }
        for (ReduceOp op : kArithmeticOps) {
          if (IsComplex(dtype) && (op == ReduceOp::kMin || op == ReduceOp::kMax)) continue;
          const Ref<Tensor> reduced =
              Cast(*Reduce(op, pointers).value(), DType::kFloat64).value();
          for (int64_t i = 0; i < size; ++i) {
            std::vector<double> column;
            for (const auto& row : numbers) column.push_back(row[i]);
            double expected = ByDefinition(op, column);
            if (IsInteger(dtype)) expected = std::trunc(expected);
            const double tolerance = op == ReduceOp::kMean ? 0.01 * expected : 0;
            ASSERT_NEAR(reduced->span<double>()[i], expected, tolerance)
                << ReduceOpName(op) << " " << DTypeName(dtype) << " " << count << " x " << size;
          }
        }
      }
    }
  }
}

TEST(Reduce, MayWriteOverAnyInput) {
  for (size_t target : {0, 1, 2}) {
    std::vector<std::vector<float>> inputs(3, std::vector<float>(1000));
    for (size_t r = 0; r < 3; ++r) {
      for (size_t i = 0; i < 1000; ++i) inputs[r][i] = static_cast<float>(r * 1000 + i);
    }
    const void* pointers[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    ASSERT_TRUE(ReduceInto(ReduceOp::kSum, DType::kFloat32, pointers, 1000,
                           inputs[target].data()).ok());
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(inputs[target][i], static_cast<float>(3000 + 3 * i));
    }
  }
}

TEST(Reduce, FoldsInOrderOfTheInputs) {
  const float big = 0x1p24f;
  EXPECT_EQ(ReduceScalars<float>(ReduceOp::kSum, {big, 1, -big}), 0.0f);
  EXPECT_EQ(ReduceScalars<float>(ReduceOp::kSum, {big, -big, 1}), 1.0f);
  // The same elements inside a block and in the tail.
  std::vector<float> first(1001, big);
  std::vector<float> second(1001, 1);
  std::vector<float> third(1001, -big);
  const void* pointers[] = {first.data(), second.data(), third.data()};
  ASSERT_TRUE(
      ReduceInto(ReduceOp::kSum, DType::kFloat32, pointers, 1001, first.data()).ok());
  for (float sum : first) ASSERT_EQ(sum, 0.0f);
}

TEST(Reduce, AccumulatesHalvesInFloatAndRoundsOnce) {
  // 2048 + 1 + 1: in float16 alone each 1 would be lost.
  const auto half = [](float value) { return ToFloat16(value); };
  EXPECT_EQ(ReduceScalars<Float16>(ReduceOp::kSum, {half(2048), half(1), half(1)}).bits,
            half(2050).bits);
  EXPECT_EQ(ReduceScalars<Bfloat16>(ReduceOp::kSum,
                                    {ToBfloat16(256), ToBfloat16(1), ToBfloat16(1)}).bits,
            ToBfloat16(258).bits);
  EXPECT_EQ(ReduceScalars<Float16>(ReduceOp::kMean, {half(60000), half(60000)}).bits,
            half(60000).bits);
}

TEST(Reduce, TruncatesTheMeanOfIntegersAndNeverOverflows) {
  EXPECT_EQ(ReduceScalars<int32_t>(ReduceOp::kMean, {1, 2}), 1);
  EXPECT_EQ(ReduceScalars<int32_t>(ReduceOp::kMean, {-1, -2}), -1);
  EXPECT_EQ(ReduceScalars<int8_t>(ReduceOp::kMean, {100, 120}), 110);
  EXPECT_EQ(ReduceScalars<uint8_t>(ReduceOp::kMean, {255, 255, 255}), 255);
  const int64_t big = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ReduceScalars<int64_t>(ReduceOp::kMean, {big, big, big}), big);
  EXPECT_EQ(ReduceScalars<int64_t>(ReduceOp::kMean, {-big - 1, -big - 1}), -big - 1);
  const uint64_t all = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(ReduceScalars<uint64_t>(ReduceOp::kMean, {all, all - 2}), all - 1);
}

TEST(Reduce, WrapsSumsAndProductsOfIntegers) {
  EXPECT_EQ(ReduceScalars<int8_t>(ReduceOp::kSum, {100, 100}), -56);
  EXPECT_EQ(ReduceScalars<uint16_t>(ReduceOp::kProd, {65535, 65535}), 1);
  EXPECT_EQ(ReduceScalars<int32_t>(ReduceOp::kProd, {1 << 20, 1 << 20}), 0);
  EXPECT_EQ(ReduceScalars<int64_t>(
                ReduceOp::kSum, {std::numeric_limits<int64_t>::max(), 1}),
            std::numeric_limits<int64_t>::min());
}

template <class T>
class ReduceExtremes : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ReduceExtremes, Floats);

TYPED_TEST(ReduceExtremes, AreNanWhenAnyOperandIsAndOrderMinusZeroFirst) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T inf = std::numeric_limits<T>::infinity();
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (const auto& values : std::vector<std::vector<T>>{
             {nan, 1}, {1, nan}, {-nan, 1}, {1, -nan, 2}, {inf, nan}, {nan, nan}}) {
      const T result = ReduceScalars<T>(op, values);
      // Always the same NaN.
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      EXPECT_EQ(std::bit_cast<Bits>(result), std::bit_cast<Bits>(nan));
    }
  }
  const T zero = 0;
  EXPECT_TRUE(std::signbit(ReduceScalars<T>(ReduceOp::kMin, {zero, -zero})));
  EXPECT_TRUE(std::signbit(ReduceScalars<T>(ReduceOp::kMin, {-zero, zero})));
  EXPECT_FALSE(std::signbit(ReduceScalars<T>(ReduceOp::kMax, {zero, -zero})));
  EXPECT_FALSE(std::signbit(ReduceScalars<T>(ReduceOp::kMax, {-zero, zero})));
  EXPECT_EQ(ReduceScalars<T>(ReduceOp::kMin, {-3, -5, 4}), T{-5});
  EXPECT_EQ(ReduceScalars<T>(ReduceOp::kMax, {-3, -5}), T{-3});
  EXPECT_EQ(ReduceScalars<T>(ReduceOp::kMin, {inf, -inf}), -inf);
  EXPECT_EQ(ReduceScalars<T>(ReduceOp::kMax, {inf, -inf}), inf);
}

TYPED_TEST(ReduceExtremes, AgreeBetweenBlocksAndTheirTails) {
  using T = TypeParam;
  const T special[] = {0,
                       -T{0},
                       1,
                       -1,
                       std::numeric_limits<T>::denorm_min(),
                       -std::numeric_limits<T>::denorm_min(),
                       std::numeric_limits<T>::infinity(),
                       -std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       -std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> a;
  std::vector<T> b;
  for (int repeat = 0; repeat < 8; ++repeat) {
    for (T x : special) {
      for (T y : special) {
        a.push_back(x);
        b.push_back(y);
      }
    }
  }
  const void* pointers[] = {a.data(), b.data()};
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<T> out(a.size());
    ASSERT_TRUE(ReduceInto(op, DTypeOf<T>, pointers, static_cast<int64_t>(a.size()),
                           out.data()).ok());
    for (size_t i = 0; i < a.size(); ++i) {
      const T alone = ReduceScalars<T>(op, {a[i], b[i]});
      ASSERT_EQ(std::memcmp(&out[i], &alone, sizeof(T)), 0) << a[i] << " " << b[i];
    }
  }
}

TEST(Reduce, TreatsExtremesOfHalvesAlike) {
  const Float16 nan{0xfe01};
  EXPECT_EQ(ReduceScalars<Float16>(ReduceOp::kMin, {Float16{0}, nan}).bits, 0x7e00);
  EXPECT_EQ(ReduceScalars<Float16>(ReduceOp::kMin, {Float16{0}, Float16{0x8000}}).bits, 0x8000);
  EXPECT_EQ(ReduceScalars<Bfloat16>(ReduceOp::kMax, {Bfloat16{0x8000}, Bfloat16{0}}).bits, 0);
}

// Of all bits: a whole block, in which elements change their width many at a time, gives what an
// element by itself gives.
TEST(Reduce, FoldsBlocksOfHalvesAsItFoldsEachByItself) {
  std::mt19937 random(23);
  constexpr size_t kCount = 64 * 5 + 7;
  std::vector<std::vector<Bfloat16>> inputs(3, std::vector<Bfloat16>(kCount));
  for (std::vector<Bfloat16>& input : inputs) {
    for (Bfloat16& value : input) value = Bfloat16{static_cast<uint16_t>(random())};
  }
  for (size_t ranks = 2; ranks <= inputs.size(); ++ranks) {
    for (ReduceOp op : kArithmeticOps) {
      std::vector<const void*> whole;
      for (size_t r = 0; r < ranks; ++r) whole.push_back(inputs[r].data());
      std::vector<Bfloat16> folded(kCount);
      ASSERT_TRUE(ReduceInto(op, DType::kBfloat16, whole, kCount, folded.data()).ok());
      for (size_t i = 0; i < kCount; ++i) {
        std::vector<const void*> one;
        for (size_t r = 0; r < ranks; ++r) one.push_back(&inputs[r][i]);
        Bfloat16 alone;
        ASSERT_TRUE(ReduceInto(op, DType::kBfloat16, one, 1, &alone).ok());
        // Which of two NaNs an addition passes on is the machine's choice.
        if (std::isnan(ToFloat(alone)) && std::isnan(ToFloat(folded[i]))) continue;
        EXPECT_EQ(folded[i].bits, alone.bits) << ReduceOpName(op) << " of " << ranks << " at " << i;
      }
    }
  }
}

TEST(Reduce, MultipliesComplexNumbers) {
  const Complex128 product =
      ReduceScalars<Complex128>(ReduceOp::kProd, {{0, 1}, {0, 1}, {2, 3}});
  EXPECT_EQ(product.real, -2.0);
  EXPECT_EQ(product.imag, -3.0);
  const Complex64 mean = ReduceScalars<Complex64>(ReduceOp::kMean, {{1, 2}, {3, 6}});
  EXPECT_EQ(mean.real, 2.0f);
  EXPECT_EQ(mean.imag, 4.0f);
}

TEST(Reduce, TakesMinAndMaxOfBooleansAsAllAndAny) {
  EXPECT_FALSE(ReduceScalars<bool>(ReduceOp::kMin, {true, false}));
  EXPECT_TRUE(ReduceScalars<bool>(ReduceOp::kMax, {true, false}));
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
    const Status status = CheckReducible(op, DType::kBool);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("use MIN or MAX, or cast first"));
  }
}

template <class T>
void ExpectBitwise() {
  for (int64_t size : {1, 63, 64, 65, 513}) {
    std::vector<std::vector<T>> inputs(3, std::vector<T>(static_cast<size_t>(size)));
    std::mt19937_64 random(17);
    for (std::vector<T>& input : inputs) {
      for (T& value : input) value = static_cast<T>(random());
    }
    const void* pointers[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
    std::vector<T> all(inputs[0].size());
    std::vector<T> any(all.size());
    std::vector<T> odd(all.size());
    ASSERT_TRUE(ReduceInto(ReduceOp::kBitAnd, DTypeOf<T>, pointers, size, all.data()).ok());
    ASSERT_TRUE(ReduceInto(ReduceOp::kBitOr, DTypeOf<T>, pointers, size, any.data()).ok());
    ASSERT_TRUE(ReduceInto(ReduceOp::kBitXor, DTypeOf<T>, pointers, size, odd.data()).ok());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], static_cast<T>(inputs[0][i] & inputs[1][i] & inputs[2][i]));
      ASSERT_EQ(any[i], static_cast<T>(inputs[0][i] | inputs[1][i] | inputs[2][i]));
      ASSERT_EQ(odd[i], static_cast<T>(inputs[0][i] ^ inputs[1][i] ^ inputs[2][i]));
    }
  }
}

TEST(Reduce, FoldsTheBitsOfIntegers) {
  ExpectBitwise<int8_t>();
  ExpectBitwise<int16_t>();
  ExpectBitwise<int32_t>();
  ExpectBitwise<int64_t>();
  ExpectBitwise<uint8_t>();
  ExpectBitwise<uint16_t>();
  ExpectBitwise<uint32_t>();
  ExpectBitwise<uint64_t>();
}

TEST(Reduce, FoldsTheBitsOfBooleansAsAllAnyAndParity) {
  EXPECT_FALSE(ReduceScalars<bool>(ReduceOp::kBitAnd, {true, false, true}));
  EXPECT_TRUE(ReduceScalars<bool>(ReduceOp::kBitOr, {true, false, true}));
  EXPECT_FALSE(ReduceScalars<bool>(ReduceOp::kBitXor, {true, false, true}));
  EXPECT_TRUE(ReduceScalars<bool>(ReduceOp::kBitXor, {true, true, true}));
}

TEST(Reduce, RefusesTheBitsOfFloats) {
  for (DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kComplex64, DType::kBytes}) {
    const Status status = CheckReducible(ReduceOp::kBitXor, dtype);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("BXOR is not defined for"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("bits of integers and booleans"));
  }
  EXPECT_EQ(CheckReducible(static_cast<ReduceOp>(9), DType::kInt32).code(),
            StatusCode::kInvalidArgument);
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  EXPECT_EQ(CheckReducible(ReduceOp::kMin, DType::kComplex64).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckReducible(ReduceOp::kSum, DType::kBytes).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckReducible(static_cast<ReduceOp>(0), DType::kFloat32).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Reduce(ReduceOp::kSum, {}).status().code(), StatusCode::kInvalidArgument);
  const Ref<Tensor> two = Vector<float>({1, 2});
  const Ref<Tensor> three = Vector<float>({1, 2, 3});
  const Tensor* const unequal[] = {two.get(), three.get()};
  const Status status = Reduce(ReduceOp::kSum, unequal).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("float32[2] and input 1 is float32[3]"));
}

TEST(Reduce, ReadsViewsWithGaps) {
  const Ref<Tensor> table =
      Tensor::FromSpan<int32_t>(Shape({2, 2}), std::vector<int32_t>{1, 2, 3, 4}).value();
  const Ref<Tensor> left = table->SliceAxis(1, 0, 1).value();
  const Ref<Tensor> right = table->SliceAxis(1, 1, 2).value();
  const Tensor* const inputs[] = {left.get(), right.get()};
  EXPECT_THAT(Reduce(ReduceOp::kSum, inputs).value()->span<int32_t>(), ElementsAre(3, 7));
}

TEST(ReduceAxis, FoldsEachAxis) {
  const Ref<Tensor> cube =
      Tensor::FromSpan<float>(Shape({2, 2, 3}),
                              std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
          .value();
  EXPECT_THAT(ReduceAxis(ReduceOp::kSum, *cube, 0).value()->span<float>(),
              ElementsAre(6, 8, 10, 12, 14, 16));
  EXPECT_THAT(ReduceAxis(ReduceOp::kMean, *cube, 1).value()->span<float>(),
              ElementsAre(1.5f, 2.5f, 3.5f, 7.5f, 8.5f, 9.5f));
  const Ref<Tensor> last = ReduceAxis(ReduceOp::kMax, *cube, 2).value();
  EXPECT_EQ(last->shape(), Shape({2, 2}));
  EXPECT_THAT(last->span<float>(), ElementsAre(2, 5, 8, 11));
  EXPECT_EQ(ReduceAxis(ReduceOp::kSum, *cube, 3).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReduceAxis(ReduceOp::kSum, *Tensor::Scalar(1.0f), 0).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ReduceAxis, KnowsTheFoldOfNothing) {
  const auto empty = [](DType dtype) { return Tensor::Create(dtype, Shape({0, 2})).value(); };
  EXPECT_THAT(ReduceAxis(ReduceOp::kSum, *empty(DType::kFloat32), 0).value()->span<float>(),
              ElementsAre(0, 0));
  EXPECT_THAT(ReduceAxis(ReduceOp::kProd, *empty(DType::kInt32), 0).value()->span<int32_t>(),
              ElementsAre(1, 1));
  EXPECT_TRUE(std::isnan(
      ReduceAxis(ReduceOp::kMean, *empty(DType::kFloat32), 0).value()->item<float>()));
  EXPECT_EQ(ReduceAxis(ReduceOp::kMean, *empty(DType::kInt32), 0).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ReduceAxis(ReduceOp::kMin, *empty(DType::kFloat32), 0).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(ReduceAxis(ReduceOp::kBitOr, *empty(DType::kUint8), 0).value()->span<uint8_t>(),
              ElementsAre(0, 0));
  EXPECT_EQ(ReduceAxis(ReduceOp::kBitAnd, *empty(DType::kUint8), 0).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ReduceAxis(ReduceOp::kMin, *empty(DType::kFloat32), 1).value()->shape(), Shape({0}));
}

// What comes one input after the other, of any bits, has the bits of what comes at once.
TEST(PartialFoldTest, HasTheBitsOfAFoldOfAllInputsAtOnce) {
  std::mt19937_64 random(20261122);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                            ReduceOp::kProd, ReduceOp::kBitAnd, ReduceOp::kBitOr,
                            ReduceOp::kBitXor}) {
    for (int kind = 1; kind <= static_cast<int>(DType::kComplex128); ++kind) {
      const auto dtype = static_cast<DType>(kind);
      if (!CheckReducible(op, dtype).ok()) continue;
      const PartialFold fold(op, dtype);
      ASSERT_LE(fold.growth(), PartialFold::kMostGrowth);
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{77}, int64_t{2500}}) {
        const size_t bytes = static_cast<size_t>(n) * ItemSize(dtype);
        const uint64_t mask = dtype == DType::kBool ? 0x0101010101010101 : ~uint64_t{0};
        std::vector<std::vector<uint64_t>> inputs(5);
        std::vector<const void*> pointers;
        for (std::vector<uint64_t>& input : inputs) {
          input.resize(bytes / 8 + 1);
          for (uint64_t& word : input) word = random() & mask;
          // Which of two NaNs a sum takes its payload from is open: none is in half of them.
          if (!IsInteger(dtype) && n % 2 != 0) {
            for (uint64_t& word : input) word &= 0xbfffbfffbfffbfff;
          }
          pointers.push_back(input.data());
        }
        std::vector<uint64_t> expected(bytes / 8 + 1);
        std::vector<uint64_t> actual(bytes / 8 + 1);
        ASSERT_TRUE(ReduceInto(op, dtype, pointers, n, expected.data()).ok());
        std::vector<__int128> partial(bytes * static_cast<size_t>(fold.growth()) / 16 + 1);
        fold.Begin(pointers[0], n, partial.data());
        for (size_t i = 1; i < 4; ++i) {
          ASSERT_TRUE(fold.Add(pointers[i], n, partial.data()).ok());
        }
        ASSERT_TRUE(fold.Finish(partial.data(), pointers[4], 5, n, actual.data()).ok());
        if (n % 2 != 0 || IsInteger(dtype)) {
          EXPECT_EQ(std::memcmp(expected.data(), actual.data(), bytes), 0)
              << ReduceOpName(op) << " of " << n << " " << DTypeName(dtype);
        }
        // In place of the last input.
        ASSERT_TRUE(fold.Finish(partial.data(), pointers[4], 5, n, inputs[4].data()).ok());
        EXPECT_EQ(std::memcmp(inputs[4].data(), actual.data(), bytes), 0);
      }
    }
  }
}

}  // namespace
}  // namespace tutti
