// GrpcLibrary: gRPC while a control network uses it: its start and its end, its completion queue
// and the thread that waits there ("tutti-grpc"), and the credentials of the job.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_
#define TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/cluster/auth/job_certificate.h"

struct grpc_call;
struct grpc_channel;
struct grpc_channel_credentials;
struct grpc_completion_queue;
struct grpc_server;
struct grpc_server_credentials;

namespace tutti {

class ControlStrand;
class Environment;

// Used on the strand alone: gRPC starts threads on the threads that call it, and those inherit the
// strand's blocked signals.
class GrpcLibrary {
 public:
  static constexpr const char* kMethod = "/tutti.v1.Control/Connect";

  static Result<std::unique_ptr<GrpcLibrary>> Start(Environment& environment, ControlStrand& strand,
                                                    const JobCertificate& certificate);
  // Every call and server must have ended. Joins the thread, and gRPC's own when nobody else in the
  // process uses it.
  void Stop();
  ~GrpcLibrary();

  grpc_completion_queue* queue() const { return queue_; }
  // A channel of one connection, to a numeric "host:port", and its only call.
  grpc_channel* MakeChannel(const std::string& address);
  grpc_call* MakeCall(grpc_channel* channel);
  // A server that does not listen yet.
  grpc_server* MakeServer();
  // The port, 0 where it cannot be had.
  int AddPort(grpc_server* server, const std::string& address);

 private:
  GrpcLibrary() = default;

  grpc_completion_queue* queue_ = nullptr;
  grpc_channel_credentials* channel_credentials_ = nullptr;
  grpc_server_credentials* server_credentials_ = nullptr;
  Thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_
