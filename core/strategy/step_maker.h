// StepMaker: takes elements from an iterator and makes of them this worker's part of one step after
// the other (step_plan.h).
//
// Elements come from what a restored position still holds, then from the source. An interrupted
// step keeps the elements it has; a step that was made and not committed is made again by the next
// call. An element that failed stands for itself: it is a step's failure once, and the step goes on
// behind it with the next call. One thread at a time.

#ifndef TUTTI_CORE_STRATEGY_STEP_MAKER_H_
#define TUTTI_CORE_STRATEGY_STEP_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/iterator.h"
#include "core/strategy/step_plan.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/value.h"

namespace tutti {

class StateReader;
class StateWriter;

// This worker's part of a step.
struct LocalStep {
  // An element of the source, or the failure that stands in its place.
  struct Item {
    Ref<Value> element;
    Status failure;
  };
  // Where the step begins in its items: blocks of the first one, or rows of it, that are used up.
  struct Position {
    int64_t block = 0;
    int64_t row = 0;
  };

  std::vector<Ref<Value>> parts;  // of the first replicas, as many as have data; none: the end
  int64_t rows = 0;               // of all parts
  Status failure;                 // of an element
  Position begin;
  std::vector<Item> items;  // what it is made of
};

class StepMaker {
 public:
  StepMaker(StepPlan plan, Ref<Iterator> source);
  ~StepMaker();

  // Returns interruptions (deadline, cancellation) only; they lose nothing.
  Status Make(const CallOptions& call, LocalStep* step);
  // The step that Make gave, which had no failure, has been used.
  void Commit();

  // The position before `step`, which was made, committed and not used after all (null: behind what
  // was committed).
  Status Save(const LocalStep* step, StateWriter* writer, const CallOptions& call);
  // On failure the maker is where it was. `tree` is the elements' structure; `same_cut`: it was
  // saved with as many workers and replicas.
  Status Restore(StateReader* reader, const Ref<const TreeSpec>& tree, bool same_cut,
                 const CallOptions& call);

  Iterator& source() const { return *source_; }

 private:
  using Item = LocalStep::Item;

  Status NextItem(const CallOptions& call, Item* item);
  // Puts one more element into items_; false at the end and for a failure, which goes into *step.
  Result<bool> Fetch(const CallOptions& call, LocalStep* step);
  Status MakeDealt(const CallOptions& call, LocalStep* step);
  Status MakeCeil(const CallOptions& call, LocalStep* step);
  Status MakeEven(const CallOptions& call, LocalStep* step);
  // The first element turned out not to be a batch: it is used up and stands for a failure.
  void FailItem(size_t index, Status failure, LocalStep* step);

  const StepPlan plan_;
  const Ref<Iterator> source_;
  std::deque<Item> restored_;  // elements before the source's position
  std::deque<Item> items_;     // of the step that is being made
  std::deque<int64_t> rows_;   // EVEN: the rows of each of items_
  LocalStep::Position position_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STEP_MAKER_H_
