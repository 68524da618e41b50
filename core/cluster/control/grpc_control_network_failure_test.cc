// How GrpcControlNetwork fails: what it says when a connection does not come about or breaks, and
// that strangers get nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/cluster/auth/job_certificate.h"
#include "core/cluster/control/grpc_library.h"
#include "core/cluster/sockets/socket_address.h"
#include "core/cluster/testing/grpc_control_network_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GrpcControlNetworkFailureTest = GrpcControlNetworkTest;

// A TLS client that shows the certificate of a job, or none; true when the server goes on to speak
// HTTP/2 with it.
bool GetsIn(const std::string& address, const JobSecret* secret) {
  const SocketAddress to = ResolveAddress(address)->front();
  FileDescriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), to.get(), to.length), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (secret != nullptr) {
    const JobCertificate own = *JobCertificate::Create(*secret);
    BIO* text = BIO_new_mem_buf(own.certificate_pem.data(), -1);
    X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    text = BIO_new_mem_buf(own.private_key_pem.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  const uint8_t protocols[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, protocols, sizeof(protocols));
  SSL* session = SSL_new(context);
  SSL_set_fd(session, socket.get());
  char byte;
  const bool gets_in = SSL_connect(session) == 1 && SSL_read(session, &byte, 1) == 1;
  SSL_free(session);
  SSL_CTX_free(context);
  return gets_in;
}

TEST_F(GrpcControlNetworkFailureTest, AnAcceptorMayRefuse) {
  const std::string address = Listen(Make(), "127.0.0.1:0", true);
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("does not take the connection"));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenNothingListens) {
  const std::string address = LocalSocketAddress(
      *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front()))->ToString();
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("nothing listens at " + address + " (connection refused)"));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenTheHostIsUnknown) {
  const Status status = WhyNot("no-such-host.invalid:2222");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("\"no-such-host.invalid\" cannot be found"));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenNoAnswerComes) {
  // A queue of connections that is full drops every further one, like a firewall.
  const FileDescriptor full = *MakeStreamSocket(ResolveAddress("127.0.0.1:0")->front());
  const SocketAddress any = ResolveAddress("127.0.0.1:0")->front();
  ASSERT_EQ(bind(full.get(), any.get(), any.length), 0);
  ASSERT_EQ(listen(full.get(), 0), 0);
  const SocketAddress to = *LocalSocketAddress(full);
  std::vector<FileDescriptor> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(*MakeStreamSocket(to));
    connect(waiting.back().get(), to.get(), to.length);
  }
  const Status status = WhyNot(to.ToString(), 50 * kMillisecondNs);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("no answer from " + to.ToString()));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenSomethingTakesConnectionsAndIsSilent) {
  const FileDescriptor mute = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  const Status status = WhyNot(LocalSocketAddress(mute)->ToString(), 500 * kMillisecondNs);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), ::testing::AnyOf(HasSubstr("takes connections and does not answer"),
                                             HasSubstr("no answer from")));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenNoJobListensThere) {
  const FileDescriptor server = *MakeListeningSocket(ResolveAddress("127.0.0.1:0")->front());
  std::atomic<bool> stop{false};
  std::thread answers([&] {
    while (!stop) {
      pollfd entry{server.get(), POLLIN, 0};
      if (poll(&entry, 1, 5) != 1) continue;
      const FileDescriptor client(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char request[1024];
      if (recv(client.get(), request, sizeof(request), 0) <= 0) continue;
      const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
      send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
  const Status status = WhyNot(LocalSocketAddress(server)->ToString());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("is no worker of a Tutti job: it does not speak TLS"));
  stop = true;
  answers.join();
}

TEST_F(GrpcControlNetworkFailureTest, NamesBothSecretsOfTwoJobs) {
  const std::string address = Listen(Make(other_secret_));
  const Status status = WhyNot(address);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(Text(status),
              AllOf(HasSubstr("the worker at " + address + " belongs to the job with the secret "
                              "fingerprint " + other_secret_.Fingerprint()),
                    HasSubstr("this process has " + secret_.Fingerprint()),
                    HasSubstr("set TUTTI_JOB_SECRET")));
}

TEST_F(GrpcControlNetworkFailureTest, StrangersGetNothingAndDisturbNobody) {
  ::testing::internal::CaptureStderr();
  const std::string address = Listen(Make());
  const Pair pair = ConnectTo(Make(), address);
  const SocketAddress to = ResolveAddress(address)->front();
  const std::string garbage[] = {
      "", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(100'000, '\xff'),
      std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(100, '\0'),
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x'),
  };
  std::vector<FileDescriptor> strangers;
  for (int round = 0; round < 5; ++round) {
    for (const std::string& text : garbage) {
      FileDescriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(socket.get(), to.get(), to.length), 0);
      send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      // Some hang up, some stay.
      if (round % 2 == 0) strangers.push_back(std::move(socket));
    }
  }
  EXPECT_FALSE(GetsIn(address, nullptr));
  EXPECT_FALSE(GetsIn(address, &other_secret_));
  EXPECT_TRUE(GetsIn(address, &secret_));  // or the two above would prove nothing

  pair.connection->Send("still here");
  EXPECT_TRUE(accepted_.Await([&] { return pair.other->messages.size() == 1; }));
  ConnectTo(Make(), address);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Something in the place of gRPC's own class. All other tests show that this one's connections are
// served.
class NoTakerOfGrpc final : public GrpcConnectionTaker {
 public:
  void Take(int, int, grpc_byte_buffer*) override {}
};

TEST_F(GrpcControlNetworkFailureTest, AnUnknownClassOfGrpcIsAnErrorBeforeAnythingIsHandedToIt) {
  const NoTakerOfGrpc other;
  const Status status = GrpcLibrary::CheckTaker(&other);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Text(status), AllOf(HasSubstr("NoTakerOfGrpc"),
                                  HasSubstr("expected ExternalConnectionHandler")));
}

TEST_F(GrpcControlNetworkFailureTest, SaysWhenThePortIsInUse) {
  const std::string address = Listen(Make());
  const Result<std::string> second =
      Make()->Listen(address, std::make_unique<DiaryAcceptor>(&accepted_, false));
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(second.status()),
              AllOf(HasSubstr("worker 7 cannot listen at " + address),
                    HasSubstr("at 127.0.0.1 is in use by another process; stop that one")));
  const Result<std::string> elsewhere =
      Make()->Listen("192.0.2.1:0", std::make_unique<DiaryAcceptor>(&accepted_, false));
  EXPECT_EQ(elsewhere.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(elsewhere.status()), HasSubstr("192.0.2.1 is not an address of this machine"));
}

TEST_F(GrpcControlNetworkFailureTest, ABrokenConnectionIsToldToBothSides) {
  Relay relay(Listen(Make()));
  const Pair pair = ConnectTo(Make(), relay.address());
  relay.Cut();
  ASSERT_TRUE(connected_.Await([&] { return pair.entry->closed; }));
  ASSERT_TRUE(accepted_.Await([&] { return pair.other->closed; }));
  EXPECT_EQ(pair.entry->reason.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(pair.entry->reason),
              HasSubstr("the connection to " + relay.address() + " broke"));
  EXPECT_EQ(pair.other->reason.code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti
