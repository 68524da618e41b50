// Every kernel against the CPU's, bit for bit, for each dtype: aligned and not, with NaNs,
// infinities and subnormals, and sizes on both sides of what a thread takes at once.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/tensor/arithmetic.h"
#include "core/tensor/cast.h"
#include "core/tensor/dtype.h"
#include "core/tensor/reduce.h"
#include "tests/gpu/gpu_testing.h"

namespace tutti::gpu {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

std::vector<DType> AllTypes() {
  std::vector<DType> types;
  for (int32_t i = 1; i <= static_cast<int32_t>(DType::kComplex128); ++i) {
    types.push_back(static_cast<DType>(i));
  }
  return types;
}

// Bits of numbers of ordinary size, and of special ones.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}

  uint64_t Bits() { return random_(); }

  // `special` 0: an ordinary number; 1: an infinity; 2: anything at all, also NaN.
  template <class T>
  T Draw(int special) {
    if constexpr (std::is_same_v<T, bool>) {
      return (Bits() & 1) != 0;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(Bits());
    } else if constexpr (kIsComplex<T>) {
      return T{Draw<decltype(T::real)>(special), Draw<decltype(T::imag)>(special)};
    } else if constexpr (std::is_same_v<T, Float16>) {
      return Float16{static_cast<uint16_t>(Float(special, 5, 10))};
    } else if constexpr (std::is_same_v<T, Bfloat16>) {
      return Bfloat16{static_cast<uint16_t>(Float(special, 8, 7))};
    } else if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(static_cast<uint32_t>(Float(special, 8, 23)));
    } else {
      return std::bit_cast<double>(Float(special, 11, 52));
    }
  }

 private:
  uint64_t Float(int special, int exponent_bits, int mantissa_bits) {
    const uint64_t sign = (Bits() & 1) << (exponent_bits + mantissa_bits);
    const uint64_t ones = (uint64_t{1} << exponent_bits) - 1;
    const uint64_t mantissa = Bits() & ((uint64_t{1} << mantissa_bits) - 1);
    if (special == 1) return sign | ones << mantissa_bits;
    if (special == 2) {
      // Zeros, subnormals, the largest ones, NaNs and infinities.
      const uint64_t exponents[] = {0, ones, ones - 1, 1};
      const uint64_t some = (Bits() & 3) == 0 ? 0 : mantissa;
      return sign | exponents[Bits() & 3] << mantissa_bits | some;
    }
    const uint64_t exponent = ones / 2 - 4 + Bits() % 9;
    return sign | exponent << mantissa_bits | mantissa;
  }

  std::mt19937_64 random_;
};

// `count` inputs of n elements. In an element at most one input is special in a way that may be
// NaN: which of two NaNs a sum takes over, compilers of CPUs choose.
template <class T>
std::vector<std::vector<T>> DrawInputs(size_t count, size_t n, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<std::vector<T>> inputs(count, std::vector<T>(n));
  for (size_t i = 0; i < n; ++i) {
    const uint64_t kind = numbers.Bits() % 16;
    const uint64_t chosen = numbers.Bits() % count;
    for (size_t r = 0; r < count; ++r) {
      inputs[r][i] = numbers.Draw<T>(kind == 0 ? 1 : kind == 1 && r == chosen ? 2 : 0);
    }
  }
  return inputs;
}

// Items of vector<bool> have no addresses.
template <class T>
using Item = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class T>
std::vector<std::vector<Item<T>>> DrawItems(size_t count, size_t n, uint64_t seed) {
  auto items = DrawInputs<Item<T>>(count, n, seed);
  if constexpr (std::is_same_v<T, bool>) {
    for (auto& input : items) {
      for (uint8_t& item : input) item &= 1;
    }
  }
  return items;
}

std::string FirstDifference(const Bytes& expected, const Bytes& found, size_t item) {
  for (size_t i = 0; i < expected.size(); i += item) {
    if (std::memcmp(&expected[i], &found[i], item) == 0) continue;
    std::string text = "element " + std::to_string(i / item) + ": expected";
    for (size_t j = item; j-- > 0;) {
      char byte[4];
      std::snprintf(byte, sizeof(byte), " %02x", expected[i + j]);
      text += byte;
    }
    text += ", found";
    for (size_t j = item; j-- > 0;) {
      char byte[4];
      std::snprintf(byte, sizeof(byte), " %02x", found[i + j]);
      text += byte;
    }
    return text;
  }
  return "";
}

