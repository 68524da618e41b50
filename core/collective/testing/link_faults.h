// For tests: links that pass on only crumbs, that break after so many bytes, or that lose all that
// is sent and say nothing.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_LINK_FAULTS_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_LINK_FAULTS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/collective/stream/link.h"

namespace tutti {

// The first `bytes` of the parts.
inline std::vector<iovec> FirstOf(std::span<const iovec> parts, size_t bytes) {
  std::vector<iovec> first;
  for (const iovec& part : parts) {
    if (bytes == 0) break;
    first.push_back(iovec{part.iov_base, std::min(part.iov_len, bytes)});
    bytes -= first.back().iov_len;
  }
  return first;
}

// Does what another link does, but for what a class that comes from it does otherwise.
class LinkOver : public Link {
 public:
  explicit LinkOver(std::unique_ptr<Link> link) : link_(std::move(link)) {}

  int64_t TrySend(std::span<const iovec> parts) override { return link_->TrySend(parts); }
  int64_t TryReceive(std::span<const iovec> parts) override { return link_->TryReceive(parts); }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    return link_->PrepareSleep(want_read, want_write, entry);
  }
  void EndSleep(const pollfd& entry) override { link_->EndSleep(entry); }
  std::string CloseReason() const override { return link_->CloseReason(); }
  bool is_near() const override { return link_->is_near(); }
  const char* kind() const override { return link_->kind(); }

 protected:
  const std::unique_ptr<Link> link_;
};

// Moves a random number of bytes at a time, at most `most`, and sometimes none.
class ChoppyLink final : public LinkOver {
 public:
  ChoppyLink(std::unique_ptr<Link> link, uint64_t seed, size_t most)
      : LinkOver(std::move(link)), random_(seed), most_(most) {}

  int64_t TrySend(std::span<const iovec> parts) override {
    const size_t bytes = random_() % (most_ + 1);
    return bytes == 0 ? 0 : link_->TrySend(FirstOf(parts, bytes));
  }
  int64_t TryReceive(std::span<const iovec> parts) override {
    const size_t bytes = random_() % (most_ + 1);
    return bytes == 0 ? 0 : link_->TryReceive(FirstOf(parts, bytes));
  }

 private:
  std::mt19937_64 random_;
  const size_t most_;
};

// Breaks for both sides once it has sent so many bytes, as the death of this side's process does.
class CutLink final : public Link {
 public:
  CutLink(std::unique_ptr<Link> link, size_t bytes) : link_(std::move(link)), left_(bytes) {}

  int64_t TrySend(std::span<const iovec> parts) override {
    if (!link_) return kClosed;
    const int64_t sent = left_ == 0 ? kClosed : link_->TrySend(FirstOf(parts, left_));
    if (sent > 0) left_ -= static_cast<size_t>(sent);
    if (left_ == 0) link_.reset();
    return sent;
  }
  int64_t TryReceive(std::span<const iovec> parts) override {
    return link_ ? link_->TryReceive(parts) : kClosed;
  }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    if (link_) return link_->PrepareSleep(want_read, want_write, entry);
    *entry = pollfd{-1, 0, 0};
    return false;
  }
  void EndSleep(const pollfd& entry) override {
    if (link_) link_->EndSleep(entry);
  }
  std::string CloseReason() const override { return "the test cut it"; }
  bool is_near() const override { return link_ && link_->is_near(); }
  const char* kind() const override { return "cut"; }

 private:
  std::unique_ptr<Link> link_;
  size_t left_;
};

// Loses what either side sends once this side has sent so many bytes, as a network does that drops
// the packets of one connection: nothing ends, and nobody is told.
class MuteLink final : public Link {
 public:
  MuteLink(std::unique_ptr<Link> link, size_t bytes) : link_(std::move(link)), left_(bytes) {}

  int64_t TrySend(std::span<const iovec> parts) override {
    if (left_ != 0) {
      const int64_t sent = link_->TrySend(FirstOf(parts, left_));
      if (sent > 0) left_ -= static_cast<size_t>(sent);
      return sent;
    }
    int64_t all = 0;
    for (const iovec& part : parts) all += static_cast<int64_t>(part.iov_len);
    return all;
  }
  int64_t TryReceive(std::span<const iovec> parts) override {
    return left_ == 0 ? 0 : link_->TryReceive(parts);
  }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    if (left_ != 0) return link_->PrepareSleep(want_read, want_write, entry);
    *entry = pollfd{-1, 0, 0};
    return true;
  }
  void EndSleep(const pollfd& entry) override {
    if (left_ != 0) link_->EndSleep(entry);
  }
  std::string CloseReason() const override { return link_->CloseReason(); }
  bool is_near() const override { return link_->is_near(); }
  const char* kind() const override { return link_->kind(); }

 private:
  const std::unique_ptr<Link> link_;
  size_t left_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_LINK_FAULTS_H_
