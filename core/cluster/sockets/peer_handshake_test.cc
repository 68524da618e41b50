#include "core/cluster/sockets/peer_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

PeerHandshake::Options With(const char* secret, const char* peer) {
  PeerHandshake::Options options;
  options.secret = *JobSecret::FromText(secret);
  options.peer = peer;
  return options;
}

PeerHandshake::Options Ours(const char* peer) { return With("0123456789abcdef", peer); }
PeerHandshake::Options Theirs(const char* peer) { return With("another-job-secret", peer); }

const PeerPurpose kPurpose{"group 7", 1, 0};

Status Anybody(const PeerPurpose&) { return OkStatus(); }

// Gives `to` all that it wants of `bytes`; what it leaves stays there.
Status Feed(PeerHandshake* to, std::string* bytes) {
  while (!bytes->empty() && to->wanted() > 0) {
    const std::string part = bytes->substr(0, to->wanted());
    bytes->erase(0, part.size());
    Status status = to->Consume(part);
    if (!status.ok()) return status;
  }
  return OkStatus();
}

struct Outcome {
  Status connector;
  Status acceptor;
};

// Lets both talk until nobody has anything to say.
Outcome Talk(PeerHandshake* connector, PeerHandshake* acceptor) {
  Outcome outcome;
  for (int turn = 0; turn < 10; ++turn) {
    std::string to_acceptor = connector->TakeOutput();
    std::string to_connector = acceptor->TakeOutput();
    if (to_acceptor.empty() && to_connector.empty()) break;
    if (outcome.acceptor.ok()) outcome.acceptor = Feed(acceptor, &to_acceptor);
    if (outcome.connector.ok()) outcome.connector = Feed(connector, &to_connector);
  }
  return outcome;
}

// Both have greeted each other, and the connector has not proved itself yet.
void Greet(PeerHandshake* connector, PeerHandshake* acceptor) {
  std::string bytes = connector->TakeOutput();
  ASSERT_TRUE(Feed(acceptor, &bytes).ok());
  bytes = acceptor->TakeOutput();
  ASSERT_TRUE(Feed(connector, &bytes).ok());
}

std::string Text(const Status& status) { return std::string(status.message()); }

TEST(PeerHandshake, LetsMembersOfAJobIn) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  const Outcome outcome = Talk(&connector, &acceptor);
  EXPECT_TRUE(outcome.connector.ok()) << outcome.connector.ToString();
  EXPECT_TRUE(outcome.acceptor.ok()) << outcome.acceptor.ToString();
  EXPECT_TRUE(connector.done());
  EXPECT_TRUE(acceptor.done());
  EXPECT_EQ(acceptor.purpose().name, "group 7");
  EXPECT_EQ(acceptor.purpose().from, 1);
  EXPECT_EQ(acceptor.purpose().to, 0);
  EXPECT_THAT(acceptor.peer_build(), HasSubstr("tutti"));
}

TEST(PeerHandshake, LeavesWhatFollowsInTheStream) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  Greet(&connector, &acceptor);
  std::string bytes = connector.TakeOutput();
  ASSERT_TRUE(Feed(&acceptor, &bytes).ok());
  bytes = acceptor.TakeOutput() + "tensor data";
  ASSERT_TRUE(Feed(&connector, &bytes).ok());
  EXPECT_TRUE(connector.done());
  EXPECT_EQ(bytes, "tensor data");
}

TEST(PeerHandshake, TakesByteByByte) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  for (int turn = 0; turn < 4; ++turn) {
    for (const char c : connector.TakeOutput()) {
      ASSERT_TRUE(acceptor.Consume(std::string_view(&c, 1)).ok());
    }
    for (const char c : acceptor.TakeOutput()) {
      ASSERT_TRUE(connector.Consume(std::string_view(&c, 1)).ok());
    }
  }
  EXPECT_TRUE(connector.done() && acceptor.done());
}