class ReduceKernel : public GpuKernels, public ::testing::WithParamInterface<DType> {};

TEST_P(ReduceKernel, GivesTheBitsOfTheCpu) {
  const DType dtype = GetParam();
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView>) {
      for (int32_t op = 1; op <= static_cast<int32_t>(kLastReduceOp); ++op) {
        if (!CheckReducible(static_cast<ReduceOp>(op), dtype).ok()) continue;
        for (const auto& [count, n, shift] :
             std::vector<std::tuple<size_t, size_t, size_t>>{
                 {1, 17, 0}, {2, 1, 0}, {2, 1000, 0}, {3, 257, 1}, {4, 4096, 0}, {7, 1031, 0},
                 {9, 333, 1}, {33, 100, 0}}) {
          const auto inputs = DrawItems<T>(count, n, 100 * count + n);
          std::vector<const void*> on_host, on_device;
          for (const auto& input : inputs) {
            on_host.push_back(input.data());
            on_device.push_back(Copied(input.data(), n * sizeof(T), shift * sizeof(T)));
          }
          Bytes expected(n * sizeof(T));
          GPU_OK(ReduceInto(static_cast<ReduceOp>(op), dtype, on_host, static_cast<int64_t>(n),
                            expected.data()));
          void* const out = Memory(n * sizeof(T));
          GPU_OK(api().reduce(stream_, op, static_cast<int32_t>(dtype), on_device.data(), count, n,
                              out));
          const Bytes found = Read(out, n * sizeof(T));
          ASSERT_EQ(FirstDifference(expected, found, sizeof(T)), "")
              << ReduceOpName(static_cast<ReduceOp>(op)) << " of " << count << " x " << n << " "
              << DTypeName(dtype) << ", shifted by " << shift;
          // In place, into the last input.
          GPU_OK(api().reduce(stream_, op, static_cast<int32_t>(dtype), on_device.data(), count, n,
                              const_cast<void*>(on_device.back())));
          ASSERT_EQ(FirstDifference(expected, Read(on_device.back(), n * sizeof(T)), sizeof(T)), "")
              << "in place";
        }
      }
    }
  });
}

class SubtractKernel : public GpuKernels, public ::testing::WithParamInterface<DType> {};

TEST_P(SubtractKernel, GivesTheBitsOfTheCpu) {
  const DType dtype = GetParam();
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView> && !std::is_same_v<T, bool>) {
      for (const auto& [n, shift] :
           std::vector<std::pair<size_t, size_t>>{{1, 0}, {1000, 0}, {257, 1}}) {
        const auto inputs = DrawItems<T>(2, n, n);
        Bytes expected(n * sizeof(T));
        GPU_OK(BinaryElements(BinaryOp::kSub, dtype, inputs[0].data(), inputs[1].data(),
                              expected.data(), static_cast<int64_t>(n)));
        const void* const on_device[] = {Copied(inputs[0].data(), n * sizeof(T), shift * sizeof(T)),
                                         Copied(inputs[1].data(), n * sizeof(T), 0)};
        GPU_OK(api().reduce(stream_, TUTTI_PLUGIN_DIFFERENCE, static_cast<int32_t>(dtype),
                            on_device, 2, n, const_cast<void*>(on_device[0])));
        ASSERT_EQ(FirstDifference(expected, Read(on_device[0], n * sizeof(T)), sizeof(T)), "")
            << n << " " << DTypeName(dtype);
      }
    }
  });
}

class CastKernel : public GpuKernels, public ::testing::WithParamInterface<DType> {};

