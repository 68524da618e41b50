// concatenate: the elements of one dataset, then those of another.
#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
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

// The spec that both inputs fit; null when one is not known.
Result<Ref<const ElementSpec>> ConcatenateSpec(const Node& node) {
  const Ref<const ElementSpec> first = node.input(0).element_spec();
  const Ref<const ElementSpec> second = node.input(1).element_spec();
  if (!first || !second) return Ref<const ElementSpec>();
  return first->Relax(*second, node.label());
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

Result<std::unique_ptr<Stage>> MakeConcatenate(const Node& node, const ExecContext&,
                                               StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ConcatenateStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kConcatenateOp = {
    .name = "concatenate",
    .num_inputs = 2,
    .row_ratio = RowRatio::kCombined,
    .can_seek = true,
    .check = CheckConcatenate,
    .cardinality = ConcatenateCardinality,
    .element_spec = ConcatenateSpec,
    .make_stage = MakeConcatenate,
};

Result<Ref<Dataset>> Dataset::Concatenate(const Dataset& other, std::string name) const {
  return Make(environment_, "concatenate", std::move(name), {},
              {Ref<Dataset>::Retain(const_cast<Dataset*>(this)),
               Ref<Dataset>::Retain(const_cast<Dataset*>(&other))});
}

}  // namespace tutti
