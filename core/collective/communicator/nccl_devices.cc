#include "core/collective/communicator/nccl_devices.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/collective/communicator/gpu_ranks.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

constexpr int64_t kMostDevicesAbortNs = 10 * kSecondNs;

// Tensors of one dtype, side by side on each device, where there are several.
class NcclPack {
 public:
  NcclPack(std::span<const std::vector<Ref<Tensor>>> tensors, size_t device)
      : stream_(Ref<GpuStream>::Retain(
            const_cast<GpuStream*>(StreamOf(*tensors[0][device])))),
        memory_(MakeRef<GpuMemory>(stream_->place())) {
    for (const std::vector<Ref<Tensor>>& each : tensors) inputs_.push_back(each[device]);
  }

  const GpuStream& stream() const { return *stream_; }
  DType dtype() const { return inputs_[0]->dtype(); }
  uint64_t elements() const {
    uint64_t count = 0;
    for (const Ref<Tensor>& input : inputs_) count += static_cast<uint64_t>(input->num_elements());
    return count;
  }
  const void* from() const { return from_->address(); }
  void* to() const { return to_->address(); }

  Status Gather() {
    for (Ref<Tensor>& input : inputs_) {
      if (!input->is_contiguous()) {
        TUTTI_ASSIGN_OR_RETURN(input, CopyToGpu(*input, *memory_, stream_));
      }
      TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *input));
      TUTTI_ASSIGN_OR_RETURN(results_.emplace_back(), New(input->shape()));
    }
    if (inputs_.size() == 1) {
      from_ = inputs_[0];
      to_ = results_[0];
      return OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(to_, New(Shape({static_cast<int64_t>(elements())})));
    from_ = to_;
    const std::vector<tutti_plugin_piece> pieces = Pieces(inputs_);
    return DevicePlugin::Taken(stream_->place().api().pack(stream_->raw(), pieces.data(),
                                                           pieces.size(), to_->address()));
  }
  Status Scatter() {
    if (inputs_.size() > 1) {
      const std::vector<tutti_plugin_piece> pieces = Pieces(results_);
      TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(stream_->place().api().unpack(
          stream_->raw(), pieces.data(), pieces.size(), to_->address())));
    }
    for (const Ref<Tensor>& input : inputs_) TUTTI_RETURN_IF_ERROR(EndUse(*stream_, *input));
    TUTTI_ASSIGN_OR_RETURN(done_, GpuEvent::Create(stream_->place(), false));
    return done_->Record(*stream_);
  }
  Status Wait(const GpuWait& wait) const { return done_->Wait(wait); }
  std::vector<Ref<Tensor>>& results() { return results_; }

 private:
  Result<Ref<Tensor>> New(const Shape& shape) const {
    return memory_->Create(dtype(), shape, false, stream_);
  }
  static std::vector<tutti_plugin_piece> Pieces(std::span<const Ref<Tensor>> tensors) {
    std::vector<tutti_plugin_piece> pieces;
    uint64_t offset = 0;
    for (const Ref<Tensor>& tensor : tensors) {
      if (tensor->byte_size() == 0) continue;
      pieces.push_back({tensor->address(), tensor->byte_size(), offset});
      offset += tensor->byte_size();
    }
    return pieces;
  }

  const Ref<GpuStream> stream_;
  const Ref<GpuMemory> memory_;
  std::vector<Ref<Tensor>> inputs_;
  std::vector<Ref<Tensor>> results_;
  Ref<Tensor> from_;
  Ref<Tensor> to_;
  Ref<GpuEvent> done_;
};

// [first, last) of the tensors that go in one call.
std::vector<std::pair<size_t, size_t>> NcclPacks(
    std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs) {
  const size_t count = tensors.size();
  const size_t packs = num_packs == 0 ? count : std::min(count, static_cast<size_t>(num_packs));
  std::vector<std::pair<size_t, size_t>> made;
  for (size_t p = 0; p < packs; ++p) {
    size_t first = count * p / packs;
    const size_t last = count * (p + 1) / packs;
    for (size_t i = first + 1; i <= last; ++i) {
      if (i < last && tensors[i][0]->dtype() == tensors[first][0]->dtype()) continue;
      made.emplace_back(first, i);
      first = i;
    }
  }
  return made;
}

}  // namespace

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

Status NcclDevices::ReducePack(ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors,
                               std::span<std::vector<Ref<Tensor>>> results, const GpuWait& wait) {
  std::vector<NcclPack> packs;
  for (size_t d = 0; d < ranks_.size(); ++d) packs.emplace_back(tensors, d);
  for (NcclPack& pack : packs) TUTTI_RETURN_IF_ERROR(pack.Gather());
  if (packs[0].elements() > 0) {
    TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(ranks_[0]->place().plugin));
    Status status;
    for (size_t d = 0; d < packs.size() && status.ok(); ++d) {
      status = ranks_[d]->AllReduce(packs[d].stream(), op, packs[d].dtype(), packs[d].from(),
                                    packs[d].to(), packs[d].elements(), wait);
    }
    Status ended = group.End(wait);
    TUTTI_RETURN_IF_ERROR(status);
    TUTTI_RETURN_IF_ERROR(ended);
  }
  for (NcclPack& pack : packs) TUTTI_RETURN_IF_ERROR(pack.Scatter());
  const std::function<Status()> failure = [&]() -> Status {
    if (wait.failure != nullptr) TUTTI_RETURN_IF_ERROR((*wait.failure)());
    for (const Ref<GpuCommunicator>& rank : ranks_) TUTTI_RETURN_IF_ERROR(rank->Poll());
    return OkStatus();
  };
  for (NcclPack& pack : packs) {
    TUTTI_RETURN_IF_ERROR(pack.Wait({wait.options, wait.clock, &failure}));
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(pack.results()[i]);
  }
  return OkStatus();
}

Result<std::vector<std::vector<Ref<Tensor>>>> NcclDevices::AllReduce(
    ReduceOp op, std::span<const std::vector<Ref<Tensor>>> tensors, int64_t num_packs,
    const GpuWait& wait) {
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
  for (const auto& [first, last] : NcclPacks(tensors, num_packs)) {
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
  GpuCommunicator::Abort(ranks_, {&options, &RealClock(), nullptr}).rep();
  ranks_.clear();
  ordinals_.clear();
}

}  // namespace tutti
