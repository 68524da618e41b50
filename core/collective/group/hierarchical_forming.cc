#include "core/collective/group/hierarchical_forming.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/group/window_passing.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/stream/link_tree.h"
#include "core/collective/stream/tcp_link.h"

namespace tutti {
namespace {

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduce,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kBroadcast,
                                 CollectiveOp::kAllGather};

class Joining {
 public:
  explicit Joining(const HostsForming& forming)
      : forming_(forming),
        host_(forming.layout.PlaceOf(forming.rank).first),
        place_(forming.layout.PlaceOf(forming.rank).second),
        here_(forming.layout.hosts[host_]) {
    windows_.own = forming.window;
  }

  // The problem of somebody, or an empty text and the parts.
  Result<std::string> Run(HierarchicalTransport::Parts* parts) {
    Status own = place_ == 0 ? MakeSegment() : ConnectToLeader();
    TUTTI_ASSIGN_OR_RETURN(std::string problem, forming_.tell("host segments offered", own));
    if (!problem.empty()) return problem;
    own = place_ == 0 ? PassSegment() : TakeSegment();
    if (own.ok() && segment_) own = EnterSegment(parts);
    TUTTI_ASSIGN_OR_RETURN(problem, forming_.tell("host segments entered", own));
    if (!problem.empty()) return problem;

    const bool has_column = place_ == 0 || forming_.layout.equal();
    if (has_column) {
      column_ = forming_.layout.Column(place_);
      links_.resize(column_.size());
      const Selector selector(forming_.table.get(), Locality::kTcp,
                              static_cast<int64_t>(column_.size()));
      connects_later_ = selector.MayChoose(CollectiveAlgorithm::kTree);
    }
    TUTTI_ASSIGN_OR_RETURN(problem, forming_.tell("hosts connected", ConnectToLower()));
    if (!problem.empty()) return problem;
    own = AcceptFromHigher();
    if (own.ok() && has_column) own = MakeBetween(parts);
    return forming_.tell("hosts joined", own);
  }

 private:
  bool has_windows() const {
    return here_.size() <= static_cast<size_t>(kMostWindowRanks);
  }
  Status MakeSegment() {
    if (here_.size() == 1) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(segment_, SharedSegment::Create(SharedTransport::SegmentBytes(
                                         static_cast<int64_t>(here_.size()))));
    return OkStatus();
  }
  Status ConnectToLeader() {
    TUTTI_ASSIGN_OR_RETURN(socket_, forming_.connect(here_[0], /*local=*/true, "host segment"));
    return OkStatus();
  }
  Status PassSegment() {
    if (!segment_) return OkStatus();
    const FileDescriptor memory(fcntl(segment_->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!memory) return ErrnoStatus(errno, "dup of the segment");
    // After one has failed the others only hear that it is over: by the end of their socket.
    Status first;
    std::vector<FileDescriptor> sockets(here_.size());
    for (size_t place = 1; place < here_.size(); ++place) {
      Result<FileDescriptor> socket = forming_.accept(here_[place], "host segment");
      Status status = socket.status();
      if (socket.ok() && first.ok()) {
        status = SendDescriptor(*forming_.environment, *socket, memory, "segment",
                                forming_.soon());
      }
      if (first.ok() && status.ok()) sockets[place] = std::move(socket).value();
      if (first.ok()) first = std::move(status);
    }
    if (!has_windows()) return first;
    Status passed =
        HandOutWindows(*forming_.environment, sockets, forming_.soon(), &windows_);
    return first.ok() ? passed : first;
  }
  Status TakeSegment() {
    std::string text;
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor memory, ReceiveDescriptor(*forming_.environment, socket_,
                                                                    &text, forming_.soon()));
    TUTTI_ASSIGN_OR_RETURN(segment_, SharedSegment::Attach(std::move(memory)));
    if (!has_windows()) return OkStatus();
    return TakeWindows(*forming_.environment, socket_, static_cast<int64_t>(place_),
                       static_cast<int64_t>(here_.size()), forming_.soon(), &windows_);
  }
  Status EnterSegment(HierarchicalTransport::Parts* parts) {
    SharedGroupOptions options;
    options.name = forming_.name;
    options.rank = static_cast<int64_t>(place_);
    options.size = static_cast<int64_t>(here_.size());
    options.epoch = forming_.epoch;
    options.spin = forming_.spin;
    options.table = forming_.table;
    options.names = here_;
    options.describe_peer = [names = here_, descriptions = forming_.descriptions](int64_t rank) {
      return descriptions[static_cast<size_t>(names[static_cast<size_t>(rank)])];
    };
    options.windows = windows_;
    segment_->CloseDescriptor();
    TUTTI_ASSIGN_OR_RETURN(parts->inside,
                           SharedTransport::Create(forming_.environment, std::move(segment_),
                                                   std::move(options)));
    return OkStatus();
  }

