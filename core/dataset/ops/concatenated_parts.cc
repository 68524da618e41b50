#include "core/dataset/ops/concatenated_parts.h"

#include <cstddef>

namespace tutti {

void ConcatenatedParts::Advance() {
  to_come_.pop_back();
  ++index_;
  Open(0);
}

void ConcatenatedParts::Seek(int64_t index) {
  to_come_ = {&chain_};
  index_ = index;
  if (index < chain_.num_parts()) {
    Open(index);
  } else {
    to_come_.clear();
  }
}

void ConcatenatedParts::Open(int64_t index) {
  while (!to_come_.empty() && to_come_.back()->op().appends_inputs) {
    const Node& chain = *to_come_.back();
    to_come_.pop_back();
    size_t first = 0;
    while (index >= chain.input(first).num_parts()) index -= chain.input(first++).num_parts();
    for (size_t i = chain.inputs().size(); i-- > first;) to_come_.push_back(&chain.input(i));
  }
}

}  // namespace tutti
