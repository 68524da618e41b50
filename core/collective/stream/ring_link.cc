#include "core/collective/stream/ring_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_file.h"

namespace tutti {
namespace {

constexpr uint64_t kRingMagic = 0x31676e6972747474;  // "tttring1"
constexpr size_t kHeadBytes = 4096;
// The other side hears of bytes in steps, so that it takes some while others are still copied.
constexpr size_t kStepBytes = size_t{64} << 10;

static_assert(std::atomic<uint64_t>::is_always_lock_free);

void CopyIn(std::byte* ring, size_t capacity, uint64_t at, const void* from, size_t bytes) {
  const size_t place = at & (capacity - 1);
  const size_t first = std::min(bytes, capacity - place);
  std::memcpy(ring + place, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}

void CopyOut(const std::byte* ring, size_t capacity, uint64_t at, void* to, size_t bytes) {
  const size_t place = at & (capacity - 1);
  const size_t first = std::min(bytes, capacity - place);
  std::memcpy(to, ring + place, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

}  // namespace

struct RingLink::Ring {
  alignas(128) std::atomic<uint64_t> written;
  std::atomic<uint32_t> writer_parked;
  alignas(128) std::atomic<uint64_t> read;
  std::atomic<uint32_t> reader_parked;
};

struct RingLink::Segment {
  uint64_t magic;
  uint64_t capacity;
  uint64_t token;
  Ring rings[2];  // [0] is written by the first
};

Result<FileDescriptor> RingLink::CreateSegment(size_t capacity, uint64_t token) {
  static_assert(sizeof(Segment) <= kHeadBytes);
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor memory,
                         MakeMemoryFile("tutti-ring", kHeadBytes + 2 * capacity,
                                        "shared memory for a ring"));
  Segment head = {};
  head.magic = kRingMagic;
  head.capacity = capacity;
  head.token = token;
  if (pwrite(memory.get(), &head, offsetof(Segment, rings), 0) !=
      static_cast<ssize_t>(offsetof(Segment, rings))) {
    return ErrnoStatus(errno, "write to shared memory");
  }
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "sealing shared memory");
  }
  return memory;
}

Result<std::unique_ptr<RingLink>> RingLink::Attach(FileDescriptor socket,
                                                   const FileDescriptor& segment, uint64_t token,
                                                   bool first) {
  struct stat facts = {};
  if (fstat(segment.get(), &facts) != 0) return ErrnoStatus(errno, "fstat of shared memory");
  const int seals = fcntl(segment.get(), F_GET_SEALS);
  // Without the seal the other side could take pages away under our feet.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || facts.st_size < off_t{kHeadBytes} ||
      facts.st_size > static_cast<off_t>(kHeadBytes + 2 * kMaxCapacity)) {
    return DataLoss("shared memory for a ring of {} bytes, {}", facts.st_size,
                    seals < 0 ? "without seals" : "with other seals");
  }
  const auto bytes = static_cast<size_t>(facts.st_size);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.get(), 0);
  if (mapped == MAP_FAILED) return ErrnoStatus(errno, "mmap of shared memory");
  auto* head = static_cast<Segment*>(mapped);
  if (head->magic != kRingMagic || head->token != token || !std::has_single_bit(head->capacity) ||
      kHeadBytes + 2 * head->capacity != bytes) {
    munmap(mapped, bytes);
    return DataLoss("shared memory of {} bytes that is not the ring of this pair of ranks", bytes);
  }
  return std::unique_ptr<RingLink>(new RingLink(std::move(socket), head, bytes, first));
}

RingLink::RingLink(FileDescriptor socket, Segment* segment, size_t mapped_bytes, bool first)
    : socket_(std::move(socket)),
      segment_(segment),
      mapped_bytes_(mapped_bytes),
      capacity_((mapped_bytes - kHeadBytes) / 2),
      out_(&segment->rings[first ? 0 : 1]),
      in_(&segment->rings[first ? 1 : 0]),
      out_data_(reinterpret_cast<std::byte*>(segment) + kHeadBytes + (first ? 0 : capacity_)),
      in_data_(reinterpret_cast<std::byte*>(segment) + kHeadBytes + (first ? capacity_ : 0)) {}

