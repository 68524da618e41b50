// PeerHandshake: how two workers prove to each other that they belong to one job before anything
// else is said on a fresh byte stream. It does no I/O: bytes go in, bytes come out.
//
//   connector                                     acceptor
//   HELLO  magic, version, role, from, to, ->
//          purpose, build, fingerprint, nonce
//                                              <- HELLO  the same fields of its own
//   PROOF  HMAC(key, "connector", both HELLOs) ->
//                                              <- PROOF  HMAC(key, "acceptor", both HELLOs)
//
// HMAC-SHA256 with a key that is derived from the job secret for this alone. Both nonces are random
// and fresh, so a recorded handshake proves nothing. Instead of any answer the acceptor may send a
// REFUSAL with a code and a text.
//
// Every message is a frame:   magic "TUTTIpr1" | u16 major | u16 minor | u8 kind | u16 length |
// body so that any version can read the version of any other. Integers are little-endian. A body
// has at most kMaxBodyBytes. Majors must be equal; the smaller minor holds.

#ifndef TUTTI_CORE_CLUSTER_SOCKETS_PEER_HANDSHAKE_H_
#define TUTTI_CORE_CLUSTER_SOCKETS_PEER_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"
#include "core/cluster/sockets/peer_listener.h"

namespace tutti {

class Random;

class PeerHandshake {
 public:
  static constexpr uint16_t kMajor = 1;
  static constexpr uint16_t kMinor = 0;
  static constexpr size_t kMaxPurposeBytes = 256;
  static constexpr size_t kMaxBodyBytes = 1024;
  static constexpr size_t kHeaderBytes = 15;

  struct Options {
    JobSecret secret;
    std::string peer;  // for messages: "10.0.0.1:40123"
    // For tests of what another version would do.
    uint16_t major = kMajor;
    uint16_t minor = kMinor;
  };
  // Says why a connection with this purpose is refused, or OK. Called when the peer's proof is
  // good.
  using Check = std::function<Status(const PeerPurpose& purpose)>;

  static PeerHandshake Connector(const Options& options, const PeerPurpose& purpose,
                                 Random& random);
  static PeerHandshake Acceptor(const Options& options, int64_t worker, Check check,
                                Random& random);

  // What has to be sent now; empty when nothing.
  std::string TakeOutput();
  // How many bytes Consume wants next: reading no more leaves what follows the handshake in the
  // stream. 0 when it has ended.
  size_t wanted() const;
  // At most wanted() bytes. A failure ends the handshake; TakeOutput may still have a refusal for
  // the peer.
  Status Consume(std::string_view bytes);

  // True when the peer has proved itself and this side has said all it has to.
  bool done() const { return step_ == Step::kDone; }
  // This side has proved itself; what the peer says now decides, and it may have said it.
  bool proved() const { return role_ == Role::kConnector && step_ == Step::kProof; }
  // The peer's purpose, once done; `from` and `to` as the connector sees them.
  const PeerPurpose& purpose() const { return purpose_; }
  uint16_t minor() const { return minor_; }
  const std::string& peer_build() const { return peer_build_; }

  // The frame that tells a peer why it is refused, for a listener that refuses before any
  // handshake, or because time is up.
  static std::string RefusalFrame(const Status& reason);

 private:
  enum class Step { kHello, kProof, kDone, kFailed };
  enum class Role : uint8_t { kConnector = 1, kAcceptor = 2 };
  enum class Kind : uint8_t { kHello = 1, kProof = 2, kRefusal = 3 };

  PeerHandshake(Role role, const Options& options, Random& random);
  std::string Frame(Kind kind, std::string_view body) const;
  std::string HelloFrame() const;
  std::string ProofBy(Role role) const;
  Status ReadHeader();
  Status ReadBody(std::string_view body);
  Status ReadHello(std::string_view body);
  Status ReadProof(std::string_view body);
  Status ReadRefusal(std::string_view body) const;
  // Tells the peer, too, where this side is the one that decides.
  Status Refuse(Status reason);
  Status VersionMismatch() const;
  Status AnotherSecret(const std::string& peer, const std::string& own);

  const Role role_;
  const Options options_;
  Check check_;
  PeerPurpose purpose_;
  int64_t worker_ = 0;  // the acceptor's own
  std::string nonce_;
  Step step_ = Step::kHello;
  std::string output_;
  // Both HELLO frames as they went over the wire: what the proofs are about.
  std::string connector_hello_;
  std::string acceptor_hello_;

  // The frame that is being read.
  std::string input_;
  bool header_read_ = false;
  Kind kind_ = Kind::kHello;
  size_t body_bytes_ = 0;

  uint16_t peer_major_ = 0;
  uint16_t peer_minor_ = 0;
  uint16_t minor_ = 0;
  std::string peer_build_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_SOCKETS_PEER_HANDSHAKE_H_
