#include "core/collective/call/observed_names.h"

#include <utility>

#include "core/base/text.h"

namespace tutti {

namespace {

TensorNames& ObservedNamesOfThread() {
  static thread_local TensorNames names;
  return names;
}

}  // namespace

ObservedNames::ObservedNames(TensorNames names)
    : before_(std::exchange(ObservedNamesOfThread(), std::move(names))) {}

ObservedNames::~ObservedNames() { ObservedNamesOfThread() = std::move(before_); }

TensorNames ObservedNames::Current() { return ObservedNamesOfThread(); }

std::string DescribeTensor(size_t index, const std::vector<std::string>& names) {
  return index < names.size() ? Format("{} ({})", index, names[index]) : Format("{}", index);
}

std::string NameObserved(const char* what, size_t i, size_t count) {
  const TensorNames& known = ObservedNamesOfThread();
  if (known.names) {
    return Format("{} of tensor {}", what, DescribeTensor(known.first + i, *known.names));
  }
  return count == 1 ? std::string(what) : Format("{} {}", what, i);
}

}  // namespace tutti
