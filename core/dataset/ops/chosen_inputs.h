// ChosenInputs: several inputs of a stage of which somebody chooses for each element, with what
// they have in common: sample_from_datasets and choose_from_datasets.
#ifndef TUTTI_CORE_DATASET_OPS_CHOSEN_INPUTS_H_
#define TUTTI_CORE_DATASET_OPS_CHOSEN_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class ChosenInputs {
 public:
  size_t size() const { return rows_.size(); }
  void Add(Stage& input) {
    rows_.emplace_back(input);
    ended_.push_back(0);
  }

  bool has_ended(size_t i) const { return ended_[i] != 0; }
  bool all_ended() const;
  // Up to `count` elements of input `i`, which was chosen so often. The choices that are used up:
  // those of rows, of a failed element, and of an end, which slab->end does not say then.
  int64_t Pull(size_t i, int64_t count, const Demand& demand, const CallOptions& options,
               Slab* slab);

  void Clear();
  Status Save(StateWriter* writer) const;
  void Restore(StateReader* reader);

 private:
  std::vector<InputRows> rows_;
  std::vector<int64_t> ended_;  // 1: nothing more comes in this pass
};

// The spec that the elements of the inputs from `first` on fit, the most specific one; null when
// one is not known, INVALID_ARGUMENT naming both where two do not go together.
Result<Ref<const ElementSpec>> SpecOfChosen(const Node& node, size_t first);

// The leaves of `datasets`. INVALID_ARGUMENT unless there are some, and all are datasets.
Result<std::vector<Ref<Dataset>>> DatasetsIn(const Value& datasets, std::string_view op);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_CHOSEN_INPUTS_H_