TEST_P(CastKernel, GivesTheBitsOfTheCpu) {
  const DType from = GetParam();
  constexpr size_t kN = 3000;
  VisitDType(from, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView>) {
      auto items = DrawItems<T>(1, kN, 7)[0];
      Numbers numbers(8);
      if constexpr (!std::is_same_v<T, bool>) {
        for (size_t i = 0; i < kN; i += 3) items[i] = numbers.Draw<T>(2);
      }
      if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
        // Of all magnitudes, so that roundings are met.
        for (size_t i = 0; i < kN; i += 2) items[i] >>= numbers.Bits() % (8 * sizeof(T) - 1);
      }
      if constexpr (std::is_floating_point_v<T>) {
        for (size_t i = 1; i < kN; i += 3) {
          items[i] = std::ldexp(items[i], static_cast<int>(numbers.Bits() % 120) - 60);
        }
      }
      const void* const in = Copied(items.data(), kN * sizeof(T));
      for (const DType to : AllTypes()) {
        const size_t item = ItemSize(to);
        Bytes expected(kN * item);
        CastElements(from, items.data(), to, expected.data(), kN);
        void* const out = Memory(kN * item);
        GPU_OK(api().cast(stream_, static_cast<int32_t>(from), in, static_cast<int32_t>(to), out,
                          kN));
        const std::string difference = FirstDifference(expected, Read(out, kN * item), item);
        const size_t at = difference.empty() ? 0 : std::strtoull(&difference[8], nullptr, 10);
        uint64_t bits[2] = {};
        std::memcpy(bits, &items[at], sizeof(T));
        ASSERT_EQ(difference, "") << DTypeName(from) << " to " << DTypeName(to) << " of "
                                  << std::hex << bits[0];
      }
    }
  });
}

class ScaleKernel : public GpuKernels, public ::testing::WithParamInterface<DType> {};

TEST_P(ScaleKernel, GivesTheBitsOfTheCpu) {
  const DType dtype = GetParam();
  if (dtype == DType::kBool) {
    EXPECT_THAT(AsStatus(api().scale(stream_, 1, nullptr, 2, 1, nullptr)).ToString(),
                HasSubstr("no kernel for bool"));
    return;
  }
  constexpr size_t kN = 2000;
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView>) {
      const auto items = DrawItems<T>(1, kN, 21)[0];
      const void* const in = Copied(items.data(), kN * sizeof(T));
      void* const out = Memory(kN * sizeof(T));
      for (const double factor : {0.125, -3.7, 1e30, 1.0 / 3}) {
        Bytes expected(kN * sizeof(T));
        GPU_OK(ScaleElements(dtype, items.data(), factor, expected.data(), kN));
        GPU_OK(api().scale(stream_, static_cast<int32_t>(dtype), in, factor, kN, out));
        ASSERT_EQ(FirstDifference(expected, Read(out, kN * sizeof(T)), sizeof(T)), "")
            << DTypeName(dtype) << " by " << factor;
      }
    }
  });
}

class CheckKernel : public GpuKernels, public ::testing::WithParamInterface<DType> {};

TEST_P(CheckKernel, CountsWhatIsNotFinite) {
  const DType dtype = GetParam();
  uint64_t counts[2] = {100, 200};
  auto* const out = static_cast<uint64_t*>(Copied(counts, sizeof(counts)));
  if (!IsFloating(dtype) && !IsComplex(dtype)) {
    EXPECT_THAT(AsStatus(api().check_numerics(stream_, static_cast<int32_t>(dtype), out, 1, out))
                    .ToString(),
                HasSubstr("no kernel"));
    return;
  }
  constexpr size_t kN = 5000;
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView> && !std::is_integral_v<T>) {
      Numbers numbers(5);
      std::vector<T> items(kN);
      for (T& item : items) item = numbers.Draw<T>(numbers.Bits() % 8 == 0 ? 2 : 0);
      std::vector<double> wide(2 * kN);
      const bool complex = IsComplex(dtype);
      CastElements(dtype, items.data(), complex ? DType::kComplex128 : DType::kFloat64,
                   wide.data(), kN);
      wide.resize(complex ? 2 * kN : kN);
      for (const double value : wide) {
        counts[0] += std::isnan(value);
        counts[1] += std::isinf(value);
      }
      ASSERT_GT(counts[0], 100u);
      const void* const in = Copied(items.data(), kN * sizeof(T));
      GPU_OK(api().check_numerics(stream_, static_cast<int32_t>(dtype), in, kN, out));
      uint64_t found[2];
      std::memcpy(found, Read(out, sizeof(found)).data(), sizeof(found));
      EXPECT_EQ(found[0], counts[0]);
      EXPECT_EQ(found[1], counts[1]);
    }
  });
}

