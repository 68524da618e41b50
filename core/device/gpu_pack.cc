#include "core/device/gpu_pack.h"

#include <algorithm>

namespace tutti {
namespace {

std::vector<tutti_plugin_piece> PiecesOf(std::span<const Ref<Tensor>> tensors) {
  std::vector<tutti_plugin_piece> pieces;
  pieces.reserve(tensors.size());
  uint64_t offset = 0;
  for (const Ref<Tensor>& tensor : tensors) {
    if (tensor->byte_size() == 0) continue;
    pieces.push_back({tensor->address(), tensor->byte_size(), offset});
    offset += tensor->byte_size();
  }
  return pieces;
}

// As kernels take it.
bool IsUsable(const Tensor& tensor) {
  return tensor.is_contiguous() &&
         reinterpret_cast<uintptr_t>(tensor.address()) % tensor.item_size() == 0;
}

}  // namespace

GpuPack::GpuPack(std::vector<Ref<Tensor>> tensors)
    : stream_(Ref<GpuStream>::Retain(const_cast<GpuStream*>(StreamOf(*tensors[0])))),
      memory_(MakeRef<GpuMemory>(stream_->place())),
      inputs_(std::move(tensors)) {
  for (const Ref<Tensor>& input : inputs_) {
    elements_ += static_cast<uint64_t>(input->num_elements());
  }
}

Result<Ref<Tensor>> GpuPack::New(const Shape& shape) const {
  return memory_->Create(dtype(), shape, false, stream_);
}

Status GpuPack::Gather(void* packed) {
  for (Ref<Tensor>& input : inputs_) {
    if (!IsUsable(*input)) {
      TUTTI_ASSIGN_OR_RETURN(input, CopyToGpu(*input, *memory_, stream_));
    }
    TUTTI_RETURN_IF_ERROR(BeginUse(*stream_, *input));
    TUTTI_ASSIGN_OR_RETURN(results_.emplace_back(), New(input->shape()));
  }
  if (!is_packed()) {
    from_ = inputs_[0];
    to_ = results_[0];
    return OkStatus();
  }
  packed_ = packed;
  if (packed_ == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(to_, New(Shape({static_cast<int64_t>(elements_)})));
    from_ = to_;
  }
  const std::vector<tutti_plugin_piece> pieces = PiecesOf(inputs_);
  return DevicePlugin::Taken(stream_->place().api().pack(stream_->raw(), pieces.data(),
                                                         pieces.size(), to_address()));
}

Status GpuPack::Scatter() {
  if (is_packed()) {
    const std::vector<tutti_plugin_piece> pieces = PiecesOf(results_);
    TUTTI_RETURN_IF_ERROR(DevicePlugin::Taken(stream_->place().api().unpack(
        stream_->raw(), pieces.data(), pieces.size(), to_address())));
  }
  for (const Ref<Tensor>& input : inputs_) TUTTI_RETURN_IF_ERROR(EndUse(*stream_, *input));
  return OkStatus();
}

std::vector<std::pair<size_t, size_t>> CutGpuPacks(std::span<const GpuPackPart> parts,
                                                   int64_t num_packs, int64_t bytes_per_pack) {
  const size_t count = parts.size();
  const size_t packs =
      num_packs == 0 ? count : std::min(count, static_cast<size_t>(num_packs));
  const size_t most = bytes_per_pack == 0 ? SIZE_MAX : static_cast<size_t>(bytes_per_pack);
  std::vector<std::pair<size_t, size_t>> made;
  for (size_t p = 0; p < packs; ++p) {
    size_t first = count * p / packs;
    const size_t last = count * (p + 1) / packs;
    size_t bytes = parts[first].bytes;
    for (size_t i = first + 1; i <= last; ++i) {
      if (i < last && parts[i].dtype == parts[first].dtype && bytes <= most &&
          parts[i].bytes <= most - bytes) {
        bytes += parts[i].bytes;
        continue;
      }
      made.emplace_back(first, i);
      first = i;
      if (i < last) bytes = parts[i].bytes;
    }
  }
  return made;
}

}  // namespace tutti
