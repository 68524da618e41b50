// SharedTransport: ranks of one machine that meet in a shared segment: a process each, usually.
//
//   // once per group; the segment's descriptor goes to the other processes
//   SharedSegment::Create(SharedTransport::SegmentBytes(size));
//   // on each rank
//   TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<SharedTransport> transport,
//                          SharedTransport::Create(environment, segment, options));
//
// A rank never touches the private memory of another one, and holds no lock that another needs, so
// that it may die at any time. It does not find out by itself that a peer has died: who does calls
// Fail with an error that names it, which ends the waiting of all.
//
// Tensors that allocator() has made need no copy into the segment, but for small calls
// (shared_direct.h).
//
// A segment serves one group for one epoch. When the last process that maps it is gone, so is it.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_TRANSPORT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_algorithms.h"
#include "core/collective/shm/shared_direct.h"
#include "core/collective/shm/shared_group.h"
#include "core/collective/shm/shared_segment.h"

namespace tutti {

class Environment;

class SharedTransport final : public Transport {
 public:
  static size_t SegmentBytes(int64_t ranks) noexcept { return SharedLayout::SegmentBytes(ranks); }

  // INVALID_ARGUMENT for options that cannot be, FAILED_PRECONDITION when the segment is of another
  // group or the rank has been taken.
  static Result<std::unique_ptr<SharedTransport>> Create(Ref<Environment> environment,
                                                         Ref<SharedSegment> segment,
                                                         SharedGroupOptions options);
  ~SharedTransport() override;

  const char* name() const override { return "shared_memory"; }
  Status Execute(CollectiveCall* call) override;
  bool ChecksFold(const CollectiveCall& call) const override;
  bool is_reproducible() const override { return selector_.reproducible(); }
  bool RecordsKnownCalls() const override { return true; }
  Status Fail(Status error) override;
  Status failure() const override;
  bool ClaimFlightRecord() override { return !flight_record_claimed_.exchange(true); }
  void Leave(Status reason) override;
  BufferAllocator* allocator() const override { return group_->windows().own.get(); }
  // Whether a peer has said that it makes no more calls.
  bool HasLeft(int64_t rank) const noexcept { return group_->HasLeft(rank); }

 private:
  SharedTransport(Ref<Environment> environment, std::unique_ptr<SharedGroup> group,
                  const SelectorTable* table);

  const Ref<Environment> environment_;
  const std::unique_ptr<SharedGroup> group_;
  // What is kept of a call that may come again.
  struct KnownCall {
    uint64_t known_as = 0;
    bool is_flat_fold = false;
    KnownFlatFold fold;
  };

  // Of an all_reduce of a known kind: null when nothing is kept of it, because it is no flat fold.
  const KnownFlatFold* Known(const CollectiveCall& call);

  const Selector selector_;
  SharedDirect direct_;
  std::array<std::unique_ptr<KnownCall>, kKnownCallPlaces> known_calls_;
  std::atomic<bool> flight_record_claimed_{false};
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_TRANSPORT_H_
