#include "core/dataset/ops/predicate_rows.h"

#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/ops/op_parts.h"
#include "core/function/function.h"

namespace tutti {
namespace {

Ref<const ElementSpec> BoolScalar() {
  return ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar());
}

}  // namespace

Status CheckPredicate(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 1));
  const Ref<const ElementSpec> input = node.input().element_spec();
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                         node.function().OutputSpec(input.get()));
  if (!output) return OkStatus();
  const LeafSpec& leaf = output->leaf(0);
  if (output->tree().is_leaf() && leaf.is_tensor() && leaf.dtype == DType::kBool &&
      leaf.shape.IsCompatibleWith(PartialShape::Scalar())) {
    return OkStatus();
  }
  return InvalidArgument("{}: the predicate must give a boolean scalar, and gives {}", node.label(),
                         output->ToString());
}

PredicateRows::PredicateRows(const Node& node, const ExecContext& context)
    : function_(node, context, BoolScalar()) {}

PredicateRows::Verdicts PredicateRows::Judge(const Slab& rows, int64_t index, bool until_false,
                                             const CallOptions& options) {
  Verdicts verdicts;
  if (rows.rows > 0 && function_.takes_slabs()) {
    JudgeSlab(rows, index, options, &verdicts);
  } else {
    JudgeRows(rows, index, until_false, options, &verdicts);
  }
  return verdicts;
}

void PredicateRows::JudgeRows(const Slab& rows, int64_t index, bool until_false,
                              const CallOptions& options, Verdicts* verdicts) {
  while (verdicts->used < rows.rows) {
    const int64_t row = verdicts->used;
    Result<Ref<Value>> verdict = function_.CallRow(rows, row, index + row, options);
    if (verdict.ok()) {
      verdict = function_.Fit(std::move(verdict).value(), index + row, rows.origins.Of(row));
    }
    verdicts->status = verdict.status();
    if (!verdicts->status.ok()) {
      if (!IsInterruption(verdicts->status)) ++verdicts->used;
      return;
    }
    ++verdicts->used;
    verdicts->flags.push_back((*verdict)->leaf(0).tensor().item<bool>() ? 1 : 0);
    if (until_false && verdicts->flags.back() == 0) return;
  }
}

void PredicateRows::JudgeSlab(const Slab& in, int64_t index, const CallOptions& options,
                              Verdicts* verdicts) {
  const Result<Slab> results = function_.CallFirstRows(in, index, options, &verdicts->used);
  if (!results.ok()) {
    verdicts->status = results.status();
    return;
  }
  const std::span<const bool> flags = results->columns[0].dense()->span<bool>();
  verdicts->flags.assign(flags.begin(), flags.end());
}

}  // namespace tutti
