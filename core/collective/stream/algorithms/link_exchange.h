// LinkExchange: what the ranks of one call send each other after they have met, as a state machine
// that LinkTransport drives. A payload travels in numbered segments; the exchange says which one a
// peer gets next, and where a peer's next one goes. It never waits, and must never make a peer wait
// for ever: a segment that nothing else depends on has to be acceptable sooner or later.
//
// LinkAlgorithm: the exchange of a collective, and what goes along with the headers before it. What
// is small enough (LinkEagerBytes) for a peer travels so, and needs no segments.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_LINK_EXCHANGE_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_LINK_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"

namespace tutti {

class LinkExchange {
 public:
  virtual ~LinkExchange() = default;

  // The next segment for `peer`: its number, and its memory, which stays valid and unaltered until
  // it is sent. False when there is none now.
  virtual bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) = 0;
  // Where the segment that `peer` sends now goes: exactly `bytes`. False when there is no room yet:
  // the peer waits. DATA_LOSS for a segment that cannot be due.
  virtual Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes,
                              MemoryParts* memory) = 0;
  // The accepted segment is there.
  virtual Status Received(int64_t peer) = 0;
  // Whether this rank is to send `peer` something after each read of what has come of it: of two on
  // one machine the kernel takes then for what goes out the pages that were freed of what came,
  // while a cache holds them. Only where neither sends ahead of the other: it would even more.
  virtual bool takes_turns(int64_t peer) const {
    static_cast<void>(peer);
    return false;
  }
  // All that was to come is there, and all that was to go has been handed out.
  virtual bool complete() const = 0;
  // "3 of 10 segments are here": what `peer` still owes, or empty.
  virtual std::string Owed(int64_t peer) const = 0;
};

// What the algorithms need to know, besides the call.
struct LinkCallContext {
  int64_t rank = 0;
  int64_t size = 1;
  const CollectiveCall* call = nullptr;
  AlignedRoom* scratch = nullptr;  // kept from call to call
  const Selector* selector = nullptr;
  const std::vector<int64_t>* names = nullptr;  // as LinkTransport has them; may be null
  const std::vector<bool>* near = nullptr;      // by rank: whether it is on this machine

  // What messages call a rank.
  int64_t Name(int64_t which) const {
    return names == nullptr || names->empty() ? which : (*names)[static_cast<size_t>(which)];
  }
};

// The payload that a peer sent along with its header, and what it announced to this rank.
struct LinkPeerPayload {
  const CallHeader* header = nullptr;
  const std::byte* data = nullptr;  // aligned for every dtype
  size_t bytes = 0;
  uint64_t announced = 0;
};

class LinkAlgorithm : public LinkExchange {
 public:
  // What comes for `peer` in all: bytes, but of an uneven all_to_all rows.
  virtual uint64_t Announce(int64_t peer) const = 0;
  // Adds what goes to `peer` along with the header: all of it or nothing.
  virtual void AddPayload(int64_t peer, MemoryParts* memory) const = 0;
  // All have met. `payloads` by rank; the own one is empty.
  virtual Status Begin(std::span<const LinkPeerPayload> payloads) = 0;
  // The exchange is complete: the result goes where the call wants it.
  virtual Status Finish(CollectiveCall* call) = 0;
};

// The bytes of a segment where a payload is to be cut into chunks of so many: a multiple of 64. The
// loopback interface takes packets of 64 KiB, of which 65,463 bytes or more are ours: with its
// frame header a segment fills one for every 64 KiB of the chunk. If it spilled over, the few bytes
// would be a packet more, which costs nearly as much as a full one.
constexpr int64_t LinkSegmentBytes(int64_t chunk_bytes) {
  return (chunk_bytes - chunk_bytes / 512) / 64 * 64;
}

// Up to so many bytes of payload go along with the header to a peer; of folds the selector says.
size_t LinkEagerBytes(int64_t size);

// The algorithm of `op` that goes from neighbour to neighbour, if it has one.
std::optional<CollectiveAlgorithm> LinkRingOf(CollectiveOp op);

// What the selector says to a call, which is no barrier, or LinkRingOf when its hints ask for RING.
// What is too much for a frame of the tree
// goes along the chain, or around the ring.
Selector::Choice ChooseLinkAlgorithm(const LinkCallContext& context);

// The algorithm of a call; null for a barrier, which has no payload.
Result<std::unique_ptr<LinkAlgorithm>> MakeLinkAlgorithm(const LinkCallContext& context);

// With which ranks the algorithm exchanges anything, by rank. Everybody knows it of everybody.
std::vector<bool> LinkPartners(const LinkCallContext& context);

// link_fold.cc: all_reduce, reduce and reduce_scatter of small payloads: who is to have the result
// gets all inputs and folds them by itself.
// The bytes of the input that a peer gets, tensors aligned to 16.
uint64_t LinkFoldBytes(const CallHeader& header, int64_t size);
// That input, tensor by tensor.
void AddLinkFoldInput(const CollectiveCall& call, MemoryParts* memory);
// Folds such inputs of all ranks, in their order; null is the call's own. The result, LinkFoldBytes
// in the same form, lies apart from them.
Status FoldLinkInputs(const CollectiveCall& call, std::span<const std::byte* const> ranks,
                      std::byte* result);
// Puts such a result into the tensors where the call wants it.
void TakeLinkFoldResult(const CollectiveCall& call, const std::byte* result);
std::unique_ptr<LinkAlgorithm> MakeLinkFold(const LinkCallContext& context);

// link_slice_and_share.cc: the same of large payloads, in chunks of that size.
Result<std::unique_ptr<LinkAlgorithm>> MakeLinkSliceAndShare(const LinkCallContext& context,
                                                             int64_t chunk_bytes);

// link_chain.cc: the same of large payloads, of which each rank is sent something by its neighbours
// only: by rank - 1 and rank + 1.
Result<std::unique_ptr<LinkAlgorithm>> MakeLinkChain(const LinkCallContext& context,
                                                     int64_t chunk_bytes);

// link_move.cc: broadcast, scatter, all_gather into a given tensor, all_to_all.
std::unique_ptr<LinkAlgorithm> MakeLinkMove(const LinkCallContext& context);

// link_gather.cc: all_gather and gather into a new tensor.
Result<std::unique_ptr<LinkAlgorithm>> MakeLinkGather(const LinkCallContext& context);

// link_ring.cc: all_gather, from rank to rank around.
Result<std::unique_ptr<LinkAlgorithm>> MakeLinkRing(const LinkCallContext& context);

// link_transfer_exchange.cc: what does not go along with the header of a send.
std::unique_ptr<LinkExchange> MakeLinkTransferExchange(const CollectiveCall& call);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_ALGORITHMS_LINK_EXCHANGE_H_
