// RamBudget: how many bytes of elements the buffers of one iterator may hold in all, as the option
// autotune.ram_budget says; and HeldBytes, what the buffer of one stage holds of it.
//
// Buffers are of two kinds. What runs ahead (prefetch, parallel maps and interleaves) waits while
// there is no room, but for the one element that its consumer waits for. What has to keep elements
// to give any (shuffle, batches, windows, groups, the keys of unique) fails once what is kept has
// reached the budget: RESOURCE_EXHAUSTED naming the operation that keeps most. A cache in memory
// gives the pass up, and goes on without.
//
// Counted are the bytes of the elements themselves; not what it costs to hold them, nor what is on
// its way through the stages, nor what readers have of their files.
//
//   HeldBytes held(context, node, HeldBytes::Kind::kKept);
//   TUTTI_RETURN_IF_ERROR(held.CheckRoom());
//   input().Next(Demand::Made(held.RowsThatFit(wanted), horizon), options, &rows);
//   held.Add(rows);
//
// Without a budget nothing is counted: every function is a comparison with null.
// Threads: any, but for making and ending HeldBytes, which is their stage's.
#ifndef TUTTI_CORE_DATASET_EXEC_RAM_BUDGET_H_
#define TUTTI_CORE_DATASET_EXEC_RAM_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/node.h"
#include "core/tensor/value.h"

namespace tutti {

// The bytes of the elements' tensors, of byte strings with their text, and of a dataset in them
// that is a value of its own (OpTraits::is_value). The same for rows however they lie in columns.
int64_t ElementBytes(const Slab& rows);
int64_t ElementBytes(const Value& element);

class HeldBytes;

class RamBudget {
 public:
  // At least 1.
  explicit RamBudget(int64_t limit_bytes) : limit_(limit_bytes) {}
  RamBudget(const RamBudget&) = delete;
  RamBudget& operator=(const RamBudget&) = delete;

  int64_t limit_bytes() const { return limit_; }
  int64_t held_bytes() const { return kept_bytes() + ahead_.load(std::memory_order_relaxed); }
  int64_t kept_bytes() const { return kept_.load(std::memory_order_relaxed); }

 private:
  friend class HeldBytes;

  // `asking` has no room for what it has to keep.
  Status NoRoom(const Node& asking) const;

  const int64_t limit_;
  std::atomic<int64_t> kept_{0};
  std::atomic<int64_t> ahead_{0};
  mutable std::mutex mutex_;  // guards all below
  std::vector<const HeldBytes*> all_;
};

class HeldBytes {
 public:
  enum class Kind : uint8_t {
    kKept,   // fails where there is no room
    kAhead,  // waits
  };

  HeldBytes(const ExecContext& context, const Node& node, Kind kind);
  ~HeldBytes();
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  // Whether there is a budget.
  bool counts() const { return budget_ != nullptr; }

  void Add(const Slab& rows) {
    if (counts() && rows.rows > 0) AddBytes(rows.rows, ElementBytes(rows));
  }
  void Remove(const Slab& rows) {
    if (counts() && rows.rows > 0) AddBytes(0, -ElementBytes(rows));
  }
  // `rows` are new ones, whose sizes tell what is to come.
  void AddBytes(int64_t rows, int64_t bytes);
  // In the place of all before.
  void Set(int64_t bytes);
  void Clear() { Set(0); }

  // Of a row, going by those that there were; -1 when there were none.
  int64_t BytesEach() const;
  // Whether more may be made ahead.
  bool HasRoom() const { return !counts() || budget_->held_bytes() < budget_->limit_; }
  // Before more is kept: RESOURCE_EXHAUSTED when as much is kept as may be.
  Status CheckRoom() const;
  // Before as much is kept as is: RESOURCE_EXHAUSTED when that is too much.
  Status CheckWithin() const;
  // As many of so many rows as there is room for, going by those that there were; at least one.
  int64_t RowsThatFit(int64_t rows) const;

 private:
  friend class RamBudget;

  RamBudget* const budget_;
  const Ref<const Node> node_;
  const Kind kind_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> seen_rows_{0};
  std::atomic<int64_t> seen_bytes_{0};
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_RAM_BUDGET_H_
