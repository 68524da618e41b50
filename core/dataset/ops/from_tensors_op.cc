// from_tensors: one element, a value. from_tensor_slices: its slices along axis 0, without a copy.
// from_elements: the elements of a list, whatever they are; what a window holds whose elements are
// not all tensors of one shape.
#include <algorithm>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

const Value& ValueOf(const Node& node) {
  return **node.attributes().Get<Ref<const Value>>("value");
}

// Sources that know how many rows there are and can make any of them.
class CountedSource : public Stage {
 public:
  CountedSource(const Node& node, int64_t count) : Stage(node, {}), count_(count) {}

  void Next(const Demand& demand, const CallOptions&, Slab* slab) final {
    const int64_t left = count_ - position_;
    slab->rows = std::min({demand.max_rows, left, demand.count_only ? left : kMaxSlabRows});
    if (slab->rows > 0 && !demand.count_only) Fill(position_, slab);
    position_ += slab->rows;
    slab->end = position_ == count_;
  }
  Status Restart(const CallOptions&) final {
    position_ = 0;
    return OkStatus();
  }
  Status Save(StateWriter* writer) final {
    writer->Section("tensors");
    writer->Int(position_);
    return OkStatus();
  }
  Status Restore(StateReader* reader, const CallOptions&) final {
    reader->Section("tensors");
    position_ = reader->IntIn(0, count_);
    return reader->status();
  }

 private:
  virtual void Fill(int64_t position, Slab* slab) = 0;

  const int64_t count_;
  int64_t position_ = 0;
};

class FromTensorsStage final : public CountedSource {
 public:
  explicit FromTensorsStage(const Node& node) : CountedSource(node, 1) {}

 private:
  void Fill(int64_t, Slab* slab) override {
    const Value& value = ValueOf(node());
    slab->tree = value.spec_ref();
    for (const Leaf& leaf : value.leaves()) slab->columns.push_back(Column::Rows({leaf}));
  }
};

class FromTensorSlicesStage final : public CountedSource {
 public:
  explicit FromTensorSlicesStage(const Node& node) : CountedSource(node, node.cardinality()) {}

 private:
  void Fill(int64_t position, Slab* slab) override {
    const Value& value = ValueOf(node());
    slab->tree = value.spec_ref();
    for (const Leaf& leaf : value.leaves()) {
      slab->columns.push_back(
          Column::Borrowed(leaf.tensor().Slice(position, position + slab->rows)));
    }
  }
};

// The values of a list lie one after the other, leaf by leaf.
class FromElementsStage final : public CountedSource {
 public:
  explicit FromElementsStage(const Node& node) : CountedSource(node, node.cardinality()) {}

 private:
  void Fill(int64_t position, Slab* slab) override {
    const Value& list = ValueOf(node());
    slab->tree = list.Child(0)->spec_ref();
    const size_t leaves = slab->tree->num_leaves();
    for (size_t i = 0; i < leaves; ++i) {
      std::vector<Leaf> rows;
      for (int64_t row = position; row < position + slab->rows; ++row) {
        rows.push_back(list.leaf(static_cast<size_t>(row) * leaves + i));
      }
      slab->columns.push_back(Column::Rows(std::move(rows)));
    }
  }
};

Status CheckFromTensors(const Node& node) { return CheckValue(node, "value"); }
int64_t OneElement(const Node&) { return 1; }

Result<Ref<const ElementSpec>> SpecOfFromTensors(const Node& node) {
  return ElementSpec::OfValue(ValueOf(node));
}

Result<std::unique_ptr<Stage>> MakeFromTensors(const Node& node, const ExecContext&, StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<FromTensorsStage>(node));
}

Status CheckFromTensorSlices(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckValue(node, "value"));
  const Value& value = ValueOf(node);
  TUTTI_RETURN_IF_ERROR(CheckNoComposites(value.spec(), node.label()));
  if (value.num_leaves() == 0) {
    return InvalidArgument("{}: the value holds no tensors to slice", node.label());
  }
  int64_t rows = -1;
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const Leaf& leaf = value.leaf(i);
    const std::string path = PathToString(value.spec().LeafPath(i));
    if (!leaf.is_tensor() || leaf.tensor().rank() == 0) {
      return InvalidArgument("{}: expected tensors of rank 1 or more, but component {}{} is {}",
                             node.label(), i, path, LeafSpec::Of(leaf).ToString());
    }
    const int64_t size = leaf.tensor().dim(0);
    if (rows < 0) rows = size;
    if (size != rows) {
      return InvalidArgument(
          "{}: all components must have the same size along axis 0, but "
          "component {}{} has {} and component 0 has {}",
          node.label(), i, path, size, rows);
    }
    if (!leaf.tensor().is_contiguous()) {
      return InvalidArgument("{}: component {}{} is not contiguous", node.label(), i, path);
    }
  }
  return OkStatus();
}

