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
        predicate_(this->node(), context) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      Slab in;
      // Nobody knows how many rows it takes to find what is wanted.
      rows_.Pull(Demand::Made(RowsFor(demand.max_rows), kNoHorizon), options, &in);
      PredicateRows::Verdicts verdicts = predicate_.Judge(in, index_, false, options);
      std::vector<int64_t> kept;
      kept.reserve(verdicts.flags.size());
      for (size_t i = 0; i < verdicts.flags.size(); ++i) {
        if (verdicts.flags[i] != 0) kept.push_back(static_cast<int64_t>(i));
      }
      judged_ += verdicts.used;
      kept_ += static_cast<int64_t>(kept.size());
      Status status = std::move(verdicts.status);
      if (static_cast<int64_t>(kept.size()) > demand.max_rows) {
        // What is behind the last one that is wanted comes again.
        kept.resize(static_cast<size_t>(demand.max_rows));
        verdicts.used = kept.back() + 1;
        status = OkStatus();
      }
      index_ += verdicts.used;
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
  // How many rows are asked for to find `wanted`: as many, and where no function of the host is
  // called for them as many as it took so far, so that what comes out is not smaller and smaller.
  int64_t RowsFor(int64_t wanted) const {
    constexpr int64_t kEnoughToTell = 256;
    constexpr int64_t kMostTimes = 64;
    int64_t rows = std::min(wanted, kMaxSlabRows);
    if (!node().has_host_functions() && judged_ >= kEnoughToTell) {
      const int64_t kept = std::max<int64_t>({1, kept_, judged_ / kMostTimes});
      rows = rows * judged_ / kept + (kept_ == judged_ ? 0 : rows / 8);
    }
    return std::min(rows, kMaxSlabRows);
  }

  Clock& clock_;
  MemoryAccount* const account_;
  InputRows rows_;
  PredicateRows predicate_;
  int64_t index_ = 0;  // of the next element of the input
  // So far, which only says how many rows it takes.
  int64_t judged_ = 0;
  int64_t kept_ = 0;
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
