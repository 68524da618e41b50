// Folds of small payloads over links: everybody has sent to everybody who is to have a result,
// along with the header of the call, the input that it takes, and each folds what it has got, in
// rank order. One message each way. Of a reduce_scatter a rank gets only its share of the inputs.

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/reduce.h"

namespace tutti {
namespace {

// Inputs lie one after the other, aligned for every dtype.
constexpr size_t kWireAlignment = 16;
constexpr std::array<std::byte, kWireAlignment> kPadding = {};

size_t BytesOfInput(const TensorSignature& signature) {
  return static_cast<size_t>(signature.num_elements()) * ItemSize(signature.dtype);
}

size_t Padding(size_t bytes) { return (kWireAlignment - bytes % kWireAlignment) % kWireAlignment; }

class LinkFold final : public LinkAlgorithm {
 public:
  explicit LinkFold(const LinkCallContext& context)
      : context_(context),
        rank_(context.rank),
        size_(context.size),
        call_(*context.call),
        bytes_(LinkFoldBytes(call_.header, size_)) {}

  uint64_t Announce(int64_t peer) const override { return Folds(peer) ? bytes_ : 0; }

  void AddPayload(int64_t peer, MemoryParts* memory) const override {
    if (!Folds(peer)) return;
    if (call_.header.op == CollectiveOp::kReduceScatter) {
      memory->Add(ShareOf(peer), bytes_);
      return;
    }
    AddLinkFoldInput(call_, memory);
  }

  Status Begin(std::span<const LinkPeerPayload> payloads) override {
    const uint64_t expected = Folds(rank_) ? bytes_ : 0;
    for (int64_t peer = 0; peer < size_; ++peer) {
      const size_t bytes = payloads[static_cast<size_t>(peer)].bytes;
      if (peer != rank_ && bytes != expected) {
        return DataLoss("rank {} sent {} bytes of input, expected {}", context_.Name(peer), bytes,
                        expected);
      }
    }
    if (!Folds(rank_)) return OkStatus();
    std::vector<const void*> inputs(static_cast<size_t>(size_));
    const bool shares = call_.header.op == CollectiveOp::kReduceScatter;
    size_t offset = 0;
    for (size_t i = 0; i < call_.header.num_tensors; ++i) {
      const TensorSignature& signature = call_.header.tensor(i);
      for (int64_t rank = 0; rank < size_; ++rank) {
        const auto r = static_cast<size_t>(rank);
        inputs[r] = rank != rank_ ? static_cast<const void*>(payloads[r].data + offset)
                    : shares      ? ShareOf(rank)
                                  : call_.memory[i].input;
      }
      const int64_t count = signature.num_elements() / (shares ? size_ : 1);
      TUTTI_RETURN_IF_ERROR(ReduceInto(call_.header.reduction, signature.dtype, inputs, count,
                                       call_.memory[i].output));
      const size_t bytes = BytesOfInput(signature);
      offset += bytes + Padding(bytes);
    }
    return OkStatus();
  }

  Status Finish(CollectiveCall*) override { return OkStatus(); }

  // Nothing comes in segments.
  bool NextSegment(int64_t, uint64_t*, MemoryParts*) override { return false; }
  Result<bool> Accept(int64_t, uint64_t segment, size_t bytes, MemoryParts*) override {
    return DataLoss("segment {} with {} bytes; none is due", segment, bytes);
  }
  Status Received(int64_t) override { return OkStatus(); }
  bool complete() const override { return true; }
  std::string Owed(int64_t) const override { return ""; }

 private:
  // Whether a rank folds, and so gets inputs.
  bool Folds(int64_t rank) const {
    return call_.header.op != CollectiveOp::kReduce || rank == call_.header.root;
  }
  const void* ShareOf(int64_t rank) const {
    return static_cast<const std::byte*>(call_.memory[0].input) +
           static_cast<size_t>(rank) * bytes_;
  }

  const LinkCallContext context_;
  const int64_t rank_;
  const int64_t size_;
  const CollectiveCall& call_;
  const uint64_t bytes_;
};

}  // namespace

uint64_t LinkFoldBytes(const CallHeader& header, int64_t size) {
  if (header.op == CollectiveOp::kReduceScatter) {
    return BytesOfInput(header.first) / static_cast<size_t>(size);
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < header.num_tensors; ++i) {
    const size_t input = BytesOfInput(header.tensor(i));
    bytes += input + Padding(input);
  }
  return bytes;
}

void AddLinkFoldInput(const CollectiveCall& call, MemoryParts* memory) {
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const size_t bytes = BytesOfInput(call.header.tensor(i));
    memory->Add(call.memory[i].input, bytes);
    memory->Add(kPadding.data(), Padding(bytes));
  }
}

Status FoldLinkInputs(const CollectiveCall& call, std::span<const std::byte* const> ranks,
                      std::byte* result) {
  std::vector<const void*> inputs(ranks.size());
  size_t offset = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const TensorSignature& signature = call.header.tensor(i);
    const size_t bytes = BytesOfInput(signature);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      inputs[rank] = ranks[rank] == nullptr ? call.memory[i].input : ranks[rank] + offset;
    }
    TUTTI_RETURN_IF_ERROR(ReduceInto(call.header.reduction, signature.dtype, inputs,
                                     signature.num_elements(), result + offset));
    if (Padding(bytes) != 0) std::memset(result + offset + bytes, 0, Padding(bytes));
    offset += bytes + Padding(bytes);
  }
  return OkStatus();
}

void TakeLinkFoldResult(const CollectiveCall& call, const std::byte* result) {
  size_t offset = 0;
  for (size_t i = 0; i < call.header.num_tensors; ++i) {
    const size_t bytes = BytesOfInput(call.header.tensor(i));
    if (bytes != 0) std::memcpy(call.memory[i].output, result + offset, bytes);
    offset += bytes + Padding(bytes);
  }
}

std::unique_ptr<LinkAlgorithm> MakeLinkFold(const LinkCallContext& context) {
  return std::make_unique<LinkFold>(context);
}

}  // namespace tutti
