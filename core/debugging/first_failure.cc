#include "core/debugging/first_failure.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/runs.h"
#include "core/tensor/half_convert.h"
#include "core/tensor/simd.h"

namespace tutti {

using tensor_internal::RunBest;

namespace {

constexpr int64_t kBlock = 256;

// An unsigned integer as wide as T, in which a block gathers its failures.
template <class T>
using FailureBits = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <Comparison comparison>
struct Compared {
  template <class T>
  static TUTTI_ALWAYS_INLINE bool Holds(T x, T y) {
    if constexpr (comparison == Comparison::kEqual) {
      return x == y;
    } else if constexpr (comparison == Comparison::kNoneEqual) {
      return x != y;
    } else if constexpr (comparison == Comparison::kLess) {
      return x < y;
    } else if constexpr (comparison == Comparison::kLessEqual) {
      return x <= y;
    } else if constexpr (comparison == Comparison::kGreater) {
      return x > y;
    } else {
      return x >= y;
    }
  }
};

// The first of n elements for which Condition does not hold. Steps are 1, or 0 for one element that
// is compared with all.
template <class Condition, class T, int64_t x_step, int64_t y_step>
struct CompareBlocks {
  static TUTTI_ALWAYS_INLINE void Run(const T* x, const T* y, int64_t n, int64_t* first) {
    int64_t at = 0;
    for (; at + kBlock <= n; at += kBlock) {
      const T* const a = x + at * x_step;
      const T* const b = y + at * y_step;
      FailureBits<T> failed = 0;
      for (int64_t i = 0; i < kBlock; ++i) {
        failed |= static_cast<FailureBits<T>>(
            Condition::template Holds<T>(a[i * x_step], b[i * y_step]) ? 0 : 1);
      }
      if (failed != 0) break;
    }
    for (; at < n; ++at) {
      if (!Condition::template Holds<T>(x[at * x_step], y[at * y_step])) {
        *first = at;
        return;
      }
    }
    *first = kNothingFails;
  }
};

template <class Condition, class T>
int64_t FirstOfRun(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n) {
  int64_t first = kNothingFails;
  if (x_step == 1 && y_step == 1) {
    RunBest<CompareBlocks<Condition, T, 1, 1>>(x, y, n, &first);
  } else if (x_step == 1 && y_step == 0) {
    RunBest<CompareBlocks<Condition, T, 1, 0>>(x, y, n, &first);
  } else if (x_step == 0 && y_step == 1) {
    RunBest<CompareBlocks<Condition, T, 0, 1>>(x, y, n, &first);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      if (!Condition::template Holds<T>(x[i * x_step], y[i * y_step])) return i;
    }
  }
  return first;
}

// Up to kBlock 16-bit floats, a step apart, as floats.
template <class Half>
void ToFloats(const Half* source, int64_t step, int64_t n, float* out) {
  if (step == 1) {
    ConvertToFloat(source, out, n);
    return;
  }
  Half gathered[kBlock];
  for (int64_t i = 0; i < n; ++i) gathered[i] = source[i * step];
  ConvertToFloat(gathered, out, n);
}

template <class Condition, class Half>
int64_t FirstOfHalves(const Half* x, int64_t x_step, const Half* y, int64_t y_step, int64_t n) {
  float a[kBlock], b[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = std::min(kBlock, n - at);
    ToFloats(x + at * x_step, x_step, m, a);
    ToFloats(y + at * y_step, y_step, m, b);
    const int64_t first = FirstOfRun<Condition, float>(a, 1, b, 1, m);
    if (first != kNothingFails) return at + first;
  }
  return kNothingFails;
}

template <class T>
bool SameItem(const T& x, const T& y) {
  if constexpr (kIsComplex<T>) {
    return x.real == y.real && x.imag == y.imag;
  } else {
    return x.text() == y.text();
  }
}

template <Comparison comparison, class T>
int64_t FirstUnlikeInRun(const Run& run) {
  const T* const x = static_cast<const T*>(run.at[0]);
  const T* const y = static_cast<const T*>(run.at[1]);
  const int64_t x_step = run.step[0], y_step = run.step[1];
  using Condition = Compared<comparison>;
  constexpr bool equality =
      comparison == Comparison::kEqual || comparison == Comparison::kNoneEqual;
  if constexpr (std::is_same_v<T, bool>) {
    // Whatever stands in the byte, as long as it is 0 or not.
    for (int64_t i = 0; equality && i < run.size; ++i) {
      const auto a = static_cast<const uint8_t*>(run.at[0])[i * x_step];
      const auto b = static_cast<const uint8_t*>(run.at[1])[i * y_step];
      if (((a != 0) == (b != 0)) != (comparison == Comparison::kEqual)) return i;
    }
    return kNothingFails;
  } else if constexpr (kIsComplex<T> || std::is_same_v<T, BytesView>) {
    for (int64_t i = 0; equality && i < run.size; ++i) {
      if (SameItem(x[i * x_step], y[i * y_step]) != (comparison == Comparison::kEqual)) return i;
    }
    return kNothingFails;
  } else if constexpr (kIsHalf<T>) {
    return FirstOfHalves<Condition, T>(x, x_step, y, y_step, run.size);
  } else {
    return FirstOfRun<Condition, T>(x, x_step, y, y_step, run.size);
  }
}

template <Comparison comparison>
int64_t FirstUnlikeOf(const Runs& runs, DType dtype) {
  return VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return runs.First([](const Run& run) { return FirstUnlikeInRun<comparison, T>(run); });
  });
}

