#include "core/collective/stream/flow_watch.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tutti {
namespace {

// The kernel counts in ticks, and from its answer to our clock some time passes: an answer is new
// when it is later by more than that.
constexpr int64_t kToleranceNs = 50 * kMillisecondNs;

}  // namespace

bool FlowWatch::IsDead(const Facts& facts, int64_t now_ns) {
  const bool answered = facts.last_answer_ns > last_answer_ns_ + kToleranceNs;
  if (answered) last_answer_ns_ = facts.last_answer_ns;
  if (!facts.due) {
    due_since_ns_ = -1;
    return false;
  }
  if (answered || due_since_ns_ < 0) {
    due_since_ns_ = now_ns;
    repeated_before_ = facts.repeated;
    return false;
  }
  return now_ns - due_since_ns_ >= limit_ns_ &&
         (facts.repeated - repeated_before_ >= kUnanswered || facts.probes >= kUnanswered);
}

bool ReadFlowFacts(int socket, int64_t now_ns, FlowWatch::Facts* facts) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  facts->due = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  facts->repeated = info.tcpi_total_retrans;
  facts->probes = info.tcpi_probes;
  facts->last_answer_ns = now_ns - int64_t{info.tcpi_last_ack_recv} * kMillisecondNs;
  return true;
}

}  // namespace tutti
