#include "core/collective/group/group_forming.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/usable_cores.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/call/wire_bytes.h"
#include "core/collective/group/forming_connections.h"
#include "core/collective/group/forming_talk.h"
#include "core/collective/group/hierarchical_forming.h"
#include "core/collective/group/peer_connector.h"
#include "core/collective/group/ring_passing.h"
#include "core/collective/group/window_passing.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/stream/link_connector.h"
#include "core/collective/stream/link_transport.h"
#include "core/collective/stream/link_tree.h"
#include "core/collective/stream/ring_link.h"
#include "core/collective/stream/tcp_link.h"
#include "core/collective/thread/local_group.h"
#include "core/collective/thread/local_transport.h"

namespace tutti {
namespace {

// Transport, hash of the table, whether folds are reproducible, a number that rank 0 draws; the
// table's own rows follow.
constexpr size_t kReproducibleAt = 1 + sizeof(uint64_t);
constexpr size_t kDrawnAt = kReproducibleAt + 1;
constexpr size_t kFactsBytes = kDrawnAt + sizeof(uint64_t);
constexpr const char* kTransportNames[] = {"auto", "shared_memory", "tcp"};

// Names become parts of keys and purposes, whose length is limited.
std::string LabelOf(const GroupFormingOptions& options) {
  const bool has_label = !options.label.empty();
  std::string name = has_label ? options.label : options.name;
  if (name.size() > 100) {
    name = Format("{}~{:08x}", name.substr(0, 100), Crc32c(name.data(), name.size()));
  }
  return has_label ? name : Format("group {} epoch {}", name, options.epoch);
}

std::vector<std::string> DescriptionsOf(const GroupFormingOptions& options) {
  const std::string& here = options.workers[static_cast<size_t>(options.worker)].host;
  std::vector<std::string> descriptions;
  for (const WorkerInfo& info : options.workers) {
    descriptions.push_back(info.host == here
                               ? Format("worker {}, pid {}", info.worker, info.pid)
                               : Format("worker {}, pid {} on {}", info.worker, info.pid,
                                        info.host));
  }
  return descriptions;
}

class GroupForming {
 public:
  GroupForming(Ref<Environment> environment, GroupFormingOptions options, const CallOptions& call)
      : environment_(std::move(environment)),
        options_(std::move(options)),
        rank_(options_.worker),
        size_(static_cast<int64_t>(options_.workers.size())),
        label_(LabelOf(options_)),
        spin_(ReplicasFitCores(options_.workers)),
        descriptions_(DescriptionsOf(options_)),
        talk_(environment_, label_, rank_, Info(rank_).worker, descriptions_, options_.exchange,
              call),
        connections_(environment_, options_.secret, options_.listener, Info(rank_).worker),
        table_(options_.table ? options_.table : SelectorTable::BuiltIn()) {}

  Result<FormedGroup> Form() {
    TUTTI_RETURN_IF_ERROR(AgreeOnFacts());
    if (size_ == 1) return FormAlone();
    FormedGroup group;
    const Status status = FormOf(&group);
    if (status.ok()) return group;
    // Others may have got theirs already.
    if (group.transport) {
      group.transport->Leave(Unavailable("it could not form the group: {}", status.message()));
    }
    return status;
  }

 private:
  // Where it fails, *group has the transport that others may be in.
  Status FormOf(FormedGroup* group) {
    const bool one_machine = AllOnOneMachine();
    if (options_.transport != CollectiveTransport::kTcp && one_machine &&
        size_ <= kSharedMaxRanks) {
      TUTTI_RETURN_IF_ERROR(TrySegment(group));
      if (group->transport) return OkStatus();
    }
    if (options_.transport == CollectiveTransport::kSharedMemory) {
      return FailedPrecondition(
          "{}: shared memory is asked for, but {}; set the transport to auto or tcp", label_,
          one_machine ? segment_problem_ : DescribeMachines());
    }
    TUTTI_RETURN_IF_ERROR(FormLinks(group));
    return JoinTheHosts(group);
  }

