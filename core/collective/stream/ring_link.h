// RingLink: a link to a rank on the same machine, through memory that both map. Each direction is a
// ring of bytes with one writer and one reader:
//
//   written, read   how many bytes have passed, each raised by one side only
//   *_parked        the other side sleeps until that number moves
//
// The Unix socket over which the memory was passed stays open. A byte on it wakes a parked peer,
// and its end tells of the peer's death; while both are awake nothing passes through the kernel.
// What the peer writes into the shared numbers is checked, and the own numbers are kept apart, so
// that a peer that went astray cannot lead this side out of the ring.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_RING_LINK_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_RING_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/collective/stream/link.h"

namespace tutti {

class RingLink final : public Link {
 public:
  static constexpr size_t kDefaultCapacity = size_t{1} << 20;
  static constexpr size_t kMaxCapacity = size_t{1} << 30;

  // Memory for one pair of ranks, which has no name and cannot be resized by the other side.
  // `capacity`, a power of two, is that of each direction. `token` is for Attach to compare.
  static Result<FileDescriptor> CreateSegment(size_t capacity, uint64_t token);

  // Maps the segment; both sides do, one of them as the first. DATA_LOSS when it is not the segment
  // of that token. The socket is connected to the peer, and nothing is read from or written to it
  // by others any more.
  static Result<std::unique_ptr<RingLink>> Attach(FileDescriptor socket,
                                                  const FileDescriptor& segment, uint64_t token,
                                                  bool first);
  ~RingLink() override;

  int64_t TrySend(std::span<const iovec> parts) override;
  int64_t TryReceive(std::span<const iovec> parts) override;
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override;
  void EndSleep(const pollfd& entry) override;
  std::string CloseReason() const override;
  const char* kind() const override { return "ring"; }

 private:
  struct Ring;
  struct Segment;

  RingLink(FileDescriptor socket, Segment* segment, size_t mapped_bytes, bool first);
  size_t Readable();
  size_t Writable();
  void RingBell();

  const FileDescriptor socket_;
  Segment* const segment_;
  const size_t mapped_bytes_;
  const size_t capacity_;
  Ring* const out_;
  Ring* const in_;
  std::byte* const out_data_;
  const std::byte* const in_data_;
  uint64_t written_ = 0;  // own truth of out_->written
  uint64_t read_ = 0;     // own truth of in_->read
  bool peer_closed_ = false;
  bool broken_ = false;  // the peer's numbers made no sense
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_RING_LINK_H_
