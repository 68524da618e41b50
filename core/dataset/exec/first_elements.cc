#include "core/dataset/exec/first_elements.h"

#include <memory>
#include <utility>

#include "core/base/environment.h"
#include "core/dataset/graph/dataset_environment.h"

namespace tutti {
namespace {

// Notes a failure in `first`; false where the source does not get beyond it. `last` is the failure
// before.
bool NoteFailure(const Status& failure, FirstLook* first, Status* last) {
  if (LossOf(failure) == Loss::kMany && last->code() == failure.code() &&
      last->message() == failure.message()) {
    return false;
  }
  if (++first->failed == 1) first->failure = failure;
  *last = failure;
  return true;
}

}  // namespace

Result<FirstLook> LookAtElements(Stage* stage, const CallOptions& options,
                                 const std::function<Status(const Ref<Value>&)>& look) {
  FirstLook first;
  Status last;
  while (first.failed < kMostFailedLooks) {
    Slab slab;
    stage->Next(Demand{1, false}, options, &slab);
    if (slab.rows > 0) {
      const Result<Ref<Value>> element = slab.Row(0);
      const Status failure = element.ok() ? look(*element) : element.status();
      if (IsInterruption(failure)) return failure;
      first.told = failure.ok();
      if (first.told) break;
      NoteFailure(failure, &first, &last);
    }
    if (IsInterruption(slab.status)) return slab.status;
    if (!slab.status.ok() && !NoteFailure(slab.status, &first, &last)) break;
    if (slab.end) break;
  }
  return first;
}

Result<FirstLook> LookAtDatasets(const Node& node, const ExecContext& context,
                                 const CallOptions& options,
                                 const std::function<Status(const Dataset&)>& look) {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> input, MakeStage(node.input(), context));
  const Clock& clock = context.environment->environment().clock();
  return LookAtElements(input.get(), options, [&](const Ref<Value>& element) -> Status {
    TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, clock, node.label()));
    TUTTI_ASSIGN_OR_RETURN(const Ref<const Dataset> dataset,
                           node.op().look_at_dataset(node, context, element, options));
    return look(*dataset);
  });
}

}  // namespace tutti
