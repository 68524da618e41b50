#include "core/device/gpu_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

// Tensors stand at multiples of this in pinned memory.
constexpr size_t kStagedAlignment = 256;
constexpr size_t kStagedPart = 4 << 20;
constexpr int64_t kLongestCopyNs = int64_t{30} * 1000000000;

size_t StagedBytes(const Tensor& tensor) {
  return (tensor.byte_size() + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
}

}  // namespace

Status StagedValue::Arrive() {
  if (!sent_) return OkStatus();
  TUTTI_RETURN_IF_ERROR(own_->WaitFor(*sent_));
  sent_.reset();
  return OkStatus();
}

void StagedValue::Drop() {
  if (sent_) (void)Arrive();
  value_.reset();
}

StagedValue& StagedValue::operator=(StagedValue&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  value_ = std::move(other.value_);
  own_ = std::move(other.own_);
  sent_ = std::move(other.sent_);
  return *this;
}

GpuStaging::GpuStaging(const Device& gpu, GpuMemory& memory, Ref<GpuStream> own,
                       Ref<GpuStream> copies)
    : device_(gpu.id()),
      memory_(Ref<GpuMemory>::Retain(&memory)),
      own_(std::move(own)),
      copies_(std::move(copies)) {}

Result<std::unique_ptr<GpuStaging>> GpuStaging::Create(const Device& gpu) {
  GpuMemory* const memory = GpuMemoryOf(gpu);
  if (memory == nullptr) {
    return InvalidArgument("staging: {} is no GPU; tensors of the host are there already",
                           gpu.short_name());
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<GpuStream> own, memory->stream());
  TUTTI_ASSIGN_OR_RETURN(Ref<GpuStream> copies, GpuStream::Create(memory->place()));
  return std::unique_ptr<GpuStaging>(
      new GpuStaging(gpu, *memory, std::move(own), std::move(copies)));
}

GpuStaging::~GpuStaging() {
  CallOptions call;
  call.deadline = Deadline::After(RealClock(), kLongestCopyNs);
  for (Block& block : blocks_) {
    if (!block.sent) continue;
    const Status sent = block.sent->Wait(GpuWait{&call, &RealClock()});
    // A device that hangs may yet read it.
    if (sent.code() == StatusCode::kDeadlineExceeded) (void)block.memory.release();
  }
}

bool GpuStaging::IsSent(const Leaf& leaf) const {
  if (!leaf.is_tensor()) return false;
  const Tensor& tensor = leaf.tensor();
  return tensor.device().is_cpu() && tensor.dtype() != DType::kBytes;
}

Result<StagedValue> GpuStaging::Send(const Value& value, const GpuWait& wait) {
  size_t bytes = 0;
  bool any = false;
  for (const Leaf& leaf : value.leaves()) {
    if (!IsSent(leaf)) continue;
    any = true;
    bytes += StagedBytes(leaf.tensor());
  }
  if (!any) return StagedValue(Ref<Value>::Retain(const_cast<Value*>(&value)));
  Block& block = blocks_[turn_];
  if (block.sent) TUTTI_RETURN_IF_ERROR(block.sent->Wait(wait));
  block.sent.reset();
  if (!block.memory || block.memory->bytes() < bytes) {
    block.memory.reset();
    const Ref<PinnedAllocator> pinned = MakeRef<PinnedAllocator>(memory_->place());
    TUTTI_ASSIGN_OR_RETURN(block.memory, pinned->Allocate(bytes, false));
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<GpuEvent> sent, GpuEvent::Create(memory_->place(), false));
  std::vector<Leaf> leaves;
  leaves.reserve(value.num_leaves());
  Status status = SendLeaves(value, &block, &leaves);
  // What was begun has an end, also when it was not all.
  Status recorded = sent->Record(*copies_);
  if (recorded.ok()) block.sent = sent;
  StagedValue staged(leaves.size() == value.num_leaves() ? value.WithLeaves(std::move(leaves))
                                                         : nullptr,
                     own_, std::move(sent));
  turn_ = (turn_ + 1) % blocks_.size();
  if (status.ok()) status = std::move(recorded);
  if (!status.ok()) {
    // The memory of what was begun belongs to the own stream.
    (void)staged.Arrive();
    return status;
  }
  return staged;
}

Status GpuStaging::SendLeaves(const Value& value, Block* block, std::vector<Leaf>* leaves) {
  const tutti_plugin_api& api = memory_->place().api();
  char* staged = static_cast<char*>(block->memory->data());
  for (const Leaf& leaf : value.leaves()) {
    if (!IsSent(leaf)) {
      Leaf kept = leaf;
      if (leaf.is_tensor() && !leaf.tensor().device().is_cpu() &&
          leaf.tensor().device() != device_) {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> moved, CopyToGpu(leaf.tensor(), *memory_));
        kept = Leaf::OfTensor(std::move(moved));
      }
      leaves->push_back(std::move(kept));
      continue;
    }
    const Tensor& tensor = leaf.tensor();
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Tensor> there,
        memory_->CreateBy(copies_, tensor.dtype(), tensor.shape()));
    leaves->push_back(Leaf::OfTensor(there));
    if (tensor.num_elements() == 0) continue;
    const size_t bytes = tensor.byte_size();
    const bool in_parts = tensor.is_contiguous();
    if (!in_parts) {
      const Ref<Tensor> here = Tensor::View(staged, tensor.dtype(), tensor.shape(), {}, false,
                                            block->memory, DeviceId());
      TUTTI_RETURN_IF_ERROR(CopyInto(tensor, here.get()));
    }
    // One part is written while the one before is on its way.
    for (size_t at = 0; at < bytes; at += kStagedPart) {
      const size_t part = std::min(kStagedPart, bytes - at);
      if (in_parts) std::memcpy(staged + at, static_cast<const char*>(tensor.data()) + at, part);
      TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(
          api.copy(copies_->raw(), TUTTI_PLUGIN_HOST_TO_DEVICE,
                   static_cast<char*>(there->address()) + at, staged + at, part)));
    }
    staged += StagedBytes(tensor);
  }
  return OkStatus();
}

}  // namespace tutti
