// MetricsPort: what the process measures, as Prometheus text over HTTP on 127.0.0.1: the
// aggregators of its datasets (dataset/graph/stats_aggregator.h), and the bytes that its tensors
// take.
//
// One thread answers one connection after the other. A request has 2 s and 8 KiB; GET /metrics and
// GET / are answered with the text, other paths with 404, other methods with 405, and what is no
// request with 400. Nobody else than this machine's processes can connect, and nothing can be
// changed here.
#ifndef TUTTI_CORE_RUNTIME_METRICS_PORT_H_
#define TUTTI_CORE_RUNTIME_METRICS_PORT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/dataset/graph/stats_aggregator.h"

namespace tutti {

class Runtime;

// What aggregators of this process are shown, until the process ends; of more than 1024 the last
// ones. Where no port is set (the variable TUTTI_METRICS_PORT, or one that was started), nothing is
// kept. Threads: any.
void ShowInMetrics(const Ref<StatsAggregator>& aggregator);

class MetricsPort {
 public:
  MetricsPort() = default;
  ~MetricsPort();
  MetricsPort(const MetricsPort&) = delete;
  MetricsPort& operator=(const MetricsPort&) = delete;

  // UNAVAILABLE, naming the port and what to do, where it is taken. `runtime` outlives the thread.
  Status Start(Runtime& runtime, uint16_t port);
  // Nothing where it was not started. The thread ends within the time of one request.
  Status Stop(const CallOptions& options);

 private:
  void Serve(Runtime& runtime);
  void Answer(Runtime& runtime, int connection);

  FileDescriptor listener_;
  FileDescriptor stop_;  // an eventfd
  Thread thread_;
};

// The whole answer to a request: its first bytes, up to the empty line. For tests, too.
std::string AnswerMetricsRequest(std::string_view request, const std::string& text);

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_METRICS_PORT_H_
