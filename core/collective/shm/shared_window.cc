#include "core/collective/shm/shared_window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/base/memory_file.h"
#include "core/base/text.h"

namespace tutti {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Pages are asked for in such parts: a signal throws away what one request has come to.
constexpr size_t kCommitBytes = size_t{16} << 20;
// Many windows of a large machine must fit into the addresses of one process.
constexpr size_t kMostUsualBytes = size_t{1} << 40;

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Addresses for a window, of which no core file shall be full.
Result<std::byte*> Map(const FileDescriptor& descriptor, size_t bytes, int protection) {
  void* const mapping = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE,
                             descriptor.get(), 0);
  if (mapping == MAP_FAILED) {
    return ErrnoStatus(errno, Format("shared window: map {} bytes", bytes));
  }
  madvise(mapping, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(mapping);
}

}  // namespace

class SharedWindow::WindowBuffer final : public Buffer {
 public:
  WindowBuffer(Ref<SharedWindow> window, size_t offset, size_t bytes)
      : Buffer(window->contents_ + offset, bytes), window_(std::move(window)) {}

 private:
  ~WindowBuffer() override {
    window_->Free(static_cast<size_t>(static_cast<std::byte*>(data()) - window_->contents_),
                  bytes());
  }

  const Ref<SharedWindow> window_;
};

size_t SharedWindow::UsualBytes() noexcept {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return 0;
  const uint64_t total = uint64_t{info.totalram} * info.mem_unit;
  return std::min<uint64_t>(total, kMostUsualBytes);
}

SharedWindow::SharedWindow(FileDescriptor descriptor, void* mapping, size_t bytes,
                           Ref<MemoryAccount> account) noexcept
    : descriptor_(std::move(descriptor)),
      contents_(static_cast<std::byte*>(mapping)),
      bytes_(bytes),
      account_(std::move(account)),
      owner_(getpid()),
      free_(bytes) {}

SharedWindow::~SharedWindow() { munmap(contents_, bytes_); }

bool SharedWindow::IsForked() const noexcept { return getpid() != owner_; }

Result<Ref<SharedWindow>> SharedWindow::Create(size_t bytes, MemoryAccount* account) {
  constexpr size_t kMost = static_cast<size_t>(std::numeric_limits<off_t>::max()) / 2;
  if (bytes == 0 || bytes > kMost) {
    return InvalidArgument("shared window: the size is {} bytes; pass 1 to {}", bytes, kMost);
  }
  bytes = RoundUp(bytes, kPageBytes);
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor descriptor,
                         MakeMemoryFile("tutti-window", bytes, "shared window"));
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoStatus(errno, "shared window: seal its size");
  }
  TUTTI_ASSIGN_OR_RETURN(std::byte* const contents,
                         Map(descriptor, bytes, PROT_READ | PROT_WRITE));
  return Ref<SharedWindow>::Adopt(new SharedWindow(std::move(descriptor), contents, bytes,
                                                   Ref<MemoryAccount>::Retain(account)));
}

Status SharedWindow::Commit(FreeRanges::Range range) const {
  // Pages that were there already stay as they are. Without this, a machine that has no more memory
  // would say so with SIGBUS, and when the tensor is first touched.
  size_t done = range.begin;
  while (done < range.end) {
    const size_t part = std::min(range.end - done, kCommitBytes);
    if (fallocate(descriptor_.get(), 0, static_cast<off_t>(done), static_cast<off_t>(part)) == 0) {
      done += part;
    } else if (errno != EINTR) {
      return ResourceExhausted("memory: the system refused {} of shared memory ({})",
                               HumanBytes(range.end - range.begin), std::strerror(errno))
          .With("bytes", range.end - range.begin);
    }
  }
  return OkStatus();
}

void SharedWindow::Punch(FreeRanges::Range free, FreeRanges::Range changed) const noexcept {
  const size_t begin = std::max(RoundUp(free.begin, kPageBytes),
                                changed.begin / kPageBytes * kPageBytes);
  const size_t end = std::min(free.end / kPageBytes * kPageBytes,
                              RoundUp(changed.end, kPageBytes));
  if (begin >= end) return;
  int result = 0;
  do {
    result = fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  } while (result != 0 && errno == EINTR);
  // The pages stay, then; what is allocated there must be zeros all the same.
  if (result != 0) std::memset(contents_ + begin, 0, end - begin);
}

