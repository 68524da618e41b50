// SharedSegment: memory that several processes of one machine map, without a name in any file
// system: when the last process that has it is gone, however it went, the memory is gone.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<SharedSegment> segment, SharedSegment::Create(bytes));
//   // segment->descriptor() goes to the peers over a Unix socket; each of them calls
//   TUTTI_ASSIGN_OR_RETURN(Ref<SharedSegment> segment, SharedSegment::Attach(std::move(received)));
//
// The size is sealed: nobody can cut the memory off under a peer, which would kill it with SIGBUS.
// Nothing else is promised about the contents: whoever reads them checks what it reads.

#ifndef TUTTI_CORE_COLLECTIVE_SHM_SHARED_SEGMENT_H_
#define TUTTI_CORE_COLLECTIVE_SHM_SHARED_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

class SharedSegment final : public RefCounted {
 public:
  // Raised whenever what lies in a segment is laid out anew: processes of different builds must not
  // read each other's memory.
  static constexpr uint32_t kLayoutVersion = 5;

  // Zeroed memory for `bytes` of contents. Pages are taken from the system when they are touched.
  static Result<Ref<SharedSegment>> Create(size_t bytes);
  // A segment that a peer has created. FAILED_PRECONDITION when it is none, of another layout, or
  // could still be cut off.
  static Result<Ref<SharedSegment>> Attach(FileDescriptor descriptor);

  // On a page boundary.
  std::byte* contents() const noexcept { return static_cast<std::byte*>(mapping_) + kHeaderBytes; }
  size_t bytes() const noexcept { return mapped_bytes_ - kHeaderBytes; }
  // To be passed on. Close-on-exec.
  int descriptor() const noexcept { return descriptor_.get(); }
  // For who has passed it on to everybody: the mapping alone keeps the memory.
  void CloseDescriptor() noexcept { descriptor_.Reset(); }

 private:
  static constexpr size_t kHeaderBytes = 4096;

  SharedSegment(FileDescriptor descriptor, void* mapping, size_t mapped_bytes) noexcept;
  ~SharedSegment() override;
  static Result<Ref<SharedSegment>> Map(FileDescriptor descriptor, size_t mapped_bytes);

  FileDescriptor descriptor_;
  void* const mapping_;
  const size_t mapped_bytes_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SHM_SHARED_SEGMENT_H_
