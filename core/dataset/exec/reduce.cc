// Dataset::Reduce: a state goes from element to element, on the thread that asks, one element at a
// time: a function further up is not called for elements that nobody gets to.

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/graph/dataset.h"

namespace tutti {
namespace {

constexpr const char* kReduce = "reduce";

// Whether a state may come after another: shapes aside, it is of the same spec.
bool MayFollow(const Value& before, const Value& state) {
  if (!(before.spec() == state.spec())) return false;
  for (size_t i = 0; i < state.num_leaves(); ++i) {
    const Leaf& old_leaf = before.leaf(i);
    const Leaf& leaf = state.leaf(i);
    if (leaf.kind() != old_leaf.kind()) return false;
    if (leaf.is_tensor() && leaf.tensor().dtype() != old_leaf.tensor().dtype()) return false;
  }
  return true;
}

// Nobody waits while a state goes on: the host is asked now and then whether it still wants it.
class Asking {
 public:
  Asking(const CallOptions& call, const Clock& clock) : call_(call), clock_(clock) {}

  Status Check() {
    if (call_.cancellation != nullptr && call_.cancellation->is_polled()) {
      const int64_t now_ns = clock_.NowNs();
      if (now_ns - asked_ns_ >= Cancellation::kPollIntervalNs) {
        call_.cancellation->PollNow();
        asked_ns_ = now_ns;
      }
    }
    return CheckCallOptions(call_, clock_, kReduce);
  }

 private:
  const CallOptions& call_;
  const Clock& clock_;
  int64_t asked_ns_ = clock_.NowNs();
};

// The state behind element `index`.
Result<Ref<Value>> NextState(const Ref<Value>& state, const Ref<Value>& element, Function& function,
                             const ElementSpec* promised, Context& context) {
  const Ref<Value> in = Value::Tuple({state, element});
  Ref<Value> next;
  TUTTI_RETURN_IF_ERROR(
      CatchExceptions("the function", [&] { return function.Call(context, *in, &next); }));
  if (!next) next = Value::None();
  if (promised != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(next, promised->Fit(std::move(next), "the function's result"));
  }
  if (MayFollow(*state, *next)) return next;
  return InvalidArgument(
      "the function gave the state {}, and it was {}; a state keeps its structure and dtypes, and "
      "only its shapes may change",
      ElementSpec::OfValue(*next)->ToString(), ElementSpec::OfValue(*state)->ToString());
}

Result<Ref<Value>> ReduceAll(Iterator& iterator, Ref<Value> state, Function& function,
                             Environment& environment, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> promised, function.OutputSpec(nullptr));
  ContextFields fields;
  fields.options = call;
  Asking asking(call, environment.clock());
  for (int64_t index = 0;; ++index) {
    TUTTI_RETURN_IF_ERROR(asking.Check());
    Result<Ref<Value>> element = iterator.Next(call);
    if (!element.ok() && IsInterruption(element.status())) return element.status();
    if (!element.ok()) {
      return FailureOfElement(element.status(), kReduce, index, call, environment.clock());
    }
    if (!*element) return state;
    Context context(environment, fields);
    Result<Ref<Value>> next = NextState(state, *element, function, promised.get(), context);
    if (!next.ok()) {
      return FailureOfElement(next.status(), kReduce, index, call, environment.clock());
    }
    state = std::move(next).value();
  }
}

}  // namespace

Result<Ref<Value>> Dataset::Reduce(Ref<Value> initial, Function& function,
                                   const CallOptions& call) const {
  if (function.granularity() == Granularity::kSlab) {
    return InvalidArgument(
        "reduce: the function takes many rows at once, and is called with a state and one element; "
        "give a function of one row");
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Iterator> iterator,
                         Iterator::Create(Ref<const Dataset>::Retain(this), {kReduce}, call));
  Result<Ref<Value>> state = ReduceAll(*iterator, std::move(initial), function,
                                       environment_->environment(), call);
  const Status closed = iterator->Close(call);
  if (state.ok() && !closed.ok()) return closed;
  return state;
}

}  // namespace tutti
