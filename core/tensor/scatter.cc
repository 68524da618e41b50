// Rows go one by one through the kernels for whole tensors; short rows of the common dtypes, where
// a call each would cost more than the arithmetic, through a loop of their own.
#include "core/tensor/scatter.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/error.h"
#include "core/tensor/arithmetic.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// Up to this many elements a row is added here.
constexpr int64_t kShortRow = 16;
// How many slices ahead the row that comes is fetched: the indices jump about.
constexpr int64_t kFetchAhead = 8;

bool IsArithmetic(ScatterOp op) {
  return op == ScatterOp::kAdd || op == ScatterOp::kSub || op == ScatterOp::kMul ||
         op == ScatterOp::kDiv;
}

BinaryOp BinaryOf(ScatterOp op) {
  switch (op) {
    case ScatterOp::kSub: return BinaryOp::kSub;
    case ScatterOp::kMul: return BinaryOp::kMul;
    case ScatterOp::kDiv: return BinaryOp::kDiv;
    default: return BinaryOp::kAdd;
  }
}

Status CheckOp(ScatterOp op, DType dtype, std::string_view what) {
  if (op == ScatterOp::kUpdate && dtype != DType::kBytes) return OkStatus();
  if (IsArithmetic(op) && IsNumeric(dtype)) return OkStatus();
  if (op == ScatterOp::kMin || op == ScatterOp::kMax) {
    return CheckReducible(op == ScatterOp::kMin ? ReduceOp::kMin : ReduceOp::kMax, dtype)
        .WithPrefix(what);
  }
  return InvalidArgument("{}: {} is not defined for {}", what, ScatterOpName(op),
                         DTypeName(dtype));
}

bool IsZero(const char* item, size_t size) {
  return std::all_of(item, item + size, [](char byte) { return byte == 0; });
}

template <class T, bool kAdds>
void AddShortRows(const IndexedSlices& slices, int64_t begin, int64_t end, int64_t row,
                  Tensor* target) {
  // Integers wrap.
  using Sum = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                 std::type_identity<T>>::type;
  const int64_t* const indices = static_cast<const int64_t*>(slices.indices->data());
  const T* values = static_cast<const T*>(slices.values->data());
  T* const rows = static_cast<T*>(target->mutable_data());
  for (int64_t i = 0, n = slices.count(); i < n; ++i, values += row) {
    if (indices[i] < begin || indices[i] >= end) continue;
    T* const to = rows + indices[i] * row;
    for (int64_t k = 0; k < row; ++k) {
      const Sum delta = static_cast<Sum>(values[k]);
      to[k] = static_cast<T>(kAdds ? static_cast<Sum>(to[k]) + delta
                                   : static_cast<Sum>(to[k]) - delta);
    }
  }
}

template <class T>
bool AddShort(ScatterOp op, const IndexedSlices& slices, int64_t begin, int64_t end, int64_t row,
              Tensor* target) {
  if (op == ScatterOp::kAdd) {
    AddShortRows<T, true>(slices, begin, end, row, target);
  } else {
    AddShortRows<T, false>(slices, begin, end, row, target);
  }
  return true;
}

// Whether it was one that this does.
bool AddShortOf(ScatterOp op, const IndexedSlices& slices, int64_t begin, int64_t end, int64_t row,
                Tensor* target) {
  if (row > kShortRow || (op != ScatterOp::kAdd && op != ScatterOp::kSub)) return false;
  switch (target->dtype()) {
    case DType::kFloat32: return AddShort<float>(op, slices, begin, end, row, target);
    case DType::kFloat64: return AddShort<double>(op, slices, begin, end, row, target);
    case DType::kInt32: return AddShort<int32_t>(op, slices, begin, end, row, target);
    case DType::kInt64: return AddShort<int64_t>(op, slices, begin, end, row, target);
    default: return false;
  }
}

}  // namespace

