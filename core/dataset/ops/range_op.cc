// range: start, start + step, ... before stop, of a numeric dtype.
#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/cast.h"

namespace tutti {
namespace {

struct Bounds {
  int64_t start;
  int64_t stop;
  int64_t step;
  DType dtype;
};

Bounds BoundsOf(const Node& node) {
  const Attributes& attributes = node.attributes();
  return Bounds{attributes.Int("start"), attributes.Int("stop"), attributes.Int("step", 1),
                static_cast<DType>(attributes.Int("dtype"))};
}

uint64_t Magnitude(int64_t value) {
  return value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// As many elements as there are, or as can be counted.
int64_t CountOf(const Bounds& bounds) {
  if (bounds.step > 0 ? bounds.start >= bounds.stop : bounds.start <= bounds.stop) return 0;
  const uint64_t distance =
      bounds.step > 0 ? static_cast<uint64_t>(bounds.stop) - static_cast<uint64_t>(bounds.start)
                      : static_cast<uint64_t>(bounds.start) - static_cast<uint64_t>(bounds.stop);
  const uint64_t count = (distance - 1) / Magnitude(bounds.step) + 1;
  return static_cast<int64_t>(
      std::min(count, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

int64_t RangeCardinality(const Node& node) {
  const int64_t count = CountOf(BoundsOf(node));
  return count == std::numeric_limits<int64_t>::max() ? kUnknownCardinality : count;
}

// Element `i`; no overflow for an element that there is.
int64_t ElementAt(const Bounds& bounds, int64_t i) {
  return static_cast<int64_t>(static_cast<uint64_t>(bounds.start) +
                              static_cast<uint64_t>(i) * static_cast<uint64_t>(bounds.step));
}

bool Fits(DType dtype, int64_t value) {
  if (!IsInteger(dtype)) return true;
  const int bits = static_cast<int>(ItemSize(dtype)) * 8;
  if (IsUnsignedInteger(dtype)) return value >= 0 && (bits == 64 || value < (int64_t{1} << bits));
  return bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1)));
}

Status CheckRange(const Node& node) {
  for (std::string_view name : {"start", "stop", "step", "dtype"}) {
    TUTTI_RETURN_IF_ERROR(CheckInt(node, name));
  }
  const Bounds bounds = BoundsOf(node);
  if (bounds.step == 0) {
    return InvalidArgument("{}: step must not be 0; pass a positive or a negative step",
                           node.label());
  }
  if (!IsInteger(bounds.dtype) && !IsFloating(bounds.dtype)) {
    return InvalidArgument("{}: dtype must be an integer or a floating type, got {}", node.label(),
                           DTypeName(bounds.dtype));
  }
  const int64_t count = CountOf(bounds);
  if (count > 0) {
    for (int64_t value : {bounds.start, ElementAt(bounds, count - 1)}) {
      if (Fits(bounds.dtype, value)) continue;
      return InvalidArgument("{}: the element {} does not fit {}; take a wider dtype", node.label(),
                             value, DTypeName(bounds.dtype));
    }
  }
  return OkStatus();
}

Result<Ref<const ElementSpec>> RangeSpec(const Node& node) {
  return ElementSpec::OfTensor(BoundsOf(node).dtype, PartialShape::Scalar());
}

class RangeStage final : public Stage {
 public:
  RangeStage(const Node& node, const ExecContext& context)
      : Stage(node, {}),
        bounds_(BoundsOf(node)),
        count_(CountOf(bounds_)),
        account_(context.account),
        tree_(Ref<const TreeSpec>::Retain(&TreeSpec::Leaf())) {}

  void Next(const Demand& demand, const CallOptions&, Slab* slab) override {
    const int64_t left = count_ - position_;
    slab->rows = std::min({demand.max_rows, left, demand.count_only ? left : kMaxSlabRows});
    if (slab->rows > 0 && !demand.count_only) {
      Result<Ref<Tensor>> tensor = MakeRows(slab->rows);
      if (!tensor.ok()) {
        slab->rows = 0;
        slab->status = tensor.status();
        return;
      }
      slab->tree = tree_;
      slab->columns.push_back(Column::Dense(std::move(tensor).value()));
    }
    position_ += slab->rows;
    slab->end = position_ == count_;
  }

  Status Restart(const CallOptions&) override {
    position_ = 0;
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("range");
    writer->Int(position_);
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions&) override {
    reader->Section("range");
    position_ = reader->IntIn(0, count_);
    return reader->status();
  }

 private:
  Result<Ref<Tensor>> MakeRows(int64_t rows) {
    TensorOptions options;
    options.zeroed = false;
    options.account = account_;
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor,
                           Tensor::Create(DType::kInt64, Shape({rows}), options));
    int64_t* out = tensor->mutable_span<int64_t>().data();
    uint64_t value = static_cast<uint64_t>(ElementAt(bounds_, position_));
    for (int64_t i = 0; i < rows; ++i) {
      out[i] = static_cast<int64_t>(value);
      value += static_cast<uint64_t>(bounds_.step);
    }
    if (bounds_.dtype == DType::kInt64) return tensor;
    return Cast(*tensor, bounds_.dtype, options);
  }

  const Bounds bounds_;
  const int64_t count_;
  MemoryAccount* const account_;
  const Ref<const TreeSpec> tree_;
  int64_t position_ = 0;
};

Result<std::unique_ptr<Stage>> MakeRange(const Node& node, const ExecContext& context,
                                         StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<RangeStage>(node, context));
}

}  // namespace

constinit const OpTraits kRangeOp = {
    .name = "range",
    .attributes = {{"start"},
                   {"stop"},
                   {"step", 1},
                   {"dtype", static_cast<int64_t>(DType::kInt64)}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .can_split = true,
    .check = CheckRange,
    .cardinality = RangeCardinality,
    .element_spec = RangeSpec,
    .make_stage = MakeRange,
};

}  // namespace tutti
