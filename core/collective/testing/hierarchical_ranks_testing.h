// For tests and benchmarks: communicators between threads of this process that are on several hosts
// in name, with a segment per host and TCP between them.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_HIERARCHICAL_RANKS_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_HIERARCHICAL_RANKS_TESTING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/collective/hosts/hierarchical_transport.h"
#include "core/collective/shm/shared_segment.h"
#include "core/collective/testing/link_ranks.h"
#include "core/collective/testing/transport_ranks_testing.h"

namespace tutti {

// Counts what is sent.
class CountedLink final : public Link {
 public:
  CountedLink(std::unique_ptr<Link> link, std::shared_ptr<std::atomic<int64_t>> sent)
      : link_(std::move(link)), sent_(std::move(sent)) {}

  bool is_near() const override { return link_->is_near(); }
  const char* kind() const override { return link_->kind(); }
  int64_t TrySend(std::span<const iovec> parts) override {
    const int64_t sent = link_->TrySend(parts);
    if (sent > 0) sent_->fetch_add(sent, std::memory_order_relaxed);
    return sent;
  }
  int64_t TryReceive(std::span<const iovec> parts) override { return link_->TryReceive(parts); }
  bool PrepareSleep(bool want_read, bool want_write, pollfd* entry) override {
    return link_->PrepareSleep(want_read, want_write, entry);
  }
  void EndSleep(const pollfd& entry) override { link_->EndSleep(entry); }
  std::string CloseReason() const override { return link_->CloseReason(); }

 private:
  const std::unique_ptr<Link> link_;
  const std::shared_ptr<std::atomic<int64_t>> sent_;
};

class HierarchicalRanks : public TransportRanks {
 public:
  // Takes the place of a rank's link to another host.
  using WrapBetween =
      std::function<std::unique_ptr<Link>(int64_t rank, std::unique_ptr<Link> link)>;

  // `machines` by rank: ranks of equal ones are on one host. Where hosts need not be joined, over
  // the flat links alone.
  explicit HierarchicalRanks(const std::vector<std::string>& machines,
                             std::shared_ptr<const SelectorTable> table = nullptr,
                             const WrapBetween& wrap_between = nullptr)
      : layout_(HostLayout::Of(machines)) {
    const size_t size = machines.size();
    auto flat = MakeAllLinks(size, LinkKind::kSocketPair);
    std::vector<Ref<SharedSegment>> segments;
    std::vector<std::vector<std::vector<std::unique_ptr<Link>>>> columns;
    const size_t num_columns = layout_.equal() ? layout_.hosts[0].size() : 1;
    for (size_t place = 0; place < num_columns; ++place) {
      columns.push_back(MakeAllLinks(layout_.num_hosts(), LinkKind::kTcp));
    }
    for (const std::vector<int64_t>& host : layout_.hosts) {
      segments.push_back(
          SharedSegment::Create(SharedTransport::SegmentBytes(static_cast<int64_t>(host.size())))
              .value());
    }
    for (size_t rank = 0; rank < size; ++rank) {
      const auto [host, place] = layout_.PlaceOf(static_cast<int64_t>(rank));
      HierarchicalTransport::Options options;
      options.rank = static_cast<int64_t>(rank);
      options.size = static_cast<int64_t>(size);
      options.layout = layout_;
      options.table = table;
      HierarchicalTransport::Parts parts;
      if (layout_.hosts[host].size() > 1) parts.inside = Inside(segments[host], host, place, table);
      if (place < num_columns) {
        for (std::unique_ptr<Link>& link : columns[place][host]) {
          if (link && wrap_between) link = wrap_between(options.rank, std::move(link));
        }
        parts.between = Links(layout_.Column(place), static_cast<int64_t>(host),
                              std::move(columns[place][host]), table, nullptr);
      }
      std::vector<int64_t> all(size);
      for (size_t i = 0; i < size; ++i) all[i] = static_cast<int64_t>(i);
      parts.flat = Links(all, static_cast<int64_t>(rank), std::move(flat[rank]), table, &machines);
      std::unique_ptr<Transport> transport = std::move(parts.flat);
      if (layout_.worthwhile()) {
        parts.flat.reset(static_cast<LinkTransport*>(transport.release()));
        transport = std::make_unique<HierarchicalTransport>(environment_, std::move(options),
                                                            std::move(parts));
      }
      Add(size, std::move(transport));
    }
  }

  // What has been sent from host to host since the last time.
  int64_t TakeBytesBetweenHosts() { return between_bytes_->exchange(0); }
  int64_t bytes_between_hosts() const { return between_bytes_->load(); }

 private:
  std::unique_ptr<SharedTransport> Inside(const Ref<SharedSegment>& segment, size_t host,
                                          size_t place,
                                          const std::shared_ptr<const SelectorTable>& table) {
    SharedGroupOptions options;
    options.name = "group";
    options.rank = static_cast<int64_t>(place);
    options.size = static_cast<int64_t>(layout_.hosts[host].size());
    options.table = table;
    options.names = layout_.hosts[host];
    options.describe_peer = [names = options.names](int64_t rank) {
      return Describe(names[static_cast<size_t>(rank)]);
    };
    return SharedTransport::Create(environment_, segment, std::move(options)).value();
  }

  // `machines`: of all ranks, else each is on another host.
  std::unique_ptr<LinkTransport> Links(const std::vector<int64_t>& names, int64_t rank,
                                       std::vector<std::unique_ptr<Link>> links,
                                       const std::shared_ptr<const SelectorTable>& table,
                                       const std::vector<std::string>* machines) {
    LinkTransport::Options options;
    options.name = "group";
    options.rank = rank;
    options.size = static_cast<int64_t>(names.size());
    options.table = table;
    options.locality = machines != nullptr ? Locality::kMixed : Locality::kTcp;
    for (const int64_t name : names) options.descriptions.push_back(Describe(name));
    if (machines == nullptr) options.names = names;
    for (size_t peer = 0; peer < links.size(); ++peer) {
      const bool counts = machines == nullptr ||
                          (*machines)[peer] != (*machines)[static_cast<size_t>(rank)];
      if (!links[peer] || !counts) continue;
      links[peer] = std::make_unique<CountedLink>(std::move(links[peer]), between_bytes_);
    }
    return LinkTransport::Create(environment_, std::move(options), std::move(links)).value();
  }

  const HostLayout layout_;
  const std::shared_ptr<std::atomic<int64_t>> between_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_HIERARCHICAL_RANKS_TESTING_H_
