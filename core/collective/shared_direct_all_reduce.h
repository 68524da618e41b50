// all_reduce straight out of windows: every rank folds the inputs of all by itself, in rank order,
// into its output. Between few ranks that is the fastest way, because nothing that one rank has
// just written is waited for by another.
//
// Not in place: what replaces an input would have to wait elsewhere until all have read it, and
// every line of it be taken from the caches of the others. Through the segment that costs less.

#ifndef TUTTI_CORE_COLLECTIVE_SHARED_DIRECT_ALL_REDUCE_H_
#define TUTTI_CORE_COLLECTIVE_SHARED_DIRECT_ALL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/collective/shared_direct.h"
#include "core/collective/shared_payload.h"
#include "core/collective/transport.h"

namespace tutti {

class SharedDirect::AllReduce {
 public:
  AllReduce(SharedDirect& direct, const CollectiveCall& call);

  Status Run(bool* done);

 private:
  int64_t TensorBytes(size_t tensor) const {
    const TensorSignature& signature = call_.header.tensor(tensor);
    return signature.num_elements() * static_cast<int64_t>(ItemSize(signature.dtype));
  }
  int64_t ItemBytes(size_t tensor) const {
    return static_cast<int64_t>(ItemSize(call_.header.tensor(tensor).dtype));
  }
  const std::byte*& input(int64_t rank, size_t tensor) {
    return inputs_[static_cast<size_t>(rank) * call_.header.num_tensors + tensor];
  }

  // This rank's tensors; false where they do not all lie in its window, or are to be replaced.
  bool FindPlaces();
  Status LookAtPeers();
  Status Fold();
  Status FoldPiece(size_t tensor, int64_t first, int64_t elements, std::byte* to);

  SharedDirect& direct_;
  SharedGroup& group_;
  const CollectiveCall& call_;
  const SharedPayload payload_;
  const bool streamed_;
  std::vector<Place> places_;
  std::vector<const std::byte*> inputs_;  // of all ranks, tensor by tensor
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHARED_DIRECT_ALL_REDUCE_H_
