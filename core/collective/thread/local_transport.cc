// Chooses the algorithm. The choice depends on header and table alone, so that all ranks make
// the same.

#include "core/collective/thread/local_transport.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/collective/call/call_record.h"
#include "core/collective/call/fold_check.h"
#include "core/collective/thread/local_algorithms.h"
#include "core/device/gpu_memory.h"
#include "core/device/plugin.h"

namespace tutti {

LocalTransport::LocalTransport(Ref<LocalGroup> group, int64_t rank,
                               std::shared_ptr<LocalFamily> family)
    : group_(std::move(group)), rank_(rank), family_(std::move(family)) {
  if (family_ != nullptr) family_->Enter(group_);
}

LocalTransport::~LocalTransport() {
  if (family_ != nullptr) family_->Exit(group_.get());
}

void LocalTransport::Leave(Status reason) {
  group_->Leave(rank_, std::move(reason));
  if (family_ != nullptr) family_->OnLeave();
}

// The other ranks count on this one already.
std::unique_ptr<Transport> LocalTransport::Make(const Ref<LocalGroup>& group, int64_t rank,
                                                const std::shared_ptr<LocalFamily>& family) {
  try {
    return std::make_unique<LocalTransport>(group, rank, family);
  } catch (const std::bad_alloc&) {
    group->Leave(rank, Status::OutOfMemory());
    family->OnLeave();
    throw;
  }
}

Result<RenewedGroup> LocalTransport::Renew(const RenewRequest& request,
                                           const CallOptions& options) {
  if (family_ == nullptr) return Transport::Renew(request, options);
  if (request.grow) {
    return FailedPrecondition(
        "ranks within a process do not come later; make another group of the size that is wanted");
  }
  TUTTI_ASSIGN_OR_RETURN(const LocalFamily::Renewed renewed,
                         family_->Renew(group_, group_->name(), rank_, options));
  const auto place = std::find(renewed.members.begin(), renewed.members.end(), rank_);
  RenewedGroup next;
  next.rank = place - renewed.members.begin();
  next.size = static_cast<int64_t>(renewed.members.size());
  next.epoch = renewed.epoch;
  next.transport = Make(renewed.group, next.rank, family_);
  return next;
}

Result<std::unique_ptr<Transport>> LocalTransport::Split(const SplitRequest& request,
                                                         const CallOptions& options) {
  if (family_ == nullptr) return Transport::Split(request, options);
  // The members hold this group, so that its address is no other's.
  const std::string key = Format("{} {}", static_cast<const void*>(group_.get()), request.key);
  Ref<LocalGroup> group = family_->Join(
      key, request.name, static_cast<int64_t>(request.members.size()), request.epoch);
  return Make(group, request.rank, family_);
}

const std::optional<KnownLocalFold>& LocalTransport::Known(const CollectiveCall& call) {
  std::unique_ptr<KnownCall>& known = known_calls_[call.known_as % kKnownCallPlaces];
  if (!known) known = std::make_unique<KnownCall>();
  if (known->known_as != call.known_as) {
    known->known_as = call.known_as;
    known->fold.reset();
    if (call.header.first.num_elements() != 0 && ChoosesFlatFold(*group_, call.header)) {
      known->fold = MakeKnownFold(call.header);
    }
  }
  return known->fold;
}

namespace {

CollectiveAlgorithm LocalAlgorithm(const LocalGroup& group, const CallHeader& header) {
  switch (header.op) {
    case CollectiveOp::kAllReduce:
      return ChoosesFlatFold(group, header) ? CollectiveAlgorithm::kFlatFold
                                            : CollectiveAlgorithm::kSliceAndShare;
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return ChoosesFlatFold(group, header) ? CollectiveAlgorithm::kFlatFold
                                            : CollectiveAlgorithm::kSliceFold;
    default:
      return CollectiveAlgorithm::kDirect;
  }
}

}  // namespace

bool LocalTransport::ChecksFold(const CollectiveCall& call) const {
  return call.on_gpu.empty() && call.header.op == CollectiveOp::kAllReduce &&
         NotFiniteShows(call.header) &&
         LocalAlgorithm(*group_, call.header) == CollectiveAlgorithm::kSliceAndShare;
}

bool LocalTransport::TakesGpuTensors(CollectiveOp op, const Tensor& tensor) {
  const GpuStream* const stream = StreamOf(tensor);
  if (op == CollectiveOp::kSend || op == CollectiveOp::kReceive) return stream != nullptr;
  if (stream == nullptr || group_->size() > TUTTI_PLUGIN_MAX_INPUTS) return false;
  if (!gpus_have_kernels_) {
    const DevicePlugin& plugin = *stream->place().plugin;
    gpus_have_kernels_ = true;
    for (int device = 0; device < plugin.num_devices(); ++device) {
      const Result<tutti_plugin_device_properties> properties = plugin.Properties(device);
      if (!properties.ok() || properties->has_kernels == 0) gpus_have_kernels_ = false;
    }
  }
  return *gpus_have_kernels_;
}

Status LocalTransport::Execute(CollectiveCall* call) {
  if (call->known_as != 0 && !group_->HasFailed()) {
    const std::optional<KnownLocalFold>& known = Known(*call);
    if (known) {
      call->algorithm = static_cast<int32_t>(CollectiveAlgorithm::kFlatFold);
      return FlatFoldAgain(*group_, rank_, *known, call);
    }
  }
  RecordKnownCall(call);
  TUTTI_RETURN_IF_ERROR(group_->failure());
  const CollectiveOp op = call->header.op;
  if (op == CollectiveOp::kSend || op == CollectiveOp::kReceive) {
    return group_->Transfer(rank_, *call);
  }
  group_->Begin(rank_, *call);
  if (op == CollectiveOp::kBarrier) {
    return group_->Meet(rank_, *call, LocalGroup::Access::kOwnMemory);
  }
  if (!call->on_gpu.empty()) {
    call->algorithm = static_cast<int32_t>(CollectiveAlgorithm::kDirect);
    return GpuDirect(*group_, rank_, call);
  }
  const CollectiveAlgorithm algorithm = LocalAlgorithm(*group_, call->header);
  call->algorithm = static_cast<int32_t>(algorithm);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return algorithm == CollectiveAlgorithm::kFlatFold
                 ? FlatFold(*group_, rank_, *call)
                 : SliceAndShareAllReduce(*group_, rank_, *call, &stage_);
    case CollectiveOp::kReduce:
    case CollectiveOp::kReduceScatter:
      return algorithm == CollectiveAlgorithm::kFlatFold
                 ? FlatFold(*group_, rank_, *call)
                 : SliceFold(*group_, rank_, *call);
    case CollectiveOp::kAllGather:
      return call->header.uneven ? ConcatGather(*group_, rank_, call)
                                 : Pull(*group_, rank_, *call);
    case CollectiveOp::kAllToAll:
      return call->header.uneven ? UnevenAllToAll(*group_, rank_, call)
                                 : Pull(*group_, rank_, *call);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return Pull(*group_, rank_, *call);
    case CollectiveOp::kGather:
      return ConcatGather(*group_, rank_, call);
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
    case CollectiveOp::kNone:
      break;
  }
  return Status(StatusCode::kInternal, "local transport: a call without an operation");
}

}  // namespace tutti