const auto kNameOfType = [](const auto& info) { return std::string(DTypeName(info.param)); };
INSTANTIATE_TEST_SUITE_P(All, ReduceKernel, ::testing::ValuesIn(AllTypes()), kNameOfType);
INSTANTIATE_TEST_SUITE_P(All, SubtractKernel, ::testing::ValuesIn(AllTypes()), kNameOfType);
INSTANTIATE_TEST_SUITE_P(All, CastKernel, ::testing::ValuesIn(AllTypes()), kNameOfType);
INSTANTIATE_TEST_SUITE_P(All, ScaleKernel, ::testing::ValuesIn(AllTypes()), kNameOfType);
INSTANTIATE_TEST_SUITE_P(All, CheckKernel, ::testing::ValuesIn(AllTypes()), kNameOfType);

TEST_F(GpuKernels, PackGathersAndUnpackScattersPiecesOfAllSizesAndAlignments) {
  Numbers numbers(3);
  constexpr size_t kPieces = 300;  // more than one launch takes
  std::vector<Bytes> tensors;
  std::vector<tutti_plugin_piece> pieces, others;
  uint64_t offset = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const uint64_t sizes[] = {0, 1, 3, 4, 64, 100, 1000, 4096, 40000, 70001};
    Bytes tensor(sizes[numbers.Bits() % (i % 10 == 0 ? 10 : 8)]);
    for (unsigned char& byte : tensor) byte = static_cast<unsigned char>(numbers.Bits());
    offset += i % 3 == 0 ? numbers.Bits() % 8 : (16 - offset % 16) % 16;
    const uint64_t shift = i % 5 == 0 ? numbers.Bits() % 16 : 0;
    void* const memory = tensor.empty() ? nullptr : Copied(tensor.data(), tensor.size(), shift);
    pieces.push_back({memory, tensor.size(), offset});
    void* const other = tensor.empty() ? nullptr
                                       : static_cast<char*>(Memory(tensor.size() + 16)) + shift;
    others.push_back({other, tensor.size(), offset});
    offset += tensor.size();
    tensors.push_back(std::move(tensor));
  }
  void* const packed = Memory(offset);
  GPU_OK(api().fill(stream_, packed, 0xee, offset));
  GPU_OK(api().pack(stream_, pieces.data(), pieces.size(), packed));
  Bytes expected(offset, 0xee);
  for (size_t i = 0; i < kPieces; ++i) {
    std::copy(tensors[i].begin(), tensors[i].end(),
              expected.begin() + static_cast<int64_t>(pieces[i].offset));
  }
  ASSERT_EQ(FirstDifference(expected, Read(packed, offset), 1), "");
  GPU_OK(api().unpack(stream_, others.data(), others.size(), packed));
  for (size_t i = 0; i < kPieces; ++i) {
    if (tensors[i].empty()) continue;
    ASSERT_EQ(FirstDifference(tensors[i], Read(others[i].memory, tensors[i].size()), 1), "") << i;
  }
  GPU_OK(api().pack(stream_, pieces.data(), 0, packed));
}

TEST_F(GpuKernels, PackTakesMorePiecesThanAllListsHold) {
  // Eight lists, the first of 1024, each next one of twice as many, up to 16384.
  constexpr uint64_t kPieces = 15 * 1024 + 4 * 16384 + 100, kBytes = 4;
  Bytes all(kPieces * kBytes);
  Numbers numbers(5);
  for (unsigned char& byte : all) byte = static_cast<unsigned char>(numbers.Bits());
  char* const apart = static_cast<char*>(Copied(all.data(), all.size()));
  std::vector<tutti_plugin_piece> pieces;
  for (uint64_t i = 0; i < kPieces; ++i) {
    pieces.push_back({apart + (kPieces - 1 - i) * kBytes, kBytes, i * kBytes});
  }
  void* const packed = Memory(all.size());
  GPU_OK(api().pack(stream_, pieces.data(), kPieces, packed));
  Bytes expected;
  for (const tutti_plugin_piece& piece : pieces) {
    const auto begin = all.begin() + (static_cast<char*>(piece.memory) - apart);
    expected.insert(expected.end(), begin, begin + kBytes);
  }
  ASSERT_EQ(FirstDifference(expected, Read(packed, all.size()), 1), "");
  GPU_OK(api().fill(stream_, apart, 0, all.size()));
  GPU_OK(api().unpack(stream_, pieces.data(), kPieces, packed));
  ASSERT_EQ(FirstDifference(all, Read(apart, all.size()), 1), "");
}

