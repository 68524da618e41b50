// FlowWatch: does anything still come back on a TCP connection? A firewall that forgets one drops
// its packets without a word, while both peers live. The kernel's keepalive notices that on idle
// connections only: where data waits to be acknowledged on both sides, it goes on sending it for a
// quarter of an hour before it gives up.
//
// TCP_USER_TIMEOUT is no way out: it counts the probes of a window that a slow peer, or a stopped
// one, has closed, although the peer's kernel answers every one of them. So we look ourselves:
// dead is a connection on which something is due, which was sent again several times, and for which
// no acknowledgement of any kind has come for the whole time. The kernel of a peer that is slow,
// stopped or traced acknowledges; only its end, or that of the path, ends that.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_FLOW_WATCH_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_FLOW_WATCH_H_

#include <cstdint>

#include "core/base/clock.h"

namespace tutti {

class FlowWatch {
 public:
  // As long as keepalive takes on an idle connection.
  static constexpr int64_t kLimitNs = 30 * kSecondNs;
  // How often it is worth looking.
  static constexpr int64_t kIntervalNs = kSecondNs;
  // So many repetitions must have gone unanswered.
  static constexpr uint32_t kUnanswered = 2;

  // What TCP_INFO says of a connection.
  struct Facts {
    bool due = false;             // data was sent, or probes of a closed window, and not answered
    uint32_t repeated = 0;        // packets that were sent again, since the connection began
    uint32_t probes = 0;          // of a closed window or an idle connection, without an answer
    int64_t last_answer_ns = 0;   // when the last acknowledgement came
  };

  explicit FlowWatch(int64_t limit_ns = kLimitNs) : limit_ns_(limit_ns) {}

  // True when the connection is dead by what is known at `now_ns`.
  bool IsDead(const Facts& facts, int64_t now_ns);

 private:
  const int64_t limit_ns_;
  int64_t last_answer_ns_ = 0;
  int64_t due_since_ns_ = -1;     // the first look since the last answer that found something due
  uint32_t repeated_before_ = 0;  // by that look
};

// False where the socket is no TCP connection.
bool ReadFlowFacts(int socket, int64_t now_ns, FlowWatch::Facts* facts);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_FLOW_WATCH_H_