// ---- near

// |x - y| < atol + rtol * |y|, with one tolerance for the run.
template <class T>
struct NearBlocks {
  static TUTTI_ALWAYS_INLINE bool Holds(T x, T y, T rtol, T atol) {
    return std::abs(x - y) < atol + rtol * std::abs(y);
  }
  static TUTTI_ALWAYS_INLINE void Run(const T* x, const T* y, int64_t n, T rtol, T atol,
                                      int64_t* first) {
    int64_t at = 0;
    for (; at + kBlock <= n; at += kBlock) {
      FailureBits<T> failed = 0;
      for (int64_t i = 0; i < kBlock; ++i) {
        failed |= static_cast<FailureBits<T>>(Holds(x[at + i], y[at + i], rtol, atol) ? 0 : 1);
      }
      if (failed != 0) break;
    }
    for (; at < n; ++at) {
      if (!Holds(x[at], y[at], rtol, atol)) {
        *first = at;
        return;
      }
    }
    *first = kNothingFails;
  }
};

template <class T>
bool IsNear(const T& x, const T& y, double rtol, double atol) {
  if constexpr (kIsComplex<T>) {
    const double distance = std::hypot(static_cast<double>(x.real) - y.real,
                                       static_cast<double>(x.imag) - y.imag);
    return distance < atol + rtol * std::hypot(static_cast<double>(y.real), y.imag);
  } else {
    const double a = x, b = y;
    return std::abs(a - b) < atol + rtol * std::abs(b);
  }
}

template <class T>
int64_t FirstFarInRun(const Run& run) {
  const T* const x = static_cast<const T*>(run.at[0]);
  const T* const y = static_cast<const T*>(run.at[1]);
  const auto* const rtol = static_cast<const double*>(run.at[2]);
  const auto* const atol = static_cast<const double*>(run.at[3]);
  const int64_t x_step = run.step[0], y_step = run.step[1];
  const bool one_tolerance = run.step[2] == 0 && run.step[3] == 0;
  if constexpr (kIsHalf<T>) {
    float a[kBlock], b[kBlock];
    for (int64_t at = 0; at < run.size; at += kBlock) {
      const int64_t m = std::min(kBlock, run.size - at);
      ToFloats(x + at * x_step, x_step, m, a);
      ToFloats(y + at * y_step, y_step, m, b);
      for (int64_t i = 0; i < m; ++i) {
        if (!IsNear(a[i], b[i], rtol[(at + i) * run.step[2]], atol[(at + i) * run.step[3]])) {
          return at + i;
        }
      }
    }
    return kNothingFails;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (one_tolerance && x_step == 1 && y_step == 1) {
        int64_t first = kNothingFails;
        RunBest<NearBlocks<T>>(x, y, run.size, static_cast<T>(*rtol), static_cast<T>(*atol),
                               &first);
        return first;
      }
    }
    for (int64_t i = 0; i < run.size; ++i) {
      if (!IsNear(x[i * x_step], y[i * y_step], rtol[i * run.step[2]], atol[i * run.step[3]])) {
        return i;
      }
    }
    return kNothingFails;
  }
}

}  // namespace

