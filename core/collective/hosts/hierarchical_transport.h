// HierarchicalTransport: ranks on several hosts, of which some have several. A call goes through
// memory inside each host, from host to host, and through memory again, so that its bytes pass
// between two hosts once, and not once per rank. It is made of transports that there are anyway:
//
//   inside    the segment of this host's ranks; none where this rank is alone
//   between   a link to one rank of each other host: of those at the same place of their hosts
//             where all hosts have as many ranks, else of the first ones, the leaders
//   flat      links between all ranks
//
// all_reduce: a small payload, or one between hosts of different sizes, is folded at the leader,
// folded among leaders, and spread inside. Of a large one every rank of a host folds a share, folds
// it with those at its place of the other hosts, and all put the shares together. The others alike
// (hierarchical_reduce.cc, hierarchical_move.cc). A payload of several chunks, as the table has
// them, is in memory and between the hosts at once (host_pipeline.h). Sends, receives and calls
// that have no such form, or for which the table says so, go over the flat links.
//
// All ranks must notice when they are in different calls, and a rank waits in one part for peers
// that may be in another. Hence the order: every call of a rank that is no leader begins inside its
// host, and the first thing that a leader does between hosts is a call of leaders. Each of these
// compares the calls as the ranks made them (CollectiveCall::whole). So leaders either meet, or one
// of them is still inside its host, where everybody comes first; and whoever finds a difference
// ends the epoch of all parts. A call over the flat links therefore begins with a meeting inside
// and one of the leaders.
//
// The first error of any part ends all of them. A rank that waits in one looks after the others 20
// times a second: over the flat links it hears of every rank, also of one that waits for this rank
// to send or receive, and will not come to the call. (A transfer says how many calls were before
// it.) Deadlines: who waits for a rank that itself waits for others lets these speak first, for a
// moment, because they know who is missing.
//
// The order of a fold is: the ranks of a host in their order, then the hosts. Of operations where
// that shows (sums of floats), it differs from the order of the ranks; a group that is reproducible
// (SelectorTable) folds them over the flat links. 16-bit floats travel as float32 and are rounded
// once; means of integers, whose sum must not wrap, go over the flat links too.

#ifndef TUTTI_CORE_COLLECTIVE_HOSTS_HIERARCHICAL_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_HOSTS_HIERARCHICAL_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/memory_parts.h"
#include "core/collective/call/transport.h"
#include "core/collective/hosts/host_layout.h"
#include "core/collective/hosts/host_pipeline.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_transport.h"
#include "core/collective/stream/link_transport.h"

namespace tutti {

class HierarchicalTransport final : public Transport {
 public:
  struct Options {
    int64_t rank = 0;
    int64_t size = 1;
    HostLayout layout;
    std::shared_ptr<const SelectorTable> table;  // null: the built-in one
  };
  struct Parts {
    std::unique_ptr<SharedTransport> inside;  // by place in the host; null where it has one rank
    // By host. Null for a rank that is no leader, where the hosts differ in size.
    std::unique_ptr<LinkTransport> between;
    std::unique_ptr<LinkTransport> flat;
  };

  HierarchicalTransport(Ref<Environment> environment, Options options, Parts parts);
  ~HierarchicalTransport() override;

  const char* name() const override { return flat_->name(); }
  // What asks for it goes over the flat links.
  bool is_reproducible() const override { return selector_.reproducible(); }
  const char* WhyNoRing(CollectiveOp op) const override { return flat_->WhyNoRing(op); }
  Status Execute(CollectiveCall* call) override;
  Status Fail(Status error) override;
  Status failure() const override;
  bool ClaimFlightRecord() override { return !flight_record_claimed_.exchange(true); }
  void Leave(Status reason) override;
  // Of tensors that the ranks of this host read where they are.
  BufferAllocator* allocator() const override { return inside_ ? inside_->allocator() : nullptr; }

  // Of this rank to other hosts, apart from the flat ones: that there are, or have been.
  int64_t num_links_between_hosts() const { return between_ ? between_->num_links() : 0; }

  // A peer has left the job. What waits for it over a link gets `patience_ns` to find a goodbye
  // there (LinkTransport::PeerHasLeft).
  void PeerHasLeft(int64_t rank, const Status& reason, int64_t patience_ns);

 private:
  // Which wait of a call: who waits for a relay gives it time to say whom it waits for.
  enum class Waits { kForRanks, kForHosts, kForRelay };
  // While a call runs: what its waits look at besides what they wait for.
  class Watch;
  // A payload of one dtype, from `input` to `output`, which may be the same.
  struct Piece {
    DType dtype = DType::kInvalid;
    int64_t count = 0;
    const void* input = nullptr;
    void* output = nullptr;
    // Fill elements of `input`, and take them from `output`; null: they lie where the caller has
    // them.
    std::function<void(int64_t begin, int64_t end)> load;
    std::function<void(int64_t begin, int64_t end)> store;