TEST(PeerHandshake, NamesBothSecretsToWhoAcceptsAndToAStrangerItsOwnAlone) {
  auto connector = PeerHandshake::Connector(Theirs("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  std::string hello = connector.TakeOutput();
  const Status accepting = Feed(&acceptor, &hello);
  std::string answer = acceptor.TakeOutput();
  const std::string ours = Ours("").secret.Fingerprint();
  const std::string theirs = Theirs("").secret.Fingerprint();
  EXPECT_THAT(answer, Not(HasSubstr(ours)));
  const Status connecting = Feed(&connector, &answer);
  for (const Status& status : {accepting, connecting}) {
    EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
    EXPECT_THAT(Text(status), AllOf(HasSubstr(theirs), HasSubstr("TUTTI_JOB_SECRET")));
  }
  EXPECT_THAT(Text(accepting), HasSubstr(ours));
  EXPECT_THAT(Text(connecting), HasSubstr("worker 0 refused the connection: "));
}

TEST(PeerHandshake, DoesNotBelieveAFingerprint) {
  // Somebody who has seen a handshake knows the fingerprint and not the secret.
  auto connector = PeerHandshake::Connector(Theirs("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  std::string hello = connector.TakeOutput();
  const std::string theirs = Theirs("").secret.Fingerprint();
  const size_t at = hello.find(theirs);
  ASSERT_NE(at, std::string::npos);
  hello.replace(at, theirs.size(), Ours("").secret.Fingerprint());
  ASSERT_TRUE(Feed(&acceptor, &hello).ok());
  acceptor.TakeOutput();
  // A PROOF frame of its own making.
  std::string proof("TUTTIpr1\x01\0\0\0\x02\x20\0", 15);
  proof += std::string(32, 'p');
  const Status status = Feed(&acceptor, &proof);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(Text(status), HasSubstr("does not know the job secret"));
  EXPECT_FALSE(acceptor.done());
}

TEST(PeerHandshake, NamesBothVersionsToBothSides) {
  auto newer = Ours("worker 0");
  newer.major = 2;
  newer.minor = 5;
  auto connector = PeerHandshake::Connector(newer, kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  Outcome outcome = Talk(&connector, &acceptor);
  for (const Status& status : {outcome.connector, outcome.acceptor}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), HasSubstr("the connecting process speaks version 2.5 of the peer "
                                        "protocol, the accepting one version 1.0"));
  }
  auto old = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto new_acceptor = PeerHandshake::Acceptor(newer, 0, &Anybody, KernelRandom());
  outcome = Talk(&old, &new_acceptor);
  EXPECT_THAT(Text(outcome.connector), HasSubstr("version 1.0 of the peer protocol, the accepting "
                                                 "one version 2.5"));
}

TEST(PeerHandshake, AgreesOnTheSmallerMinor) {
  auto newer = Ours("worker 0");
  newer.minor = 9;
  auto connector = PeerHandshake::Connector(newer, kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  ASSERT_TRUE(Talk(&connector, &acceptor).connector.ok());
  EXPECT_EQ(connector.minor(), PeerHandshake::kMinor);
  EXPECT_EQ(acceptor.minor(), PeerHandshake::kMinor);
}

TEST(PeerHandshake, SaysWhenItIsAnotherWorker) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 5, &Anybody, KernelRandom());
  const Outcome outcome = Talk(&connector, &acceptor);
  EXPECT_EQ(outcome.connector.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(outcome.connector), HasSubstr("this is worker 5"));
  EXPECT_THAT(Text(outcome.connector), HasSubstr("wanted worker 0 for \"group 7\""));
}

TEST(PeerHandshake, CarriesTheReasonOfARefusal) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto refuse = [](const PeerPurpose& purpose) {
    return NotFound("nobody waits for {}", purpose.name);
  };
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, refuse, KernelRandom());
  const Outcome outcome = Talk(&connector, &acceptor);
  EXPECT_EQ(outcome.connector.code(), StatusCode::kNotFound);
  EXPECT_EQ(Text(outcome.connector), "worker 0 refused the connection: nobody waits for group 7");
}

// Turns a message into a refusal: the kind is the byte before the last two of the header.
void Damage(std::string* message) { (*message)[PeerHandshake::kHeaderBytes - 3] = 3; }

TEST(PeerHandshake, AProofThatDamageTurnsIntoARefusalIsNoReason) {
  // Proofs differ from one handshake to the next.
  for (int round = 0; round < 25; ++round) {
    auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
    auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
    Greet(&connector, &acceptor);
    std::string bytes = connector.TakeOutput();
    ASSERT_TRUE(Feed(&acceptor, &bytes).ok());
    bytes = acceptor.TakeOutput();
    Damage(&bytes);
    const Status status = Feed(&connector, &bytes);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(Text(status), HasSubstr("worker 0 sent a refusal of 32 bytes that is no text"));
  }
}

