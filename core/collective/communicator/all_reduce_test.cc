// Every numeric dtype and reduction against a plain reference, for sizes around the borders of the
// algorithms, in place, apart, misaligned and strided; every rank must have the reference's bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/seeded_runs_testing.h"
#include "core/collective/select/selector.h"
#include "core/collective/testing/checked_fold_testing.h"
#include "core/collective/testing/rank_threads.h"
#include "core/tensor/half.h"
#include "core/tensor/reduce.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr DType kNumericDTypes[] = {
    DType::kInt8,   DType::kInt16,   DType::kInt32,    DType::kInt64,   DType::kUint8,
    DType::kUint16, DType::kUint32,  DType::kUint64,   DType::kFloat16, DType::kBfloat16,
    DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};

// ---- The reference: one element of all ranks, in rank order. ----

template <class T>
T FoldNumbers(ReduceOp op, const std::vector<T>& operands) {
  T result = operands[0];
  for (size_t r = 1; r < operands.size(); ++r) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMean: result = static_cast<T>(result + operands[r]); break;
      case ReduceOp::kProd: result = static_cast<T>(result * operands[r]); break;
      case ReduceOp::kMin: result = std::min(result, operands[r]); break;
      case ReduceOp::kMax: result = std::max(result, operands[r]); break;
      case ReduceOp::kBitAnd:
      case ReduceOp::kBitOr:
      case ReduceOp::kBitXor: break;  // kOps has none of them
    }
  }
  if (op == ReduceOp::kMean) result /= static_cast<T>(operands.size());
  return result;
}

template <class T>
T FoldIntegers(ReduceOp op, const std::vector<T>& operands) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return FoldNumbers(op, operands);
  // Exact where the result must be (a mean), and cut to the type where it wraps.
  __int128 sum = 0;
  uint64_t product = 1;
  for (T operand : operands) {
    sum += operand;
    product *= static_cast<uint64_t>(operand);
  }
  if (op == ReduceOp::kMean) return static_cast<T>(sum / static_cast<__int128>(operands.size()));
  return op == ReduceOp::kSum ? static_cast<T>(sum) : static_cast<T>(product);
}

template <class T, class Real>
T FoldComplex(ReduceOp op, const std::vector<T>& operands) {
  T result = operands[0];
  for (size_t r = 1; r < operands.size(); ++r) {
    const T b = operands[r];
    if (op == ReduceOp::kProd) {
      result = T{result.real * b.real - result.imag * b.imag,
                 result.real * b.imag + result.imag * b.real};
    } else {
      result = T{result.real + b.real, result.imag + b.imag};
    }
  }
  if (op == ReduceOp::kMean) {
    const auto count = static_cast<Real>(operands.size());
    result = T{result.real / count, result.imag / count};
  }
  return result;
}

template <class T>
T Fold(ReduceOp op, const std::vector<T>& operands) {
  if constexpr (std::is_same_v<T, Complex64>) {
    return FoldComplex<T, float>(op, operands);
  } else if constexpr (std::is_same_v<T, Complex128>) {
    return FoldComplex<T, double>(op, operands);
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    std::vector<float> wide;
    for (T operand : operands) wide.push_back(ToFloat(operand));
    const float folded = FoldNumbers(op, wide);
    if constexpr (std::is_same_v<T, Float16>) return ToFloat16(folded);
    else return ToBfloat16(folded);
  } else if constexpr (std::is_integral_v<T>) {
    return FoldIntegers(op, operands);
  } else {
    return FoldNumbers(op, operands);
  }
}

template <class T>
T RandomElement(std::mt19937_64& random) {
  const double number = std::uniform_real_distribution<double>(-2.0, 2.0)(random);
  if constexpr (std::is_same_v<T, Complex64>) {
    return T{static_cast<float>(number), static_cast<float>(number * 0.75 - 0.3)};
  } else if constexpr (std::is_same_v<T, Complex128>) {
    return T{number, number * 0.75 - 0.3};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(number));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    return static_cast<T>(number);
  }
}

// ---- One cell: tensors of all ranks, and what they must become. ----