  const WorkerInfo& Info(int64_t rank) const { return options_.workers[static_cast<size_t>(rank)]; }
  std::vector<int64_t> Workers() const {
    std::vector<int64_t> workers;
    for (const WorkerInfo& info : options_.workers) workers.push_back(info.worker);
    return workers;
  }
  std::vector<std::string> Machines() const {
    std::vector<std::string> machines;
    for (const WorkerInfo& info : options_.workers) machines.push_back(info.boot_id);
    return machines;
  }
  bool SameMachine(int64_t a, int64_t b) const {
    return !Info(a).boot_id.empty() && Info(a).boot_id == Info(b).boot_id;
  }
  bool AllOnOneMachine() const {
    for (int64_t rank = 0; rank < size_; ++rank) {
      if (!SameMachine(0, rank)) return false;
    }
    return true;
  }
  std::string DescribeMachines() const {
    for (int64_t rank = 1; rank < size_; ++rank) {
      if (!SameMachine(0, rank)) {
        return Format("worker {} runs on {} and worker {} on {}", Info(0).worker, Info(0).host,
                      Info(rank).worker, Info(rank).host);
      }
    }
    return Format("there are {} workers and a segment serves {}", size_, kSharedMaxRanks);
  }

  // ---- Stages ----

  Status AgreeOnFacts() {
    std::string facts = EncodeFacts(*table_) + table_->OwnRows();
    facts[kReproducibleAt] = table_->reproducible() ? 1 : 0;
    if (rank_ == 0) {
      const uint64_t drawn = environment_->random().Next();
      std::memcpy(&facts[kDrawnAt], &drawn, sizeof(drawn));
    }
    Status own;
    if (size_ > 1 && options_.listener == nullptr) {
      own = FailedPrecondition("no peer can connect here, which forming a group takes");
    }
    TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> all, talk_.Tell("facts", own, facts));
    bool reproducible = false;
    uint64_t drawn = 0;
    for (std::string& told : all) {
      if (told.size() < kFactsBytes) continue;
      reproducible |= std::exchange(told[kReproducibleAt], 0) != 0;
      if (&told == &all[0]) std::memcpy(&drawn, &told[kDrawnAt], sizeof(drawn));
      std::fill_n(told.begin() + kDrawnAt, sizeof(drawn), '\0');
    }
    // Names do not tell groups apart: parts of several groups may have the same ones.
    connections_.set_id(Format("{} {:x}", label_, drawn));
    for (int64_t rank = 0; rank < size_; ++rank) {
      const std::string& told = all[static_cast<size_t>(rank)];
      if (told.size() >= kFactsBytes && told[0] == all[0][0]) continue;
      const auto name = [](const std::string& text) {
        const size_t number = text.size() >= kFactsBytes ? static_cast<size_t>(text[0]) : 3;
        return number < 3 ? kTransportNames[number] : "of another version";
      };
      return InvalidArgument(
          "{}: the transport of worker {} is {}, of worker {} {}; set the same on all", label_,
          Info(0).worker, name(all[0]), Info(rank).worker, name(told));
    }
    const bool differ = std::any_of(all.begin(), all.end(),
                                    [&](const std::string& told) { return told != all[0]; });
    if (differ) TUTTI_RETURN_IF_ERROR(talk_.Tell("table", TakeTable(all[0]), "").status());
    // Where one wants it, all do.
    if (reproducible) table_ = SelectorTable::Reproducible(*table_);
    return OkStatus();
  }

  // Rank 0's table, from its facts.
  Status TakeTable(std::string_view facts) {
    if (facts == EncodeFacts(*table_) + table_->OwnRows()) return OkStatus();
    TUTTI_ASSIGN_OR_RETURN(
        table_, SelectorTable::Parse(facts.substr(kFactsBytes), "collective table of worker 0"));
    if (facts.substr(0, kFactsBytes) != EncodeFacts(*table_)) {
      return FailedPrecondition(
          "worker 0 chooses algorithms by built-in rows that are not those here; run the same "
          "version of the library on all");
    }
    environment_->log().Info(
        Format("{}: worker 0 has another collective table than this one; its table holds for all",
               label_));
    return OkStatus();
  }
  std::string EncodeFacts(const SelectorTable& table) const {
    std::string facts;
    WireWriter writer(&facts);
    writer.Put(static_cast<uint8_t>(options_.transport));
    writer.Put(table.hash());
    writer.Put(uint8_t{0});
    writer.Put(uint64_t{0});
    return facts;
  }

