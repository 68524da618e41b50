#include "core/collective/communicator/nccl_devices.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/device/gpu_aborts.h"
#include "core/device/gpu_memory.h"
#include "core/device/gpu_pack.h"

namespace tutti {
namespace {

constexpr int64_t kMostDevicesAbortNs = 10 * kSecondNs;

bool WantsRegistration() {
  const char* const asked = std::getenv("TUTTI_NCCL_REGISTER");
  return asked != nullptr && std::string_view(asked) == "1";
}

}  // namespace

NcclDevices::NcclDevices() = default;
NcclDevices::~NcclDevices() { Abort(); }

Status NcclDevices::CheckCan(ReduceOp op, std::span<const Ref<Tensor>> tensors) {
  std::vector<int> ordinals;
  for (const Ref<Tensor>& tensor : tensors) {
    const GpuStream* const stream = StreamOf(*tensor);
    if (stream == nullptr) {
      return FailedPrecondition("{} lies on {}, and NCCL reduces between GPUs",
                                tensor->SpecString(), tensor->device().ToString());
    }
    // They would wait for each other on the device's stream.
    if (std::find(ordinals.begin(), ordinals.end(), stream->place().ordinal) != ordinals.end()) {
      return FailedPrecondition("two of the tensors lie on {}, which folds them by kernels",
                                tensor->device().ToString());
    }
    ordinals.push_back(stream->place().ordinal);
  }
  if (!NcclReduces(op, tensors[0]->dtype())) {
    return Unimplemented("NCCL has no {} of {}", ReduceOpName(op), DTypeName(tensors[0]->dtype()));
  }
  return FindGpuCollectives(*StreamOf(*tensors[0])->place().plugin).status();
}

Status NcclDevices::Prepare(std::span<const Ref<Tensor>> tensors, const GpuWait& wait) {
  std::vector<int> ordinals;
  for (const Ref<Tensor>& tensor : tensors) {
    ordinals.push_back(StreamOf(*tensor)->place().ordinal);
  }
  if (!ranks_.empty() && ordinals == ordinals_) return OkStatus();
  Abort();
  const DevicePlugin& plugin = *StreamOf(*tensors[0])->place().plugin;
  TUTTI_ASSIGN_OR_RETURN(const GpuCollectives nccl, FindGpuCollectives(plugin));
  GpuCollectivesSettings settings;
  settings.share_devices = nccl.can(TUTTI_PLUGIN_CAN_SHARE_DEVICES);
  // Where a communicator of a job has said more, that holds.
  Status configured = ConfigureGpuCollectives(plugin, settings);
  if (!configured.ok() && configured.code() != StatusCode::kFailedPrecondition) return configured;
  registers_ = WantsRegistration() && nccl.can(TUTTI_PLUGIN_CAN_ALLOCATE) &&
               nccl.can(TUTTI_PLUGIN_CAN_REGISTER);
  TUTTI_ASSIGN_OR_RETURN(const GpuCommunicatorId id, NewGpuCommunicatorId(plugin));
  Status status;
  for (size_t d = 0; d < tensors.size() && status.ok(); ++d) {
    Result<Ref<GpuCommunicator>> begun = GpuCommunicator::Begin(
        StreamOf(*tensors[d])->place(),
        {.id = id, .rank = static_cast<int>(d), .num_ranks = static_cast<int>(tensors.size())});
    status = begun.status();
    if (begun.ok()) ranks_.push_back(std::move(begun).value());
  }
  for (size_t d = 0; d < ranks_.size() && status.ok(); ++d) status = ranks_[d]->AwaitReady(wait);
  if (!status.ok()) Abort();
  ordinals_ = std::move(ordinals);
  return status;
}

Result<void*> NcclDevices::ScratchOf(size_t d, const GpuPack& pack) {
  if (!registers_ || !pack.is_packed()) return nullptr;
  scratch_.resize(ranks_.size());
  const uint64_t bytes = pack.elements() * ItemSize(pack.dtype());
  Ref<GpuRegisteredMemory>& scratch = scratch_[d];
  if (!scratch || scratch->bytes() < bytes) {
    // Nobody uses it: each call waits until all is done.
    scratch.reset();
    TUTTI_ASSIGN_OR_RETURN(scratch, GpuRegisteredMemory::Create(*ranks_[d], bytes));
  }
  return scratch->data();
}

Status NcclDevices::ReducePack(ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors,
                               std::span<std::vector<Ref<Tensor>>> results, const GpuWait& wait) {
  std::vector<GpuPack> packs;
  for (size_t d = 0; d < ranks_.size(); ++d) {
    std::vector<Ref<Tensor>> own;
    for (const std::vector<Ref<Tensor>>& each : tensors) own.push_back(each[d]);
    packs.emplace_back(std::move(own));
  }
  for (size_t d = 0; d < packs.size(); ++d) {
    TUTTI_ASSIGN_OR_RETURN(void* const scratch, ScratchOf(d, packs[d]));
    TUTTI_RETURN_IF_ERROR(packs[d].Gather(scratch));
  }
  if (packs[0].elements() > 0) {
    TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(ranks_[0]->place().plugin));
    Status status;
    for (size_t d = 0; d < packs.size() && status.ok(); ++d) {
      const GpuPack& pack = packs[d];
      status = ranks_[d]->AllReduce(*pack.stream(), op, pack.dtype(), pack.from_address(),
                                    pack.to_address(), pack.elements(), wait);
    }
    Status ended = group.End(wait);
    TUTTI_RETURN_IF_ERROR(status);
    TUTTI_RETURN_IF_ERROR(ended);
  }
  std::vector<Ref<GpuEvent>> done;
  for (GpuPack& pack : packs) {
    TUTTI_RETURN_IF_ERROR(pack.Scatter());
    TUTTI_ASSIGN_OR_RETURN(done.emplace_back(), GpuEvent::Create(pack.place(), false));
    TUTTI_RETURN_IF_ERROR(done.back()->Record(*pack.stream()));
  }
  const std::function<Status()> failure = [&]() -> Status {
    if (wait.failure != nullptr) TUTTI_RETURN_IF_ERROR((*wait.failure)());
    for (const Ref<GpuCommunicator>& rank : ranks_) TUTTI_RETURN_IF_ERROR(rank->Poll());
    return OkStatus();
  };
  for (size_t d = 0; d < packs.size(); ++d) {
    TUTTI_RETURN_IF_ERROR(done[d]->Wait({wait.options, wait.clock, &failure}));
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(packs[d].results()[i]);
  }
  // What NCCL has given up can be over before a wait has asked.
  return failure();
}