Result<Shape> BroadcastShape(const Shape& x, const Shape& y) {
  std::vector<int64_t> dims(std::max(x.rank(), y.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t a = i < x.rank() ? x.dim(x.rank() - 1 - i) : 1;
    const int64_t b = i < y.rank() ? y.dim(y.rank() - 1 - i) : 1;
    const size_t axis = dims.size() - 1 - i;
    if (a != b && a != 1 && b != 1) {
      return InvalidArgument(
          "x has shape {} and y {}, which do not broadcast: axis {} from the end is {} and {}, and "
          "neither is 1",
          x.ToString(), y.ToString(), i + 1, a, b);
    }
    dims[axis] = a == 1 ? b : a;
  }
  return Shape::Create(dims.data(), dims.size());
}

int64_t FirstUnlike(Comparison comparison, const Tensor& x, const Tensor& y, const Shape& shape) {
  const Runs runs(shape, {&x, &y});
  switch (comparison) {
    case Comparison::kEqual: return FirstUnlikeOf<Comparison::kEqual>(runs, x.dtype());
    case Comparison::kNoneEqual: return FirstUnlikeOf<Comparison::kNoneEqual>(runs, x.dtype());
    case Comparison::kLess: return FirstUnlikeOf<Comparison::kLess>(runs, x.dtype());
    case Comparison::kLessEqual: return FirstUnlikeOf<Comparison::kLessEqual>(runs, x.dtype());
    case Comparison::kGreater: return FirstUnlikeOf<Comparison::kGreater>(runs, x.dtype());
    case Comparison::kGreaterEqual:
      return FirstUnlikeOf<Comparison::kGreaterEqual>(runs, x.dtype());
    case Comparison::kNear: break;
  }
  return kNothingFails;
}

int64_t FirstFar(const Tensor& x, const Tensor& y, const Tensor& rtol, const Tensor& atol,
                 const Shape& shape) {
  const Runs runs(shape, {&x, &y, &rtol, &atol});
  return VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T> || kIsComplex<T> || std::is_floating_point_v<T>) {
      return runs.First([](const Run& run) { return FirstFarInRun<T>(run); });
    }
    return kNothingFails;
  });
}

int64_t FirstNotFinite(const Tensor& x) {
  const Runs runs(x.shape(), {&x});
  return runs.First([&](const Run& run) {
    return FirstNotFiniteElement(x.dtype(), run.at[0], run.step[0], run.size);
  });
}

bool ComparisonTakes(Comparison comparison, DType dtype) {
  switch (comparison) {
    case Comparison::kEqual:
    case Comparison::kNoneEqual: return IsValid(dtype);
    case Comparison::kNear: return IsFloating(dtype) || IsComplex(dtype);
    default: return IsInteger(dtype) || IsFloating(dtype);
  }
}

NumericsCounts CountNotFinite(const Tensor& x) {
  NumericsCounts counts;
  if (!IsFloating(x.dtype()) && !IsComplex(x.dtype())) return counts;
  const Runs runs(x.shape(), {&x});
  runs.First([&](const Run& run) {
    CountNotFiniteElements(x.dtype(), run.at[0], run.step[0], run.size, &counts);
    return kNothingFails;
  });
  return counts;
}

std::string IndexText(const Shape& shape, int64_t position) {
  std::vector<int64_t> index(shape.rank());
  for (size_t axis = shape.rank(); axis-- > 0;) {
    index[axis] = position % shape.dim(axis);
    position /= shape.dim(axis);
  }
  return "[" + JoinAll(index, ",") + "]";
}

std::string ElementText(const Tensor& tensor, const Shape& shape, int64_t position) {
  const Runs runs(shape, {&tensor});
  const void* element = runs.ElementAt(0, position);
  return Tensor::View(const_cast<void*>(element), tensor.dtype(), Shape(), {}, true, nullptr)
      ->ContentsToString();
}

std::string FirstElementsText(const Tensor& tensor, int64_t count) {
  const int64_t n = tensor.num_elements();
  const int64_t shown = count < 0 ? n : std::min(count, n);
  std::string text = "[";
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) text += ' ';
    text += ElementText(tensor, tensor.shape(), i);
  }
  if (shown < n) text += shown > 0 ? " ..." : "...";
  return text + "]";
}

}  // namespace tutti
