// filter: the elements for which a predicate gives a true boolean scalar.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/pick_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/predicate_rows.h"

namespace tutti {
namespace {

class FilterStage final : public Stage {
 public:
  FilterStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        rows_(input()),
        predicate_(this->node(), context) {
    predicate_.NameFilesOf(input());
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      Slab in;
      // Nobody knows how many rows it takes to find what is wanted.
      rows_.Pull(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), kNoHorizon), options, &in);
      PredicateRows::Verdicts verdicts = predicate_.Judge(in, index_, false, options);
      std::vector<int64_t> kept;
      for (size_t i = 0; i < verdicts.flags.size(); ++i) {
        if (verdicts.flags[i] != 0) kept.push_back(static_cast<int64_t>(i));
      }
      index_ += verdicts.used;
      Status status = std::move(verdicts.status);
      bool end = false;
      if (verdicts.used == in.rows && status.ok()) {
        status = in.status;
        end = in.end;
      } else {
        rows_.PutBack(in, verdicts.used);
      }
      if (!kept.empty()) {
        Result<Slab> picked = PickRows(in, kept, account_);
        if (picked.ok()) {
          *slab = std::move(picked).value();
        } else if (status.ok()) {
          status = picked.status();
        }
      }
      slab->end = end;
      // A call that has rows was not interrupted.
      if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
    }
  }

  std::string_view FileOfLast() const override { return input().FileOfLast(); }

  Status Restart(const CallOptions& options) override {
    rows_.Clear();
    index_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("filter");
    writer->Int(index_);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("filter");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  Clock& clock_;
  MemoryAccount* const account_;
  InputRows rows_;
  PredicateRows predicate_;
  int64_t index_ = 0;  // of the next element of the input
};

int64_t FilterCardinality(const Node&) { return kUnknownCardinality; }

Result<std::unique_ptr<Stage>> MakeFilter(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<FilterStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kFilterOp = {
    .name = "filter",
    .row_ratio = RowRatio::kSubset,
    .passes_elements = true,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kWithFunctions,
    .check = CheckPredicate,
    .cardinality = FilterCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeFilter,
};

}  // namespace tutti
