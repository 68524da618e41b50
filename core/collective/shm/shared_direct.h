// SharedDirect: calls between ranks that read each other's tensors where they are: in the ranks'
// windows (shared_window.h). Nothing is copied into the segment, nor out of it.
//
// Each rank says in its entry where its tensors lie in its window, meets the others, and reads. Who
// reads out of others says when it is done; nobody returns before, for its caller may write its
// tensors then. Nobody writes into another rank's memory: so a rank that is late, or dies, or goes
// on after the epoch has ended, harms no one.
//
//                   in a window           done by
//   all_reduce      all inputs, and no    each rank folds all
//                   output is an input
//   the same        all inputs and        each rank folds a slice, and copies what the others
//                   outputs               have folded
//   reduce          all inputs            the root folds all
//   reduce_scatter  all inputs            each rank folds its share
//   all_gather      all inputs            each rank copies all
//   all_to_all      all inputs            each rank copies its parts
//   broadcast,      the root's            all others copy
//   scatter
//
// The others (gather, all_gather into a new tensor, uneven all_to_all, transfers) go through the
// segment. So do calls where only some tensors lie in windows: they cost one more meeting. And
// so do small ones, by the table: to write a line again that a peer has read costs its owner more
// than a copy that peers read in its stead.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/shared_payload.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_group.h"
#include "core/collective/shm/shared_layout.h"

namespace tutti {

class SharedDirect {
 public:
  SharedDirect(SharedGroup& group, const SelectorTable* table);

  // Whether an all_reduce may be one of these. Of most calls it is seen at a glance that they are
  // none.
  bool Concerns(const CollectiveCall& all_reduce) const noexcept {
    return group_.windows().complete() && !all_reduce.memory.empty() &&
           Offset(all_reduce.memory[0].input, 0) != SharedWindow::kNowhere;
  }
  // `done` is false when the call has to go through the segment, which it can now.
  Status Execute(const CollectiveCall& call, bool* done);

 private:
  class AllReduce;

  // Of a tensor, in its rank's window.
  struct Place {
    uint64_t input;
    uint64_t output;  // of an all_reduce in slices
  };
  // Ways in which a rank's tensors let a call be done; bits.
  static constexpr uint32_t kOutOfInputs = 1;  // until it ends the inputs stay as they are
  static constexpr uint32_t kInSlices = 2;     // the outputs, too, lie in the window

  // Results that are folded at a time before they are written past the caches: they stay in the
  // first-level cache.
  static constexpr int64_t kPieceBytes = 16 << 10;
  // Results so large that no cache holds them are written past the caches.
  static constexpr int64_t kStreamedBytes = 8 << 20;

  bool Chooses(CollectiveOp op, int64_t bytes) const noexcept {
    return selector_.Chooses(CollectiveAlgorithm::kDirect, op, bytes);
  }
  uint64_t Offset(const void* data, int64_t bytes) const noexcept {
    return group_.windows().own->Offset(data, static_cast<size_t>(bytes));
  }
  // Says where this rank's tensors lie, arrives and meets; `places` may be empty for who only reads
  // from `giver`.
  // `payload_bytes`: for the choice of stores, see SharedGroup::Begin. *ways becomes what all have.
  Status Meet(const CollectiveCall& call, std::span<const Place> places, int64_t giver,
              int64_t payload_bytes, uint32_t* ways);
  // Of calls that are done in one way.
  Status Meet(const CollectiveCall& call, std::span<const Place> places, int64_t giver,
              bool* direct);
  // Where `count` places of a rank lie in the segment.
  Place* PlacesOf(int64_t rank, size_t count) const noexcept;
  // What a peer shows at `offset`, or FailPeer.
  Status Look(int64_t peer, uint64_t offset, int64_t bytes, DType dtype, const std::byte** data);
  // inputs_[peer] = its tensor, of one tensor of `bytes`.
  Status LookAtInputs(const CollectiveCall& call, int64_t bytes);

  Status Fold(const CollectiveCall& call, int64_t bytes, bool* done);
  // Elements of all inputs_, `begin` bytes on, into `output`.
  Status FoldInto(const CollectiveCall& call, int64_t begin, int64_t bytes, void* output);
  Status MoveFromAll(const CollectiveCall& call, int64_t bytes, bool* done);
  Status MoveFromRoot(const CollectiveCall& call, int64_t bytes, bool* done);

  SharedGroup& group_;
  const Selector selector_;
  std::array<const std::byte*, kSharedMaxRanks> inputs_{};
  alignas(64) std::byte piece_[kPieceBytes];
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_DIRECT_H_
