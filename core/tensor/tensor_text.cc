// Tensors for people, in NumPy's short form.
#include <algorithm>
#include <string>
#include <type_traits>

#include "core/base/text.h"
#include "core/tensor/half.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kEdgeItems = 3;
constexpr size_t kMaxTextBytes = 80;

template <class T>
std::string ItemText(const T& item) {
  if constexpr (std::is_same_v<T, bool>) {
    return item ? "True" : "False";
  } else if constexpr (std::is_same_v<T, BytesView>) {
    if (item.size <= kMaxTextBytes) return Quote(item.text());
    return Quote(item.text().substr(0, kMaxTextBytes)) + "...";
  } else if constexpr (std::is_same_v<T, Float16>) {
    return Format("{:.5g}", ToFloat(item));  // 5 digits tell any two float16 apart
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return Format("{:.4g}", ToFloat(item));
  } else if constexpr (std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>) {
    return Format("{}{:+}j", item.real, item.imag);
  } else if constexpr (sizeof(T) == 1) {
    return Format("{}", static_cast<int>(item));
  } else {
    return Format("{}", item);
  }
}

std::string AnyItemText(DType dtype, const void* item) {
  return VisitDType(dtype, [&](auto tag) {
    return ItemText(*static_cast<const typename decltype(tag)::type*>(item));
  });
}

// Appends the elements from `axis` on, the first of which lies at `place`.
void AppendElements(const Tensor& tensor, size_t axis, const char* place, int64_t limit,
                    std::string* out) {
  if (axis == tensor.rank()) {
    *out += AnyItemText(tensor.dtype(), place);
    return;
  }
  const int64_t size = tensor.dim(axis);
  const int64_t stride = tensor.strides()[axis] * static_cast<int64_t>(tensor.item_size());
  const bool shortened = size > std::max(limit, 2 * kEdgeItems);
  *out += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) *out += ' ';
    if (shortened && i == kEdgeItems) {
      *out += "... ";
      i = size - kEdgeItems;
    }
    AppendElements(tensor, axis + 1, place + i * stride, limit, out);
  }
  *out += ']';
}

}  // namespace

std::string Tensor::SpecString() const {
  return std::string(DTypeName(dtype_)) + shape_.ToString();
}

std::string Tensor::ContentsToString(int64_t limit) const {
  std::string text;
  if (!device_.is_cpu()) return "<on " + device_.ToString() + ">";
  if (num_elements() == 0) return "[]";
  // Of a tensor with many elements every axis is shortened as far as it goes.
  AppendElements(*this, 0, static_cast<const char*>(data_), num_elements() > 10 * limit ? 0 : limit,
                 &text);
  return text;
}

std::string Tensor::ToString(int64_t limit) const {
  return SpecString() + " " + ContentsToString(limit);
}

}  // namespace tutti
