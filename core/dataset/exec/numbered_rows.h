// NumberedRows: an input whose elements are numbered in their order, for messages, and whose rows
// can be put back: what a stage took and has not used yet.
#ifndef TUTTI_CORE_DATASET_EXEC_NUMBERED_ROWS_H_
#define TUTTI_CORE_DATASET_EXEC_NUMBERED_ROWS_H_

#include <cstdint>
#include <deque>
#include <span>

#include "core/dataset/exec/stage.h"

namespace tutti {

class NumberedRows {
 public:
  // Rows that follow each other in the input, and what comes after them.
  struct Run {
    Slab slab;
    int64_t first = 0;  // the number of the first row, or of what comes without one
  };

  explicit NumberedRows(Stage& input) : input_(input) {}

  // As Stage::Next; what was put back comes first.
  void Pull(const Demand& demand, const CallOptions& options, Run* run);
  // Rows from `from` on, and the status or end after them, come again with the next Pull. They have
  // columns: they were not pulled to be passed over.
  void PutBack(const Run& run, int64_t from);

  // What was put back is part of the position, and before it `taken`, which somebody holds: after
  // Restore both come again. Restart and Stop are those of the stage's input.
  Status Save(StateWriter* writer, std::span<const Run> taken = {}) const;
  void Restore(StateReader* reader);
  void Clear();

 private:
  Stage& input_;
  std::deque<Run> held_;
  int64_t next_ = 0;  // the number of the input's next element
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_NUMBERED_ROWS_H_
