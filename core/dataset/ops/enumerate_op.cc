// enumerate: pairs (int64 index, element).
#include <algorithm>
#include <limits>

#include "core/base/error.h"
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
    if (exhausted_) return Refuse(demand, options, slab);
    const int64_t first = next_;
    const int64_t most = std::min(demand.max_rows, NumbersLeft());
    // Behind the last number one element more is asked for, to be refused.
    input().Next(
        demand.OfInput(most, std::min(demand.Horizon(), HorizonPlus(NumbersLeft(), 1))), options,
        slab);
    Advance(slab->rows);
    // A failed element has its number, too.
    if (!slab->status.ok() && !IsInterruption(slab->status)) Advance(1);
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

  std::string_view FileOfLast() const override { return input().FileOfLast(); }

  Status Restart(const CallOptions& options) override {
    next_ = start_;
    exhausted_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("enumerate");
    writer->Int(exhausted_ ? kExhausted : next_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("enumerate");
    next_ = reader->Int();
    exhausted_ = next_ == kExhausted && start_ > kExhausted;
    if (exhausted_) next_ = kLast;
    if (next_ < start_) reader->Fail("a number is out of range");
    return Stage::Restore(reader, options);
  }

 private:
  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  // What a state has in place of the number that would follow the last one.
  static constexpr int64_t kExhausted = std::numeric_limits<int64_t>::min();

  // At most what int64 holds; at least 1.
  int64_t NumbersLeft() const { return next_ <= 0 ? kLast : kLast - next_ + 1; }

  void Advance(int64_t rows) {
    if (rows >= NumbersLeft() && next_ > 0) {
      next_ = kLast;
      exhausted_ = true;
    } else {
      next_ += rows;
    }
  }

  // An element for which there is no number. What failed behind it has none either.
  void Refuse(const Demand& demand, const CallOptions& options, Slab* slab) {
    input().Next(demand.OfInput(1, 1), options, slab);
    if (slab->rows == 0) return;
    slab->Clear();
    slab->status = OutOfRange(
        "{}: the numbers from {} on have come to their end, {}, and an element follows; start at a "
        "smaller number",
        node().label(), start_, kLast);
  }

  const int64_t start_;
  MemoryAccount* const account_;
  int64_t next_;
  bool exhausted_ = false;  // the last number is taken
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
    .attributes = {{"start", 0}},
    .can_seek = true,
    .check = CheckEnumerate,
    .cardinality = CardinalityOfInput,
    .element_spec = EnumerateSpec,
    .make_stage = MakeEnumerate,
};

}  // namespace tutti
