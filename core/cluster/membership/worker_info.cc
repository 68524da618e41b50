#include "core/cluster/membership/worker_info.h"

#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"

namespace tutti {

std::string DescribeWorker(const WorkerInfo& info, const std::string& from_host) {
  if (info.host.empty() || info.host == from_host) {
    return Format("worker {} (pid {})", info.worker, info.pid);
  }
  return Format("worker {} (pid {} on {})", info.worker, info.pid, info.host);
}

Status BlameWorker(int64_t worker, std::string message) {
  return Status(StatusCode::kUnavailable, std::move(message))
      .With("rank", worker)
      .With("worker", worker);
}

std::string DescribeSilence(std::string_view who, int64_t duration_ns) {
  return Format(
      "{} has been silent for {:.1f} s; it may be stopped, overloaded or cut off from the network "
      "(TUTTI_SILENCE_LIMIT says how long is too long)",
      who, static_cast<double>(duration_ns) / static_cast<double>(kSecondNs));
}

}  // namespace tutti