  Result<FormedGroup> FormAlone() {
    Ref<LocalGroup> group =
        MakeRef<LocalGroup>(environment_, options_.name, 1, options_.epoch, UsableCores(),
                            table_.get());
    FormedGroup formed;
    formed.transport = std::make_unique<LocalTransport>(std::move(group), 0);
    formed.kind = "one rank";
    return formed;
  }

  Result<FileDescriptor> Connect(int64_t to, const std::string& address, std::string_view stage) {
    return connections_.Connect(Info(to).worker, address, stage, talk_.Soon());
  }
  Result<FileDescriptor> Accept(int64_t from, std::string_view stage) {
    return connections_.Accept(Info(from).worker, stage, talk_.Soon());
  }

  // All ranks in one segment; leaves the transport empty when that does not work for somebody.
  Status TrySegment(FormedGroup* group) {
    const FormingConnections::Stage stage(connections_, "segment");
    MakeWindow(size_);
    Ref<SharedSegment> segment;
    FileDescriptor socket;
    Status own;
    if (rank_ == 0) {
      Result<Ref<SharedSegment>> created =
          SharedSegment::Create(SharedTransport::SegmentBytes(size_));
      own = created.status();
      if (created.ok()) segment = std::move(created).value();
    } else {
      Result<FileDescriptor> connected = Connect(0, Info(0).local_address, "segment");
      own = connected.status();
      if (connected.ok()) socket = std::move(connected).value();
    }
    TUTTI_ASSIGN_OR_RETURN(segment_problem_, talk_.TellProblem("segment offered", own));
    if (segment_problem_.empty()) {
      own = rank_ == 0 ? PassSegment(*segment) : TakeSegment(socket, &segment);
      if (own.ok()) own = EnterSegment(std::move(segment), group);
      TUTTI_ASSIGN_OR_RETURN(segment_problem_, talk_.TellProblem("segment entered", own));
    }
    if (segment_problem_.empty()) return OkStatus();
    *group = FormedGroup();
    windows_ = SharedWindows();
    if (rank_ == 0 && options_.transport == CollectiveTransport::kAuto) {
      environment_->log().Warning(
          Format("{}: no shared memory for all workers, links take its place: {}", label_,
                 segment_problem_));
    }
    return OkStatus();
  }

  // Without a window tensors are copied, and that is all.
  void MakeWindow(int64_t ranks) {
    windows_.own = options_.window;
    if (windows_.own || ranks > kMostWindowRanks) return;
    Result<Ref<SharedWindow>> made =
        SharedWindow::Create(SharedWindow::UsualBytes(), &environment_->memory());
    if (made.ok()) {
      windows_.own = std::move(made).value();
    } else {
      environment_->log().Warning(Format("{}: tensors in shared memory will be copied: {}", label_,
                                         made.status().message()));
    }
  }

  Status PassSegment(const SharedSegment& segment) {
    const FileDescriptor memory(fcntl(segment.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!memory) return ErrnoStatus(errno, "dup of the segment");
    // After one has failed the others only hear that it is over: by the end of their socket.
    Status first;
    std::vector<FileDescriptor> sockets(static_cast<size_t>(size_));
    for (int64_t peer = 1; peer < size_; ++peer) {
      Result<FileDescriptor> socket = Accept(peer, "segment");
      Status status = socket.status();
      if (socket.ok() && first.ok()) {
        status = SendDescriptor(*environment_, *socket, memory, "segment", talk_.Soon());
      }
      if (first.ok() && status.ok()) {
        sockets[static_cast<size_t>(peer)] = std::move(socket).value();
      }
      if (first.ok()) first = std::move(status);
    }
    if (size_ > kMostWindowRanks) return first;
    Status passed = HandOutWindows(*environment_, sockets, talk_.Soon(), &windows_);
    return first.ok() ? passed : first;
  }

  Status TakeSegment(const FileDescriptor& socket, Ref<SharedSegment>* segment) {
    std::string text;
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor memory,
                           ReceiveDescriptor(*environment_, socket, &text, talk_.Soon()));
    TUTTI_ASSIGN_OR_RETURN(*segment, SharedSegment::Attach(std::move(memory)));
    if (size_ > kMostWindowRanks) return OkStatus();
    return TakeWindows(*environment_, socket, rank_, size_, talk_.Soon(), &windows_);
  }

