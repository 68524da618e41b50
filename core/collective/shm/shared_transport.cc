// Chooses the algorithm. The choice depends on header and table alone, so that all ranks make the
// same.

#include "core/collective/shm/shared_transport.h"

#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/call/call_record.h"
#include "core/collective/call/fold_check.h"
#include "core/collective/shm/shared_algorithms.h"

namespace tutti {
namespace {

void Took(CollectiveAlgorithm algorithm, CollectiveCall* call) {
  call->algorithm = static_cast<int32_t>(algorithm);
}

// What rows of the table go by; of an uneven call, whose header does not say it, the most.
int64_t TableBytes(const CallHeader& header) {
  if (header.uneven) return SelectorRow::kAny;
  return header.first.num_elements() * static_cast<int64_t>(ItemSize(header.first.dtype));
}

}  // namespace

Result<std::unique_ptr<SharedTransport>> SharedTransport::Create(Ref<Environment> environment,
                                                                 Ref<SharedSegment> segment,
                                                                 SharedGroupOptions options) {
  const std::shared_ptr<const SelectorTable> table = options.table;
  TUTTI_ASSIGN_OR_RETURN(
      std::unique_ptr<SharedGroup> group,
      SharedGroup::Create(environment, std::move(segment), std::move(options)));
  return std::unique_ptr<SharedTransport>(
      new SharedTransport(std::move(environment), std::move(group), table.get()));
}

SharedTransport::SharedTransport(Ref<Environment> environment, std::unique_ptr<SharedGroup> group,
                                 const SelectorTable* table)
    : environment_(std::move(environment)),
      group_(std::move(group)),
      selector_(table, Locality::kSharedMemory, group_->size()),
      direct_(*group_, table) {}

SharedTransport::~SharedTransport() = default;

const KnownFlatFold* SharedTransport::Known(const CollectiveCall& call) {
  std::unique_ptr<KnownCall>& known = known_calls_[call.known_as % kKnownCallPlaces];
  if (!known) known = std::make_unique<KnownCall>();
  if (known->known_as != call.known_as) {
    const SharedPayload payload(call.header);
    known->known_as = call.known_as;
    known->is_flat_fold =
        payload.granules() > 0 &&
        selector_.Chooses(CollectiveAlgorithm::kFlatFold, call.header.op, payload.folded_bytes());
    KnownFlatFold& fold = known->fold;
    fold.header.Encode(call.header);
    fold.payload_bytes = static_cast<size_t>(payload.bytes());
    fold.elements = call.header.first.num_elements();
    fold.input_bytes = static_cast<size_t>(fold.elements) * ItemSize(call.header.first.dtype);
  }
  return known->is_flat_fold ? &known->fold : nullptr;
}

bool SharedTransport::ChecksFold(const CollectiveCall& call) const {
  if (call.header.op != CollectiveOp::kAllReduce || !NotFiniteShows(call.header) ||
      call.whole != nullptr || direct_.Concerns(call)) {
    return false;
  }
  const SharedPayload payload(call.header);
  return selector_.Choose(CollectiveOp::kAllReduce, payload.folded_bytes()).algorithm !=
         CollectiveAlgorithm::kFlatFold;
}

Status SharedTransport::Execute(CollectiveCall* call) {
  if (call->known_as != 0 && call->whole == nullptr && !group_->HasFailed() &&
      !direct_.Concerns(*call)) {
    const KnownFlatFold* const known = Known(*call);
    if (known != nullptr) {
      Took(CollectiveAlgorithm::kFlatFold, call);
      return SharedFlatFoldAgain(*group_, *known, call);
    }
  }
  RecordKnownCall(call);
  TUTTI_RETURN_IF_ERROR(group_->failure());
  bool done = false;
  TUTTI_RETURN_IF_ERROR(direct_.Execute(*call, &done));
  if (done) {
    Took(CollectiveAlgorithm::kDirect, call);
    return OkStatus();
  }
  switch (call->header.op) {
    case CollectiveOp::kBarrier:
      group_->Begin(*call, 0);
      group_->ShowUnevenSize();
      group_->Arrive();
      TUTTI_RETURN_IF_ERROR(group_->Meet());
      group_->Finish(0);
      return OkStatus();
    case CollectiveOp::kAllReduce: {
      const SharedPayload payload(call->header);
      const Selector::Choice choice =
          selector_.Choose(CollectiveOp::kAllReduce, payload.folded_bytes());
      Took(choice.algorithm, call);
      return choice.algorithm == CollectiveAlgorithm::kFlatFold
                 ? SharedFlatFold(*group_, payload, *call)
                 : SharedSliceAndShare(*group_, payload, choice.chunk_bytes, *call);
    }
    case CollectiveOp::kBroadcast:
      Took(CollectiveAlgorithm::kSegments, call);
      return SharedBroadcast(
          *group_, selector_.Choose(call->header.op, TableBytes(call->header)).chunk_bytes, *call);
    case CollectiveOp::kReduce: {
      const SharedPayload payload(call->header);
      const Selector::Choice choice = selector_.Choose(CollectiveOp::kReduce, payload.bytes());
      Took(choice.algorithm, call);
      return choice.algorithm == CollectiveAlgorithm::kSliceFold
                 ? SharedSliceFold(*group_, choice.chunk_bytes, *call)
                 : SharedSliceAndShare(*group_, payload, choice.chunk_bytes, *call);
    }
    case CollectiveOp::kReduceScatter:
      Took(CollectiveAlgorithm::kSliceFold, call);
      return SharedSliceFold(
          *group_, selector_.Choose(call->header.op, TableBytes(call->header)).chunk_bytes, *call);
    case CollectiveOp::kAllGather:
      Took(CollectiveAlgorithm::kSegments, call);
      if (call->header.uneven) return SharedAllGather(*group_, call);
      [[fallthrough]];
    case CollectiveOp::kScatter:
    case CollectiveOp::kAllToAll:
      Took(CollectiveAlgorithm::kSegments, call);
      return SharedMove(
          *group_, selector_.Choose(call->header.op, TableBytes(call->header)).chunk_bytes, call);
    case CollectiveOp::kGather:
      Took(CollectiveAlgorithm::kSegments, call);
      return SharedAllGather(*group_, call);
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
      return group_->Transfer(call);
    case CollectiveOp::kNone:
      break;
  }
  return Internal("shared transport: a call without an operation");
}

// In a forked child the segment still is its parent's.
Status SharedTransport::Fail(Status error) {
  return environment_->LeftBehindByFork() ? error : group_->Fail(std::move(error));
}

Status SharedTransport::failure() const { return group_->failure(); }

void SharedTransport::Leave(Status reason) {
  if (!environment_->LeftBehindByFork()) group_->Leave(std::move(reason));
}

}  // namespace tutti
