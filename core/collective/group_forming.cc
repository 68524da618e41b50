#include "core/collective/group_forming.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/cluster/file_descriptor.h"
#include "core/cluster/peer_listener.h"
#include "core/collective/call_header_wire.h"
#include "core/collective/hierarchical_forming.h"
#include "core/collective/link_connector.h"
#include "core/collective/link_transport.h"
#include "core/collective/link_tree.h"
#include "core/collective/local_group.h"
#include "core/collective/local_transport.h"
#include "core/collective/ring_link.h"
#include "core/collective/shared_segment.h"
#include "core/collective/shared_transport.h"
#include "core/collective/tcp_link.h"
#include "core/collective/usable_cores.h"
#include "core/collective/window_passing.h"
#include "core/collective/wire_bytes.h"

namespace tutti {
namespace {

constexpr uint8_t kWentWell = 0;
constexpr uint8_t kFailed = 1;
constexpr size_t kMaxReasonBytes = 500;
// Transport, hash of the table, whether folds are reproducible; the table's own rows follow.
constexpr size_t kReproducibleAt = 1 + sizeof(uint64_t);
constexpr size_t kFactsBytes = kReproducibleAt + 1;
// What a peer has announced takes no longer, or the peer is in trouble of its own.
constexpr int64_t kStepLimitNs = 30 * kSecondNs;
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

std::string EncodeToken(uint64_t token) {
  std::string bytes;
  WireWriter(&bytes).Put(token);
  return bytes;
}

class GroupForming {
 public:
  GroupForming(Ref<Environment> environment, GroupFormingOptions options, const CallOptions& call)
      : environment_(std::move(environment)),
        options_(std::move(options)),
        call_(call),
        rank_(options_.worker),
        size_(static_cast<int64_t>(options_.workers.size())),
        label_(LabelOf(options_)),
        spin_(ReplicasFitCores(options_.workers)),
        table_(options_.table ? options_.table : SelectorTable::BuiltIn()) {
    for (const WorkerInfo& info : options_.workers) {
      const std::string& here = options_.workers[static_cast<size_t>(rank_)].host;
      descriptions_.push_back(
          info.host == here ? Format("worker {}, pid {}", info.worker, info.pid)
                            : Format("worker {}, pid {} on {}", info.worker, info.pid, info.host));
    }
  }

  Result<FormedGroup> Form() {
    TUTTI_RETURN_IF_ERROR(AgreeOnFacts());
    if (size_ == 1) return FormAlone();
    FormedGroup group;
    const bool one_machine = AllOnOneMachine();
    if (options_.transport != CollectiveTransport::kTcp && one_machine &&
        size_ <= kSharedMaxRanks) {
      TUTTI_RETURN_IF_ERROR(TrySegment(&group));
      if (group.transport) return group;
    }
    if (options_.transport == CollectiveTransport::kSharedMemory) {
      return FailedPrecondition(
          "{}: shared memory is asked for, but {}; set the transport to auto or tcp", label_,
          one_machine ? segment_problem_ : DescribeMachines());
    }
    TUTTI_RETURN_IF_ERROR(FormLinks(&group));
    TUTTI_RETURN_IF_ERROR(JoinTheHosts(&group));
    return group;
  }

 private:
  const WorkerInfo& Info(int64_t rank) const { return options_.workers[static_cast<size_t>(rank)]; }
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
  std::string Describe(int64_t rank) const {
    return Format("rank {} ({})", rank, descriptions_[static_cast<size_t>(rank)]);
  }

  // ---- Telling ----

