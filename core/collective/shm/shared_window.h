// SharedWindow: memory of one process that the other processes of its groups read. Tensors that lie
// in it need no copy into the segment of a group: large calls fold and copy straight out of them.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<SharedWindow> window,
//                          SharedWindow::Create(SharedWindow::UsualBytes(), &memory));
//   // the descriptor goes to the peers over a Unix socket; each of them calls
//   TUTTI_ASSIGN_OR_RETURN(Ref<SharedWindowView> view,
//                          SharedWindowView::Open(std::move(received)));
//   // window->Allocate(bytes, true): at Offset(data) of the window, and of every view
//
// A window is as long as the machine has memory, and takes pages only for what has been allocated;
// what is given back goes to the system at once. It has no name in any file system: when the last
// process that maps it is gone, however it went, so is its memory. Its size is sealed, so that
// nobody can cut it off under a reader; and peers map it for reading only, so that no peer, however
// late, writes into a tensor.
//
// In a forked child the window is still its parent's: the child allocates nothing in it, and what
// it drops stays.
//
// Buffers keep their window, so that they may outlive every group. Threads: any.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_WINDOW_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_WINDOW_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/shm/free_ranges.h"
#include "core/tensor/buffer.h"

namespace tutti {

class MemoryAccount;

class SharedWindow final : public BufferAllocator {
 public:
  // What this machine has.
  static size_t UsualBytes() noexcept;

  // `bytes` become whole pages. What is allocated is charged to `account` (may be null).
  static Result<Ref<SharedWindow>> Create(size_t bytes, MemoryAccount* account);

  // RESOURCE_EXHAUSTED when the window has no such room, or the account or the system refuses.
  Result<Ref<Buffer>> Allocate(size_t bytes, bool zeroed) override;

  static constexpr uint64_t kNowhere = UINT64_MAX;
  // Where [data, data + bytes) lies in the window; kNowhere where it does not lie in it.
  uint64_t Offset(const void* data, size_t bytes) const noexcept;

  std::byte* contents() const noexcept { return contents_; }
  size_t bytes() const noexcept { return bytes_; }
  // To be passed on. Close-on-exec.
  int descriptor() const noexcept { return descriptor_.get(); }

 private:
  class WindowBuffer;

  SharedWindow(FileDescriptor descriptor, void* mapping, size_t bytes,
               Ref<MemoryAccount> account) noexcept;
  ~SharedWindow() override;

  // Gets the pages of a range from the system.
  Status Commit(FreeRanges::Range range) const;
  void Free(size_t offset, size_t bytes) noexcept;
  // Gives back the whole pages of `free`, a free range, that `changed` in it touches.
  void Punch(FreeRanges::Range free, FreeRanges::Range changed) const noexcept;
  bool IsForked() const noexcept;

  const FileDescriptor descriptor_;
  std::byte* const contents_;
  const size_t bytes_;
  const Ref<MemoryAccount> account_;
  const pid_t owner_;

  std::mutex mutex_;  // guards all below, and which pages the window has
  // Whole pages of a free range are not there, and read as zeros.
  FreeRanges free_;
};

// A peer's window, as this process reads it.
class SharedWindowView final : public RefCounted {
 public:
  // FAILED_PRECONDITION for what is no window, or could be cut off.
  static Result<Ref<SharedWindowView>> Open(FileDescriptor descriptor);
  // For ranks of one process: the window itself, which is kept.
  static Ref<SharedWindowView> Of(Ref<SharedWindow> window);

  // Null where [offset, offset + bytes) does not lie in the window.
  const std::byte* At(uint64_t offset, size_t bytes) const noexcept {
    if (offset > bytes_ || bytes > bytes_ - offset) return nullptr;
    return contents_ + offset;
  }

 private:
  SharedWindowView(const std::byte* contents, size_t bytes, Ref<SharedWindow> window) noexcept;
  ~SharedWindowView() override;

  const std::byte* const contents_;
  const size_t bytes_;
  const Ref<SharedWindow> window_;  // null: the mapping is the view's own
};

// What a rank of a group has of them.
struct SharedWindows {
  Ref<SharedWindow> own;                         // null: none
  std::vector<Ref<SharedWindowView>> of_ranks;  // by rank, all or none

  // Whether this rank can read out of all of them, and be read.
  bool complete() const { return own && !of_ranks.empty(); }
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_WINDOW_H_
