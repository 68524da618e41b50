// ChoosingStage: of several datasets the next element of the one that is chosen by the next element
// of another, the first input: choose_from_datasets, and sample_from_datasets by weights that are a
// dataset.
//
// A choice of a dataset that has ended is passed over, or ends the pass. A choice that fails is one
// failed element.
#ifndef TUTTI_CORE_DATASET_OPS_CHOOSING_STAGE_H_
#define TUTTI_CORE_DATASET_OPS_CHOOSING_STAGE_H_

#include <cstdint>

#include "core/base/clock.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/ops/chosen_inputs.h"

namespace tutti {

class ChoosingStage : public Stage {
 public:
  ChoosingStage(const Node& node, const ExecContext& context, StageInputs inputs);

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) final;
  Status Restart(const CallOptions& options) override;

 protected:
  // The dataset that a row chooses, below num_choices(). Asked row by row from the first one on.
  virtual Result<int64_t> ChoiceIn(const Slab& choices, int64_t row) = 0;
  // So many rows, of those that were asked for last, are used up. The others come again.
  virtual void Use(int64_t /*rows*/) {}

  int64_t num_choices() const { return static_cast<int64_t>(inputs_.size()); }
  // `status` as the failure of the row's element.
  Status FailedChoice(const Status& status, int64_t row) const;

  // The position without the inputs', behind a section of the op's own.
  Status SaveChoices(StateWriter* writer) const;
  void RestoreChoices(StateReader* reader);

 private:
  int64_t Choose(const Slab& choices, const Demand& demand, const CallOptions& options,
                 Slab* slab);

  Clock& clock_;
  const bool stops_;
  InputRows choices_;
  ChosenInputs inputs_;
  int64_t index_ = 0;  // of the next choice
  bool done_ = false;
};

// Of a node whose first input says which of the others is next.
int64_t CardinalityOfChosen(const Node& node);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_CHOOSING_STAGE_H_
