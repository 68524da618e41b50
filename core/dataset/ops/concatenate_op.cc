// concatenate: the elements of one dataset, then those of another.
//
// A short chain has a stage for each of its nodes. A long one has one stage for all of them, which
// walks over the parts: it makes a part's stages when its turn comes and ends them behind it, so
// that neither the stack nor memory grows with the number of parts. What a part draws anew for each
// iteration follows from this stage's own number, from the pass and from the part's place.
#include <limits>
#include <mutex>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/concatenated_parts.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class ConcatenateStage final : public Stage {
 public:
  ConcatenateStage(const Node& node, StageInputs inputs) : Stage(node, std::move(inputs)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (true) {
      input(static_cast<size_t>(current_)).Next(demand, options, slab);
      if (!slab->end || current_ == 1) return;
      current_ = 1;
      slab->end = false;
      if (slab->rows > 0) return;
      slab->Clear();
    }
  }

  Status Restart(const CallOptions& options) override {
    current_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("concatenate");
    writer->Int(current_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("concatenate");
    current_ = reader->IntIn(0, 1);
    return Stage::Restore(reader, options);
  }

 private:
  int64_t current_ = 0;
};

class LateConcatenateStage final : public Stage {
 public:
  LateConcatenateStage(const Node& node, const ExecContext& context)
      : Stage(node, {}),
        context_(context),
        iteration_(context.DrawIteration(node)),
        parts_(node) {
    context_.restoring = false;
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      slab->status = EndPassed(options);
      if (slab->status.ok() && !first) {
        // Many parts without elements may follow each other.
        slab->status = CheckCallOptions(options, clock(), node().label());
      }
      if (slab->status.ok()) slab->status = MakeCurrent();
      if (!slab->status.ok()) return;
      if (!current_) {
        slab->end = true;
        return;
      }
      current_->Next(demand, options, slab);
      if (!slab->end) return;
      PassCurrent();
      parts_.Advance();
      slab->end = parts_.part() == nullptr;
      if (slab->end || slab->rows > 0) return;
      slab->Clear();
    }
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(EndAll(options));
    parts_.Seek(0);
    ++pass_;
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("concatenate parts");
    writer->Int(iteration_);
    writer->Int(pass_);
    writer->Int(parts_.index());
    writer->Int(current_ ? 1 : 0);
    return current_ ? current_->Save(writer) : OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    TUTTI_RETURN_IF_ERROR(EndAll(options));
    reader->Section("concatenate parts");
    iteration_ = reader->IntIn(0, kMax);
    pass_ = reader->IntIn(0, kMax);
    const int64_t index = reader->IntIn(0, node().num_parts());
    const bool has_current = reader->IntIn(0, 1) != 0;
    if (has_current && index == node().num_parts()) reader->Fail("a part behind the last one");
    TUTTI_RETURN_IF_ERROR(reader->status());
    parts_.Seek(index);
    if (!has_current) return OkStatus();
    context_.restoring = true;
    Status made = MakeCurrent();
    context_.restoring = false;
    TUTTI_RETURN_IF_ERROR(made);
    return current_->Restore(reader, options);
  }

  void Stop() override {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    if (current_) current_->Stop();
  }

  Status Join(const CallOptions& options) override { return EndAll(options); }

 private:
  Clock& clock() const { return context_.environment->environment().clock(); }

  // Where there is none; null behind the last part.
  Status MakeCurrent() {
    if (current_ || parts_.part() == nullptr) return OkStatus();
    numbers_ = IterationNumbers(KeyOfPart());
    context_.numbers = &numbers_;
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> made, MakeStage(*parts_.part(), context_));
    std::lock_guard lock(mutex_);
    // It has not started anything yet, and goes without having been told to stop.
    if (stopped_) return Cancelled("{}: the iterator was closed", node().label());
    current_ = std::move(made);
    return OkStatus();
  }

  uint64_t KeyOfPart() const {
    uint64_t key = 0;
    for (int64_t value : {iteration_, pass_, parts_.index()}) {
      key = SplitMix64(key ^ static_cast<uint64_t>(value)).Next();
    }
    return key;
  }

  void PassCurrent() {
    current_->Stop();
    std::lock_guard lock(mutex_);
    passed_ = std::move(current_);
  }

  // Joins the threads of the part before. An interruption leaves them to the next call.
  Status EndPassed(const CallOptions& options) {
    if (!passed_) return OkStatus();
    TUTTI_RETURN_IF_ERROR(passed_->Join(options));
    passed_.reset();
    return OkStatus();
  }

  Status EndAll(const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(EndPassed(options));
    if (current_) PassCurrent();
    return EndPassed(options);
  }

  // The parts' stages refer to it.
  ExecContext context_;
  IterationNumbers numbers_{0};
  int64_t iteration_;
  int64_t pass_ = 0;
  ConcatenatedParts parts_;
  // Ended by Stop already; used by whoever has this stage for itself.
  std::unique_ptr<Stage> passed_;

  std::mutex mutex_;  // guards all below; who has this stage for itself reads current_ without
  bool stopped_ = false;
  std::unique_ptr<Stage> current_;  // of parts_.part()
};

// The spec that both inputs fit; null when one is not known.
Result<Ref<const ElementSpec>> ConcatenateSpec(const Node& node) {
  const Ref<const ElementSpec> first = node.input(0).element_spec();
  if (!first) return first;
  const Ref<const ElementSpec> second = node.input(1).element_spec();
  if (!second) return second;
  Result<Ref<const ElementSpec>> both = first->Relax(*second, node.label());
  if (!both.ok()) return std::move(both).status().With("structure", second->ToString());
  return both;
}

Status CheckConcatenate(const Node& node) { return ConcatenateSpec(node).status(); }

int64_t ConcatenateCardinality(const Node& node) {
  const int64_t a = node.input(0).cardinality();
  const int64_t b = node.input(1).cardinality();
  if (a == kInfiniteCardinality || b == kInfiniteCardinality) return kInfiniteCardinality;
  if (a == kUnknownCardinality || b == kUnknownCardinality) return kUnknownCardinality;
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kUnknownCardinality : sum;
}

Result<std::unique_ptr<Stage>> MakeConcatenate(const Node& node, const ExecContext& context,
                                               StageInputs inputs) {
  if (inputs.empty()) {
    return std::unique_ptr<Stage>(std::make_unique<LateConcatenateStage>(node, context));
  }
  return std::unique_ptr<Stage>(std::make_unique<ConcatenateStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kConcatenateOp = {
    .name = "concatenate",
    .num_inputs = 2,
    .row_ratio = RowRatio::kCombined,
    .can_seek = true,
    .appends_inputs = true,
    .check = CheckConcatenate,
    .cardinality = ConcatenateCardinality,
    .element_spec = ConcatenateSpec,
    .make_stage = MakeConcatenate,
};

}  // namespace tutti
