// concatenate: the elements of one dataset, then those of another.
//
// A short chain has a stage for each of its nodes. A long one has one stage for all of them, which
// walks over the parts: it makes a part's stages when its turn comes and ends them behind it, so
// that neither the stack nor memory grows with the number of parts. What a part draws anew for each
// iteration follows from this stage's own number, from the pass and from the part's place.
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/inner_stages.h"
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
        clock_(context.environment->environment().clock()),
        inners_(this->node(), context),
        parts_(this->node()) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      slab->status = inners_.JoinEnded(options);
      if (slab->status.ok() && !first) {
        // Many parts without elements may follow each other.
        slab->status = CheckCallOptions(options, clock_, node().label());
      }
      if (slab->status.ok()) slab->status = MakeCurrent(false);
      if (!slab->status.ok()) return;
      if (current_ == nullptr) {
        slab->end = true;
        return;
      }
      current_->stage().Next(demand, options, slab);
      if (!slab->end) return;
      inners_.End(std::exchange(current_, nullptr));
      parts_.Advance();
      slab->end = parts_.part() == nullptr;
      if (slab->end || slab->rows > 0) return;
      slab->Clear();
    }
  }

  Status Restart(const CallOptions& options) override {
    current_ = nullptr;
    TUTTI_RETURN_IF_ERROR(inners_.EndAll(options));
    parts_.Seek(0);
    inners_.BeginPass();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("concatenate parts");
    inners_.Save(writer);
    writer->Int(parts_.index());
    writer->Int(current_ != nullptr ? 1 : 0);
    return current_ != nullptr ? current_->stage().Save(writer) : OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    current_ = nullptr;
    TUTTI_RETURN_IF_ERROR(inners_.EndAll(options));
    reader->Section("concatenate parts");
    inners_.Restore(reader);
    const int64_t index = reader->IntIn(0, node().num_parts());
    const bool has_current = reader->IntIn(0, 1) != 0;
    if (has_current && index == node().num_parts()) reader->Fail("a part behind the last one");
    TUTTI_RETURN_IF_ERROR(reader->status());
    parts_.Seek(index);
    if (!has_current) return OkStatus();
    TUTTI_RETURN_IF_ERROR(MakeCurrent(true));
    return current_->stage().Restore(reader, options);
  }

  void Stop() override { inners_.Stop(); }
  Status Join(const CallOptions& options) override {
    current_ = nullptr;
    return inners_.Join(options);
  }

 private:
  // Where there is none; null behind the last part.
  Status MakeCurrent(bool restoring) {
    if (current_ != nullptr || parts_.part() == nullptr) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(current_, inners_.MakePart(*parts_.part(), parts_.index(), restoring));
    return OkStatus();
  }

  Clock& clock_;
  InnerStages inners_;
  ConcatenatedParts parts_;
  InnerStages::Inner* current_ = nullptr;  // of parts_.part()
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