enum class Layout { kApart, kInPlace, kMisaligned, kStrided, kOverlapping };
constexpr Layout kLayouts[] = {Layout::kApart, Layout::kInPlace, Layout::kMisaligned,
                               Layout::kStrided, Layout::kOverlapping};

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kApart: return "apart";
    case Layout::kInPlace: return "in place";
    case Layout::kMisaligned: return "misaligned";
    case Layout::kStrided: return "strided";
    case Layout::kOverlapping: return "overlapping";
  }
  return "";
}

struct Cell {
  DType dtype;
  ReduceOp op;
  int64_t elements;
  Layout layout;

  std::string ToString() const {
    return std::string(DTypeName(dtype)) + " " + std::string(ReduceOpName(op)) + " of " +
           std::to_string(elements) + " elements " + LayoutName(layout);
  }
};

struct RankTensors {
  std::vector<char> memory;  // of the layouts that Tensor::Create does not make
  Ref<Tensor> input;
  Ref<Tensor> output;
};

RankTensors MakeTensors(const Cell& cell, const std::vector<char>& elements) {
  RankTensors tensors;
  const Shape shape({cell.elements});
  const size_t item = ItemSize(cell.dtype);
  const Dims stride = {3};
  switch (cell.layout) {
    case Layout::kApart:
      tensors.input = Tensor::Create(cell.dtype, shape).value();
      tensors.output = Tensor::Create(cell.dtype, shape).value();
      break;
    case Layout::kInPlace:
      tensors.input = Tensor::Create(cell.dtype, shape).value();
      tensors.output = tensors.input;
      break;
    case Layout::kMisaligned: {
      tensors.memory.resize(2 * elements.size() + 256);
      const auto address = reinterpret_cast<uintptr_t>(tensors.memory.data());
      char* aligned = tensors.memory.data() + (64 - address % 64) % 64;
      char* second = aligned + (elements.size() + 63) / 64 * 64 + 64 + 3 * item;
      tensors.input =
          Tensor::View(aligned + item, cell.dtype, shape, {}, false, Ref<const RefCounted>());
      tensors.output = Tensor::View(second, cell.dtype, shape, {}, false, Ref<const RefCounted>());
      break;
    }
    case Layout::kStrided:
      tensors.memory.resize(6 * elements.size() + 64);
      tensors.input = Tensor::View(tensors.memory.data(), cell.dtype, shape, stride.span(), false,
                                   Ref<const RefCounted>());
      tensors.output = Tensor::View(tensors.memory.data() + 3 * elements.size(), cell.dtype, shape,
                                    stride.span(), false, Ref<const RefCounted>());
      break;
    case Layout::kOverlapping:
      tensors.memory.resize(elements.size() + item + 64);
      tensors.input = Tensor::View(tensors.memory.data(), cell.dtype, shape, {}, false,
                                   Ref<const RefCounted>());
      tensors.output = Tensor::View(tensors.memory.data() + item, cell.dtype, shape, {}, false,
                                    Ref<const RefCounted>());
      break;
  }
  for (int64_t i = 0; i < cell.elements; ++i) {
    const size_t at = static_cast<size_t>(i) * item;
    std::memcpy(const_cast<void*>(tensors.input->ElementAt(i)), elements.data() + at, item);
  }
  return tensors;
}

std::vector<char> ContentsOf(const Tensor& tensor) {
  std::vector<char> contents(tensor.byte_size());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    std::memcpy(contents.data() + static_cast<size_t>(i) * tensor.item_size(), tensor.ElementAt(i),
                tensor.item_size());
  }
  return contents;
}

// The inputs of all ranks, drawn from the cell and the rank alone, and the folded result.
struct Expectation {
  std::vector<std::vector<char>> inputs;
  std::vector<char> result;
};

Expectation Expect(const Cell& cell, size_t ranks, uint64_t seed) {
  Expectation expectation;
  std::mt19937_64 random(seed);
  VisitDType(cell.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, BytesView>) {
      const auto count = static_cast<size_t>(cell.elements);
      std::vector<std::vector<T>> inputs(ranks);
      for (std::vector<T>& input : inputs) {
        for (size_t i = 0; i < count; ++i) input.push_back(RandomElement<T>(random));
        const auto* bytes = reinterpret_cast<const char*>(input.data());
        expectation.inputs.emplace_back(bytes, bytes + count * sizeof(T));
      }
      expectation.result.resize(count * sizeof(T));
      std::vector<T> operands(ranks);
      for (size_t i = 0; i < count; ++i) {
        for (size_t r = 0; r < ranks; ++r) operands[r] = inputs[r][i];
        const T folded = Fold<T>(cell.op, operands);
        std::memcpy(expectation.result.data() + i * sizeof(T), &folded, sizeof(T));
      }
    }
  });
  return expectation;
}