  // Tells all workers what this one found in `stage`; gives what all have found, or the error of
  // the first of them that failed.
  Result<std::vector<std::string>> Tell(std::string_view stage, const Status& own,
                                        std::string_view facts) {
    std::string bytes;
    WireWriter writer(&bytes);
    writer.Put(own.ok() ? kWentWell : kFailed);
    if (own.ok()) {
      bytes.append(facts);
    } else {
      const Status named = own.WithPrefix(Describe(rank_));
      AppendStatus(named.With("rank", rank_).With("worker", Info(rank_).worker), &bytes);
    }
    Result<std::vector<std::string>> all =
        options_.exchange(Format("{}: {}", label_, stage), std::move(bytes), call_);
    if (!all.ok()) return own.ok() ? all.status() : own;
    for (int64_t rank = 0; rank < size_; ++rank) {
      std::string& told = (*all)[static_cast<size_t>(rank)];
      if (told.empty()) {
        return DataLoss("{}: {} told nothing in stage {}", label_, Describe(rank), stage);
      }
      if (told[0] != kWentWell) {
        return ParseStatus(std::string_view(told).substr(1)).WithPrefix(label_);
      }
      told.erase(0, 1);
    }
    return all;
  }

  // The same for a stage that may fail without ending the forming: gives why it did not work for
  // somebody, or an empty text.
  Result<std::string> TellProblem(std::string_view stage, const Status& own) {
    const bool ends = !own.ok() && CallIsOver();
    std::string problem;
    if (!own.ok()) {
      problem = Format("{}: {}", Describe(rank_), own.message()).substr(0, kMaxReasonBytes);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                           Tell(stage, ends ? own : OkStatus(), problem));
    for (const std::string& told : all) {
      if (!told.empty()) return told;
    }
    return std::string();
  }

  // For what should take no time: others wait for the outcome. A quarter of the time that is left
  // is kept for telling them, or they would know that time is up and not because of whom.
  CallOptions Soon() const {
    const int64_t left_ns = call_.deadline.RemainingNs(environment_->clock());
    const int64_t limit_ns = std::min(kStepLimitNs, left_ns - left_ns / 4);
    return CallOptions{Deadline::After(environment_->clock(), limit_ns), call_.cancellation};
  }
  bool CallIsOver() const {
    return call_.deadline.Expired(environment_->clock()) ||
           (call_.cancellation != nullptr && call_.cancellation->cancelled());
  }

  // ---- Stages ----

  Status AgreeOnFacts() {
    std::string facts = EncodeFacts(*table_) + table_->OwnRows();
    facts[kReproducibleAt] = table_->reproducible() ? 1 : 0;
    Status own;
    if (size_ > 1 && options_.listener == nullptr) {
      own = FailedPrecondition("no peer can connect here, which forming a group takes");
    }
    TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> all, Tell("facts", own, facts));
    bool reproducible = false;
    for (std::string& told : all) {
      if (told.size() < kFactsBytes) continue;
      reproducible |= std::exchange(told[kReproducibleAt], 0) != 0;
    }
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
    if (differ) TUTTI_RETURN_IF_ERROR(Tell("table", TakeTable(all[0]), "").status());
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
    PeerPurpose purpose;
    purpose.name = Format("{} {}", label_, stage);
    purpose.from = Info(rank_).worker;
    purpose.to = Info(to).worker;
    return ConnectPeer(*environment_, options_.secret, address, purpose, Soon());
  }
  Result<FileDescriptor> Accept(int64_t from, std::string_view stage) {
    return options_.listener->Accept(Format("{} {}", label_, stage), Info(from).worker,
                                     Soon());
  }

