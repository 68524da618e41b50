// LinkConnector over a worker's listener: a connection with one purpose is a link, one with another
// is a lower rank's wish for one, and is closed as soon as it has been noticed.

#include "core/collective/group/peer_connector.h"

#include <algorithm>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/stream/tcp_link.h"

namespace tutti {
namespace {

class PeerConnector final : public LinkConnector {
 public:
  PeerConnector(Ref<Environment> environment, PeerConnectorOptions options)
      : environment_(std::move(environment)),
        options_(std::move(options)),
        link_purpose_(options_.label + " pair"),
        wish_purpose_(options_.label + " wish") {}

  ~PeerConnector() override {
    if (link_watch_ != 0) {
      options_.listener->Unwatch(link_purpose_, link_watch_, std::move(last_words_));
    }
    if (wish_watch_ != 0) options_.listener->Unwatch(wish_purpose_, wish_watch_);
  }

  Result<std::unique_ptr<Link>> Connect(int64_t rank, const CallOptions& call) override {
    TUTTI_ASSIGN_OR_RETURN(FileDescriptor socket, ConnectTo(rank, link_purpose_, call));
    return std::unique_ptr<Link>(std::make_unique<TcpLink>(std::move(socket)));
  }

  Status Ask(int64_t rank, const CallOptions& call) override {
    return ConnectTo(rank, wish_purpose_, call).status();
  }

  void Watch(std::function<void()> arrived) override {
    link_watch_ = options_.listener->Watch(link_purpose_, arrived);
    wish_watch_ = options_.listener->Watch(wish_purpose_, std::move(arrived));
  }

  void SetLastWords(std::string frames) override { last_words_ = std::move(frames); }

  Arrivals TakeArrivals() override {
    Arrivals arrivals;
    for (auto& [worker, socket] : options_.listener->TakeAll(link_purpose_)) {
      const int64_t rank = RankOf(worker);
      if (rank <= options_.rank) continue;
      arrivals.links.emplace_back(rank, std::make_unique<TcpLink>(std::move(socket)));
    }
    for (const auto& [worker, socket] : options_.listener->TakeAll(wish_purpose_)) {
      const int64_t rank = RankOf(worker);
      if (rank >= 0 && rank < options_.rank) arrivals.asking.push_back(rank);
    }
    return arrivals;
  }

 private:
  Result<FileDescriptor> ConnectTo(int64_t rank, const std::string& purpose_name,
                                   const CallOptions& call) {
    const auto& [worker, address] = options_.peers[static_cast<size_t>(rank)];
    const PeerPurpose purpose{
        purpose_name, options_.peers[static_cast<size_t>(options_.rank)].first, worker};
    return ConnectPeer(*environment_, options_.secret, address, purpose, call);
  }
  // -1: not in the group.
  int64_t RankOf(int64_t worker) const {
    const auto it = std::find_if(options_.peers.begin(), options_.peers.end(),
                                 [&](const auto& peer) { return peer.first == worker; });
    return it == options_.peers.end() ? -1 : it - options_.peers.begin();
  }

  const Ref<Environment> environment_;
  const PeerConnectorOptions options_;
  const std::string link_purpose_;
  const std::string wish_purpose_;
  uint64_t link_watch_ = 0;
  uint64_t wish_watch_ = 0;
  std::string last_words_;
};

}  // namespace

std::unique_ptr<LinkConnector> MakePeerConnector(Ref<Environment> environment,
                                                 PeerConnectorOptions options) {
  return std::make_unique<PeerConnector>(std::move(environment), std::move(options));
}

}  // namespace tutti