  Status EnterSegment(Ref<SharedSegment> segment, FormedGroup* group) {
    SharedGroupOptions options;
    options.name = options_.name;
    options.rank = rank_;
    options.size = size_;
    options.epoch = options_.epoch;
    options.spin = spin_;
    options.table = table_;
    options.describe_peer = [descriptions = descriptions_](int64_t rank) {
      return descriptions[static_cast<size_t>(rank)];
    };
    options.windows = windows_;
    segment->CloseDescriptor();
    TUTTI_ASSIGN_OR_RETURN(
        std::unique_ptr<SharedTransport> transport,
        SharedTransport::Create(environment_, std::move(segment), std::move(options)));
    const SharedTransport* shared = transport.get();
    group->has_left = [shared](int64_t rank) { return shared->HasLeft(rank); };
    group->transport = std::move(transport);
    group->kind = "shared memory";
    group->window = std::move(windows_.own);
    return OkStatus();
  }

  Status FormLinks(FormedGroup* group) {
    links_.resize(static_cast<size_t>(size_));
    TUTTI_RETURN_IF_ERROR(TryRings());
    const bool have_rings = Join(have_ring_, "").find('1') != std::string::npos;
    const Locality locality = have_rings ? Locality::kMixed : Locality::kTcp;
    // Where calls go over a tree, only its neighbours connect now.
    connects_later_ =
        Selector(table_.get(), locality, size_).MayChoose(CollectiveAlgorithm::kTree);
    TUTTI_RETURN_IF_ERROR(ConnectTheRest());

    LinkTransport::Options options;
    options.name = options_.name;
    options.rank = rank_;
    options.size = size_;
    options.epoch = options_.epoch;
    options.spin = spin_;
    options.descriptions = descriptions_;
    options.workers = Workers();
    options.machines = Machines();
    options.table = table_;
    options.locality = locality;
    options.news_ns = LinkTransport::kNewsNs;
    std::map<std::string, int> kinds;
    for (const std::unique_ptr<Link>& link : links_) {
      if (link) ++kinds[link->kind()];
    }
    for (const auto& [kind, count] : kinds) {
      group->kind += Format("{}{} {}", group->kind.empty() ? "" : ", ", count, kind);
    }
    if (connects_later_) group->kind += ", others at first use";
    std::unique_ptr<LinkConnector> connector;
    if (connects_later_) {
      std::vector<int64_t> all(static_cast<size_t>(size_));
      std::iota(all.begin(), all.end(), 0);
      connector = MakeConnector(connections_.id(), all);
    }
    Result<std::unique_ptr<LinkTransport>> transport = LinkTransport::Create(
        environment_, std::move(options), std::move(links_), std::move(connector));
    const Status own = transport.status();
    if (own.ok()) {
      LinkTransport* const links = transport->get();
      group->peer_has_left = [links](int64_t rank, const Status& reason, int64_t patience_ns) {
        links->PeerHasLeft(rank, reason, patience_ns);
      };
      group->transport = std::move(transport).value();
    }
    return talk_.Tell("ready", own, "").status();
  }

