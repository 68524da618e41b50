#include "core/dataset/ops/choosing_stage.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {

ChoosingStage::ChoosingStage(const Node& node, const ExecContext& context, StageInputs inputs)
    : Stage(node, std::move(inputs)),
      clock_(context.environment->environment().clock()),
      stops_(node.attributes().Bool("stop_on_empty_dataset")),
      choices_(input(0)) {
  for (size_t i = 1; i < num_inputs(); ++i) inputs_.Add(input(i));
}

void ChoosingStage::Next(const Demand& demand, const CallOptions& options, Slab* slab) {
  for (bool first = true; !done_; first = false) {
    // Many choices may be of datasets that have ended.
    if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
    if (!slab->status.ok()) return;
    Slab choices;
    choices_.Pull(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), kNoHorizon), options,
                  &choices);
    if (choices.rows == 0) {
      slab->status = std::move(choices.status);
      if (!slab->status.ok() && !IsInterruption(slab->status)) ++index_;
      done_ = choices.end;
      if (!done_) return;
      break;
    }
    const int64_t used = Choose(choices, demand, options, slab);
    Use(used);
    index_ += used;
    choices_.PutBack(choices, used);
    if (slab->rows > 0 || !slab->status.ok()) return;
    slab->Clear();
  }
  slab->end = true;
}

// The elements of the first choices, which are of one dataset; gives how many choices are used.
int64_t ChoosingStage::Choose(const Slab& choices, const Demand& demand,
                              const CallOptions& options, Slab* slab) {
  const Result<int64_t> chosen = ChoiceIn(choices, 0);
  slab->status = chosen.status();
  if (!slab->status.ok()) return 1;
  const auto i = static_cast<size_t>(*chosen);
  if (inputs_.has_ended(i)) return 1;
  int64_t count = 1;
  while (count < choices.rows) {
    const Result<int64_t> next = ChoiceIn(choices, count);
    if (!next.ok() || *next != *chosen) break;
    ++count;
  }
  const int64_t used = inputs_.Pull(i, count, demand, options, slab);
  done_ = inputs_.has_ended(i) && (stops_ || inputs_.all_ended());
  return used;
}

Status ChoosingStage::Restart(const CallOptions& options) {
  choices_.Clear();
  inputs_.Clear();
  index_ = 0;
  done_ = false;
  return Stage::Restart(options);
}

Status ChoosingStage::FailedChoice(const Status& status, int64_t row) const {
  return status.WithPrefix(Format("{}: element {}", node().label(), index_ + row))
      .With("node", node().label())
      .With("index", index_ + row);
}

Status ChoosingStage::SaveChoices(StateWriter* writer) const {
  writer->Int(index_);
  writer->Int(done_ ? 1 : 0);
  TUTTI_RETURN_IF_ERROR(choices_.Save(writer));
  return inputs_.Save(writer);
}

void ChoosingStage::RestoreChoices(StateReader* reader) {
  index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
  done_ = reader->IntIn(0, 1) != 0;
  choices_.Restore(reader);
  inputs_.Restore(reader);
}

int64_t CardinalityOfChosen(const Node& node) {
  for (size_t i = 1; i < node.inputs().size(); ++i) {
    if (node.input(i).cardinality() != kInfiniteCardinality) return kUnknownCardinality;
  }
  return node.input(0).cardinality();
}

}  // namespace tutti
