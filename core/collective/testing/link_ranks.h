// For tests and benchmarks: communicators over links between threads of this process, of every kind
// of link.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_LINK_RANKS_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_LINK_RANKS_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/collective/group/peer_connector.h"
#include "core/collective/stream/link_connector.h"
#include "core/collective/stream/link_transport.h"
#include "core/collective/stream/link_tree.h"
#include "core/collective/stream/ring_link.h"
#include "core/collective/stream/tcp_link.h"
#include "core/collective/testing/transport_ranks_testing.h"

namespace tutti {

// Of kLater only neighbours in the tree have links, and small calls go over it; of kChain the same,
// and everything goes from neighbour to neighbour that can.
enum class LinkKind { kSocketPair, kTcp, kRing, kMixed, kLater, kChain };

using SocketPair = std::pair<FileDescriptor, FileDescriptor>;

inline SocketPair MakeUnixPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// `receive_bytes` 0: what lies unread may be as much as the system says from time to time.
inline SocketPair MakeTcpPairThatKeeps(int receive_bytes) {
  const auto keep = [receive_bytes](const FileDescriptor& end) {
    if (receive_bytes == 0) return;
    if (setsockopt(end.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)) != 0) {
      std::abort();
    }
  };
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  keep(listener);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  FileDescriptor first(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  keep(first);
  if (connect(first.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    std::abort();
  }
  FileDescriptor second(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!second) std::abort();
  return {std::move(first), std::move(second)};
}

inline SocketPair MakeTcpPair() { return MakeTcpPairThatKeeps(0); }

// Both ends of a link of the kind; of kMixed one or another, as `pair` says.
inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeLinks(
    LinkKind kind, int pair = 0, size_t ring_capacity = RingLink::kDefaultCapacity) {
  if (kind == LinkKind::kMixed) {
    constexpr LinkKind kKinds[] = {LinkKind::kRing, LinkKind::kTcp, LinkKind::kSocketPair};
    kind = kKinds[pair % 3];
  }
  SocketPair sockets = kind == LinkKind::kTcp ? MakeTcpPair() : MakeUnixPair();
  if (kind != LinkKind::kRing) {
    return {std::make_unique<TcpLink>(std::move(sockets.first)),
            std::make_unique<TcpLink>(std::move(sockets.second))};
  }
  const FileDescriptor segment = RingLink::CreateSegment(ring_capacity, 7).value();
  return {RingLink::Attach(std::move(sockets.first), segment, 7, /*first=*/true).value(),
          RingLink::Attach(std::move(sockets.second), segment, 7, /*first=*/false).value()};
}

// links[a][b] is a's end of the link to b.
inline std::vector<std::vector<std::unique_ptr<Link>>> MakeAllLinks(
    size_t size, LinkKind kind, size_t ring_capacity = RingLink::kDefaultCapacity) {
  std::vector<std::vector<std::unique_ptr<Link>>> links(size);
  for (std::vector<std::unique_ptr<Link>>& row : links) row.resize(size);
  int pair = 0;
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      auto [first, second] = MakeLinks(kind, pair++, ring_capacity);
      links[a][b] = std::move(first);
      links[b][a] = std::move(second);
    }
  }
  return links;
}

// Those of neighbours in the tree.
inline std::vector<std::vector<std::unique_ptr<Link>>> MakeTreeLinks(size_t size, LinkKind kind) {
  std::vector<std::vector<std::unique_ptr<Link>>> links = MakeAllLinks(size, kind);
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = 0; b < size; ++b) {
      if (!LinkTree::AreNeighbours(static_cast<int64_t>(a), static_cast<int64_t>(b))) {
        links[a][b].reset();
      }
    }
  }
  return links;
}

class LinkRanks : public TransportRanks {
 public:
  // `kind`: only of groups whose links are not all made here. `names`: as LinkTransport has them.
  LinkRanks(size_t size, std::vector<std::vector<std::unique_ptr<Link>>> links, bool spin = false,
            LinkKind kind = LinkKind::kTcp, const std::vector<int64_t>& names = {}) {
    const bool later = IsLater(kind);
    if (later) StartListeners(size);
    for (size_t rank = 0; rank < size; ++rank) {
      LinkTransport::Options options;
      options.name = "group";
      options.rank = static_cast<int64_t>(rank);
      options.size = static_cast<int64_t>(size);
      options.spin = spin;
      options.names = names;
      for (size_t other = 0; other < size; ++other) {
        options.descriptions.push_back(Describe(static_cast<int64_t>(other)));
      }
      std::unique_ptr<LinkTransport> transport =
          LinkTransport::Create(environment_, TableFor(kind, options), std::move(links[rank]),
                                later ? MakeConnector(rank) : nullptr)
              .value();
      transports_.push_back(transport.get());
      Add(size, std::move(transport));
    }
  }
  LinkRanks(size_t size, LinkKind kind, bool spin = false)
      : LinkRanks(size,
                  IsLater(kind) ? MakeTreeLinks(size, kind) : MakeAllLinks(size, kind), spin,
                  kind) {}
  ~LinkRanks() {
    CloseRanks();
    for (const Ref<PeerListener>& listener : listeners_) {
      if (!listener->Close(CallOptions()).ok()) std::abort();
    }
  }

  LinkTransport& transport(size_t rank) { return *transports_[rank]; }
  PeerListener& listener(size_t rank) { return *listeners_[rank]; }
  // Of all ranks; each link has two ends.
  int64_t num_link_ends() const {
    int64_t ends = 0;
    for (const LinkTransport* transport : transports_) ends += transport->num_links();
    return ends;
  }

 private:
  static bool IsLater(LinkKind kind) {
    return kind == LinkKind::kLater || kind == LinkKind::kChain;
  }
  static LinkTransport::Options TableFor(LinkKind kind, LinkTransport::Options options) {
    if (!IsLater(kind)) return options;
    const char* const rows =
        kind == LinkKind::kLater
            ? "all_reduce tcp any 4KiB tree; reduce tcp any 4KiB tree; "
              "broadcast tcp any any tree; all_gather tcp any 1KiB tree"
            : "all_reduce tcp any 16 tree; broadcast tcp any any tree;"
              "all_reduce tcp any any chain 16KiB; reduce tcp any any chain 16KiB;"
              "reduce_scatter tcp any any chain 16KiB; all_gather tcp any 64 tree;"
              "all_gather tcp any any ring";
    options.table = SelectorTable::Parse(rows, "test").value();
    return options;
  }
  void StartListeners(size_t size) {
    secret_ = JobSecret::Generate().value();
    for (size_t rank = 0; rank < size; ++rank) {
      PeerListener::Options options;
      options.secret = secret_;
      options.worker = static_cast<int64_t>(rank);
      listeners_.push_back(PeerListener::Create(environment_, options).value());
    }
  }
  std::unique_ptr<LinkConnector> MakeConnector(size_t rank) {
    PeerConnectorOptions options;
    options.label = "group";
    options.secret = secret_;
    options.listener = listeners_[rank];
    options.rank = static_cast<int64_t>(rank);
    for (size_t other = 0; other < listeners_.size(); ++other) {
      options.peers.push_back({static_cast<int64_t>(other), listeners_[other]->local_address()});
    }
    return MakePeerConnector(environment_, std::move(options));
  }

  JobSecret secret_;
  std::vector<Ref<PeerListener>> listeners_;  // of kLater
  std::vector<LinkTransport*> transports_;  // the communicators'
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_LINK_RANKS_H_
