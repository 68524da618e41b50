// all_reduce straight out of windows, in one of two ways.
//
// Out of the inputs: every rank folds the inputs of all by itself, in rank order, into its output.
// Nothing that one rank has just written is waited for by another; between few ranks that is fast
// where inputs stay as they are. It takes outputs that are no inputs.
//
// In slices: the payload goes in rounds, each cut into a slice per rank. A rank folds its slice of
// all inputs into its output, says so, and copies the other slices out of the outputs of those who
// have folded them. It takes outputs that lie in windows, and may be the inputs: a slice of an
// input is read by the rank that folds it and by nobody else, and replaced when that one has said
// that it is folded. Nobody returns before all have copied what they need.
//
// The steps: round k is folded at 1 + k; all is copied at 1 + the number of rounds.
//
// Tensors that lie one behind the other, on all ranks, as those of a bucket plan do, are worked off
// as one.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_ALL_REDUCE_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_ALL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/shared_payload.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_direct.h"

namespace tutti {

class SharedDirect::AllReduce {
 public:
  AllReduce(SharedDirect& direct, const CollectiveCall& call);

  Status Run(bool* done);

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };

  static constexpr int64_t kGranuleBytes = SharedPayload::kGranuleBytes;

  int64_t TensorBytes(size_t tensor) const {
    const TensorSignature& signature = call_.header.tensor(tensor);
    return signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
  }
  int64_t ItemBytes(size_t tensor) const {
    return static_cast<int64_t>(ItemSize(call_.header.tensor(tensor).dtype));
  }
  size_t Index(int64_t rank, size_t tensor) const {
    return static_cast<size_t>(rank) * call_.header.num_tensors + tensor;
  }
  std::byte* Output(size_t tensor, int64_t byte) const {
    return static_cast<std::byte*>(call_.memory[tensor].output) + byte;
  }

  // This rank's tensors, and the ways that they and the table allow; false where there is none.
  bool FindPlaces();
  Status LookAtPeers();
  // What is one piece of memory in every window that is read: tensors from `tensor` on.
  struct Stretch {
    size_t tensor;
    int64_t elements;
    int64_t end;  // granules of the payload
  };
  void FindStretches();
  bool FollowsOnAllRanks(size_t tensor, size_t bytes_before) const;
  // piece(first tensor of a stretch, first element, elements), for what lies in [begin, end).
  template <typename Piece>
  Status ForEach(Range range, Piece piece) const;

  Status FoldPiece(size_t tensor, int64_t first, int64_t elements, std::byte* to);
  // `elements` of a stretch into its output; past the caches or through them.
  Status FoldInto(size_t tensor, int64_t first, int64_t elements, bool streamed);

  Status RunOutOfInputs();
  Status RunInSlices();
  Range Slice(int64_t round, int64_t rank) const;
  Status FoldSlice(int64_t round);
  Status CopySlices(int64_t round);

  SharedDirect& direct_;
  SharedGroup& group_;
  const CollectiveCall& call_;
  const SharedPayload payload_;
  const CollectiveAlgorithm algorithm_;
  const bool streamed_;
  uint32_t ways_ = 0;
  bool in_slices_ = false;
  int64_t rounds_ = 1;
  int64_t slice_ = 0;  // granules
  std::vector<Place> places_;
  // Of all ranks, tensor by tensor.
  std::vector<const std::byte*> inputs_;
  std::vector<const std::byte*> outputs_;
  std::vector<Stretch> stretches_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_ALL_REDUCE_H_
