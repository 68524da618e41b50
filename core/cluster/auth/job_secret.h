// JobSecret: what the processes of one job share and nobody else knows. Every connection proves it
// before anything else is said (peer_handshake.h, job_certificate.h).
//
// It comes from the file that TUTTI_JOB_SECRET_FILE names, else from TUTTI_JOB_SECRET, else, when
// all workers are on loopback, from a file of the user's own with mode 0600 that the first process
// makes
// ($XDG_RUNTIME_DIR or $HOME/.cache, "tutti/job-secret"); otherwise it is an error that says how to
// make one.

#ifndef TUTTI_CORE_CLUSTER_AUTH_JOB_SECRET_H_
#define TUTTI_CORE_CLUSTER_AUTH_JOB_SECRET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

class JobSecret {
 public:
  static constexpr size_t kMinBytes = 16;
  static constexpr size_t kMaxBytes = 4096;
  // A shorter one may be a sentence of somebody's, which can be guessed: what strangers get to see
  // (a fingerprint, a signature) would tell whether a guess is right. So all keys come from what
  // scrypt makes of it, which takes 32 MiB and some 50 ms for each guess, and for a process once.
  static constexpr size_t kMinStrongBytes = 32;
  using Key = std::array<uint8_t, 32>;
  // Null for a variable that is not set.
  using Variables = const char* (*)(const char* name);

  JobSecret() = default;
  // White space at the ends does not count. INVALID_ARGUMENT when it is too short or too long,
  // RESOURCE_EXHAUSTED when there is no memory for scrypt; no message ever shows it.
  static Result<JobSecret> FromText(std::string_view text);
  // As described above. `loopback_only`: every address of the cluster is a loopback one.
  // FAILED_PRECONDITION for a file that others can read, and when there is no secret.
  static Result<JobSecret> Find(bool loopback_only, Variables variables);
  // A new one, of 32 random bytes in hexadecimal.
  static Result<JobSecret> Generate();

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  // HKDF-SHA256 (RFC 5869) of the secret, a short one stretched, for one purpose: different
  // purposes give independent keys.
  Key DeriveKey(std::string_view purpose) const;
  // 16 hexadecimal digits that tell secrets apart and do not give them away, for messages.
  std::string Fingerprint() const;

 private:
  std::string text_;
  std::string key_;  // what keys are derived from
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_AUTH_JOB_SECRET_H_
