#include "core/runtime/metrics_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/base/text.h"
#include "core/cluster/job/cluster.h"
#include "core/runtime/runtime.h"

namespace tutti {
namespace {

constexpr int64_t kRequestNs = 2 * kSecondNs;
constexpr size_t kMostRequestBytes = 8 << 10;
constexpr size_t kMostShown = 1024;

// Never destroyed.
struct ShownAggregators {
  std::atomic<bool> wanted{std::getenv("TUTTI_METRICS_PORT") != nullptr};
  std::mutex mutex;  // guards all
  std::deque<Ref<StatsAggregator>> all;
};

ShownAggregators& Shown() {
  static ShownAggregators* const shown = new ShownAggregators();
  return *shown;
}

// The lines of several texts in groups by the metric, each of which has its description once.
class MetricLines {
 public:
  // `label`, which ends in a comma, comes before the labels of each sample.
  void Add(std::string_view text, const std::string& label) {
    std::string* group = &groups_[""];
    for (const std::string& line : Split(text, '\n')) {
      if (line.empty()) continue;
      if (line.starts_with("# ")) {
        const size_t begin = line.find(' ', 2) + 1;
        const std::string name = line.substr(begin, line.find(' ', begin) - begin);
        group = &groups_[name];
        std::string& about = about_[name];
        if (about.find(line) == std::string::npos) about += line + "\n";
        continue;
      }
      const size_t brace = line.find('{');
      *group += line.substr(0, brace + 1) + label + line.substr(brace + 1) + "\n";
    }
  }

  std::string text() const {
    std::string text;
    for (const auto& [name, lines] : groups_) {
      const auto about = about_.find(name);
      if (about != about_.end()) text += about->second;
      text += lines;
    }
    return text;
  }

 private:
  std::map<std::string, std::string> groups_;
  std::map<std::string, std::string> about_;
};

std::string MetricsText(Runtime& runtime) {
  std::vector<Ref<StatsAggregator>> all;
  {
    std::lock_guard lock(Shown().mutex);
    all.assign(Shown().all.begin(), Shown().all.end());
  }
  std::string label;
  if (const Ref<Cluster> cluster = runtime.seat().current()) {
    label = Format("worker=\"{}\",", cluster->worker());
  }
  std::string text = Format(
      "# HELP tutti_memory_bytes What tensors and buffers take.\n# TYPE tutti_memory_bytes gauge\n"
      "tutti_memory_bytes{{{}pid=\"{}\"}} {}\n",
      label, getpid(), runtime.memory().used_bytes());
  // Aggregators may have histograms of one name, which are told apart.
  MetricLines lines;
  for (size_t i = 0; i < all.size(); ++i) {
    lines.Add(all[i]->ToPrometheus(), Format("{}aggregator=\"{}\",", label, i));
  }
  return text + lines.text();
}

void SendAll(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // it has gone, or takes nothing
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string HttpAnswer(const char* status, const char* more, std::string_view body) {
  return Format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n{}"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, more, body.size(), body);
}

}  // namespace

void ShowInMetrics(const Ref<StatsAggregator>& aggregator) {
  ShownAggregators& shown = Shown();
  if (!shown.wanted.load(std::memory_order_relaxed)) return;
  Ref<StatsAggregator> former;  // given up after the lock
  std::lock_guard lock(shown.mutex);
  shown.all.push_back(aggregator);
  if (shown.all.size() <= kMostShown) return;
  former = std::move(shown.all.front());
  shown.all.pop_front();
}

std::string AnswerMetricsRequest(std::string_view request, const std::string& text) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::vector<std::string> words = Split(line, ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.") || !words[1].starts_with("/")) {
    return HttpAnswer("400 Bad Request", "", "expected: GET /metrics HTTP/1.1\n");
  }
  if (words[0] != "GET" && words[0] != "HEAD") {
    return HttpAnswer("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "use GET\n");
  }
  const std::string path = words[1].substr(0, words[1].find('?'));
  if (path != "/metrics" && path != "/") {
    return HttpAnswer("404 Not Found", "", "there is /metrics here\n");
  }
  std::string answer = HttpAnswer("200 OK", "", text);
  if (words[0] == "HEAD") answer.resize(answer.find("\r\n\r\n") + 4);
  return answer;
}

MetricsPort::~MetricsPort() = default;

Status MetricsPort::Start(Runtime& runtime, uint16_t port) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  const auto fails = [&](std::string_view why) {
    return Unavailable(
               "the setting metrics_port is {}, and 127.0.0.1:{} {}: this process shows no "
               "metrics; give each process a port of its own (TUTTI_METRICS_PORT), or 0 for none",
               port, port, why)
        .With("port", int64_t{port});
  };
  if (!listener || !stop ||
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return fails(Format("cannot be opened ({})", std::strerror(errno)));
  }
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 16) != 0) {
    return fails(errno == EADDRINUSE ? "is taken by another process"
                                     : Format("cannot be opened ({})", std::strerror(errno)));
  }
  listener_ = std::move(listener);
  stop_ = std::move(stop);
  Result<Thread> thread =
      runtime.StartThread("tutti-metrics", [this, &runtime] { Serve(runtime); });
  if (!thread.ok()) return fails(Format("has no thread ({})", thread.status().message()));
  thread_ = std::move(thread).value();
  Shown().wanted.store(true, std::memory_order_relaxed);
  return OkStatus();
}

