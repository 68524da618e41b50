// Statistics for others: over HTTP, and summed over the ranks of a job.
#include "core/runtime/metrics_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "core/base/error.h"
#include "core/base/tick_clock.h"
#include "core/runtime/job_statistics.h"
#include "core/runtime/runtime.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

sockaddr_in LoopbackAt(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One that nobody has; it is free again when the socket is closed.
uint16_t FreePort(FileDescriptor* holder) {
  *holder = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = LoopbackAt(0);
  EXPECT_EQ(bind(holder->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(holder->get(), 1), 0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(holder->get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

std::string Ask(uint16_t port, const std::string& request) {
  const FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = LoopbackAt(port);
  const auto* const place = reinterpret_cast<const sockaddr*>(&address);
  if (connect(connection.get(), place, sizeof(address)) != 0) return "refused";
  EXPECT_EQ(send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> bytes;
  while (true) {
    const ssize_t got = recv(connection.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return answer;
    answer.append(bytes.data(), static_cast<size_t>(got));
  }
}

// So many elements, and one that failed.
void Measure(const Ref<StatsAggregator>& aggregator, int64_t rows) {
  LatencyRecord record(aggregator, RealClock(), "made", "made::elements", "made::failures");
  record.Add(rows, 1000);
  record.AddFailure();
}

Ref<Runtime> RuntimeWithPort(uint16_t port) {
  RuntimeOptions options;
  options.settings = {{"metrics_port", std::to_string(port)}};
  return Runtime::Create(options).value();
}

TEST(MetricsPort, GivesWhatAggregatorsHave) {
  FileDescriptor holder;
  const uint16_t port = FreePort(&holder);
  holder.Reset();
  const Ref<Runtime> runtime = RuntimeWithPort(port);
  const auto one = MakeRef<StatsAggregator>();
  const auto two = MakeRef<StatsAggregator>();
  ShowInMetrics(one);
  ShowInMetrics(two);
  Measure(one, 3);
  Measure(two, 4);
  const std::string answer = Ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                            HasSubstr("text/plain; version=0.0.4"),
                            HasSubstr("tutti_memory_bytes{pid=")));
  EXPECT_THAT(answer, AllOf(HasSubstr("name=\"made::elements\"} 3\n"),
                            HasSubstr("name=\"made::elements\"} 4\n")));
  const size_t about = answer.find("# TYPE tutti_dataset_total counter\n");
  EXPECT_NE(about, std::string::npos);
  EXPECT_EQ(answer.find("# TYPE tutti_dataset_total counter\n", about + 1), std::string::npos);
  EXPECT_THAT(Ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\n"));
  EXPECT_THAT(Ask(port, "GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port, "POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  for (const char* bad : {"\r\n\r\n", "hello\r\n\r\n", "GET /metrics\r\n\r\n",
                          "GET metrics HTTP/1.1\r\n\r\n", "GET /metrics SPDY/3\r\n\r\n"}) {
    EXPECT_THAT(Ask(port, bad), StartsWith("HTTP/1.1 400 ")) << bad;
  }
  EXPECT_THAT(Ask(port, "GET /" + std::string(9000, 'a')), StartsWith("HTTP/1.1 431 "));
  ASSERT_TRUE(runtime->Shutdown(CallOptions()).ok());
  EXPECT_EQ(Ask(port, "GET /metrics HTTP/1.1\r\n\r\n"), "refused");
}

TEST(MetricsPort, ATakenPortSaysSo) {
  FileDescriptor holder;
  const uint16_t port = FreePort(&holder);
  const Ref<Runtime> runtime = RuntimeWithPort(port);  // goes on without
  MetricsPort again;
  const Status taken = again.Start(*runtime, port);
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.message()),
              AllOf(HasSubstr("is taken by another process"), HasSubstr("TUTTI_METRICS_PORT")));
  EXPECT_TRUE(runtime->Shutdown(CallOptions()).ok());
}

TEST(JobStatistics, SumsWhatRanksBring) {
  const auto one = MakeRef<StatsAggregator>();
  const auto two = MakeRef<StatsAggregator>();
  Measure(one, 3);
  Measure(two, 4);
  const std::vector<Ref<Value>> parts = {one->Read().value(), two->Read().value(),
                                         MakeRef<StatsAggregator>()->Read().value()};
  const Result<Ref<Value>> sum = SumStatistics(parts);
  ASSERT_TRUE(sum.ok()) << sum.status().ToString();
  const auto number = [&](std::initializer_list<PathStep> path) {
    return sum.value()->Get(path).value()->leaf(0).tensor().item<int64_t>();
  };
  EXPECT_EQ(number({"counters", "made::elements"}), 7);
  EXPECT_EQ(number({"counters", "made::failures"}), 2);
  EXPECT_EQ(number({"histograms", "made", "count"}), 7);
  EXPECT_EQ(number({"ranks", 1, "counters", "made::elements"}), 4);
  EXPECT_EQ(SumStatistics(std::vector<Ref<Value>>{Value::OfTensor(Tensor::Scalar(int64_t{1}))})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
