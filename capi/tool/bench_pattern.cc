#include "capi/tool/bench_pattern.h"

#include <algorithm>
#include <cstring>

namespace tutti::tool {
namespace {

// At most 127 after folding, so that int8 holds it.
double NumberOf(tutti_reduce_op op, int64_t size, int64_t rank, int64_t index) {
  switch (op) {
    case TUTTI_REDUCE_SUM:
      return static_cast<double>((rank + index) % (size > 30 ? 2 : 5));
    case TUTTI_REDUCE_MEAN:  // one rank has them all: the mean is whole
      return rank == index % size ? static_cast<double>(size * (index % 2)) : 0;
    case TUTTI_REDUCE_MIN:
    case TUTTI_REDUCE_MAX:
      return static_cast<double>((3 * rank + index) % 7);
    case TUTTI_REDUCE_PROD:
      return rank == index % size ? static_cast<double>(1 + index % 3) : 1;
    default:
      return static_cast<double>((31 * rank + index) % 101);
  }
}

double FoldAt(tutti_reduce_op op, int64_t size, int64_t index) {
  double folded = NumberOf(op, size, 0, index);
  for (int64_t rank = 1; rank < size; ++rank) {
    const double number = NumberOf(op, size, rank, index);
    if (op == TUTTI_REDUCE_SUM || op == TUTTI_REDUCE_MEAN) folded += number;
    if (op == TUTTI_REDUCE_MIN) folded = std::min(folded, number);
    if (op == TUTTI_REDUCE_MAX) folded = std::max(folded, number);
    if (op == TUTTI_REDUCE_PROD) folded *= number;
  }
  return op == TUTTI_REDUCE_MEAN ? folded / static_cast<double>(size) : folded;
}

}  // namespace

CStatus BenchPattern::Make(tutti_runtime* runtime, tutti_dtype dtype, tutti_reduce_op op,
                           int64_t size, BenchPattern* pattern) {
  std::vector<double> numbers;
  for (int64_t rank = 0; rank <= size; ++rank) {
    for (int64_t i = 0; i < 2 * kPeriod; ++i) {
      const int64_t index = i % kPeriod;
      numbers.push_back(rank < size ? NumberOf(op, size, rank, index) : FoldAt(op, size, index));
    }
  }
  const auto count = static_cast<int64_t>(numbers.size());
  CTensor doubles, cast;
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_tensor_create_from_data(runtime, TUTTI_DTYPE_FLOAT64, 1, &count, numbers.data(),
                                    numbers.size() * sizeof(double), Out(&doubles)));
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_tensor_cast(doubles.get(), dtype, Out(&cast)));
  const auto* const bytes = static_cast<const std::byte*>(tutti_tensor_get_data(cast.get()));
  pattern->blocks_.assign(bytes, bytes + tutti_tensor_get_byte_size(cast.get()));
  pattern->item_ = tutti_dtype_get_size(dtype);
  pattern->size_ = size;
  return nullptr;
}

const std::byte* BenchPattern::At(int64_t rank, int64_t index) const {
  const int64_t block = rank == kFolded ? size_ : rank;
  return blocks_.data() + static_cast<size_t>(block * 2 * kPeriod + index % kPeriod) * item_;
}

void BenchPattern::Fill(int64_t rank, int64_t first, int64_t count, void* data) const {
  const std::byte* const from = At(rank, first);
  auto* to = static_cast<std::byte*>(data);
  for (int64_t done = 0; done < count; done += kPeriod) {
    const size_t bytes = static_cast<size_t>(std::min(kPeriod, count - done)) * item_;
    std::memcpy(to, from, bytes);
    to += bytes;
  }
}

int64_t BenchPattern::CountWrong(int64_t rank, int64_t first, int64_t count,
                                 const void* data) const {
  const std::byte* const right = At(rank, first);
  const auto* found = static_cast<const std::byte*>(data);
  int64_t wrong = 0;
  for (int64_t done = 0; done < count; done += kPeriod) {
    const auto items = static_cast<size_t>(std::min(kPeriod, count - done));
    if (std::memcmp(found, right, items * item_) != 0) {
      for (size_t i = 0; i < items; ++i) {
        if (std::memcmp(found + i * item_, right + i * item_, item_) != 0) ++wrong;
      }
    }
    found += items * item_;
  }
  return wrong;
}

}  // namespace tutti::tool