Result<std::vector<std::vector<Ref<Tensor>>>> NcclDevices::AllReduce(
    ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs,
    int64_t bytes_per_pack, const GpuWait& wait) {
  if (num_packs < 0) {
    return InvalidArgument("NCCL: num_packs is {}; expected 0 (no packing) or more", num_packs);
  }
  std::vector<std::vector<Ref<Tensor>>> results(tensors.size());
  if (tensors.empty()) return results;
  for (const std::vector<Ref<Tensor>>& each : tensors) {
    if (each.empty() || each.size() != tensors[0].size()) {
      return InvalidArgument("NCCL: tensor {} is on {} devices, the first on {}; give one of each "
                             "device",
                             &each - tensors.data(), each.size(), tensors[0].size());
    }
    TUTTI_RETURN_IF_ERROR(CheckCan(op, each));
    for (size_t d = 0; d < each.size(); ++d) {
      if (each[d]->dtype() != each[0]->dtype() || each[d]->shape() != each[0]->shape()) {
        return InvalidArgument("NCCL: tensor {} is {} on device 0 and {} on device {}; dtype and "
                               "shape must be the same on all",
                               &each - tensors.data(), each[0]->SpecString(),
                               each[d]->SpecString(), d);
      }
      const GpuStream& first = *StreamOf(*tensors[0][d]);
      if (StreamOf(*each[d])->place().ordinal == first.place().ordinal) continue;
      return InvalidArgument("NCCL: tensor {} of device {} lies on {}, and one before it on {}; "
                             "let all tensors of a device lie there (copy_to)",
                             &each - tensors.data(), d, each[d]->device().ToString(),
                             first.device_name());
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(Prepare(tensors[0], wait));
  std::vector<GpuPackPart> parts;
  for (const std::vector<Ref<Tensor>>& each : tensors) {
    parts.push_back({each[0]->dtype(), each[0]->byte_size()});
  }
  for (const auto& [first, last] : CutGpuPacks(parts, num_packs, bytes_per_pack)) {
    Status status = ReducePack(op, tensors.subspan(first, last - first),
                               std::span(results).subspan(first, last - first), wait);
    if (status.ok()) continue;
    Abort();
    return std::move(status).WithPrefix("NCCL");
  }
  return results;
}

// All at once: one alone could wait for another.
void NcclDevices::Abort() {
  if (ranks_.empty()) return;
  const CallOptions options = CallOptions::WithTimeout(RealClock(), kMostDevicesAbortNs);
  const DevicePlugin& plugin = *ranks_[0]->place().plugin;
  plugin.aborts().Abort(ranks_, {&options, &RealClock(), nullptr}).rep();
  scratch_.clear();
  ranks_.clear();
  ordinals_.clear();
}

}  // namespace tutti
