#include "core/cluster/resolve/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/base/clock.h"
#include "core/cluster/resolve/gce_cluster_resolver.h"
#include "core/cluster/resolve/kubernetes_cluster_resolver.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HttpDeadline InSeconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

TEST(HttpClient, EscapesWhatHasAMeaningInAddresses) {
  EXPECT_EQ(EscapeUrl("job-name=a b/c,~"), "job-name%3Da%20b%2Fc%2C~");
}

TEST(HttpClient, SaysWhomNobodyReachesAndWhatIsTooLate) {
  HttpRequest request;
  request.url = "http://127.0.0.1:1/secret-path";
  request.no_proxy = true;
  const Status unreached = AskService(request, InSeconds(20), "a test").status();
  if (unreached.code() == StatusCode::kFailedPrecondition) GTEST_SKIP() << unreached.message();
  EXPECT_EQ(unreached.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unreached.message()), HasSubstr("http://127.0.0.1:1 cannot be asked"));
  EXPECT_EQ(AskService(request, InSeconds(-1), "a test").status().code(),
            StatusCode::kDeadlineExceeded);
  request.url = "file:///etc/passwd";
  EXPECT_EQ(AskService(request, InSeconds(20), "a test").status().code(),
            StatusCode::kUnavailable);
}

// A port of loopback that takes connections and never answers.
class SilentServer {
 public:
  SilentServer() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(fd_, generic, size), 0);
    EXPECT_EQ(::listen(fd_, 4), 0);
    EXPECT_EQ(::getsockname(fd_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { ::close(fd_); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  const int fd_;
  int port_ = 0;
};

TEST(HttpClient, EndsWithTheCallThatAsks) {
  const SilentServer server;
  HttpRequest request;
  request.url = server.url();
  request.no_proxy = true;
  const auto ask = [&](const CallOptions& call) {
    const AskingScope asking(call, RealClock());
    return AskService(request, InSeconds(60), "a test").status();
  };
  const Status late = ask(CallOptions::WithTimeout(RealClock(), 200 * kMillisecondNs));
  if (late.code() == StatusCode::kFailedPrecondition) GTEST_SKIP() << late.message();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.message();
  const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  CallOptions call;
  call.cancellation = cancellation.get();
  std::thread other([&] { cancellation->Cancel(); });
  EXPECT_EQ(ask(call).code(), StatusCode::kCancelled);
  other.join();
}

TEST(KubernetesClusterResolver, ReadsLabelsAndRefusesOtherThings) {
  const auto labels = KubernetesClusterResolver::ParseLabels(
      R"({"ps": [], "worker": ["job-name=a", "job-name=b"]})", "labels");
  EXPECT_THAT(labels.value().at("worker"), ElementsAre("job-name=a", "job-name=b"));
  for (const char* text : {"3", "{", R"({"worker": "a"})", R"({"worker": [3]})"}) {
    const auto refused = KubernetesClusterResolver::ParseLabels(text, "labels");
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("labels is"));
  }
  KubernetesClusterResolver::Options options;
  options.port = 0;
  EXPECT_FALSE(KubernetesClusterResolver::Create(options).ok());
  options.port = 1;
  options.variables = [](const char*) -> const char* { return nullptr; };
  const auto outside = KubernetesClusterResolver::Create(options).value()->cluster_spec();
  EXPECT_EQ(outside.status().code(), StatusCode::kFailedPrecondition);
}

TEST(GceClusterResolver, NeedsAGroup) {
  GceClusterResolver::Options options;
  EXPECT_FALSE(GceClusterResolver::Create(options).ok());
  options.instance_group = "group";
  options.task_id = 3;
  const auto resolver = GceClusterResolver::Create(options).value();
  EXPECT_EQ(**resolver->task_type(), "worker");
  EXPECT_EQ(**resolver->task_id(), 3);
  options.port = 70'000;
  EXPECT_FALSE(GceClusterResolver::Create(options).ok());
}

}  // namespace
}  // namespace tutti
