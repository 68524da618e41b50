// GrpcControlNetwork: the control channel between processes. Every connection is one bidirectional
// gRPC stream on a TCP connection of its own, under mutual TLS with certificates that are derived
// from the job secret (job_certificate.h): who does not know the secret gets no further than the
// TLS handshake.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<GrpcControlNetwork> network,
//                          GrpcControlNetwork::Create(environment, {secret, "worker 1"}));
//   ...
//   TUTTI_RETURN_IF_ERROR(network->Shutdown(reason, call));   // always, before the last release
//
// A connection that cannot be made says why: the host's name is unknown, nothing listens, no answer
// comes, no Tutti job listens there, or one with another secret.
//
// Shutdown lets what was sent leave for a second. Only where a peer has been stopped and more was
// sent to it than the kernel holds for a connection (hundreds of KiB) does it last until TCP gives
// up, 20 seconds.
//
// gRPC is quiet unless the variable GRPC_VERBOSITY is set: what matters is in the statuses.

#ifndef TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONTROL_NETWORK_H_
#define TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONTROL_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/control_channel.h"
#include "core/cluster/auth/job_secret.h"

namespace tutti {

class Environment;

class GrpcControlNetwork final : public ControlNetwork {
 public:
  struct Options {
    JobSecret secret;
    std::string name = "control network";  // for messages: "worker 1"
  };
  // Starts the strand's thread, "tutti-control".
  static Result<Ref<GrpcControlNetwork>> Create(Ref<Environment> environment, Options options);

  // At every address that the host's name stands for; the port is this process's alone. Once per
  // network. Waits for the strand: not to be called on it.
  Result<std::string> Listen(const std::string& address,
                             std::unique_ptr<ControlAcceptor> acceptor) override;
  Ref<ControlConnection> Connect(const std::string& address, int64_t timeout_ns,
                                 std::unique_ptr<ControlHandler> handler) override;
  bool Post(Task&& task) override;
  uint64_t PostAfter(int64_t delay_ns, Task&& task) override;
  bool CancelTimer(uint64_t timer) override;
  Status Shutdown(Status reason, const CallOptions& options) override;

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  struct State;
  explicit GrpcControlNetwork(std::shared_ptr<State> state);
  ~GrpcControlNetwork() override;

  std::shared_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_CONTROL_GRPC_CONTROL_NETWORK_H_