Status MetricsPort::Stop(const CallOptions& options) {
  if (!thread_.joinable()) return OkStatus();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = write(stop_.get(), &one, sizeof(one));
  TUTTI_RETURN_IF_ERROR(thread_.Join(options));
  thread_ = Thread();
  listener_.Reset();
  stop_.Reset();
  return OkStatus();
}

void MetricsPort::Serve(Runtime& runtime) {
  while (true) {
    std::array<pollfd, 2> waits = {{{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if ((waits[1].revents & POLLIN) != 0) return;
    if ((waits[0].revents & POLLIN) == 0) continue;
    const FileDescriptor connection(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      Answer(runtime, connection.get());
    } else if (errno == EMFILE || errno == ENFILE) {
      // Whoever waits will be there when there are descriptors again.
      std::array<pollfd, 1> stop = {{{stop_.get(), POLLIN, 0}}};
      poll(stop.data(), stop.size(), 100);
    }
  }
}

void MetricsPort::Answer(Runtime& runtime, int connection) {
  const int64_t end_ns = RealClock().NowNs() + kRequestNs;
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() >= kMostRequestBytes) {
      SendAll(connection, HttpAnswer("431 Request Header Fields Too Large", "",
                                     "a request has at most 8 KiB here\n"));
      return;
    }
    const int64_t left_ns = end_ns - RealClock().NowNs();
    std::array<pollfd, 2> waits = {{{connection, POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    const int left_ms = static_cast<int>(left_ns / 1'000'000) + 1;
    const int ready = left_ns <= 0 ? 0 : poll(waits.data(), waits.size(), left_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      SendAll(connection, HttpAnswer("408 Request Timeout", "", "a request has 2 s here\n"));
      return;
    }
    if ((waits[1].revents & POLLIN) != 0) return;
    std::array<char, 2048> bytes;
    const ssize_t got = recv(connection, bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return;
    request.append(bytes.data(), static_cast<size_t>(got));
  }
  // Blocking from here on, but not for long.
  const timeval limit = {static_cast<time_t>(kRequestNs / kSecondNs), 0};
  (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const int flags = fcntl(connection, F_GETFL);
  (void)fcntl(connection, F_SETFL, flags & ~O_NONBLOCK);
  SendAll(connection, AnswerMetricsRequest(request, MetricsText(runtime)));
}

}  // namespace tutti
