// enumerate: pairs (int64 index, element).
#include <algorithm>
#include <limits>

#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class EnumerateStage final : public Stage {
 public:
  EnumerateStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        start_(node.attributes().Int("start")),
        account_(context.account),
        next_(start_) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    input().Next(demand, options, slab);
    const int64_t first = next_;
    next_ += slab->rows;
    // A failed element has its number, too.
    if (!slab->status.ok() && !IsInterruption(slab->status)) ++next_;
    if (slab->rows == 0 || demand.count_only) {
      slab->tree.reset();
      slab->columns.clear();
      return;
    }
    TensorOptions tensor_options;
    tensor_options.zeroed = false;
    tensor_options.account = account_;
    Result<Ref<Tensor>> numbers =
        Tensor::Create(DType::kInt64, Shape({slab->rows}), tensor_options);
    if (!numbers.ok()) {
      slab->Clear();
      slab->status = numbers.status();
      return;
    }
    const std::span<int64_t> out = (*numbers)->mutable_span<int64_t>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<int64_t>(i);
    slab->columns.insert(slab->columns.begin(), Column::Dense(std::move(numbers).value()));
    if (!tree_ || !(*input_tree_ == *slab->tree)) {
      input_tree_ = slab->tree;
      tree_ = TreeSpec::Tuple({Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), input_tree_});
    }
    slab->tree = tree_;
  }

  Status Restart(const CallOptions& options) override {
    next_ = start_;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("enumerate");
    writer->Int(next_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("enumerate");
    next_ = reader->IntIn(start_, std::numeric_limits<int64_t>::max());
    return Stage::Restore(reader, options);
  }

 private:
  const int64_t start_;
  MemoryAccount* const account_;
  int64_t next_;
  Ref<const TreeSpec> input_tree_;
  Ref<const TreeSpec> tree_;
};

Status CheckEnumerate(const Node& node) { return CheckInt(node, "start"); }

Result<Ref<const ElementSpec>> EnumerateSpec(const Node& node) {
  Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  const Ref<const ElementSpec> parts[] = {
      ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar()), std::move(element)};
  return ElementSpec::Tuple(parts);
}

Result<std::unique_ptr<Stage>> MakeEnumerate(const Node& node, const ExecContext& context,
                                             StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<EnumerateStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kEnumerateOp = {
    .name = "enumerate",
    .can_seek = true,
    .check = CheckEnumerate,
    .cardinality = CardinalityOfInput,
    .element_spec = EnumerateSpec,
    .make_stage = MakeEnumerate,
};

}  // namespace tutti
