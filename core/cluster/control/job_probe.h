// FindJobPort: looks whether a worker of this job listens at an address, and says precisely what is
// there instead. gRPC itself only says that it could not connect.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_JOB_PROBE_H_
#define TUTTI_CORE_CLUSTER_CONTROL_JOB_PROBE_H_

#include <string>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"

namespace tutti {

class Environment;

// The first of the numeric addresses of `address` ("host:port") at which TLS answers with a
// certificate of this job. Reads the certificate and hangs up. Otherwise:
//   UNAVAILABLE          the host is unknown, nothing listens, no answer comes in time
//   UNAUTHENTICATED      a job with another secret, naming both fingerprints
//   FAILED_PRECONDITION  something that is no Tutti job
// `call`'s deadline is the time for all of it.
Result<std::string> FindJobPort(Environment& environment, const JobSecret& secret,
                                const std::string& authority_pem, const std::string& address,
                                const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_JOB_PROBE_H_
