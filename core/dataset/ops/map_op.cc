// map: every element replaced by what a function makes of it.
//
// By row the function is called once per element, in order; by slab once per slab, and when it
// names the row that failed, again for the rows before it and later for those behind it. With
// num_parallel_calls the rows of one demand are worked on by several threads at once; there is
// still nothing called beyond the demand, and the order stays.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/exec/worker_crew.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
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

class MapStage final : public Stage {
 public:
  MapStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        rows_(input()),
        function_(this->node(), context, PromisedSpec(node)),
        crew_(context.environment->environment_ref(),
              context.probe ? 0 : node.attributes().Int("num_parallel_calls")) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (!made_.empty()) return made_.Pop(demand.max_rows, slab);
    if (demand.count_only) {
      rows_.Pull(demand, options, slab);
      // The input's columns are not the result's.
      slab->tree.reset();
      slab->columns.clear();
      Count(*slab);
      return;
    }
    Slab in;
    rows_.Pull(Demand{std::min(demand.max_rows, kMaxSlabRows), false, demand.Horizon()}, options,
               &in);
    if (in.rows == 0) {
      *slab = std::move(in);
    } else if (function_.takes_slabs()) {
      MapSlab(std::move(in), options, slab);
    } else if (in.rows > 1 && crew_.size() > 1) {
      MapInParallel(std::move(in), options, slab);
    } else {
      MapRows(in, options, slab);
    }
    Count(*slab);
    if (slab->rows > 0 && function_.learnt_spec() && !told_) {
      node().LearnSpec(function_.learnt_spec());
      told_ = true;
    }
  }

  Status Restart(const CallOptions& options) override {
    rows_.Clear();
    made_.Clear();
    index_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("map");
    writer->Int(index_);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    TUTTI_RETURN_IF_ERROR(made_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("map");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    rows_.Restore(reader);
    made_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    crew_.Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(crew_.Join(options));
    return Stage::Join(options);
  }

 private:
  void Count(const Slab& slab) {
    index_ += slab.rows + (!slab.status.ok() && !IsInterruption(slab.status) ? 1 : 0);
  }

  bool Interrupted(const CallOptions& options, Status* status) const {
    if (options.deadline.is_infinite() && options.cancellation == nullptr) return false;
    *status = CheckCallOptions(options, clock_, node().label());
    return !status->ok();
  }

  void MapRows(const Slab& in, const CallOptions& options, Slab* slab) {
    std::vector<Ref<Value>> results;
    results.reserve(static_cast<size_t>(in.rows));
    int64_t used = 0;
    Status status;
    while (used < in.rows && status.ok() && !Interrupted(options, &status)) {
      const int64_t index = index_ + used;
      Result<Ref<Value>> result = function_.CallRow(in, used, index, options);
      if (result.ok()) result = function_.Fit(std::move(result).value(), index);
      status = result.status();
      // What the end of the call stopped is not lost.
      if (IsInterruption(status)) break;
      ++used;
      if (status.ok()) results.push_back(std::move(result).value());
    }
    *slab = function_.Collect(std::move(results));
    if (used == in.rows && status.ok()) {
      slab->status = in.status;
      slab->end = in.end;
      return;
    }
    rows_.PutBack(in, used);
    if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
  }

  void MapSlab(Slab in, const CallOptions& options, Slab* slab) {
    const bool ragged = in.rows > 1 && !RowsAreUniform({&in, 1});
    int64_t rows = ragged ? 1 : in.rows;
    std::optional<int64_t> failed_row;
    Result<Slab> mapped = function_.CallSlab(in.Slice(0, rows), index_, options, &failed_row);
    if (!mapped.ok() && failed_row.value_or(0) > 0) {
      // The rows before the failed one are good; it comes again as the first of the rest.
      rows = *failed_row;
      mapped = function_.CallSlab(in.Slice(0, rows), index_, options, &failed_row);
    } else if (!mapped.ok() && failed_row.has_value()) {
      rows = 1;
    }
    if (mapped.ok()) {
      *slab = std::move(mapped).value();
    } else {
      slab->status = mapped.status();
      if (IsInterruption(slab->status)) rows = 0;
    }
    if (rows == in.rows && slab->status.ok()) {
      slab->status = in.status;
      slab->end = in.end;
    } else {
      rows_.PutBack(in, rows);
    }
  }

  // All rows at once; what lies behind a failed one is kept for the next call.
  void MapInParallel(Slab in, const CallOptions& options, Slab* slab) {
    const auto count = static_cast<size_t>(in.rows);
    std::vector<Ref<Value>> values(count);
    std::vector<Status> failures(count);
    slab->status = crew_.Run(count, [&](size_t i) {
      Status interrupted;
      if (Interrupted(options, &interrupted)) {
        failures[i] = std::move(interrupted);
        return;
      }
      const auto row = static_cast<int64_t>(i);
      Result<Ref<Value>> result = function_.CallRow(in, row, index_ + row, options);
      if (result.ok()) {
        values[i] = std::move(result).value();
      } else {
        failures[i] = result.status();
      }
    });
    // An exception is the failure of one of them, and which is not known.
    if (!slab->status.ok()) return rows_.PutBack(in, IsInterruption(slab->status) ? 0 : 1);
    std::vector<Ref<Value>> good;
    for (size_t i = 0; i < count; ++i) {
      Status status = std::move(failures[i]);
      if (status.ok()) {
        Result<Ref<Value>> fitted =
            function_.Fit(std::move(values[i]), index_ + static_cast<int64_t>(i));
        if (fitted.ok()) {
          good.push_back(std::move(fitted).value());
          continue;
        }
        status = fitted.status();
      }
      if (IsInterruption(status)) {
        // From here on the rows come again.
        rows_.PutBack(in, static_cast<int64_t>(i));
        in.status = OkStatus();
        in.end = false;
        if (good.empty() && made_.empty()) in.status = std::move(status);
        break;
      }
      Slab part = function_.Collect(std::exchange(good, {}));
      part.status = std::move(status);
      made_.Append(std::move(part));
    }
    Slab last = function_.Collect(std::move(good));
    last.status = std::move(in.status);
    last.end = in.end;
    if (made_.empty()) {
      *slab = std::move(last);
      return;
    }
    if (last.rows > 0 || last.end || !last.status.ok()) made_.Append(std::move(last));
    made_.Pop(in.rows, slab);
  }

  Clock& clock_;
  InputRows rows_;
  HeldRows made_;  // results of parallel calls behind a failed one
  FunctionRows function_;
  WorkerCrew crew_;
  int64_t index_ = 0;  // of the next element
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