RingLink::~RingLink() { munmap(segment_, mapped_bytes_); }

size_t RingLink::Readable() {
  const uint64_t ready = in_->written.load() - read_;
  if (ready <= capacity_) return ready;
  broken_ = true;
  return 0;
}

size_t RingLink::Writable() {
  const uint64_t unread = written_ - out_->read.load();
  if (unread <= capacity_) return capacity_ - unread;
  broken_ = true;
  return 0;
}

void RingLink::RingBell() {
  const char bell = 1;
  // A full socket is full of bells; a closed one is found out elsewhere.
  [[maybe_unused]] const ssize_t sent =
      send(socket_.get(), &bell, sizeof(bell), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int64_t RingLink::TrySend(std::span<const iovec> parts) {
  size_t room = Writable();
  if (peer_closed_ || broken_) return kClosed;
  size_t sent = 0;
  size_t step = 0;
  const auto publish = [&] {
    out_->written.store(written_);
    if (out_->reader_parked.load() != 0 && out_->reader_parked.exchange(0) != 0) RingBell();
    step = 0;
  };
  for (const iovec& part : parts) {
    size_t done = 0;
    while (done < part.iov_len && room != 0) {
      const size_t bytes = std::min({part.iov_len - done, room, kStepBytes - step});
      CopyIn(out_data_, capacity_, written_, static_cast<const std::byte*>(part.iov_base) + done,
             bytes);
      done += bytes;
      room -= bytes;
      sent += bytes;
      step += bytes;
      written_ += bytes;
      if (step == kStepBytes) publish();
    }
    if (room == 0) break;
  }
  if (step != 0) publish();
  return static_cast<int64_t>(sent);
}

int64_t RingLink::TryReceive(std::span<const iovec> parts) {
  size_t ready = Readable();
  if (broken_) return kClosed;
  // The peer wrote all it had to say before its socket ended.
  if (ready == 0) return peer_closed_ ? kClosed : 0;
  size_t received = 0;
  for (const iovec& part : parts) {
    size_t done = 0;
    while (done < part.iov_len && ready != 0) {
      const size_t bytes = std::min({part.iov_len - done, ready, kStepBytes});
      CopyOut(in_data_, capacity_, read_, static_cast<std::byte*>(part.iov_base) + done, bytes);
      done += bytes;
      ready -= bytes;
      received += bytes;
      read_ += bytes;
      in_->read.store(read_);
      if (in_->writer_parked.load() != 0 && in_->writer_parked.exchange(0) != 0) RingBell();
    }
    if (ready == 0) break;
  }
  return static_cast<int64_t>(received);
}

bool RingLink::PrepareSleep(bool want_read, bool want_write, pollfd* entry) {
  entry->fd = socket_.get();
  entry->events = POLLIN;
  entry->revents = 0;
  // Its end has been seen; poll would report it for ever.
  if (peer_closed_ || broken_) entry->fd = -1;
  // The flag first, then the number: either this side sees the bytes, or the peer the flag.
  in_->reader_parked.store(want_read ? 1 : 0);
  out_->writer_parked.store(want_write ? 1 : 0);
  const bool readable = want_read && (Readable() != 0 || peer_closed_ || broken_);
  const bool writable = want_write && (Writable() != 0 || peer_closed_ || broken_);
  return !readable && !writable;
}

void RingLink::EndSleep(const pollfd& entry) {
  in_->reader_parked.store(0);
  out_->writer_parked.store(0);
  if (entry.revents == 0) return;
  char bells[64];
  while (true) {
    const ssize_t got = recv(socket_.get(), bells, sizeof(bells), MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    peer_closed_ = true;
    return;
  }
}

std::string RingLink::CloseReason() const {
  return broken_ ? "it has overwritten the memory of its link" : "its connection closed";
}

}  // namespace tutti
