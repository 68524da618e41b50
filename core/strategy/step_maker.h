// StepMaker: takes elements from an iterator and makes of them this worker's part of one step after
// the other (step_plan.h). Where every replica has an input pipeline of its own there is an
// iterator for each, of which it gets one element in each step, as long as there are some.
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
#include <span>
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
    Ref<Value> element;  // null with no failure: the source has ended
    Status failure;
    size_t source = 0;
    int64_t number = 0;  // in the order in which they were taken
  };
  // Where the step begins in its items: blocks of the first one, or rows of it, that are used up.
  struct Position {
    int64_t block = 0;
    int64_t row = 0;
  };

  // Of the first replicas, as many as have data; none: the end. Null where a replica's own source
  // has ended before others'.
  std::vector<Ref<Value>> parts;
  int64_t rows = 0;               // of all parts
  Status failure;                 // of an element
  Position begin;
  std::vector<Item> items;  // what it is made of
};

class StepMaker {
 public:
  // One source, or one for each replica of a plan that cuts nothing.
  StepMaker(StepPlan plan, std::vector<Ref<Iterator>> sources);
  ~StepMaker();

  // Returns interruptions (deadline, cancellation) only; they lose nothing.
  Status Make(const CallOptions& call, LocalStep* step);
  // The step that Make gave, which had no failure, has been used.
  void Commit();

  // The position before `steps`, which were made and committed one after the other, and not used
  // after all (none: behind what was committed).
  Status Save(std::span<const LocalStep* const> steps, StateWriter* writer,
              const CallOptions& call);
  // On failure the maker is where it was. `tree` is the elements' structure; `same_cut`: it was
  // saved with as many workers and replicas.
  Status Restore(StateReader* reader, const Ref<const TreeSpec>& tree, bool same_cut,
                 const CallOptions& call);

  // Closes all sources; the first failure of them.
  Status CloseSources(const CallOptions& options);

 private:
  using Item = LocalStep::Item;

  Status NextItem(const CallOptions& call, Item* item);
  // Of what was restored and not taken, the next of a source; restored_.end() where there is none.
  std::deque<Item>::iterator NextRestored(size_t source);
  // All sources or none.
  Status RestoreSources(std::span<const std::string_view> states, const CallOptions& call);
  // Puts one more element into items_; false at the end and for a failure, which goes into *step.
  Result<bool> Fetch(const CallOptions& call, LocalStep* step);
  Status MakeDealt(const CallOptions& call, LocalStep* step);
  Status MakeCeil(const CallOptions& call, LocalStep* step);
  Status MakeEven(const CallOptions& call, LocalStep* step);
  // The first element turned out not to be a batch: it is used up and stands for a failure.
  void FailItem(size_t index, Status failure, LocalStep* step);

  const StepPlan plan_;
  const std::vector<Ref<Iterator>> sources_;
  std::deque<Item> restored_;  // elements before the sources' positions
  int64_t taken_ = 0;          // items
  std::deque<Item> items_;     // of the step that is being made
  std::deque<int64_t> rows_;   // EVEN: the rows of each of items_
  LocalStep::Position position_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STEP_MAKER_H_