  // Puts what goes from host to host before the links, where that works for all.
  Status JoinTheHosts(FormedGroup* group) {
    HostsForming forming;
    forming.layout = HostLayout::OfRings(have_ring_, size_);
    if (!WantsHosts(forming.layout, *table_, size_)) return OkStatus();
    const FormingConnections::Stage inside(connections_, "host segment");
    const FormingConnections::Stage between(connections_, "host");
    forming.environment = environment_;
    forming.name = options_.name;
    forming.rank = rank_;
    forming.epoch = options_.epoch;
    forming.spin = spin_;
    const size_t ranks_here = forming.layout.hosts[forming.layout.PlaceOf(rank_).first].size();
    if (ranks_here > 1) MakeWindow(static_cast<int64_t>(ranks_here));
    forming.window = windows_.own;
    forming.descriptions = descriptions_;
    forming.workers = Workers();
    forming.machines = Machines();
    forming.table = table_;
    forming.tell = [this](std::string_view stage, const Status& own) {
      return talk_.TellProblem(stage, own);
    };
    forming.connect = [this](int64_t rank, bool local, std::string_view what) {
      return Connect(rank, local ? Info(rank).local_address : Info(rank).tcp_address, what);
    };
    forming.accept = [this](int64_t rank, std::string_view what) { return Accept(rank, what); };
    forming.connector = [this](std::span<const int64_t> ranks, std::string_view what) {
      return MakeConnector(Format("{} {}", connections_.id(), what), ranks);
    };
    forming.soon = [this] { return talk_.Soon(); };
    std::unique_ptr<LinkTransport> flat(static_cast<LinkTransport*>(group->transport.release()));
    std::string problem;
    Result<std::unique_ptr<HierarchicalTransport>> joined =
        tutti::JoinHosts(forming, &flat, &problem);
    if (!joined.ok() || !problem.empty()) group->transport = std::move(flat);
    TUTTI_RETURN_IF_ERROR(joined.status());
    if (!problem.empty()) {
      if (rank_ == 0) {
        environment_->log().Warning(Format(
            "{}: calls go from rank to rank and not from host to host: {}", label_, problem));
      }
      return OkStatus();
    }
    HierarchicalTransport* const hosts = joined->get();
    group->peer_has_left = [hosts](int64_t rank, const Status& reason, int64_t patience_ns) {
      hosts->PeerHasLeft(rank, reason, patience_ns);
    };
    group->transport = std::move(joined).value();
    group->window = std::move(windows_.own);
    const auto num_hosts = static_cast<int64_t>(forming.layout.num_hosts());
    group->hosts = Format(", from host to host: {} of them", num_hosts);
    const int64_t num_links = hosts->num_links_between_hosts();
    const bool connects_later = num_links != 0 && num_links < num_hosts - 1;
    if (connects_later) group->hosts += Format(" over {} tcp, others at first use", num_links);
    return OkStatus();
  }

  // Whether some pair of ranks may share memory: all ranks come to the same answer.
  bool SomeShareAMachine() const {
    for (int64_t a = 0; a < size_; ++a) {
      for (int64_t b = a + 1; b < size_; ++b) {
        if (SameMachine(a, b)) return true;
      }
    }
    return false;
  }

