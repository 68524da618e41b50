#include "core/strategy/step_plan.h"

#include "core/base/text.h"

namespace tutti {

std::vector<int64_t> EvenSizes(int64_t batch_size, size_t num_slices) {
  const auto n = static_cast<int64_t>(num_slices);
  std::vector<int64_t> sizes(num_slices, batch_size / n);
  for (int64_t i = 0; i < batch_size % n; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

StepPlan::Window StepPlan::WindowOf(size_t block) const {
  const size_t first = FirstSlice(block);
  Window window;
  if (shares_batches()) {
    for (size_t i = 0; i < num_slices; ++i) {
      window.rows += sizes[i];
      if (i < first) window.skip += sizes[i];
    }
  } else {
    for (size_t i = 0; i < num_replicas; ++i) window.rows += sizes[first + i];
  }
  return window;
}

std::string StepPlan::ToString() const {
  if (cut == Cut::kNone) return Format("one element for each of {} replicas", num_replicas);
  std::string text = cut == Cut::kCeil ? Format("CEIL: every batch in {} slices", num_slices)
                                       : std::string("EVEN: slices of");
  for (size_t i = 0; i < sizes.size(); ++i) text += Format("{} {}", i == 0 ? "" : ",", sizes[i]);
  if (!sizes.empty()) text += " rows";
  if (shares_batches()) {
    text += Format(", of which {} to {} are this worker's", FirstSlice(0),
                   FirstSlice(0) + num_replicas - 1);
  }
  return text;
}

}  // namespace tutti
