// KeyGroups: what group_by_window has read and not given to its function: rows by key, in the order
// in which they came, and how many of a key make a group.
#ifndef TUTTI_CORE_DATASET_OPS_KEY_GROUPS_H_
#define TUTTI_CORE_DATASET_OPS_KEY_GROUPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"
#include "core/tensor/leaf.h"
#include "core/tensor/value.h"

namespace tutti {

// The integer that `what` ("key_func") gave, a scalar of any integer dtype; INVALID_ARGUMENT for
// anything else. Of a uint64, which is_unsigned says, the bits.
Status ReadInteger(const Value& result, std::string_view what, int64_t* integer,
                   bool* is_unsigned);

// Keys are the same when their numbers are, whatever dtypes they have come in.
struct GroupKey {
  int64_t value = 0;         // of a uint64 its bits
  bool is_unsigned = false;  // a uint64

  bool is_large() const { return is_unsigned && value < 0; }
  friend bool operator<(const GroupKey& a, const GroupKey& b) {
    return a.is_large() != b.is_large() ? b.is_large() : a.value < b.value;
  }
  // A scalar: of uint64, or else of int64.
  Ref<Value> ToValue() const;
};

class KeyGroups {
 public:
  // `size` > 0: of every group; 0: each key has its own.
  explicit KeyGroups(int64_t size) : size_(size) {}

  // Whether it is known how many rows make a group of this key.
  bool KnowsSize(const GroupKey& key) const { return size_ > 0 || groups_.contains(key); }
  // Of a key whose size is not known.
  void SetSize(const GroupKey& key, int64_t size);
  // Of a key whose size is known. No group is full. INVALID_ARGUMENT for a row of another structure
  // than those before it.
  Status Add(const GroupKey& key, Ref<const Value> row);
  // No group gets full before so many more rows.
  int64_t RowsUntilFull() const;

  struct Group {
    int64_t size = 0;
    std::vector<Ref<const Value>> rows;

    // The rows [begin, end).
    Slab Slice(size_t begin, size_t end) const;
  };
  using Entry = std::pair<const GroupKey, Group>;
  // The group that is full; null when there is none.
  const Entry* full() const { return full_; }
  // The group of the smallest key that has rows; null when there is none. Sizes of keys before it
  // are forgotten: nothing more comes.
  const Entry* First();
  // The rows are gone. A size that is the key's own stays.
  void Remove(const Entry& group);

  // Of all rows (exec/ram_budget.h).
  int64_t ElementBytes() const;

  void Clear();
  Status Save(StateWriter* writer) const;
  void Restore(StateReader* reader);

 private:
  void Note(Entry& group);

  const int64_t size_;
  std::map<GroupKey, Group> groups_;  // by keys that have rows, or a size of their own
  std::multiset<int64_t> missing_;    // of groups of size_: how many rows each lacks
  const Entry* full_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_KEY_GROUPS_H_
