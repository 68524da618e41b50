// map: every element replaced by what a function makes of it.
//
// By row the function is called once per element, in order, and where another map's function stands
// below, the next element is made when that has been done; by slab once per slab, and when it
// names the row that failed, again for the rows before it and later for those behind it. With
// num_parallel_calls a function by row is called for several rows at once and ahead of the demand,
// within its horizon (exec/calls_ahead.h); a function by slab stays on the thread that asks.
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/calls_ahead.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/numbered_rows.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

// The spec of one row's result; null when only a call can tell.
Result<Ref<const ElementSpec>> MapSpec(const Node& node) {
  const Ref<const ElementSpec> input = node.input().element_spec();
  return node.function().OutputSpec(input.get());
}

// What the function promises, never what an earlier iterator has learnt.
Ref<const ElementSpec> PromisedSpec(const Node& node) {
  Result<Ref<const ElementSpec>> spec = MapSpec(node);
  return spec.ok() ? std::move(spec).value() : nullptr;
}

// How many calls this map makes at once; none: on the thread that asks.
CallsAhead::Number CallsAtOnce(const Node& node, const ExecContext& context) {
  const int64_t given = node.attributes().Int("num_parallel_calls");
  CallsAhead::Number number = {given, given == kAutotune, given};
  if (context.probe) return {0};
  if (number.tunes) {
    number.calls = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostTunedCalls);
    number.most = kMostTunedCalls;
  }
  if (context.options == nullptr) return number;
  for (int64_t bound : {context.options->private_threadpool_size(),
                        context.options->max_intra_op_parallelism()}) {
    if (bound <= 0) continue;
    number.calls = std::min(number.calls, bound);
    number.most = std::min(number.most, bound);
  }
  return number;
}

// The argument wins over the option.
bool KeepsOrder(const Node& node, const ExecContext& context) {
  if (const bool* argument = node.attributes().Get<bool>("deterministic")) return *argument;
  return context.options == nullptr || context.options->deterministic();
}

class MapStage final : public Stage {
 public:
  MapStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        rows_(input()),
        function_(this->node(), context, PromisedSpec(node)),
        most_rows_(!function_.takes_slabs() && node.input().has_host_maps() ? 1 : kMaxSlabRows) {
    const CallsAhead::Number number = CallsAtOnce(node, context);
    if (number.calls == 0 || function_.takes_slabs()) return;
    ahead_ = std::make_unique<CallsAhead>(this->node(), context, number,
                                          KeepsOrder(node, context), &rows_, &function_);
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (IsAhead(demand)) {
      ahead_->Next(demand, options, slab);
    } else {
      NextInTurn(demand, options, slab);
    }
    if (slab->rows > 0 && function_.learnt_spec() && !told_) {
      node().LearnSpec(function_.learnt_spec());
      told_ = true;
    }
  }

