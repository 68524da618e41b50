#include "core/dataset/exec/function_rows.h"

#include <time.h>

#include <utility>
#include <variant>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/dataset/exec/refused.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"
#include "core/tensor/composite.h"
#include "core/tensor/convert.h"

namespace tutti {
namespace {

// What this thread has computed so far.
int64_t ThreadCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * kSecondNs + time.tv_nsec;
}

// A leaf under what the first result had in its place, shapes aside: integers become those of the
// first one, because a host's numbers may be wider or narrower by what they count.
Result<Leaf> FitFirst(const LeafSpec& first, const Leaf& leaf, std::string_view what) {
  if (leaf.kind() == first.kind && (!leaf.is_tensor() || leaf.tensor().dtype() == first.dtype)) {
    return leaf;
  }
  Status why = InvalidArgument("an output spec says what every result becomes");
  if (leaf.is_tensor() && first.is_tensor() && IsInteger(first.dtype) &&
      IsInteger(leaf.tensor().dtype())) {
    Result<Ref<Tensor>> converted = Convert(leaf.tensor_ref(), first.dtype);
    if (converted.ok()) return Leaf::OfTensor(std::move(converted).value());
    why = converted.status();
  }
  return std::move(why).WithPrefix(Format("{}: expected {} as in the first result, found {}", what,
                                          first.ToString(), LeafSpec::Of(leaf).ToString()));
}

Result<Ref<Value>> FitLikeFirst(const ElementSpec& first, Ref<Value> value, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckSameStructure(first.tree(), value->spec(), what));
  std::vector<Leaf> fitted;  // once one was converted
  for (size_t i = 0; i < value->num_leaves(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Leaf leaf, FitFirst(first.leaf(i), value->leaf(i), what));
    if (fitted.empty() && leaf.SameObject(value->leaf(i))) continue;
    if (fitted.empty()) fitted.assign(value->leaves().begin(), value->leaves().end());
    fitted[i] = std::move(leaf);
  }
  return fitted.empty() ? std::move(value) : value->WithLeaves(std::move(fitted));
}

}  // namespace

FunctionRows::FunctionRows(const Node& node, const ExecContext& context,
                           Ref<const ElementSpec> spec, FunctionUse use)
    : node_(node),
      use_(use),
      function_(node.function(use.function)),
      environment_(context.environment->environment()),
      account_(context.account),
      record_(context.record),
      spec_(std::move(spec)) {}

namespace {

Status FailureOf(std::string_view what, const Status& status, std::string_view label, int64_t index,
                 const CallOptions& options, const Clock& clock) {
  Status failure = status.WithPrefix(Format("{}: {}", label, what));
  if (IsInterruption(failure) && CheckCallOptions(options, clock, label).ok()) {
    Status own(StatusCode::kAborted, std::string(failure.message()));
    if (failure.host_object() != nullptr) {
      own = std::move(own).WithHostObject(Ref<const HostData>::Retain(failure.host_object()));
    }
    failure = std::move(own).WithCause(status);
  }
  return std::move(failure).With("node", std::string(label)).With("index", index);
}

}  // namespace

Status FailureOfElement(const Status& status, std::string_view label, int64_t index,
                        const CallOptions& options, const Clock& clock, const Origin& origin) {
  return origin.About(FailureOf(Format("element {}{}", index, origin.ToString()), status, label,
                                index, options, clock));
}

Status FunctionRows::Fail(const Status& status, int64_t index, const CallOptions& options,
                          const Origin& origin) const {
  return FailureOfElement(status, node_.label(), index, options, environment_.clock(), origin);
}

Status FunctionRows::FailOf(const Value& argument, const Status& status, int64_t index,
                            const CallOptions& options, const Origin& origin) const {
  if (use_.name == nullptr) return Fail(status, index, options, origin);
  return FailureOf(use_.name(argument), status, node_.label(), index, options,
                   environment_.clock());
}

// An exception of the function's is its element's failure.
Status FunctionRows::Call(Context& context, const Value& in, int64_t rows, Ref<Value>* out) {
  const auto call = [&] {
    return CatchExceptions("the function", [&] { return function_.Call(context, in, out); });
  };
  if (record_ == nullptr) return call();
  const bool is_due = record_->IsFunctionCallDue();
  const int64_t computed_ns = is_due ? ThreadCpuNs() : 0;
  const uint64_t then = record_->Now();
  Status status = call();
  const uint64_t ticks = record_->Now() - then;
  record_->AddFunctionCall(rows, ticks);
  if (is_due) record_->AddComputing(ticks, ThreadCpuNs() - computed_ns);
  return status;
}

Result<Ref<Value>> FunctionRows::CallRow(const Slab& rows, int64_t row, int64_t index,
                                         const CallOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> in, rows.Row(row));
  return CallValue(*in, index, options, rows.origins.Of(row));
}

