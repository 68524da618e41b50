// LinkExchange: what the ranks of one large call send each other after they have met, as a state
// machine that LinkTransport drives. A payload travels in numbered segments; the exchange says
// which one a peer gets next, and where a peer's next one goes. It never waits, and must never make
// a peer wait for ever: a segment that nothing else depends on has to be acceptable sooner or
// later.

#ifndef TUTTI_CORE_COLLECTIVE_LINK_EXCHANGE_H_
#define TUTTI_CORE_COLLECTIVE_LINK_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/collective/memory_parts.h"
#include "core/collective/transport.h"

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
};

// The payload that a peer sent along with its header, and how much it will send in all.
struct LinkPeerPayload {
  const CallHeader* header = nullptr;
  const std::byte* data = nullptr;  // aligned for every dtype
  size_t bytes = 0;
  uint64_t total_bytes = 0;
};

// Up to so many bytes of payload go along with the header to everybody.
size_t LinkEagerBytes(int64_t size);

// link_fold.cc: all_reduce of small payloads. Everybody folds all inputs by itself.
// The bytes of one rank's payload, tensors aligned to 16.
uint64_t LinkFoldBytes(const CallHeader& header);
void AddLinkFoldInput(const CollectiveCall& call, MemoryParts* memory);
// `payloads` by rank; the own one is not looked at.
Status LinkFold(const LinkCallContext& context, std::span<const LinkPeerPayload> payloads);

// link_slice_and_share.cc: all_reduce of large payloads.
Result<std::unique_ptr<LinkExchange>> MakeLinkSliceAndShare(const LinkCallContext& context);

// link_broadcast.cc: large payloads.
std::unique_ptr<LinkExchange> MakeLinkBroadcast(const LinkCallContext& context);

// link_all_gather.cc: any payloads. The gather owns what it sends and receives.
class LinkAllGather : public LinkExchange {
 public:
  // What this rank sends.
  virtual uint64_t payload_bytes() const = 0;
  virtual void AddPayload(MemoryParts* memory) const = 0;
  // All have met.
  virtual Status Begin(std::span<const LinkPeerPayload> payloads) = 0;
  // Once complete: joins what all sent.
  virtual Result<Ref<Tensor>> Join() = 0;
};
Result<std::unique_ptr<LinkAllGather>> MakeLinkAllGather(const LinkCallContext& context);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_LINK_EXCHANGE_H_
