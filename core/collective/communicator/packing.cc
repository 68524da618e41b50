#include "core/collective/communicator/packing.h"

#include "core/collective/communicator/communicator.h"

namespace tutti {

std::vector<Pack> PackTensors(std::span<const int64_t> bytes, int64_t bytes_per_pack) {
  std::vector<Pack> packs;
  int64_t room = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (packs.empty() || bytes[i] > room || i - packs.back().first == kMostPackTensors) {
      packs.push_back(Pack{i, i});
      room = bytes_per_pack;
    }
    packs.back().last = i + 1;
    room -= bytes[i];
  }
  return packs;
}

std::vector<Pack> PackTensors(std::span<const Tensor* const> tensors, int64_t bytes_per_pack) {
  std::vector<int64_t> bytes;
  bytes.reserve(tensors.size());
  for (const Tensor* tensor : tensors) {
    bytes.push_back(tensor == nullptr ? 0 : static_cast<int64_t>(tensor->byte_size()));
  }
  return PackTensors(bytes, bytes_per_pack);
}

Status AllReduceInPacks(Communicator& communicator, std::span<const Tensor* const> inputs,
                        ReduceOp op, int64_t bytes_per_pack, const CollectiveOptions& options,
                        std::span<Tensor* const> outputs) {
  CollectiveOptions call = options;
  if (call.hints.bytes_per_pack == 0) call.hints.bytes_per_pack = bytes_per_pack;
  TUTTI_RETURN_IF_ERROR(CheckHints(call.hints, "all_reduce"));
  bytes_per_pack = call.hints.bytes_per_pack;
  // Lists that are empty or unequal are the communicator's to judge.
  const bool is_one_pack = bytes_per_pack == 0 && inputs.size() <= kMostPackTensors;
  if (is_one_pack || inputs.size() != outputs.size()) {
    return communicator.AllReduceTogether(inputs, op, call, outputs);
  }
  const std::vector<Pack> packs =
      PackTensors(inputs, bytes_per_pack == 0 ? kUnlimitedPackBytes : bytes_per_pack);
  if (packs.size() <= 1) return communicator.AllReduceTogether(inputs, op, call, outputs);
  for (const Pack& pack : packs) {
    const size_t count = pack.last - pack.first;
    TUTTI_RETURN_IF_ERROR(communicator.AllReduceTogether(
        inputs.subspan(pack.first, count), op, call, outputs.subspan(pack.first, count)));
  }
  return OkStatus();
}

}  // namespace tutti