    int64_t bytes() const;
    Piece Part(int64_t begin, int64_t end) const;
  };
  // `count` elements in chunks of nearly equal size, the same on all ranks.
  struct Chunks {
    int64_t count = 0;
    int64_t each = 0;  // elements; the last has what is over besides
    int64_t num = 1;

    int64_t Begin(int64_t chunk) const { return chunk == num ? count : chunk * each; }
  };

  bool is_leader() const { return place_ == 0; }
  int64_t num_hosts() const { return static_cast<int64_t>(options_.layout.num_hosts()); }
  int64_t ranks_here() const { return static_cast<int64_t>(here_.size()); }
  // kFlat: over the flat links.
  Selector::Choice Choose(const CallHeader& header) const;
  // Where `grain` parts of a chunk begin, a cache line does, too.
  Chunks ChunksOf(int64_t count, int64_t item_bytes, int64_t grain) const;

  Status Run(CollectiveCall* call);
  Status RunFlat(CollectiveCall* call);
  Status Barrier(const CollectiveCall& call);
  // Inside and among the leaders, all compare what they are in.
  Status Meet(const CollectiveCall& call);
  // Inside: until the leader has met those of the other hosts.
  Status AwaitLeader(const CollectiveCall& call);

  // ---- hierarchical_reduce.cc ----

  Status AllReduce(const CollectiveCall& call);
  Status Reduce(const CollectiveCall& call);
  Status ReduceScatter(const CollectiveCall& call);
  // Of a broadcast of the leader's.
  CollectiveMemory Spread(void* memory) const;
  Status AllReducePiece(const CollectiveCall& call, const Piece& piece);
  // Of a part at the leaders, and from there.
  Status FoldAtLeader(const CollectiveCall& call, const Piece& part);
  Status FoldAmongLeaders(const CollectiveCall& call, const Piece& part, Cancellation* stop);
  Status SpreadFromLeader(const CollectiveCall& call, const Piece& part);
  // Every rank of a host has a share of it, and the leader `rest` elements besides.
  struct Shares {
    int64_t own = 0;    // bytes before the own share
    int64_t share = 0;  // elements
    int64_t end = 0;    // bytes before the rest
    int64_t rest = 0;
  };
  Shares SharesOf(const Piece& part) const;
  Status FoldShares(const CollectiveCall& call, const Piece& part);
  Status FoldAmongHosts(const CollectiveCall& call, const Piece& part, Cancellation* stop);
  Status GatherShares(const CollectiveCall& call, const Piece& part);

  // ---- hierarchical_move.cc ----

  Status Broadcast(const CollectiveCall& call);
  Status AllGather(const CollectiveCall& call);

  // ---- One part of `whole`; `part` has header and memory ----

  Status Inside(const CollectiveCall& whole, const CallHeader& header,
                std::span<const CollectiveMemory> memory, Waits waits);
  // `stop` ends its waiting: the call's cancellation, or what the pipeline has.
  Status Between(const CollectiveCall& whole, const CallHeader& header,
                 std::span<const CollectiveMemory> memory, Cancellation* stop);
  Deadline DeadlineFor(const CollectiveCall& whole, Waits waits) const;
  // Runs the stages of all chunks.
  Status RunChunks(int64_t chunks, HostPipeline::Stages stages);

  // ---- The epoch ----

  Status FailureSoFar() const;
  // Whether a part that this rank is not in has failed; then all have.
  Status LookAround(const CollectiveCall* call) const;
  static bool Poll(void* self);
  Status EndAll(Status error) const;

  const Ref<Environment> environment_;
  const Options options_;
  const Selector selector_;
  const size_t host_;
  const size_t place_;  // in the host
  const std::vector<int64_t> here_;  // the ranks of the host
  const std::unique_ptr<SharedTransport> inside_;
  const std::unique_ptr<LinkTransport> between_;
  const std::unique_ptr<LinkTransport> flat_;

  // Of the thread that makes calls.
  int64_t last_collective_ = 0;  // its number; transfers carry it as their root
  int64_t inside_calls_ = 0;
  int64_t between_calls_ = 0;  // the pipeline's while it runs
  int64_t flat_calls_ = 0;
  int64_t chunk_bytes_ = 0;  // of the call that runs
  AlignedRoom scratch_;
  AlignedRoom more_scratch_;
  Ref<Cancellation> watch_;
  const CollectiveCall* call_ = nullptr;  // that runs
  std::unique_ptr<HostPipeline> pipeline_;

  std::atomic<bool> flight_record_claimed_{false};
  mutable std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards failure_
  mutable Status failure_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_HOSTS_HIERARCHICAL_TRANSPORT_H_