TEST_F(GpuKernels, CopiesArraysWhoseElementsDoNotLieSideBySide) {
  Numbers numbers(4);
  for (const uint64_t item : {1, 2, 4, 8, 16}) {
    Bytes source(item * 4 * 6 * 10);
    for (unsigned char& byte : source) byte = static_cast<unsigned char>(numbers.Bits());
    const void* const in = Copied(source.data(), source.size());
    // Transposed, reversed, with steps and repeated; the last one lies side by side.
    struct Case {
      std::vector<int64_t> shape, strides;
      int64_t first;
    };
    for (const Case& test : std::vector<Case>{{{10, 6, 4}, {1, 10, 60}, 0},
                                              {{4, 6, 10}, {60, -10, 1}, 50},
                                              {{2, 3, 5}, {120, 20, 2}, 0},
                                              {{7, 1, 10}, {0, 10, 1}, 3},
                                              {{2, 2, 1, 6, 10}, {120, 60, 7, 10, 1}, 0},
                                              {{0, 3}, {1, 1}, 0},
                                              {{}, {}, 5}}) {
      std::vector<int64_t> dense(test.shape.size());
      int64_t n = 1;
      for (size_t d = dense.size(); d-- > 0;) {
        dense[d] = n;
        n *= test.shape[d];
      }
      Bytes expected(static_cast<size_t>(n) * item);
      for (int64_t i = 0; i < n; ++i) {
        int64_t at = test.first;
        for (size_t d = 0; d < dense.size(); ++d) {
          at += i / dense[d] % test.shape[d] * test.strides[d];
        }
        std::memcpy(&expected[static_cast<size_t>(i) * item],
                    &source[static_cast<size_t>(at) * item], item);
      }
      void* const out = Memory(expected.size() + 16);
      GPU_OK(api().copy_strided(stream_, item, static_cast<int32_t>(dense.size()),
                                test.shape.data(),
                                static_cast<const char*>(in) +
                                    test.first * static_cast<int64_t>(item),
                                test.strides.data(), out, dense.data()));
      ASSERT_EQ(FirstDifference(expected, Read(out, expected.size()), item), "") << item;
    }
  }
}

TEST_F(GpuKernels, RefuseWhatTheyCannotDo) {
  void* const memory = Memory(64);
  const void* inputs[] = {memory, memory};
  const auto message = [](tutti_status* status) { return AsStatus(status).ToString(); };
  EXPECT_THAT(message(api().reduce(stream_, 1, 16, inputs, 2, 1, memory)),
              HasSubstr("no kernel for dtype 16"));
  EXPECT_THAT(message(api().reduce(stream_, 9, 12, inputs, 2, 1, memory)),
              HasSubstr("9 is no reduction"));
  EXPECT_THAT(message(api().reduce(stream_, 1, 1, inputs, 2, 1, memory)),
              HasSubstr("sum is not defined for bool"));
  EXPECT_THAT(message(api().reduce(stream_, 6, 12, inputs, 2, 1, memory)),
              HasSubstr("band is not defined for float32"));
  EXPECT_THAT(message(api().reduce(stream_, 3, 14, inputs, 2, 1, memory)),
              HasSubstr("min is not defined for complex64"));
  EXPECT_THAT(message(api().reduce(stream_, 1, 12, inputs, 0, 1, memory)),
              HasSubstr("0 inputs; 1 to 256"));
  EXPECT_THAT(message(api().reduce(stream_, 1, 12, inputs, 257, 1, memory)),
              HasSubstr("257 inputs"));
  inputs[1] = static_cast<char*>(memory) + 2;
  EXPECT_THAT(message(api().reduce(stream_, 1, 12, inputs, 2, 1, memory)),
              HasSubstr("no multiple of the 4 bytes"));
  EXPECT_THAT(message(api().cast(stream_, 12, memory, 17, memory, 1)), HasSubstr("dtype 17"));
  const int64_t shape[] = {-1}, strides[] = {1};
  EXPECT_THAT(message(api().copy_strided(stream_, 3, 1, shape, memory, strides, memory, strides)),
              HasSubstr("elements of 3 bytes"));
  EXPECT_THAT(message(api().copy_strided(stream_, 4, 1, shape, memory, strides, memory, strides)),
              HasSubstr("dimension 0 has -1 elements"));
}

}  // namespace
}  // namespace tutti::gpu