// Sizes around the borders: what travels with the entry (16 KiB shared by the ranks), and the
// blocks of 16 KiB per slice.
std::vector<int64_t> SizesAround(DType dtype, size_t ranks) {
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  const int64_t copied = 16384 / static_cast<int64_t>(ranks) / item;
  std::vector<int64_t> sizes = {0, 1, 3, copied - 1, copied, copied + 1};
  if (dtype == DType::kFloat32 || dtype == DType::kBfloat16 || dtype == DType::kInt8) {
    const int64_t block = 16384 * static_cast<int64_t>(ranks) / item;
    sizes.insert(sizes.end(), {block - 1, block, block + 1});
  }
  return sizes;
}

// A plan of cells: each dtype, reduction and size with one layout, in turn, and all layouts for
// float32 sums.
std::vector<Cell> CellsFor(size_t ranks) {
  std::vector<Cell> cells;
  size_t turn = 0;
  for (DType dtype : kNumericDTypes) {
    for (ReduceOp op : kOps) {
      if (!CheckReducible(op, dtype).ok()) continue;
      for (int64_t size : SizesAround(dtype, ranks)) {
        if (dtype == DType::kFloat32 && op == ReduceOp::kSum) {
          for (Layout layout : kLayouts) cells.push_back(Cell{dtype, op, size, layout});
        } else {
          cells.push_back(Cell{dtype, op, size, kLayouts[turn++ % std::size(kLayouts)]});
        }
      }
    }
  }
  return cells;
}

// Ranks, and rows of the selector table.
class AllReduceOfRanks : public testing::TestWithParam<std::tuple<size_t, const char*>> {};

TEST_P(AllReduceOfRanks, GivesTheReferencesBitsOnEveryRank) {
  const auto [ranks, rows] = GetParam();
  Communicator::LocalOptions options;
  options.table = SelectorTable::Parse(rows, "the test").value();
  RankGroup group(ranks, options);
  std::vector<Cell> cells = CellsFor(ranks);
  if (TestScale() < kOrdinaryScale) {
    // Under sanitizers a third of them, of all kinds.
    std::mt19937 random(17);
    std::shuffle(cells.begin(), cells.end(), random);
    cells.resize(cells.size() / 3);
  }
  std::vector<Expectation> expectations;
  for (size_t i = 0; i < cells.size(); ++i) expectations.push_back(Expect(cells[i], ranks, i));
  std::vector<std::vector<std::string>> wrong(ranks);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    const auto r = static_cast<size_t>(rank);
    for (size_t i = 0; i < cells.size(); ++i) {
      RankTensors tensors = MakeTensors(cells[i], expectations[i].inputs[r]);
      TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*tensors.input, cells[i].op, group.Hang(),
                                                   tensors.output.get()));
      if (ContentsOf(*tensors.output) != expectations[i].result) {
        wrong[r].push_back(cells[i].ToString());
      }
    }
    return OkStatus();
  });
  for (size_t r = 0; r < ranks; ++r) {
    EXPECT_TRUE(statuses[r].ok()) << statuses[r].ToString();
    EXPECT_THAT(wrong[r], testing::IsEmpty()) << "on rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, AllReduceOfRanks,
    testing::Combine(testing::Values(1, 2, 3, 4, 8),
                     testing::Values("", "all_reduce in_process any any slice_and_share",
                                     "all_reduce in_process any any staged")),
    [](const auto& info) {
      const std::string rows = std::get<1>(info.param);
      return std::to_string(std::get<0>(info.param)) + "Ranks" +
             (rows.empty() ? "AsBuiltIn" : rows.ends_with("staged") ? "Staged" : "SliceAndShare");
    });