TEST(PeerHandshake, WhoConnectsRefusesNothing) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  Greet(&connector, &acceptor);
  std::string bytes = connector.TakeOutput();
  Damage(&bytes);
  const Status status = Feed(&acceptor, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("worker 1 sent a handshake message of kind 3 out of turn"));
}

TEST(PeerHandshake, ARecordedHandshakeProvesNothing) {
  auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
  auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
  std::string hello = connector.TakeOutput();
  std::string recorded = hello;
  ASSERT_TRUE(Feed(&acceptor, &hello).ok());
  std::string answer = acceptor.TakeOutput();
  std::string recorded_answer = answer;
  ASSERT_TRUE(Feed(&connector, &answer).ok());
  std::string proof = connector.TakeOutput();
  recorded += proof;
  ASSERT_TRUE(Feed(&acceptor, &proof).ok());
  recorded_answer += acceptor.TakeOutput();

  auto victim = PeerHandshake::Acceptor(Ours("stranger"), 0, &Anybody, KernelRandom());
  const Status status = Feed(&victim, &recorded);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_FALSE(victim.done());
  // Nor does the acceptor's side of it.
  auto caller = PeerHandshake::Connector(Ours("stranger"), kPurpose, KernelRandom());
  EXPECT_FALSE(Feed(&caller, &recorded_answer).ok());
  EXPECT_FALSE(caller.done());
}

TEST(PeerHandshake, APeerCannotProveItselfToItself) {
  auto connector = PeerHandshake::Connector(Ours("mirror"), kPurpose, KernelRandom());
  std::string hello = connector.TakeOutput();
  const Status status = Feed(&connector, &hello);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("wrong role"));
}

TEST(PeerHandshake, BoundsWhatItReads) {
  auto acceptor = PeerHandshake::Acceptor(Ours("stranger"), 0, &Anybody, KernelRandom());
  std::string frame("TUTTIpr1\x01\0\0\0\x01\xff\xff", 15);
  const Status status = Feed(&acceptor, &frame);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("65535 bytes; the limit is 1024"));
}

TEST(PeerHandshake, SaysWhatAStrangerBeganWith) {
  auto acceptor = PeerHandshake::Acceptor(Ours("10.9.8.7:5"), 0, &Anybody, KernelRandom());
  std::string request = "GET / HTTP/1.1\r\n\r\n";
  const Status status = Feed(&acceptor, &request);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("it began with \"GET / HT\""));
  EXPECT_TRUE(acceptor.TakeOutput().empty());
}

TEST(PeerHandshake, SurvivesGarbageAndDamage) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : KernelRandom().Next();
  SCOPED_TRACE(::testing::Message() << "TUTTI_TEST_SEED=" << seed);
  SplitMix64 random(seed);
  int completed = 0;
  SeededRuns runs("handshakes", 3000);
  while (runs.Next()) {
    auto connector = PeerHandshake::Connector(Ours("worker 0"), kPurpose, KernelRandom());
    auto acceptor = PeerHandshake::Acceptor(Ours("worker 1"), 0, &Anybody, KernelRandom());
    Status status;
    bool damaged = false;
    for (int turn = 0; turn < 4 && status.ok(); ++turn) {
      PeerHandshake& from = turn % 2 == 0 ? connector : acceptor;
      PeerHandshake& to = turn % 2 == 0 ? acceptor : connector;
      std::string bytes = from.TakeOutput();
      if (bytes.empty()) break;  // it waits for the rest of what was damaged
      const std::string original = bytes;
      switch (random.Next() % 8) {
        case 0:  // one bit
          bytes[random.Next() % bytes.size()] ^= static_cast<char>(1 << (random.Next() % 8));
          break;
        case 1:  // an end that is too early, then nonsense
          bytes.resize(random.Next() % bytes.size());
          bytes.push_back(static_cast<char>(original[bytes.size()] ^ 1));
          while (bytes.size() < 2048) bytes.push_back(static_cast<char>(random.Next()));
          break;
        default:
          break;
      }
      damaged = damaged || bytes != original;
      status = Feed(&to, &bytes);
    }
    if (!damaged) {
      EXPECT_TRUE(connector.done() && acceptor.done());
      ++completed;
    } else {
      // Damage in the last message harms the connector alone; all other damage harms both.
      EXPECT_FALSE(connector.done());
      EXPECT_LE(acceptor.wanted(), PeerHandshake::kHeaderBytes + PeerHandshake::kMaxBodyBytes);
    }
  }
  EXPECT_GT(completed, 0);
}

}  // namespace
}  // namespace tutti