const char* ScatterOpName(ScatterOp op) {
  switch (op) {
    case ScatterOp::kAdd: return "scatter_add";
    case ScatterOp::kSub: return "scatter_sub";
    case ScatterOp::kUpdate: return "scatter_update";
    case ScatterOp::kMin: return "scatter_min";
    case ScatterOp::kMax: return "scatter_max";
    case ScatterOp::kMul: return "scatter_mul";
    case ScatterOp::kDiv: return "scatter_div";
  }
  return "invalid";
}

Status CheckScatter(ScatterOp op, DType dtype, const Shape& shape, const IndexedSlices& slices,
                    std::string_view what) {
  if (shape.rank() == 0) {
    return InvalidArgument("{}: a scalar has no rows to change", what);
  }
  const Tensor& values = *slices.values;
  if (values.dtype() != dtype) {
    return InvalidArgument("{}: the values of the slices are {}, and {} is expected; cast them "
                           "first",
                           what, DTypeName(values.dtype()), DTypeName(dtype));
  }
  TUTTI_RETURN_IF_ERROR(CheckOp(op, dtype, what));
  if (!std::ranges::equal(values.shape().dims().subspan(1), shape.dims().subspan(1))) {
    return InvalidArgument("{}: the values of the slices are {}, which are no rows of {}", what,
                           values.SpecString(), shape.ToString());
  }
  for (const int64_t index : slices.indices->span<int64_t>()) {
    if (index >= 0 && index < shape.dim(0)) continue;
    return InvalidArgument("{}: index {} is outside of the {} rows of {}; nothing was changed",
                           what, index, shape.dim(0), shape.ToString())
        .With("index", index);
  }
  if (op == ScatterOp::kDiv && IsInteger(dtype)) {
    const size_t item = ItemSize(dtype);
    const char* at = static_cast<const char*>(values.data());
    for (int64_t i = 0; i < values.num_elements(); ++i, at += item) {
      if (!IsZero(at, item)) continue;
      return InvalidArgument("{}: element {} of the values is 0, and integers have no quotient by "
                             "it; nothing was changed",
                             what, i);
    }
  }
  return OkStatus();
}

void ScatterRows(ScatterOp op, const IndexedSlices& slices, int64_t begin, int64_t end,
                 Tensor* target) {
  const int64_t n = slices.count();
  if (n == 0 || slices.values->num_elements() == 0) return;
  const int64_t row = slices.values->num_elements() / n;
  if (AddShortOf(op, slices, begin, end, row, target)) return;
  const DType dtype = target->dtype();
  const size_t bytes = static_cast<size_t>(row) * ItemSize(dtype);
  const int64_t* const indices = static_cast<const int64_t*>(slices.indices->data());
  const char* from = static_cast<const char*>(slices.values->data());
  char* const rows = static_cast<char*>(target->mutable_data());
  for (int64_t i = 0; i < n; ++i, from += bytes) {
    if (i + kFetchAhead < n) {
      const char* const ahead = rows + static_cast<size_t>(indices[i + kFetchAhead]) * bytes;
      for (size_t line = 0; line < std::min<size_t>(bytes, 256); line += 64) {
        __builtin_prefetch(ahead + line, 1);
      }
    }
    if (indices[i] < begin || indices[i] >= end) continue;
    char* const to = rows + static_cast<size_t>(indices[i]) * bytes;
    // They are defined for the dtype, and nothing is divided by an integer 0: they cannot fail.
    if (op == ScatterOp::kUpdate) {
      std::memcpy(to, from, bytes);
    } else if (IsArithmetic(op)) {
      (void)BinaryElements(BinaryOf(op), dtype, to, from, to, row);
    } else {
      const void* const inputs[] = {to, from};
      (void)ReduceInto(op == ScatterOp::kMin ? ReduceOp::kMin : ReduceOp::kMax, dtype, inputs, row,
                       to);
    }
  }
}

}  // namespace tutti