  // All ranks in one segment; leaves the transport empty when that does not work for somebody.
  Status TrySegment(FormedGroup* group) {
    MakeWindow();
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
    TUTTI_ASSIGN_OR_RETURN(segment_problem_, TellProblem("segment offered", own));
    if (segment_problem_.empty()) {
      own = rank_ == 0 ? PassSegment(*segment) : TakeSegment(socket, &segment);
      if (own.ok()) own = EnterSegment(std::move(segment), group);
      TUTTI_ASSIGN_OR_RETURN(segment_problem_, TellProblem("segment entered", own));
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
  void MakeWindow() {
    windows_.own = options_.window;
    if (windows_.own || size_ > kMostWindowRanks) return;
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
    // All are served, also after one has failed.
    Status first;
    std::vector<FileDescriptor> sockets(static_cast<size_t>(size_));
    for (int64_t peer = 1; peer < size_; ++peer) {
      Result<FileDescriptor> socket = Accept(peer, "segment");
      Status status = socket.status();
      if (socket.ok()) status = SendDescriptor(*environment_, *socket, memory, "segment", Soon());
      if (status.ok()) sockets[static_cast<size_t>(peer)] = std::move(socket).value();
      if (first.ok()) first = std::move(status);
    }
    if (size_ > kMostWindowRanks) return first;
    Status passed = HandOutWindows(*environment_, sockets, Soon(), &windows_);
    return first.ok() ? passed : first;
  }

  Status TakeSegment(const FileDescriptor& socket, Ref<SharedSegment>* segment) {
    std::string text;
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor memory,
                           ReceiveDescriptor(*environment_, socket, &text, Soon()));
    TUTTI_ASSIGN_OR_RETURN(*segment, SharedSegment::Attach(std::move(memory)));
    if (size_ > kMostWindowRanks) return OkStatus();
    return TakeWindows(*environment_, socket, rank_, size_, Soon(), &windows_);
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
    options.table = table_;
    options.locality = locality;
    std::map<std::string, int> kinds;
    for (const std::unique_ptr<Link>& link : links_) {
      if (link) ++kinds[link->kind()];
    }
    for (const auto& [kind, count] : kinds) {
      group->kind += Format("{}{} {}", group->kind.empty() ? "" : ", ", count, kind);
    }
    if (connects_later_) group->kind += ", others at first use";
    Result<std::unique_ptr<LinkTransport>> transport = LinkTransport::Create(
        environment_, std::move(options), std::move(links_), MakeConnector());
    TUTTI_RETURN_IF_ERROR(Tell("ready", transport.status(), "").status());
    LinkTransport* const links = transport->get();
    group->peer_has_left = [links](int64_t rank, const Status& reason, int64_t patience_ns) {
      links->PeerHasLeft(rank, reason, patience_ns);
    };
    group->transport = std::move(transport).value();
    return OkStatus();
  }

  // Puts what goes from host to host before the links, where that works for all.
  Status JoinTheHosts(FormedGroup* group) {
    HostsForming forming;
    forming.layout = HostLayout::OfRings(have_ring_, size_);
    if (!WantsHosts(forming.layout, *table_, size_)) return OkStatus();
    forming.environment = environment_;
    forming.name = options_.name;
    forming.rank = rank_;
    forming.epoch = options_.epoch;
    forming.spin = spin_;
    forming.descriptions = descriptions_;
    forming.table = table_;
    forming.tell = [this](std::string_view stage, const Status& own) {
      return TellProblem(stage, own);
    };
    forming.connect = [this](int64_t rank, bool local, std::string_view what) {
      return Connect(rank, local ? Info(rank).local_address : Info(rank).tcp_address, what);
    };
    forming.accept = [this](int64_t rank, std::string_view what) { return Accept(rank, what); };
    forming.soon = [this] { return Soon(); };
    std::unique_ptr<LinkTransport> flat(static_cast<LinkTransport*>(group->transport.release()));
    std::string problem;
    Result<std::unique_ptr<HierarchicalTransport>> joined =
        tutti::JoinHosts(forming, &flat, &problem);
    TUTTI_RETURN_IF_ERROR(joined.status());
    if (!problem.empty()) {
      if (rank_ == 0) {
        environment_->log().Warning(Format(
            "{}: calls go from rank to rank and not from host to host: {}", label_, problem));
      }
      group->transport = std::move(flat);
      return OkStatus();
    }
    HierarchicalTransport* const hosts = joined->get();
    group->peer_has_left = [hosts](int64_t rank, const Status& reason, int64_t patience_ns) {
      hosts->PeerHasLeft(rank, reason, patience_ns);
    };
    group->transport = std::move(joined).value();
    group->hosts = Format(", from host to host: {} of them", forming.layout.num_hosts());
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
      } else if (own.ok() && CallIsOver()) {
        own = socket.status();
      }
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> all, Tell("rings", own, connected));

