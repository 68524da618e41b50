// TcpLink: a link over a connected stream socket, TCP between machines or whatever a test has.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_TCP_LINK_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_TCP_LINK_H_

#include <span>
#include <string>

#include "core/base/file_descriptor.h"
#include "core/collective/stream/flow_watch.h"
#include "core/collective/stream/link.h"

namespace tutti {

class TcpLink final : public Link {
 public:
  // Sets what the socket still lacks: non-blocking, and on TCP no delay of small messages, and
  // probes of an idle connection, which find after 30 s that its packets vanish. Where data is on
  // its way, a FlowWatch finds it within `limit_ns`.
  explicit TcpLink(FileDescriptor socket, int64_t limit_ns = FlowWatch::kLimitNs);

  int64_t TrySend(std::span<const iovec> parts) override;
  int64_t TryReceive(std::span<const iovec> parts) override;
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override;
  int64_t SleepLimitNs() const override { return FlowWatch::kIntervalNs; }
  void EndSleep(const pollfd& entry) override;
  bool is_near() const override { return is_near_; }
  std::string CloseReason() const override;
  const char* kind() const override { return "tcp"; }

 private:
  void Look();

  const FileDescriptor socket_;
  const bool is_near_;
  const int64_t look_interval_ns_;
  FlowWatch watch_;
  int64_t next_look_ns_ = 0;
  bool is_dead_ = false;  // says the watch
  int receive_error_ = 0;       // errno that ended it; 0 for an orderly end
  bool hung_up_unread_ = false;  // poll said so while nobody wanted to read
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_TCP_LINK_H_
