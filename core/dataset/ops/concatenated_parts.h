// ConcatenatedParts: the parts of a chain of appending ops, in the order of their elements, found
// one after the other without recursion: the chain may be of any length and grow to any side, and
// what is appended to itself again and again has more parts than could be listed.
#ifndef TUTTI_CORE_DATASET_OPS_CONCATENATED_PARTS_H_
#define TUTTI_CORE_DATASET_OPS_CONCATENATED_PARTS_H_

#include <cstdint>
#include <vector>

#include "core/dataset/graph/node.h"

namespace tutti {

class ConcatenatedParts {
 public:
  // `chain` outlives this object, which stands at the first part.
  explicit ConcatenatedParts(const Node& chain) : chain_(chain) { Seek(0); }

  // Null behind the last one.
  const Node* part() const { return to_come_.empty() ? nullptr : to_come_.back(); }
  int64_t index() const { return index_; }
  void Advance();
  // To part `index`, in [0, num_parts()]: takes as many steps as the chain is long at most.
  void Seek(int64_t index);

 private:
  // Puts the inputs of the chain that comes next in its place, from the one with its part `index`
  // on, until a part comes next.
  void Open(int64_t index);

  const Node& chain_;
  int64_t index_ = 0;
  // The last is the part; what follows it stands before it, whole chains as one.
  std::vector<const Node*> to_come_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_CONCATENATED_PARTS_H_