int64_t RowsOfSlices(const Node& node) { return ValueOf(node).leaf(0).tensor().dim(0); }

Result<Ref<const ElementSpec>> SpecOfSlices(const Node& node) {
  return ElementSpec::OfValue(ValueOf(node))->RowSpec(node.label());
}

Result<std::unique_ptr<Stage>> MakeFromTensorSlices(const Node& node, const ExecContext&,
                                                    StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<FromTensorSlicesStage>(node));
}

Status CheckFromElements(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckValue(node, "value"));
  const Value& list = ValueOf(node);
  if (list.spec().kind() != NodeKind::kList || list.num_children() == 0) {
    return InvalidArgument("{}: expected a list of one element or more, found {}", node.label(),
                           list.spec().ToString());
  }
  for (size_t i = 1; i < list.num_children(); ++i) {
    TUTTI_RETURN_IF_ERROR(
        CheckSameStructure(list.spec().child(0), list.spec().child(i), node.label()));
  }
  return OkStatus();
}

int64_t CountOfElements(const Node& node) {
  return static_cast<int64_t>(ValueOf(node).num_children());
}

// What all of them fit.
Result<Ref<const ElementSpec>> SpecOfElements(const Node& node) {
  const Value& list = ValueOf(node);
  Ref<const ElementSpec> spec = ElementSpec::OfValue(*list.Child(0));
  for (size_t i = 1; i < list.num_children(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(spec,
                           spec->Relax(*ElementSpec::OfValue(*list.Child(i)), node.label()));
  }
  return spec;
}

Result<std::unique_ptr<Stage>> MakeFromElements(const Node& node, const ExecContext&, StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<FromElementsStage>(node));
}

// Rows of sparse and ragged tensors are no views of theirs: they are made now, and each is an
// element of a list.
Result<Ref<Dataset>> FromCompositeSlices(Dataset::Environments environment, const Value& value,
                                         std::string name) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Value>> rows,
                         RowsOfStructure(value, "from_tensor_slices"));
  if (rows.empty()) {
    // A list has the structure of its elements from one of them.
    TUTTI_ASSIGN_OR_RETURN(
        const Ref<Dataset> whole,
        Dataset::FromTensors(environment, Ref<const Value>::Retain(&value)));
    TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> none, whole->Unbatch());
    return none->Take(0, std::move(name));
  }
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(Value::List(rows)));
  return Dataset::Make(environment, "from_elements", std::move(name), std::move(attributes), {});
}

}  // namespace

constinit const OpTraits kFromElementsOp = {
    .name = "from_elements",
    .attributes = {{"value"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .is_value = true,
    .check = CheckFromElements,
    .cardinality = CountOfElements,
    .element_spec = SpecOfElements,
    .make_stage = MakeFromElements,
};

constinit const OpTraits kFromTensorsOp = {
    .name = "from_tensors",
    .attributes = {{"value"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .is_value = true,
    .check = CheckFromTensors,
    .cardinality = OneElement,
    .element_spec = SpecOfFromTensors,
    .make_stage = MakeFromTensors,
};

constinit const OpTraits kFromTensorSlicesOp = {
    .name = "from_tensor_slices",
    .attributes = {{"value"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .can_split = true,
    .is_value = true,
    .check = CheckFromTensorSlices,
    .cardinality = RowsOfSlices,
    .element_spec = SpecOfSlices,
    .make_stage = MakeFromTensorSlices,
};

Result<Ref<Dataset>> Dataset::FromTensorSlices(Environments environment, Ref<const Value> value,
                                               std::string name) {
  if (value->spec().has_composites()) {
    return FromCompositeSlices(environment, *value, std::move(name));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const Value> contiguous,
                         value->MapLeaves([](const Leaf& leaf) -> Result<Leaf> {
                           if (!leaf.is_tensor()) return leaf;
                           TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, leaf.tensor().Contiguous());
                           return Leaf::OfTensor(std::move(tensor));
                         }));
  Attributes attributes;
  attributes.Set("value", std::move(contiguous));
  return Make(environment, "from_tensor_slices", std::move(name), std::move(attributes), {});
}

}  // namespace tutti
