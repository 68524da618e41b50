// take_while: the elements before the first one for which a predicate gives a false boolean scalar.
//
// The first false ends the pass for good: nothing is taken from the input, and the predicate is not
// called, until the next pass. By row the predicate sees nothing behind it; by slab it may see the
// rows that came with it. An element that fails, be it the input's or the predicate's failure, does
// not end the pass.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/predicate_rows.h"

namespace tutti {
namespace {

class TakeWhileStage final : public Stage {
 public:
  TakeWhileStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        rows_(input()),
        predicate_(this->node(), context) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (done_) {
      slab->end = true;
      return;
    }
    slab->status = CheckCallOptions(options, clock_, node().label());
    if (!slab->status.ok()) return;
    Slab in;
    rows_.Pull(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), demand.Horizon()), options,
               &in);
    PredicateRows::Verdicts verdicts = predicate_.Judge(in, index_, true, options);
    index_ += verdicts.used;
    const auto first_false = std::find(verdicts.flags.begin(), verdicts.flags.end(), char{0});
    const auto taken = static_cast<int64_t>(first_false - verdicts.flags.begin());
    if (taken > 0) *slab = in.Slice(0, taken);
    if (first_false != verdicts.flags.end()) {
      done_ = true;
      rows_.Clear();
      slab->end = true;
      return;
    }
    Status status = std::move(verdicts.status);
    if (verdicts.used == in.rows && status.ok()) {
      status = std::move(in.status);
      slab->end = in.end;
    } else {
      rows_.PutBack(in, verdicts.used);
    }
    // A call that has rows was not interrupted.
    if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
  }

  Status Restart(const CallOptions& options) override {
    rows_.Clear();
    index_ = 0;
    done_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("take_while");
    writer->Int(index_);
    writer->Int(done_ ? 1 : 0);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("take_while");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    done_ = reader->IntIn(0, 1) != 0;
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  Clock& clock_;
  InputRows rows_;
  PredicateRows predicate_;
  int64_t index_ = 0;  // of the next element of the input
  bool done_ = false;  // the predicate gave false
};

int64_t TakeWhileCardinality(const Node&) { return kUnknownCardinality; }

Result<std::unique_ptr<Stage>> MakeTakeWhile(const Node& node, const ExecContext& context,
                                             StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<TakeWhileStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kTakeWhileOp = {
    .name = "take_while",
    .row_ratio = RowRatio::kSubset,
    .passes_elements = true,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kWithFunctions,
    .check = CheckPredicate,
    .cardinality = TakeWhileCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeTakeWhile,
};

}  // namespace tutti
