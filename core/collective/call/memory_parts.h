// MemoryParts: pieces of memory in a row, as a system call takes them, and how far one has come.
// And memory that is aligned for every dtype.

#ifndef TUTTI_CORE_COLLECTIVE_CALL_MEMORY_PARTS_H_
#define TUTTI_CORE_COLLECTIVE_CALL_MEMORY_PARTS_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

class MemoryParts {
 public:
  void Clear() {
    parts_.clear();
    next_ = 0;
    remaining_ = 0;
  }
  // So many parts can be added to none without memory.
  void Reserve(size_t num_parts) { parts_.reserve(num_parts); }
  void Add(const void* data, size_t bytes) {
    if (bytes == 0) return;
    parts_.push_back(iovec{const_cast<void*>(data), bytes});
    remaining_ += bytes;
  }
  size_t remaining() const { return remaining_; }
  // What has not been done yet.
  std::span<const iovec> rest() const { return std::span<const iovec>(parts_).subspan(next_); }
  void Advance(size_t bytes) {
    remaining_ -= bytes;
    while (bytes != 0) {
      iovec& part = parts_[next_];
      if (bytes < part.iov_len) {
        part.iov_base = static_cast<char*>(part.iov_base) + bytes;
        part.iov_len -= bytes;
        return;
      }
      bytes -= part.iov_len;
      ++next_;
    }
  }

 private:
  std::vector<iovec> parts_;
  size_t next_ = 0;
  size_t remaining_ = 0;
};

// Room whose bytes are not set, at a cache line's beginning. It only grows.
class AlignedRoom {
 public:
  static constexpr size_t kAlignment = 64;

  // False when there is no memory. What lay there is lost.
  bool Reserve(size_t bytes) {
    if (bytes <= capacity_) return true;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset();
    capacity_ = 0;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (!data_) return false;
    capacity_ = rounded;
    return true;
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t capacity_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_MEMORY_PARTS_H_
