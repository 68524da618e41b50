// OwnedFd: a file descriptor that is closed when its owner goes.

#ifndef TUTTI_CAPI_TOOL_OWNED_FD_H_
#define TUTTI_CAPI_TOOL_OWNED_FD_H_

#include <unistd.h>

#include <utility>

namespace tutti::tool {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~OwnedFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_OWNED_FD_H_
