#include "core/collective/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory_file.h"

namespace tutti {
namespace {

constexpr uint64_t kSegmentMagic = 0x676573'6974747574;  // "tuttiseg" of a little-endian machine
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// The first bytes of a segment, written once by its creator.
struct Header {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t reserved;
  uint64_t mapped_bytes;
};

}  // namespace

SharedSegment::SharedSegment(FileDescriptor descriptor, void* mapping, size_t mapped_bytes) noexcept
    : descriptor_(std::move(descriptor)), mapping_(mapping), mapped_bytes_(mapped_bytes) {}

SharedSegment::~SharedSegment() { munmap(mapping_, mapped_bytes_); }

Result<Ref<SharedSegment>> SharedSegment::Map(FileDescriptor descriptor, size_t mapped_bytes) {
  void* const mapping = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             descriptor.get(), 0);
  if (mapping == MAP_FAILED) {
    return ErrnoStatus(errno, Format("shared segment: map {} bytes", mapped_bytes));
  }
  return Ref<SharedSegment>::Adopt(
      new SharedSegment(std::move(descriptor), mapping, mapped_bytes));
}

Result<Ref<SharedSegment>> SharedSegment::Create(size_t bytes) {
  constexpr size_t kMost = static_cast<size_t>(std::numeric_limits<off_t>::max()) / 2;
  if (bytes == 0 || bytes > kMost) {
    return InvalidArgument("shared segment: the size is {} bytes; pass 1 to {}", bytes, kMost);
  }
  const size_t mapped_bytes = kHeaderBytes + bytes;
  TUTTI_ASSIGN_OR_RETURN(FileDescriptor descriptor,
                         MakeMemoryFile("tutti", mapped_bytes, "shared segment"));
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return ErrnoStatus(errno, "shared segment: seal its size");
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<SharedSegment> segment, Map(std::move(descriptor), mapped_bytes));
  const Header header = {kSegmentMagic, kLayoutVersion, 0, mapped_bytes};
  std::memcpy(segment->mapping_, &header, sizeof(header));
  return segment;
}

Result<Ref<SharedSegment>> SharedSegment::Attach(FileDescriptor descriptor) {
  struct stat status;
  if (!descriptor || fstat(descriptor.get(), &status) != 0) {
    return ErrnoStatus(descriptor ? errno : EBADF, "shared segment: look at the descriptor");
  }
  const int flags = fcntl(descriptor.get(), F_GETFD);
  if (flags < 0 || fcntl(descriptor.get(), F_SETFD, flags | FD_CLOEXEC) != 0) {
    return ErrnoStatus(errno, "shared segment: make the descriptor close-on-exec");
  }
  // Before the size is relied upon.
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return FailedPrecondition(
        "shared segment: the descriptor is of no memory whose size is sealed; a segment that "
        "SharedSegment::Create made is");
  }
  const auto mapped_bytes = static_cast<size_t>(status.st_size);
  if (status.st_size < 0 || mapped_bytes <= kHeaderBytes) {
    return FailedPrecondition("shared segment: {} bytes are too few for a header and contents",
                              status.st_size);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<SharedSegment> segment, Map(std::move(descriptor), mapped_bytes));
  Header header;
  std::memcpy(&header, segment->mapping_, sizeof(header));
  if (header.magic != kSegmentMagic) {
    return FailedPrecondition("shared segment: the memory does not begin like a segment (found "
                              "{:#x}, expected {:#x})",
                              header.magic, kSegmentMagic);
  }
  if (header.layout_version != kLayoutVersion) {
    return FailedPrecondition(
        "shared segment: its layout is version {}, this process knows version {}; run the same "
        "build in all processes",
        header.layout_version, kLayoutVersion);
  }
  if (header.mapped_bytes != mapped_bytes) {
    return FailedPrecondition("shared segment: it is {} bytes long and says {}", mapped_bytes,
                              header.mapped_bytes);
  }
  return segment;
}

}  // namespace tutti