  Status Restart(const CallOptions& options) override {
    CallsAhead::InputTurn turn(ahead_.get());
    TUTTI_RETURN_IF_ERROR(turn.Take(options));
    if (ahead_) ahead_->Forget();
    rows_.Clear();
    failed_ = Failed();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    CallsAhead::InputTurn turn(ahead_.get());
    TUTTI_RETURN_IF_ERROR(turn.Take(CallOptions()));
    std::vector<NumberedRows::Run> held;
    if (ahead_) TUTTI_RETURN_IF_ERROR(ahead_->Held(&held));
    writer->Section("map");
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer, held));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    CallsAhead::InputTurn turn(ahead_.get());
    TUTTI_RETURN_IF_ERROR(turn.Take(options));
    if (ahead_) ahead_->Forget();
    failed_ = Failed();
    reader->Section("map");
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    if (ahead_) ahead_->Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    if (ahead_) TUTTI_RETURN_IF_ERROR(ahead_->Join(options));
    return Stage::Join(options);
  }

 private:
  // Threads begin with the first row that is wanted.
  bool IsAhead(const Demand& demand) {
    if (!ahead_ || (demand.count_only && !ahead_->started())) return false;
    return ahead_->Start();
  }

  void NextInTurn(const Demand& demand, const CallOptions& options, Slab* slab) {
    NumberedRows::Run in;
    if (demand.count_only) {
      failed_ = Failed();
      rows_.Pull(demand, options, &in);
      *slab = std::move(in.slab);
      // The input's columns are not the result's.
      slab->tree.reset();
      slab->columns.clear();
      return;
    }
    PullRows(demand, options, &in);
    if (in.slab.rows == 0) {
      *slab = std::move(in.slab);
    } else if (function_.takes_slabs()) {
      MapSlab(in, demand, options, slab);
    } else {
      MapRows(in, demand, options, slab);
    }
  }

  void PullRows(const Demand& demand, const CallOptions& options, NumberedRows::Run* in) {
    Demand rows = demand.OfInput(std::min(demand.max_rows, most_rows_), demand.Horizon());
    // When one fails here, those behind it may be passed over.
    if (rows.max_rows > 1 && !demand.all_wanted) rows.tentative = true;
    rows_.Pull(rows, options, in);
    if (rows.tentative == demand.tentative || in->slab.rows > 0) return;
    if (!IsInterruption(in->slab.status)) return;
    *in = NumberedRows::Run();
    rows_.Pull(demand.OfInput(1, demand.Horizon()), options, in);
  }

  // The result for a row that has failed is known.
  bool HasFailed(int64_t index) const { return !failed_.status.ok() && failed_.index == index; }

  bool Interrupted(const CallOptions& options, Status* status) const {
    if (options.deadline.is_infinite() && options.cancellation == nullptr) return false;
    *status = CheckCallOptions(options, clock_, node().label());
    return !status->ok();
  }

  Result<Ref<Value>> ResultFor(const NumberedRows::Run& in, int64_t row,
                               const CallOptions& options) {
    const int64_t index = in.first + row;
    if (HasFailed(index)) return std::exchange(failed_, Failed()).status;
    TUTTI_ASSIGN_OR_RETURN(Ref<Value> result, function_.CallRow(in.slab, row, index, options));
    return function_.Fit(std::move(result), index, in.slab.origins.Of(row));
  }

  void MapRows(const NumberedRows::Run& in, const Demand& demand, const CallOptions& options,
               Slab* slab) {
    std::vector<Ref<Value>> results;
    results.reserve(static_cast<size_t>(in.slab.rows));
    int64_t used = 0;
    Status status;
    while (used < in.slab.rows && status.ok() && !Interrupted(options, &status)) {
      Result<Ref<Value>> result = ResultFor(in, used, options);
      status = result.status();
      if (!status.ok() && !IsInterruption(status) && demand.tentative) {
        failed_ = {in.first + used, 1, std::exchange(status, Undecided(node()))};
      }
      // What the end of the call stopped is not lost.
      if (IsInterruption(status)) break;
      ++used;
      if (status.ok()) results.push_back(std::move(result).value());
    }
    const auto made = static_cast<int64_t>(results.size());
    *slab = function_.Collect(std::move(results));
    slab->origins = in.slab.origins.Slice(0, made);
    if (used == in.slab.rows && status.ok()) {
      slab->status = in.slab.status;
      slab->end = in.slab.end;
      return;
    }
    rows_.PutBack(in, used);
    if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
  }

  void MapSlab(const NumberedRows::Run& run, const Demand& demand, const CallOptions& options,
               Slab* slab) {
    if (HasFailed(run.first)) return GiveFailed(run, demand, slab);
    const Slab& in = run.slab;
    const bool ragged = in.rows > 1 && !RowsAreUniform({&in, 1});
    int64_t rows = ragged ? 1 : in.rows;
    std::optional<int64_t> failed_row;
    Result<Slab> mapped = function_.CallSlab(in.Slice(0, rows), run.first, options, &failed_row);
    if (!mapped.ok() && failed_row.value_or(0) > 0) {
      // The rows before the failed one are good; it comes again as the first of the rest.
      rows = *failed_row;
      mapped = function_.CallSlab(in.Slice(0, rows), run.first, options, &failed_row);
    } else if (!mapped.ok() && failed_row.has_value()) {
      rows = 1;
    }
    if (mapped.ok()) {
      *slab = std::move(mapped).value();
    } else {
      slab->status = mapped.status();
      if (IsInterruption(slab->status)) {
        rows = 0;
      } else if (demand.tentative) {
        failed_ = {run.first, rows, std::move(slab->status)};
        return GiveFailed(run, demand, slab);
      }
    }
    if (rows == in.rows && slab->status.ok()) {
      slab->status = in.status;
      slab->end = in.end;
    } else {
      rows_.PutBack(run, rows);
    }
  }

  // What has failed in a slab before, with the rows that went with it.
  void GiveFailed(const NumberedRows::Run& run, const Demand& demand, Slab* slab) {
    if (demand.tentative) {
      slab->status = Undecided(node());
      return rows_.PutBack(run, 0);
    }
    const int64_t rows = std::min(failed_.rows, run.slab.rows);
    slab->status = std::exchange(failed_, Failed()).status;
    rows_.PutBack(run, rows);
  }

  // What the function made of rows for a tentative call: nothing. Whoever passes over them never
  // hears of it, and nobody calls the function for them again.
  struct Failed {
    int64_t index = 0;
    int64_t rows = 0;
    Status status = {};
  };

  Clock& clock_;
  NumberedRows rows_;
  FunctionRows function_;
  // That are taken at once by calls in turn. With another function below, that one must not fail
  // for an element that is passed over after all because one before it has failed here.
  const int64_t most_rows_;
  std::unique_ptr<CallsAhead> ahead_;  // null: calls are made in turn
  Failed failed_;                      // of calls in turn
  bool told_ = false;
};

Status CheckMap(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 1));
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "num_parallel_calls"));
  if (node.attributes().Int("num_parallel_calls") < kAutotune) {
    return InvalidArgument("{}: num_parallel_calls must be 0 or more, or -1 (AUTOTUNE), got {}",
                           node.label(), node.attributes().Int("num_parallel_calls"));
  }
  return MapSpec(node).status();
}

Result<std::unique_ptr<Stage>> MakeMap(const Node& node, const ExecContext& context,
                                       StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<MapStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kMapOp = {
    .name = "map",
    .attributes = {{"num_parallel_calls", 0, AttributeRole::kTuning}, {"deterministic"}},
    .state_version = 2,
    .can_seek = true,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kWithFunctions,
    .check = CheckMap,
    .cardinality = CardinalityOfInput,
    .element_spec = MapSpec,
    .make_stage = MakeMap,
};

Result<Ref<Dataset>> Dataset::Map(Ref<Function> function, MapOptions options) const {
  Attributes attributes;
  attributes.Set("num_parallel_calls", options.num_parallel_calls);
  if (options.deterministic) attributes.Set("deterministic", *options.deterministic);
  return Derive("map", std::move(options.name), std::move(attributes), {std::move(function)});
}

}  // namespace tutti
