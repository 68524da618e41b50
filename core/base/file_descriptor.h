// FileDescriptor: owns a file descriptor of the kernel's.

#ifndef TUTTI_CORE_BASE_FILE_DESCRIPTOR_H_
#define TUTTI_CORE_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace tutti {

class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int number) noexcept : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { Reset(); }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int Release() noexcept { return std::exchange(number_, -1); }
  void Reset() noexcept {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_FILE_DESCRIPTOR_H_
