// GrpcLibrary: gRPC while a control network uses it: its start and its end, its completion queue
// and the thread that waits there ("tutti-grpc"), and the credentials of the job.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_
#define TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_

#include <memory>
#include <string>

#include "core/base/file_descriptor.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/cluster/auth/job_certificate.h"

struct grpc_byte_buffer;
struct grpc_call;
struct grpc_channel;
struct grpc_channel_credentials;
struct grpc_completion_queue;
struct grpc_server;
struct grpc_server_credentials;

namespace tutti {

class ControlStrand;
class Environment;

// How a gRPC server takes over connections that somebody else has accepted: what it makes for a
// "port" whose name begins with "external:". This is the way of grpc++'s external connection
// acceptors, which do no more than to pass calls on; gRPC has installed headers for those alone, so
// this is its interface as they call it, unchanged from 1.27 on.
class GrpcConnectionTaker {
 public:
  virtual ~GrpcConnectionTaker() = default;
  // Takes the socket over, and what has been read of it already (none: null). Any thread, from the
  // server's start to its shutdown.
  virtual void Take(int listening, int socket, grpc_byte_buffer* read) = 0;
};

// Used on the strand alone: gRPC starts threads on the threads that call it, and those inherit the
// strand's blocked signals.
class GrpcLibrary {
 public:
  static constexpr const char* kMethod = "/tutti.v1.Control/Connect";

  // RESOURCE_EXHAUSTED where too few file descriptors are left: gRPC would abort.
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
  // A server that does not listen: it has the connections that the taker is given, once it has been
  // started.
  struct Server {
    grpc_server* server = nullptr;
    GrpcConnectionTaker* taker = nullptr;  // the server's
  };
  Result<Server> MakeServer();
  // Whether the object behind a taker is of gRPC's class that has this interface, as far as its
  // run-time type says so: INTERNAL for another, which would take what it is given for something
  // else.
  static Status CheckTaker(const GrpcConnectionTaker* taker);
  // Gives an accepted TCP connection to a server.
  static void GiveTo(GrpcConnectionTaker* taker, FileDescriptor socket);

 private:
  GrpcLibrary() = default;

  grpc_completion_queue* queue_ = nullptr;
  grpc_channel_credentials* channel_credentials_ = nullptr;
  grpc_server_credentials* server_credentials_ = nullptr;
  Thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_GRPC_LIBRARY_H_