Result<Ref<Value>> FunctionRows::CallValue(const Value& element, int64_t index,
                                           const CallOptions& options, const Origin& origin) {
  ContextFields fields;
  fields.options = options;
  Context context(environment_, fields);
  Ref<Value> out;
  const Status status = Call(context, element, 1, &out);
  if (!status.ok()) return FailOf(element, WithRefused(status, element), index, options, origin);
  return out;
}

Result<Ref<Value>> FunctionRows::Fit(Ref<Value> result, int64_t index,
                                     const Origin& origin) {
  if (!spec_ && !learnt_) {
    learnt_ = ElementSpec::OfValue(*result);
    return result;
  }
  constexpr std::string_view kWhat = "the function's result";
  Result<Ref<Value>> fitted = spec_ ? spec_->Fit(std::move(result), kWhat)
                                    : FitLikeFirst(*learnt_, std::move(result), kWhat);
  if (!fitted.ok()) return Fail(fitted.status(), index, CallOptions(), origin);
  return fitted;
}

Result<Ref<Value>> FunctionRows::FitSlab(Ref<Value> result, int64_t rows) {
  std::vector<LeafSpec> row_leaves;
  for (size_t i = 0; i < result->num_leaves(); ++i) {
    const Leaf& leaf = result->leaf(i);
    if (!leaf.is_tensor() || leaf.tensor().rank() == 0 || leaf.tensor().dim(0) != rows) {
      return InvalidArgument(
          "the slab function got {} rows and must return tensors with a first dimension of {}, but "
          "leaf {}{} is {}",
          rows, rows, i, PathToString(result->spec().LeafPath(i)), LeafSpec::Of(leaf).ToString());
    }
    row_leaves.push_back(
        LeafSpec::OfTensor(leaf.tensor().dtype(), PartialShape(leaf.tensor().shape().RowShape())));
  }
  constexpr std::string_view kWhat = "the function's result";
  if (!spec_ && !learnt_) {
    TUTTI_ASSIGN_OR_RETURN(learnt_, ElementSpec::Create(result->spec_ref(), std::move(row_leaves)));
    return result;
  }
  if (!spec_) return FitLikeFirst(*learnt_, std::move(result), kWhat);
  // The spec is one row's.
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> of_rows, spec_->Prepend(rows, kWhat));
  return of_rows->Fit(std::move(result), kWhat);
}

Result<Slab> FunctionRows::CallSlab(const Slab& rows, int64_t index, const CallOptions& options,
                                    std::optional<int64_t>* failed_row) {
  std::vector<Leaf> leaves;
  const Status taken = CheckNoComposites(*rows.tree, "a function of slabs");
  if (!taken.ok()) return Fail(taken, index, CallOptions());
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
  Status status = Call(context, *in, rows.rows, &out);
  if (status.ok()) {
    Result<Ref<Value>> fitted = FitSlab(std::move(out), rows.rows);
    if (fitted.ok()) {
      out = std::move(fitted).value();
    } else {
      status = fitted.status();
    }
  }
  if (!status.ok()) {
    int64_t row = 0;
    if (const StatusDetail* detail = status.FindDetail("row")) {
      const int64_t* named = std::get_if<int64_t>(&detail->value);
      if (named != nullptr && *named >= 0 && *named < rows.rows) *failed_row = row = *named;
    }
    const Origin origin = failed_row->has_value() ? rows.origins.Of(row) : Origin();
    if (failed_row->has_value() || rows.rows == 1) {
      const Result<Ref<Value>> refused = rows.Row(row);
      if (refused.ok()) status = WithRefused(status, **refused);
    }
    return Fail(status, index + row, options, origin);
  }
  Slab result;
  result.rows = rows.rows;
  result.origins = rows.origins;
  result.tree = out->spec_ref();
  for (const Leaf& leaf : out->leaves()) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> tensor, leaf.tensor().Contiguous());
    result.columns.push_back(Column::Dense(std::move(tensor)));
  }
  return result;
}

Result<Slab> FunctionRows::CallFirstRows(const Slab& rows, int64_t index,
                                         const CallOptions& options, int64_t* used) {
  int64_t count = rows.rows > 1 && !RowsAreUniform({&rows, 1}) ? 1 : rows.rows;
  std::optional<int64_t> failed_row;
  Result<Slab> results = CallSlab(rows.Slice(0, count), index, options, &failed_row);
  if (!results.ok() && failed_row.value_or(0) > 0) {
    // The rows before the failed one are good; it comes again as the first of the rest.
    count = *failed_row;
    results = CallSlab(rows.Slice(0, count), index, options, &failed_row);
  } else if (!results.ok() && failed_row.has_value()) {
    count = 1;
  }
  *used = !results.ok() && IsInterruption(results.status()) ? 0 : count;
  return results;
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
