#include "core/dataset/exec/function_rows.h"

#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {
namespace {

// Structure, kinds and dtypes as the first result had them; shapes are free.
Status CheckLikeFirst(const ElementSpec& first, const Value& value, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckSameStructure(first.tree(), value.spec(), what));
  for (size_t i = 0; i < value.num_leaves(); ++i) {
    const LeafSpec& expected = first.leaf(i);
    const Leaf& leaf = value.leaf(i);
    if (leaf.kind() == expected.kind &&
        (!leaf.is_tensor() || leaf.tensor().dtype() == expected.dtype)) {
      continue;
    }
    return InvalidArgument("{}: expected {} as in the first result, found {}", what,
                           expected.ToString(), LeafSpec::Of(leaf).ToString());
  }
  return OkStatus();
}

}  // namespace

FunctionRows::FunctionRows(const Node& node, const ExecContext& context,
                           Ref<const ElementSpec> spec)
    : node_(node),
      function_(node.function()),
      environment_(context.environment->environment()),
      account_(context.account),
      spec_(std::move(spec)) {}

Status FunctionRows::Fail(const Status& status, int64_t index, const CallOptions& options) const {
  Status failure = status.WithPrefix(Format("{}: element {}", node_.label(), index));
  // A function may give up by itself: that is its element's failure, not the end of the call.
  if (IsInterruption(failure) &&
      CheckCallOptions(options, environment_.clock(), node_.label()).ok()) {
    Status own(StatusCode::kAborted, std::string(failure.message()));
    if (failure.host_object() != nullptr) {
      own = std::move(own).WithHostObject(Ref<const HostData>::Retain(failure.host_object()));
    }
    failure = std::move(own).WithCause(status);
  }
  return std::move(failure).With("node", node_.label()).With("index", index);
}

// An exception of the function's is its element's failure.
Status FunctionRows::Call(Context& context, const Value& in, Ref<Value>* out) {
  return CatchExceptions("the function", [&] { return function_.Call(context, in, out); });
}

Result<Ref<Value>> FunctionRows::CallRow(const Slab& rows, int64_t row, int64_t index,
                                         const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> in, rows.Row(row));
  ContextFields fields;
  fields.options = options;
  Context context(environment_, fields);
  Ref<Value> out;
  const Status status = Call(context, *in, &out);
  if (!status.ok()) return Fail(status, index, options);
  return out;
}

Status FunctionRows::CheckResult(const Value& result, int64_t index) {
  Status status;
  if (spec_) {
    status = spec_->Check(result, "the function's result");
  } else if (learnt_) {
    status = CheckLikeFirst(*learnt_, result, "the function's result");
  } else {
    learnt_ = ElementSpec::OfValue(result);
  }
  return status.ok() ? status : Fail(status, index, CallOptions());
}

Status FunctionRows::CheckSlabResult(const Value& result, int64_t rows, int64_t index) {
  std::vector<LeafSpec> row_leaves;
  for (size_t i = 0; i < result.num_leaves(); ++i) {
    const Leaf& leaf = result.leaf(i);
    if (!leaf.is_tensor() || leaf.tensor().rank() == 0 || leaf.tensor().dim(0) != rows) {
      return Fail(InvalidArgument("the slab function got {} rows and must return tensors with a "
                                  "first dimension of {}, but leaf {}{} is {}",
                                  rows, rows, i, PathToString(result.spec().LeafPath(i)),
                                  LeafSpec::Of(leaf).ToString()),
                  index, CallOptions());
    }
    row_leaves.push_back(
        LeafSpec::OfTensor(leaf.tensor().dtype(), PartialShape(leaf.tensor().shape().RowShape())));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> row_spec,
                         ElementSpec::Create(result.spec_ref(), std::move(row_leaves)));
  const Ref<const ElementSpec>& expected = spec_ ? spec_ : learnt_;
  if (!expected) {
    learnt_ = std::move(row_spec);
    return OkStatus();
  }
  Status status = CheckSameStructure(expected->tree(), row_spec->tree(), "the function's result");
  for (size_t i = 0; i < row_spec->num_leaves() && status.ok(); ++i) {
    const LeafSpec& want = expected->leaf(i);
    const LeafSpec& found = row_spec->leaf(i);
    const bool fits = want.is_tensor() && want.dtype == found.dtype &&
                      (!spec_ || want.shape.IsCompatibleWith(found.shape));
    if (!fits) {
      status = InvalidArgument("the function's result: expected rows of {}, found {}",
                               want.ToString(), found.ToString());
    }
  }
  return status.ok() ? status : Fail(status, index, CallOptions());
}

Result<Slab> FunctionRows::CallSlab(const Slab& rows, int64_t index, const CallOptions& options,
                                    std::optional<int64_t>* failed_row) {
  std::vector<Leaf> leaves;
  for (const Column& column : rows.columns) {
    Result<Ref<Tensor>> dense = column.ToDense(account_);
    if (!dense.ok()) return Fail(dense.status(), index, CallOptions());
    leaves.push_back(Leaf::OfTensor(std::move(dense).value()));
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> in, Value::FromLeaves(rows.tree, std::move(leaves)));
  ContextFields fields;
  fields.options = options;
  Context context(environment_, fields);
  Ref<Value> out;
  const Status status = Call(context, *in, &out);
  if (!status.ok()) {
    int64_t row = 0;
    if (const StatusDetail* detail = status.FindDetail("row")) {
      const int64_t* named = std::get_if<int64_t>(&detail->value);
      if (named != nullptr && *named >= 0 && *named < rows.rows) *failed_row = row = *named;
    }
    return Fail(status, index + row, options);
  }
  TUTTI_RETURN_IF_ERROR(CheckSlabResult(*out, rows.rows, index));
  Slab result;
  result.rows = rows.rows;
  result.tree = out->spec_ref();
  for (const Leaf& leaf : out->leaves()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, leaf.tensor().Contiguous());
    result.columns.push_back(Column::Dense(std::move(tensor)));
  }
  return result;
}

Slab FunctionRows::Collect(std::vector<Ref<Value>> values) const {
  Slab slab;
  slab.rows = static_cast<int64_t>(values.size());
  if (values.empty()) return slab;
  slab.tree = values[0]->spec_ref();
  for (size_t i = 0; i < values[0]->num_leaves(); ++i) {
    std::vector<Leaf> leaves;
    leaves.reserve(values.size());
    for (const Ref<Value>& value : values) leaves.push_back(value->leaf(i));
    slab.columns.push_back(Column::Rows(std::move(leaves)));
  }
  return slab;
}

}  // namespace tutti