  bool ConnectsNow(size_t host) const {
    return !connects_later_ ||
           LinkTree::AreNeighbours(static_cast<int64_t>(host), static_cast<int64_t>(host_));
  }
  Status ConnectToLower() {
    for (size_t host = 0; host < std::min(host_, column_.size()); ++host) {
      if (!ConnectsNow(host)) continue;
      TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket,
                             forming_.connect(column_[host], /*local=*/false, "host"));
      links_[host] = std::make_unique<TcpLink>(std::move(socket));
    }
    return OkStatus();
  }
  Status AcceptFromHigher() {
    for (size_t host = host_ + 1; host < column_.size(); ++host) {
      if (!ConnectsNow(host)) continue;
      TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, forming_.accept(column_[host], "host"));
      links_[host] = std::make_unique<TcpLink>(std::move(socket));
    }
    return OkStatus();
  }
  Status MakeBetween(HierarchicalTransport::Parts* parts) {
    LinkTransport::Options options;
    options.name = forming_.name;
    options.rank = static_cast<int64_t>(host_);
    options.size = static_cast<int64_t>(column_.size());
    options.epoch = forming_.epoch;
    options.spin = forming_.spin;
    options.table = forming_.table;
    options.names = column_;
    options.news_ns = LinkTransport::kNewsNs;
    for (const int64_t rank : column_) {
      options.descriptions.push_back(forming_.descriptions[static_cast<size_t>(rank)]);
      options.workers.push_back(forming_.workers[static_cast<size_t>(rank)]);
      options.machines.push_back(forming_.machines[static_cast<size_t>(rank)]);
    }
    std::unique_ptr<LinkConnector> connector;
    if (connects_later_) connector = forming_.connector(column_, "hosts");
    TUTTI_ASSIGN_OR_RETURN(parts->between,
                           LinkTransport::Create(forming_.environment, std::move(options),
                                                 std::move(links_), std::move(connector)));
    return OkStatus();
  }

  const HostsForming& forming_;
  const size_t host_;
  const size_t place_;
  const std::vector<int64_t> here_;
  Ref<SharedSegment> segment_;
  SharedWindows windows_;
  FileDescriptor socket_;  // to the leader
  std::vector<int64_t> column_;
  std::vector<std::unique_ptr<Link>> links_;
  bool connects_later_ = false;
};

}  // namespace

bool WantsHosts(const HostLayout& layout, const SelectorTable& table, int64_t size) {
  if (!layout.worthwhile()) return false;
  for (const std::vector<int64_t>& host : layout.hosts) {
    if (static_cast<int64_t>(host.size()) > kSharedMaxRanks) return false;
  }
  const Selector selector(&table, Locality::kHosts, size);
  return std::any_of(std::begin(kOps), std::end(kOps), [&](CollectiveOp op) {
    return selector.MostBytes(op, CollectiveAlgorithm::kHierarchical) >= 0;
  });
}

Result<std::unique_ptr<HierarchicalTransport>> JoinHosts(const HostsForming& forming,
                                                         std::unique_ptr<LinkTransport>* flat,
                                                         std::string* problem) {
  HierarchicalTransport::Parts parts;
  Result<std::string> run = Joining(forming).Run(&parts);
  if (!run.ok()) {
    // Others may have got theirs already.
    const Status reason =
        Unavailable("it could not form the group: {}", run.status().message());
    if (parts.inside) parts.inside->Leave(reason);
    if (parts.between) parts.between->Leave(reason);
    return run.status();
  }
  *problem = std::move(run).value();
  if (!problem->empty()) return std::unique_ptr<HierarchicalTransport>();
  parts.flat = std::move(*flat);
  HierarchicalTransport::Options options;
  options.rank = forming.rank;
  options.size = static_cast<int64_t>(forming.descriptions.size());
  options.layout = forming.layout;
  options.table = forming.table;
  return std::make_unique<HierarchicalTransport>(forming.environment, std::move(options),
                                                 std::move(parts));
}

}  // namespace tutti
