// Group forming: how the workers of a job come to a transport that they share, one rank per worker.
//
// It goes in stages. In each, every worker tries something (to connect, to map a segment) and then
// tells all others what came of it; what all do next follows from what all have told, and from
// nothing else, so that they never disagree:
//
//   facts      all want the same kind of transport; who shares a machine is known from the cluster;
//              all choose algorithms by rank 0's table
//   segment    when all are on one machine: rank 0 makes a segment and passes it to all over Unix
//              sockets. When everyone has taken its place in it, that is the transport
//   rings      otherwise each pair on one machine tries a ring in shared memory
//   tcp        all other pairs connect with TCP: the higher rank connects to the lower. In large
//              groups only neighbours in a tree do, and the others when they first need to
//              (link_connector.h)
//   ready      nobody leaves before everybody is done
//   hosts      where some hosts have several ranks: a segment for each and links between them, for
//              calls that go from host to host (hierarchical_forming.h)
//
// Who shares memory is found out by doing it: equal boot ids say only that it is worth trying
// (containers may keep their Unix sockets apart). An error of one worker is what all of them
// return.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_GROUP_FORMING_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_GROUP_FORMING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/auth/job_secret.h"
#include "core/cluster/membership/worker_info.h"
#include "core/collective/call/transport.h"
#include "core/collective/communicator/collective_transport.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_window.h"

namespace tutti {

class Environment;
class PeerListener;

struct GroupFormingOptions {
  std::string name;
  int64_t epoch = 1;
  // What the workers tell each other goes under it; empty: name and epoch. Their connections have a
  // number besides, so that groups of one label can be in use at the same time.
  std::string label;
  CollectiveTransport transport = CollectiveTransport::kAuto;
  // Rank 0's holds for all, so that they need not be the same; null: the built-in one.
  std::shared_ptr<const SelectorTable> table;

  int64_t worker = 0;  // this process: its rank, which is its place in `workers`
  std::vector<WorkerInfo> workers;
  JobSecret secret;
  PeerListener* listener = nullptr;
  // That of the group which this one comes from, whose tensors so are in this one's, too; null: a
  // new one, where the workers share memory.
  Ref<SharedWindow> window;
  // As Cluster::Exchange.
  std::function<Result<std::vector<std::string>>(std::string_view key, std::string bytes,
                                                 const CallOptions& call)>
      exchange;
};

struct FormedGroup {
  std::unique_ptr<Transport> transport;
  // "shared memory", "2 ring, 1 tcp", "one rank": this rank's part, for the log and tests.
  std::string kind;
  // ", from host to host: 2 of them" where calls go so, else empty; for the log and tests.
  std::string hosts;
  Ref<SharedWindow> window;  // null where there is none
  // Whether a peer has left the group in good order. Null where the transport itself finds out that
  // a peer has gone without that.
  std::function<bool(int64_t rank)> has_left;
  // LinkTransport::PeerHasLeft. Null where has_left is not.
  std::function<void(int64_t rank, const Status& reason, int64_t patience_ns)> peer_has_left;
};

// All workers call it with the same name, epoch and label. It waits for all of them, as long as
// `call` allows. A worker where it fails leaves the group: those where it does not fail are told so
// when they need it.
Result<FormedGroup> FormGroup(Ref<Environment> environment, GroupFormingOptions options,
                              const CallOptions& call);

// Whether waiting ranks may spin: the replicas of all workers of a machine have a core each, on
// every machine.
bool ReplicasFitCores(const std::vector<WorkerInfo>& workers);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_GROUP_FORMING_H_
