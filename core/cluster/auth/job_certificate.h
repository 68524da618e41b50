// JobCertificate: what a process of a job shows in TLS. The job has a certificate authority whose
// key (EC P-256) everybody derives from the job secret; each process makes itself the authority's
// certificate, and a key and a certificate of its own that the authority has signed. So whoever
// shows a certificate that verifies knows the secret, and nothing is ever written to disk.
//
// A certificate's subject carries the secret's fingerprint: a process of another job can be told
// which job it has met. A stranger learns from it, as from the signature, whether a guess at the
// secret is right, which is why guesses at short ones are dear (job_secret.h). They are valid from
// 2020 to 2120: clocks do not matter.

#ifndef TUTTI_CORE_CLUSTER_AUTH_JOB_CERTIFICATE_H_
#define TUTTI_CORE_CLUSTER_AUTH_JOB_CERTIFICATE_H_

#include <string>

#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"

struct x509_st;

namespace tutti {

struct JobCertificate {
  // The name that every process's certificate is for.
  static constexpr const char* kServerName = "tutti-job";

  std::string authority_pem;    // the job's authority
  std::string certificate_pem;  // this process's
  std::string private_key_pem;

  static Result<JobCertificate> Create(const JobSecret& secret);
};

// Whether the certificate that a peer has shown was signed by the authority of `secret`'s job.
// UNAUTHENTICATED naming both fingerprints when it is another job's, FAILED_PRECONDITION when it is
// no certificate of a Tutti job at all. `peer` is for messages: "127.0.0.1:2222".
Status CheckPeerCertificate(const JobSecret& secret, const std::string& authority_pem,
                            x509_st* certificate, const std::string& peer);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_AUTH_JOB_CERTIFICATE_H_
