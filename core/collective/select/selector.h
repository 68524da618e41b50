// Which algorithm a collective takes: a table of rows
//
//   collective      where          ranks  up to        algorithm        [chunk]
//   all_reduce      shared_memory  3-     64KiB/ranks  flat_fold
//   all_reduce      shared_memory  3-4    any          slice_and_share  128KiB
//
// of which the first that fits a call holds. SelectorTable is the table, as text and typed; what a
// user says stands before the built-in rows, which so remain for everything else. Selector is what
// is left of it for one group: its locality and number of ranks are known, and a choice is a few
// comparisons.
//
// All ranks of a group must choose alike. So a group has one table, rank 0's (group_forming.h), and
// a choice depends on that and on what all ranks know of a call.
//
// Columns: `ranks` is "any", "4", "2-4" or "2-"; `up to` is the payload in bytes, "any", or a size
// that is shared by the ranks ("/ranks") or by the others ("/peers"). What counts as payload is the
// rank's input, and of a reduce_scatter over links one share of it; tensors of one call together,
// each rounded up to what the transport aligns it to. In an all_reduce over shared memory 16-bit
// floats count as float32, which they are folded as. `chunk`: what a large payload is cut into;
// only where the algorithm has one that may be chosen.

#ifndef TUTTI_CORE_COLLECTIVE_SELECT_SELECTOR_H_
#define TUTTI_CORE_COLLECTIVE_SELECT_SELECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/collective/call/call_header.h"

namespace tutti {

// How the ranks of a group reach each other. kTcp are links by TCP alone, kMixed links of which
// some, or all, are rings in memory. kSharedWindow is kSharedMemory for tensors that lie in the
// ranks' windows (shared_window.h).
enum class Locality : int32_t {
  kInProcess = 0,
  kSharedMemory = 1,
  kTcp = 2,
  kMixed = 3,
  kSharedWindow = 4,
  // kMixed between hosts that have a segment each (hierarchical_transport.h).
  kHosts = 5,
};
const char* LocalityName(Locality locality);

enum class CollectiveAlgorithm : int32_t {
  kFlatFold = 0,       // everybody folds the inputs of all, after one meeting
  kSliceAndShare = 1,  // everybody folds a slice and gives it to who needs it
  kSliceFold = 2,      // the root, or everybody its share, folds straight from the inputs
  kDirect = 3,         // out of the memory of the rank that has it
  kSegments = 4,       // cut up, through the segment or the links
  // Of a shared_window: as the rows of shared_memory say. In a process: slice_and_share, of which
  // peers read and write copies of what is not in place.
  kStaged = 5,
  kHierarchical = 6,   // inside each host, from host to host, and inside again
  kFlat = 7,           // of hosts: from rank to rank, as the rows of mixed say
  // Over a tree of the ranks (link_tree.cc). Where a group has rows with it, its pairs connect when
  // they first need to, and not all at once.
  kTree = 8,
  // From neighbour to neighbour, in the order of the ranks, and back (link_chain.cc).
  kChain = 9,
  kRing = 10,  // the same around: what comes from the rank before goes to the next one
};
const char* AlgorithmName(CollectiveAlgorithm algorithm);

struct SelectorRow {
  enum class Per : int32_t { kCall, kRanks, kPeers };
  static constexpr int64_t kAny = INT64_MAX;

  CollectiveOp op = CollectiveOp::kNone;
  Locality locality = Locality::kInProcess;
  int64_t least_ranks = 1;
  int64_t most_ranks = kAny;
  int64_t limit = kAny;  // of the payload
  Per per = Per::kCall;  // what the limit is shared by
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kDirect;
  int64_t chunk_bytes = 0;  // 0: the algorithm has none to be chosen

  // The most bytes it holds for, in a group of that size.
  int64_t LimitOf(int64_t ranks) const;
};

class SelectorTable {
 public:
  // What holds where nobody says otherwise.
  static std::shared_ptr<const SelectorTable> BuiltIn();
  // Rows as above, a line or what stands between two semicolons each, "#" beginning a comment;
  // before the built-in ones. `origin` ("a file's path") is for messages: INVALID_ARGUMENT names
  // the line, what it says and what is allowed there, or says that rows are more than kMostOwnRows.
  static Result<std::shared_ptr<const SelectorTable>> Parse(std::string_view text,
                                                            std::string_view origin);
  // The same rows, and that no fold may depend on how ranks are spread over hosts.
  static std::shared_ptr<const SelectorTable> Reproducible(const SelectorTable& table);

  // They travel to the other ranks.
  static constexpr size_t kMostOwnRows = 500;

  std::span<const SelectorRow> rows() const { return rows_; }
  // How many of them, at the beginning, are not built in.
  size_t num_own_rows() const { return num_own_rows_; }
  // Whether every fold goes in the order of the ranks, element by element: an algorithm that has
  // another order is not taken for operations on which it shows.
  bool reproducible() const { return reproducible_; }
  // All rows, in columns, in order, in the form that Parse reads.
  std::string ToString() const;
  // The own rows alone.
  std::string OwnRows() const;
  // Equal for tables that choose alike by the same rows.
  uint64_t hash() const { return hash_; }

 private:
  SelectorTable() = default;

  std::vector<SelectorRow> rows_;
  size_t num_own_rows_ = 0;
  uint64_t hash_ = 0;
  bool reproducible_ = false;
};

class Selector {
 public:
  struct Choice {
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kDirect;
    int64_t chunk_bytes = 0;
  };

  // Null: the built-in table.
  Selector(const SelectorTable* table, Locality locality, int64_t ranks);

  // `op` is one of those with a payload, no send or receive.
  Choice Choose(CollectiveOp op, int64_t bytes) const noexcept {
    const std::vector<Step>& steps = steps_[static_cast<size_t>(op)];
    for (const Step& step : steps) {
      if (bytes <= step.limit) return step.choice;
    }
    return steps.empty() ? Choice() : steps.back().choice;
  }
  bool Chooses(CollectiveAlgorithm algorithm, CollectiveOp op, int64_t bytes) const noexcept {
    return Choose(op, bytes).algorithm == algorithm;
  }
  // Whether the table says that folds go in the order of the ranks.
  bool reproducible() const noexcept { return reproducible_; }
  // For some collective and payload.
  bool MayChoose(CollectiveAlgorithm algorithm) const noexcept;
  // The largest payload for which `op` may take `algorithm`; -1 for none.
  int64_t MostBytes(CollectiveOp op, CollectiveAlgorithm algorithm) const noexcept;

 private:
  struct Step {
    int64_t limit;  // the limits grow
    Choice choice;
  };

  const bool reproducible_;
  std::array<std::vector<Step>, static_cast<size_t>(kLastCollectiveOp) + 1> steps_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_SELECT_SELECTOR_H_