  // Links through memory for the pairs where both sides can map it.
  Status TryRings() {
    if (options_.transport == CollectiveTransport::kTcp || !SomeShareAMachine()) return OkStatus();
    const FormingConnections::Stage stage(connections_, "ring");
    const auto n = static_cast<size_t>(size_);
    std::vector<FileDescriptor> sockets(n);
    std::string connected(n, '0');
    Status own;
    for (int64_t peer = 0; peer < rank_; ++peer) {
      if (!SameMachine(peer, rank_)) continue;
      Result<FileDescriptor> socket = Connect(peer, Info(peer).local_address, "ring");
      if (socket.ok()) {
        sockets[static_cast<size_t>(peer)] = std::move(socket).value();
        connected[static_cast<size_t>(peer)] = '1';
      } else if (own.ok() && talk_.CallIsOver()) {
        own = socket.status();
      }
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all, talk_.Tell("rings", own, connected));

    // First give to all higher ranks, then take from the lower ones: nobody waits in a circle.
    std::string attached(n, '0');
    for (int64_t peer = rank_ + 1; peer < size_; ++peer) {
      const std::string& theirs = all[static_cast<size_t>(peer)];
      if (theirs.size() != n || theirs[static_cast<size_t>(rank_)] != '1') continue;
      Keep(peer, AcceptRing(peer), &attached);
    }
    for (int64_t peer = 0; peer < rank_; ++peer) {
      if (connected[static_cast<size_t>(peer)] != '1') continue;
      FileDescriptor& socket = sockets[static_cast<size_t>(peer)];
      Keep(peer, TakeRing(*environment_, std::move(socket), talk_.Soon()), &attached);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> results,
                           talk_.Tell("rings attached", OkStatus(), attached));
    for (int64_t peer = 0; peer < size_; ++peer) {
      const std::string& theirs = results[static_cast<size_t>(peer)];
      if (theirs.size() != n || theirs[static_cast<size_t>(rank_)] != '1') {
        links_[static_cast<size_t>(peer)].reset();
      }
    }
    have_ring_.assign(n, std::string(n, '0'));
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) {
        const bool both = results[a].size() == n && results[b].size() == n &&
                          results[a][b] == '1' && results[b][a] == '1';
        have_ring_[a][b] = both ? '1' : '0';
      }
    }
    return OkStatus();
  }

  void Keep(int64_t peer, Result<std::unique_ptr<RingLink>> ring, std::string* attached) {
    if (!ring.ok()) {
      environment_->log().Warning(Format("{}: no ring in shared memory with {}: {}", label_,
                                         talk_.Describe(peer), ring.status().message()));
      return;
    }
    links_[static_cast<size_t>(peer)] = std::move(ring).value();
    (*attached)[static_cast<size_t>(peer)] = '1';
  }

  Result<std::unique_ptr<RingLink>> AcceptRing(int64_t peer) {
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, Accept(peer, "ring"));
    return OfferRing(*environment_, std::move(socket), talk_.Soon());
  }

  // Between these ranks, of which this is one. No other connector of theirs has the label.
  std::unique_ptr<LinkConnector> MakeConnector(std::string label,
                                               std::span<const int64_t> ranks) const {
    PeerConnectorOptions options;
    options.label = std::move(label);
    options.secret = options_.secret;
    options.listener = Ref<PeerListener>::Retain(options_.listener);
    for (const int64_t rank : ranks) {
      if (rank == rank_) options.rank = std::ssize(options.peers);
      options.peers.push_back({Info(rank).worker, Info(rank).tcp_address});
    }
    return MakePeerConnector(environment_, std::move(options));
  }

  bool NeedsTcp(int64_t peer) const {
    if (peer == rank_ || (connects_later_ && !LinkTree::AreNeighbours(peer, rank_))) return false;
    return have_ring_.empty() ||
           have_ring_[static_cast<size_t>(rank_)][static_cast<size_t>(peer)] != '1';
  }

  Status ConnectTheRest() {
    const FormingConnections::Stage stage(connections_, "tcp");
    Status own;
    for (int64_t peer = 0; peer < rank_ && own.ok(); ++peer) {
      if (!NeedsTcp(peer)) continue;
      if (Info(peer).tcp_address.empty()) {
        own = FailedPrecondition("{} accepts no TCP connections", talk_.Describe(peer));
        break;
      }
      Result<FileDescriptor> socket = Connect(peer, Info(peer).tcp_address, "tcp");
      own = socket.status();
      if (socket.ok()) {
        links_[static_cast<size_t>(peer)] = std::make_unique<TcpLink>(std::move(socket).value());
      }
    }
    // Whoever was to connect has done so: nobody waits for one that could not.
    TUTTI_RETURN_IF_ERROR(talk_.Tell("tcp", own, "").status());
    for (int64_t peer = rank_ + 1; peer < size_ && own.ok(); ++peer) {
      if (!NeedsTcp(peer)) continue;
      Result<FileDescriptor> socket = Accept(peer, "tcp");
      own = socket.status();
      if (socket.ok()) {
        links_[static_cast<size_t>(peer)] = std::make_unique<TcpLink>(std::move(socket).value());
      }
    }
    return talk_.Tell("tcp accepted", own, "").status();
  }

  const Ref<Environment> environment_;
  const GroupFormingOptions options_;
  const int64_t rank_;
  const int64_t size_;
  const std::string label_;
  const bool spin_;
  const std::vector<std::string> descriptions_;
  const FormingTalk talk_;
  FormingConnections connections_;
  std::shared_ptr<const SelectorTable> table_;
  std::string segment_problem_;
  SharedWindows windows_;
  std::vector<std::unique_ptr<Link>> links_;
  bool connects_later_ = false;
  std::vector<std::string> have_ring_;  // [a][b] is '1' for a ring; empty when none was tried
};

}  // namespace

Result<FormedGroup> FormGroup(Ref<Environment> environment, GroupFormingOptions options,
                              const CallOptions& call) {
  return GroupForming(std::move(environment), std::move(options), call).Form();
}

}  // namespace tutti