TEST(AllReduce, FoldsAListOfDtypesInOneCall) {
  // Small enough for one meeting, to be staged, and large enough to be sliced where they are.
  for (const int64_t elements : {5, 20'003, 100'003}) {
    RankGroup group(3);
    std::vector<int64_t> sequences(group.size());
    const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
      Ref<Tensor> floats = Tensor::Create(DType::kFloat32, Shape({elements})).value();
      Ref<Tensor> none = Tensor::Create(DType::kInt16, Shape({0, 4})).value();
      Ref<Tensor> counts = Tensor::Create(DType::kInt64, Shape({2, elements})).value();
      Ref<Tensor> scalar = Tensor::Scalar<double>(0.5 * static_cast<double>(rank));
      std::fill_n(floats->mutable_span<float>().data(), elements, static_cast<float>(rank + 1));
      std::fill_n(counts->mutable_span<int64_t>().data(), 2 * elements, rank * 10);
      // What is in place on one rank need not be so on another.
      Ref<Tensor> sums =
          rank == 1 ? floats : Tensor::Create(DType::kFloat32, Shape({elements})).value();
      const Tensor* inputs[] = {floats.get(), none.get(), counts.get(), scalar.get()};
      Tensor* outputs[] = {sums.get(), none.get(), counts.get(), scalar.get()};
      TUTTI_RETURN_IF_ERROR(
          communicator.AllReduce(inputs, ReduceOp::kSum, group.Hang(), outputs));
      for (float sum : sums->span<float>()) EXPECT_EQ(sum, 6.0f);
      if (rank != 1) {
        EXPECT_THAT(floats->span<float>(), testing::Each(static_cast<float>(rank + 1)));
      }
      for (int64_t sum : counts->span<int64_t>()) EXPECT_EQ(sum, 30);
      EXPECT_EQ(scalar->item<double>(), 1.5);
      sequences[static_cast<size_t>(rank)] = communicator.sequence();
      return OkStatus();
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_THAT(sequences, testing::Each(1));
  }
}

TEST(AllReduce, TakesAnEmptyListAsAMeeting) {
  RankGroup group(2);
  const std::vector<Status> statuses = group.Run([&](int64_t, Communicator& communicator) {
    return communicator.AllReduce({}, ReduceOp::kSum, group.Hang(), {});
  });
  EXPECT_THAT(statuses, testing::Each(testing::Property(&Status::ok, true)));
}

TEST(AllReduce, GivesTheSameNanAndZeroOnEveryRank) {
  RankGroup group(2);
  const float nan = std::nanf("");
  std::vector<std::vector<char>> minima(2);
  group.Run([&](int64_t rank, Communicator& communicator) {
    const std::vector<float> values = rank == 0 ? std::vector<float>{nan, -0.0f, 1.0f}
                                                : std::vector<float>{1.0f, 0.0f, -nan};
    Ref<Tensor> tensor = Tensor::FromSpan<float>(Shape({3}), values).value();
    const Status status =
        communicator.AllReduce(*tensor, ReduceOp::kMin, group.Hang(), tensor.get());
    minima[static_cast<size_t>(rank)] = ContentsOf(*tensor);
    return status;
  });
  EXPECT_EQ(minima[0], minima[1]);
  float values[3];
  std::memcpy(values, minima[0].data(), sizeof(values));
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[2]));
  EXPECT_TRUE(values[1] == 0.0f && std::signbit(values[1]));
}

TEST(AllReduce, FoldsABoolByMinAndMax) {
  RankGroup group(3);
  const std::vector<Status> statuses = group.Run([&](int64_t rank, Communicator& communicator) {
    Ref<Tensor> any = Tensor::Scalar<bool>(rank == 1);
    Ref<Tensor> all = Tensor::Scalar<bool>(rank != 1);
    TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*any, ReduceOp::kMax, group.Hang(), any.get()));
    TUTTI_RETURN_IF_ERROR(communicator.AllReduce(*all, ReduceOp::kMin, group.Hang(), all.get()));
    EXPECT_TRUE(any->item<bool>());
    EXPECT_FALSE(all->item<bool>());
    return OkStatus();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(AllReduce, ANanInALargeSumIsFoundInTheFold) {
  ExpectWhoBroughtItIsNamed([] { return std::make_unique<RankGroup>(3); });
}

}  // namespace
}  // namespace tutti
