#include "core/cluster/sockets/peer_handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text.h"

namespace tutti {
namespace {

constexpr std::string_view kMagic = "TUTTIpr1";
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofBytes = 32;
constexpr size_t kFingerprintBytes = 16;
constexpr size_t kMaxBuildBytes = 64;
constexpr size_t kMaxRefusalBytes = 900;

template <typename T>
void Put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

// Reads integers and texts off a body; ok() turns false when there is too little.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}

  template <typename T>
  T Take() {
    uint64_t value = 0;
    const std::string_view bytes = TakeBytes(sizeof(T));
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    return static_cast<T>(value);
  }
  std::string_view TakeBytes(size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// What a stranger sent, fit for a message.
std::string Printable(std::string_view text) {
  std::string result;
  for (const char c : text) result += c >= 0x20 && c < 0x7f ? c : '?';
  return result;
}

std::string HeaderOf(uint16_t major, uint16_t minor, uint8_t kind, size_t body_bytes) {
  std::string header(kMagic);
  Put(&header, major);
  Put(&header, minor);
  Put(&header, kind);
  Put(&header, static_cast<uint16_t>(body_bytes));
  return header;
}

std::string RefusalBody(const Status& reason) {
  std::string body;
  Put(&body, static_cast<uint8_t>(reason.code()));
  body += reason.message().substr(0, kMaxRefusalBytes);
  return body;
}

}  // namespace

PeerHandshake::PeerHandshake(Role role, const Options& options, Random& random)
    : role_(role), options_(options), nonce_(kNonceBytes, '\0') {
  assert(!options_.secret.empty());
  random.Fill(nonce_.data(), nonce_.size());
}

PeerHandshake PeerHandshake::Connector(const Options& options, const PeerPurpose& purpose,
                                       Random& random) {
  assert(purpose.name.size() <= kMaxPurposeBytes);
  PeerHandshake handshake(Role::kConnector, options, random);
  handshake.purpose_ = purpose;
  handshake.connector_hello_ = handshake.HelloFrame();
  handshake.output_ = handshake.connector_hello_;
  return handshake;
}

PeerHandshake PeerHandshake::Acceptor(const Options& options, int64_t worker, Check check,
                                      Random& random) {
  PeerHandshake handshake(Role::kAcceptor, options, random);
  handshake.worker_ = worker;
  handshake.check_ = std::move(check);
  return handshake;
}

std::string PeerHandshake::Frame(Kind kind, std::string_view body) const {
  return HeaderOf(options_.major, options_.minor, static_cast<uint8_t>(kind), body.size()) +
         std::string(body);
}

// The acceptor's repeats the purpose that the connector gave.
std::string PeerHandshake::HelloFrame() const {
  std::string body;
  Put(&body, static_cast<uint8_t>(role_));
  Put(&body, purpose_.from);
  Put(&body, purpose_.to);
  Put(&body, static_cast<uint16_t>(purpose_.name.size()));
  body += purpose_.name;
  const std::string_view build = std::string_view(TUTTI_BUILD).substr(0, kMaxBuildBytes);
  Put(&body, static_cast<uint8_t>(build.size()));
  body += build;
  Put(&body, uint32_t{0});  // capabilities: none yet
  body += options_.secret.Fingerprint();
  body += nonce_;
  return Frame(Kind::kHello, body);
}

// The role is part of it, so that a proof cannot be sent back to whom it came from.
std::string PeerHandshake::ProofBy(Role role) const {
  std::string text(role == Role::kConnector ? "connector" : "acceptor");
  text.push_back('\0');
  text += connector_hello_;
  text += acceptor_hello_;
  const JobSecret::Key key = options_.secret.DeriveKey("peer handshake");
  uint8_t proof[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const uint8_t*>(text.data()), text.size(), proof, &bytes) == nullptr ||
      bytes != kProofBytes) {
    std::abort();  // nobody may get in without a proof
  }
  return std::string(reinterpret_cast<const char*>(proof), bytes);
}

std::string PeerHandshake::TakeOutput() { return std::exchange(output_, std::string()); }

size_t PeerHandshake::wanted() const {
  if (step_ == Step::kDone || step_ == Step::kFailed) return 0;
  return kHeaderBytes + (header_read_ ? body_bytes_ : 0) - input_.size();
}

Status PeerHandshake::Consume(std::string_view bytes) {
  assert(bytes.size() <= wanted());
  input_ += bytes;
  if (!header_read_) {
    if (input_.size() < kHeaderBytes) return OkStatus();
    Status status = ReadHeader();
    if (!status.ok()) {
      step_ = Step::kFailed;
      return status;
    }
    header_read_ = true;
  }
  if (input_.size() < kHeaderBytes + body_bytes_) return OkStatus();
  Status status = ReadBody(std::string_view(input_).substr(kHeaderBytes));
  if (!status.ok()) step_ = Step::kFailed;
  input_.clear();
  header_read_ = false;
  return status;
}

Status PeerHandshake::ReadHeader() {
  BodyReader reader(input_);
  if (reader.TakeBytes(kMagic.size()) != kMagic) {
    const std::string began = Printable(std::string_view(input_).substr(0, kMagic.size()));
    return FailedPrecondition("{} does not speak the protocol of Tutti's workers: it began with {}",
                              options_.peer, Quote(began));
  }
  peer_major_ = reader.Take<uint16_t>();
  const uint16_t minor = reader.Take<uint16_t>();
  if (step_ == Step::kHello) peer_minor_ = minor;
  kind_ = static_cast<Kind>(reader.Take<uint8_t>());
  body_bytes_ = reader.Take<uint16_t>();
  // The header and refusals are the same in all versions.
  if (kind_ != Kind::kRefusal && peer_major_ != options_.major) return Refuse(VersionMismatch());
  if (body_bytes_ > kMaxBodyBytes) {
    return Refuse(InvalidArgument("{} sent a handshake message of {} bytes; the limit is {}",
                                  options_.peer, body_bytes_, kMaxBodyBytes));
  }
  if (kind_ != Kind::kRefusal && minor != peer_minor_) {
    return Refuse(InvalidArgument("{} changed its version within a handshake", options_.peer));
  }
  return OkStatus();
}

Status PeerHandshake::ReadBody(std::string_view body) {
  if (kind_ == Kind::kRefusal && role_ == Role::kConnector) return ReadRefusal(body);
  if (kind_ == Kind::kHello && step_ == Step::kHello) return ReadHello(body);
  if (kind_ == Kind::kProof && step_ == Step::kProof) return ReadProof(body);
  return Refuse(InvalidArgument("{} sent a handshake message of kind {} out of turn", options_.peer,
                                static_cast<int>(kind_)));
}

// The texts that a refusal carries read the same on both sides.
Status PeerHandshake::VersionMismatch() const {
  const std::string peer = Format("{}.{}", peer_major_, peer_minor_);
  const std::string own = Format("{}.{}", options_.major, options_.minor);
  const bool accepts = role_ == Role::kAcceptor;
  return InvalidArgument("the connecting process speaks version {} of the peer protocol, {} "
                         "version {}; run the same version of Tutti everywhere",
                         accepts ? peer : own, accepts ? "the accepting one" : options_.peer,
                         accepts ? own : peer);
}

Status PeerHandshake::ReadHello(std::string_view body) {
  BodyReader reader(body);
  const uint8_t role = reader.Take<uint8_t>();
  PeerPurpose purpose;
  purpose.from = reader.Take<int64_t>();
  purpose.to = reader.Take<int64_t>();
  purpose.name = std::string(reader.TakeBytes(reader.Take<uint16_t>()));
  const std::string build(reader.TakeBytes(reader.Take<uint8_t>()));
  reader.Take<uint32_t>();  // capabilities
  const std::string fingerprint(reader.TakeBytes(kFingerprintBytes));
  const std::string_view nonce = reader.TakeBytes(kNonceBytes);
  // A newer minor version may say more.
  if (!reader.ok() || purpose.name.size() > kMaxPurposeBytes || build.size() > kMaxBuildBytes) {
    return Refuse(InvalidArgument("{} sent a malformed greeting of {} bytes", options_.peer,
                                  body.size()));
  }
  const Role expected = role_ == Role::kConnector ? Role::kAcceptor : Role::kConnector;
  // A peer that gets its own greeting back would prove itself to itself.
  if (role != static_cast<uint8_t>(expected) || nonce == nonce_) {
    return Refuse(InvalidArgument("{} greeted in the wrong role ({})", options_.peer, role));
  }
  if (const std::string own = options_.secret.Fingerprint(); fingerprint != own) {
    return AnotherSecret(Printable(fingerprint), own);
  }
  minor_ = std::min(options_.minor, peer_minor_);
  peer_build_ = Printable(build);
  step_ = Step::kProof;
  if (role_ == Role::kAcceptor) {
    purpose_ = std::move(purpose);
    connector_hello_ = input_;
    acceptor_hello_ = HelloFrame();
    output_ += acceptor_hello_;
    return OkStatus();
  }
  if (purpose.name != purpose_.name || purpose.from != purpose_.from || purpose.to != purpose_.to) {
    return Refuse(InvalidArgument("{} answered another connection than this one, {} from worker {} "
                                  "to worker {}",
                                  options_.peer, Quote(purpose_.name), purpose_.from,
                                  purpose_.to));
  }
  acceptor_hello_ = input_;
  output_ += Frame(Kind::kProof, ProofBy(Role::kConnector));
  return OkStatus();
}

// A stranger is told what it has said itself, and no more: from the fingerprint of a secret that a
// human made up the secret could be found by trying.
Status PeerHandshake::AnotherSecret(const std::string& peer, const std::string& own) {
  constexpr std::string_view kNextStep =
      "set TUTTI_JOB_SECRET or TUTTI_JOB_SECRET_FILE to the same secret for all workers of a job";
  if (role_ == Role::kAcceptor) {
    (void)Refuse(Unauthenticated("the connecting process has the job secret with the fingerprint "
                                 "{}, the accepting one has another; {}",
                                 peer, kNextStep));
  }
  return Unauthenticated("this process has the job secret with the fingerprint {}, {} the one with "
                         "{}; {}",
                         own, options_.peer, peer, kNextStep);
}

Status PeerHandshake::ReadProof(std::string_view body) {
  const Role by = role_ == Role::kConnector ? Role::kAcceptor : Role::kConnector;
  const std::string expected = ProofBy(by);
  if (body.size() != expected.size() ||
      CRYPTO_memcmp(body.data(), expected.data(), expected.size()) != 0) {
    return Refuse(Unauthenticated("{} does not know the job secret: its proof is wrong",
                                  options_.peer));
  }
  if (role_ == Role::kAcceptor) {
    if (purpose_.to != worker_) {
      return Refuse(InvalidArgument("this is worker {}, and {} wanted worker {} for {}", worker_,
                                    options_.peer, purpose_.to, Quote(purpose_.name)));
    }
    Status refused = check_ ? check_(purpose_) : OkStatus();
    if (!refused.ok()) return Refuse(std::move(refused));
    output_ += Frame(Kind::kProof, ProofBy(Role::kAcceptor));
  }
  step_ = Step::kDone;
  return OkStatus();
}

Status PeerHandshake::ReadRefusal(std::string_view body) const {
  BodyReader reader(body);
  const uint8_t code = reader.Take<uint8_t>();
  const std::string_view reason = reader.rest().substr(0, kMaxRefusalBytes);
  // The longest may end within a character.
  if (!reader.ok() || (reason.size() < kMaxRefusalBytes && !IsReadable(reason))) {
    return DataLoss("{} sent a refusal of {} bytes that is no text; it was damaged, or who sent it "
                    "does not speak the protocol of Tutti's workers",
                    options_.peer, body.size());
  }
  const std::string text = Printable(reason);
  const bool known = code > 0 && code <= static_cast<uint8_t>(StatusCode::kUnauthenticated);
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                Format("{} refused the connection: {}", options_.peer, text));
}

Status PeerHandshake::Refuse(Status reason) {
  if (role_ == Role::kAcceptor) output_ += Frame(Kind::kRefusal, RefusalBody(reason));
  return reason;
}

std::string PeerHandshake::RefusalFrame(const Status& reason) {
  const std::string body = RefusalBody(reason);
  return HeaderOf(kMajor, kMinor, static_cast<uint8_t>(Kind::kRefusal), body.size()) + body;
}

}  // namespace tutti