    // First give to all higher ranks, then take from the lower ones: nobody waits in a circle.
    std::string attached(n, '0');
    for (int64_t peer = rank_ + 1; peer < size_; ++peer) {
      const std::string& theirs = all[static_cast<size_t>(peer)];
      if (theirs.size() != n || theirs[static_cast<size_t>(rank_)] != '1') continue;
      Keep(peer, OfferRing(peer), &attached);
    }
    for (int64_t peer = 0; peer < rank_; ++peer) {
      if (connected[static_cast<size_t>(peer)] != '1') continue;
      Keep(peer, TakeRing(std::move(sockets[static_cast<size_t>(peer)])), &attached);
    }
    TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> results,
                           Tell("rings attached", OkStatus(), attached));
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
                                         Describe(peer), ring.status().message()));
      return;
    }
    links_[static_cast<size_t>(peer)] = std::move(ring).value();
    (*attached)[static_cast<size_t>(peer)] = '1';
  }

  Result<std::unique_ptr<RingLink>> OfferRing(int64_t peer) {
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, Accept(peer, "ring"));
    const uint64_t token = environment_->random().Next();
    TUTTI_ASSIGN_OR_RETURN(const FileDescriptor memory,
                           RingLink::CreateSegment(RingLink::kDefaultCapacity, token));
    TUTTI_RETURN_IF_ERROR(
        SendDescriptor(*environment_, socket, memory, EncodeToken(token), Soon()));
    return RingLink::Attach(std::move(socket), memory, token, /*first=*/true);
  }

  Result<std::unique_ptr<RingLink>> TakeRing(FileDescriptor socket) {
    std::string text;
    TUTTI_ASSIGN_OR_RETURN(const FileDescriptor memory,
                           ReceiveDescriptor(*environment_, socket, &text, Soon()));
    WireReader reader(text);
    const auto token = reader.Take<uint64_t>();
    if (!reader.complete()) return DataLoss("a token of {} bytes", text.size());
    return RingLink::Attach(std::move(socket), memory, token, /*first=*/false);
  }

  std::unique_ptr<LinkConnector> MakeConnector() {
    if (!connects_later_) return nullptr;
    PeerConnectorOptions options;
    options.label = label_;
    options.secret = options_.secret;
    options.listener = Ref<PeerListener>::Retain(options_.listener);
    options.rank = rank_;
    for (const WorkerInfo& info : options_.workers) {
      options.peers.push_back({info.worker, info.tcp_address});
    }
    return MakePeerConnector(environment_, std::move(options));
  }

  bool NeedsTcp(int64_t peer) const {
    if (peer == rank_ || (connects_later_ && !LinkTree::AreNeighbours(peer, rank_))) return false;
    return have_ring_.empty() ||
           have_ring_[static_cast<size_t>(rank_)][static_cast<size_t>(peer)] != '1';
  }

  Status ConnectTheRest() {
    Status own;
    for (int64_t peer = 0; peer < rank_ && own.ok(); ++peer) {
      if (!NeedsTcp(peer)) continue;
      if (Info(peer).tcp_address.empty()) {
        own = FailedPrecondition("{} accepts no TCP connections", Describe(peer));
        break;
      }
      Result<FileDescriptor> socket = Connect(peer, Info(peer).tcp_address, "tcp");
      own = socket.status();
      if (socket.ok()) {
        links_[static_cast<size_t>(peer)] = std::make_unique<TcpLink>(std::move(socket).value());
      }
    }
    // Whoever was to connect has done so: nobody waits for one that could not.
    TUTTI_RETURN_IF_ERROR(Tell("tcp", own, "").status());
    for (int64_t peer = rank_ + 1; peer < size_ && own.ok(); ++peer) {
      if (!NeedsTcp(peer)) continue;
      Result<FileDescriptor> socket = Accept(peer, "tcp");
      own = socket.status();
      if (socket.ok()) {
        links_[static_cast<size_t>(peer)] = std::make_unique<TcpLink>(std::move(socket).value());
      }
    }
    return Tell("tcp accepted", own, "").status();
  }

  const Ref<Environment> environment_;
  const GroupFormingOptions options_;
  const CallOptions call_;
  const int64_t rank_;
  const int64_t size_;
  const std::string label_;
  const bool spin_;
  std::shared_ptr<const SelectorTable> table_;
  std::vector<std::string> descriptions_;
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
