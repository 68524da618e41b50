#include "core/dataset/ops/inner_spec.h"

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/op_parts.h"
#include "core/function/function.h"

namespace tutti {
namespace {

constexpr const char* kElement = "an element of the function's dataset";

// The same with any shapes.
Ref<const ElementSpec> WithoutShapes(const ElementSpec& spec) {
  std::vector<LeafSpec> leaves(spec.leaves().begin(), spec.leaves().end());
  for (LeafSpec& leaf : leaves) {
    if (leaf.is_tensor()) leaf.shape = PartialShape::Unknown();
    leaf.inner = nullptr;
  }
  return spec.WithLeaves(std::move(leaves));
}

}  // namespace

Result<Ref<const ElementSpec>> PromisedInnerSpec(const Node& node) {
  return PromisedInnerSpec(node, 0, node.input().element_spec().get());
}

Result<Ref<const ElementSpec>> PromisedInnerSpec(const Node& node, size_t function,
                                                 const ElementSpec* input) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                         node.function(function).OutputSpec(input));
  if (!output) return Ref<const ElementSpec>();
  if (!output->tree().is_leaf() || output->leaf(0).kind != LeafKind::kDataset) {
    return InvalidArgument(
        "{}: the function must give a dataset, and gives {}; make one of it with from_tensors or "
        "from_tensor_slices, or use map",
        node.label(), output->ToString());
  }
  return output->leaf(0).inner;
}

Status CheckGivesDatasets(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 1));
  return PromisedInnerSpec(node).status();
}

InnerSpec::InnerSpec(const Node& node) : node_(node) {
  // What the function promises, never what an earlier iterator has learnt.
  Result<Ref<const ElementSpec>> promised = PromisedInnerSpec(node);
  if (promised.ok()) expected_ = std::move(promised).value();
}

InnerSpec::InnerSpec(const Node& node, Ref<const ElementSpec> promised)
    : node_(node), expected_(std::move(promised)) {}

Status InnerSpec::Fail(const Status& status) const {
  return status.WithPrefix(node_.label()).With("node", node_.label());
}

void InnerSpec::Learn(const Ref<const ElementSpec>& spec) {
  expected_ = WithoutShapes(*spec);
  node_.LearnSpec(spec);
}

Status InnerSpec::CheckDataset(const Dataset& dataset, bool* known) {
  const Ref<const ElementSpec> spec = dataset.known_element_spec();
  *known = spec != nullptr;
  if (!spec) return OkStatus();
  if (!expected_) {
    Learn(spec);
    return OkStatus();
  }
  *known = expected_->IsMoreGeneralThan(*spec);
  if (*known) return OkStatus();
  // Shapes that are not known may fit all the same.
  const Result<Ref<const ElementSpec>> both =
      WithoutShapes(*expected_)->Relax(*WithoutShapes(*spec), kElement);
  return both.ok() ? OkStatus() : Fail(both.status());
}

int64_t InnerSpec::CheckRows(const Slab& slab, Status* status) {
  if (slab.rows == 0 || !slab.tree) return slab.rows;
  if (!expected_) {
    const Result<Ref<Value>> first = slab.Row(0);
    if (!first.ok()) return slab.rows;
    Learn(ElementSpec::OfValue(**first));
  }
  if (expected_->tree_ref().get() != slab.tree.get()) {
    const Status same = CheckSameStructure(expected_->tree(), *slab.tree, kElement);
    if (!same.ok()) {
      *status = Fail(same);
      return 0;
    }
  }
  int64_t good = slab.rows;
  for (size_t i = 0; i < slab.columns.size(); ++i) {
    const Column& column = slab.columns[i];
    // The rows of a dense column are all alike.
    const int64_t rows = column.is_dense() ? 1 : good;
    for (int64_t row = 0; row < rows && row < good; ++row) {
      const Status fits = expected_->CheckLeaf(i, column.Row(row), kElement);
      if (fits.ok()) continue;
      *status = Fail(fits);
      good = row;
    }
  }
  return good;
}

}  // namespace tutti
