// InputRows: an input of a stage whose rows can be put back: what a stage took and could not use
// yet, because a row before it failed or another input gave fewer.
#ifndef TUTTI_CORE_DATASET_EXEC_INPUT_ROWS_H_
#define TUTTI_CORE_DATASET_EXEC_INPUT_ROWS_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "core/dataset/exec/stage.h"

namespace tutti {

// Slabs in the order in which they come, with what comes after their rows.
class HeldRows {
 public:
  bool empty() const { return slabs_.empty(); }
  void Append(Slab slab) { slabs_.push_back(std::move(slab)); }
  // Rows from `from` on, and the status or end after them, before all others.
  void Prepend(const Slab& slab, int64_t from);
  // Up to `max_rows` rows of the first slab. There is one.
  void Pop(int64_t max_rows, Slab* slab);

  Status Save(StateWriter* writer) const;
  void Restore(StateReader* reader);
  void Clear() { slabs_.clear(); }

 private:
  std::deque<Slab> slabs_;
};

class InputRows {
 public:
  explicit InputRows(Stage& input) : input_(input) {}

  // As Stage::Next; what was put back comes first.
  void Pull(const Demand& demand, const CallOptions& options, Slab* slab);
  // Rows from `from` on of what was pulled last, and the status or end after them, come again with
  // the next Pull. They have columns: they were not pulled to be passed over.
  void PutBack(const Slab& slab, int64_t from) { held_.Prepend(slab, from); }

  // What was put back is part of the position. Restart and Stop are those of the stage's input.
  Status Save(StateWriter* writer) const { return held_.Save(writer); }
  void Restore(StateReader* reader) { held_.Restore(reader); }
  void Clear() { held_.Clear(); }

 private:
  Stage& input_;
  HeldRows held_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_INPUT_ROWS_H_