Result<Ref<Buffer>> SharedWindow::Allocate(size_t bytes, bool zeroed) {
  if (bytes > bytes_) {
    return ResourceExhausted("shared window: {} asked for, it has {}", HumanBytes(bytes),
                             HumanBytes(bytes_))
        .With("bytes", bytes);
  }
  if (IsForked()) {
    return ResourceExhausted("shared window: it belongs to the process that this one was forked "
                             "from");
  }
  const size_t room = RoundUp(std::max<size_t>(bytes, 1), kBufferAlignment);
  if (account_) TUTTI_RETURN_IF_ERROR(account_->Reserve(room));
  Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<size_t> offset = free_.Take(room);
    if (offset) {
      const FreeRanges::Range taken = {*offset, *offset + room};
      status = Commit(taken);
      if (status.ok()) {
        if (zeroed) {
          // The pages at both ends may have been somebody else's; those between are fresh.
          const size_t first = std::min(RoundUp(taken.begin, kPageBytes), taken.end);
          const size_t last = std::max(taken.end / kPageBytes * kPageBytes, first);
          std::memset(contents_ + taken.begin, 0, first - taken.begin);
          std::memset(contents_ + last, 0, taken.end - last);
        }
        return Ref<Buffer>(
            MakeRef<WindowBuffer>(Ref<SharedWindow>::Retain(this), taken.begin, room));
      }
      Punch(free_.Give(taken), taken);
    } else {
      status = ResourceExhausted("shared window: no {} of its {} are free in one piece",
                                 HumanBytes(room), HumanBytes(bytes_))
                   .With("bytes", bytes);
    }
  }
  if (account_) account_->Unreserve(room);
  return status;
}

void SharedWindow::Free(size_t offset, size_t bytes) noexcept {
  if (IsForked()) return;
  const FreeRanges::Range given = {offset, offset + bytes};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Punch(free_.Give(given), given);
  }
  if (account_) account_->Unreserve(bytes);
}

uint64_t SharedWindow::Offset(const void* data, size_t bytes) const noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(contents_);
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (at < begin || at - begin > bytes_ || bytes > bytes_ - (at - begin)) return kNowhere;
  return at - begin;
}

// ---- Views ----

SharedWindowView::SharedWindowView(const std::byte* contents, size_t bytes,
                                   Ref<SharedWindow> window) noexcept
    : contents_(contents), bytes_(bytes), window_(std::move(window)) {}

SharedWindowView::~SharedWindowView() {
  if (!window_) munmap(const_cast<std::byte*>(contents_), bytes_);
}

Ref<SharedWindowView> SharedWindowView::Of(Ref<SharedWindow> window) {
  const std::byte* const contents = window->contents();
  const size_t bytes = window->bytes();
  return Ref<SharedWindowView>::Adopt(new SharedWindowView(contents, bytes, std::move(window)));
}

Result<Ref<SharedWindowView>> SharedWindowView::Open(FileDescriptor descriptor) {
  struct stat status;
  if (!descriptor || fstat(descriptor.get(), &status) != 0) {
    return ErrnoStatus(descriptor ? errno : EBADF, "shared window: look at the descriptor");
  }
  // Before the size is relied upon.
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return FailedPrecondition(
        "shared window: the descriptor is of no memory whose size is sealed; a window that "
        "SharedWindow::Create made is");
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  if (status.st_size <= 0 || bytes % kPageBytes != 0) {
    return FailedPrecondition("shared window: {} bytes are no whole pages", status.st_size);
  }
  TUTTI_ASSIGN_OR_RETURN(std::byte* const contents, Map(descriptor, bytes, PROT_READ));
  return Ref<SharedWindowView>::Adopt(new SharedWindowView(contents, bytes, nullptr));
}

}  // namespace tutti
