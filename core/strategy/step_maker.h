// StepMaker: takes elements from a source and makes of them this worker's part of one step after
// the other (step_plan.h). Where every replica has an input pipeline of its own there is an
// source for each, of which it gets one element in each step, as long as there are some.
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
#include "core/strategy/step_plan.h"
#include "core/strategy/step_source.h"
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

// What Save wrote: where the sources stand, and what had been taken from them and not used up.
struct MakerState {
  // Of a source that is dealt its parts, without iterators, and which of them comes next.
  std::vector<SourcePart> parts;
  size_t turn = 0;
  bool is_dealt = false;
  std::vector<std::string_view> states;  // of each source, or part
  LocalStep::Position position;
  std::deque<LocalStep::Item> items;
};
// `tree` is the elements' structure.
Result<MakerState> ReadMakerState(StateReader* reader, const Ref<const TreeSpec>& tree,
                                  bool is_dealt);
// The elements behind `position`, where a step of `plan` begins: what is left of the first ones is
// an element of its own.
Result<std::deque<LocalStep::Item>> ItemsBehind(std::deque<LocalStep::Item> items,
                                                const LocalStep::Position& position,
                                                const StepPlan& plan);

class StepMaker {
 public:
  // One source, or one for each replica of a plan that cuts nothing.
  StepMaker(StepPlan plan, std::vector<StepSource> sources);
  ~StepMaker();

  // Returns interruptions (deadline, cancellation) only; they lose nothing.
  Status Make(const CallOptions& call, LocalStep* step);
  // The step that Make gave, which had no failure, has been used.
  void Commit();

  // The position before `steps`, which were made and committed one after the other, and not used
  // after all (none: behind what was committed).
  Status Save(std::span<const LocalStep* const> steps, StateWriter* writer,
              const CallOptions& call);
  // Of a source that is not dealt. On failure the maker is where it was. `same_cut`: it was saved
  // with as many workers and replicas.
  Status Restore(MakerState state, bool same_cut, const CallOptions& call);
  // Goes to `items`, then `sources`, whose former ones come back. Not while CloseSources may run.
  std::vector<StepSource> Replace(std::vector<StepSource> sources,
                                  std::deque<LocalStep::Item> items,
                                  const LocalStep::Position& position);
  // What Restore went to, for another maker's Replace; this one has no sources then.
  std::vector<StepSource> Take(std::deque<LocalStep::Item>* items, LocalStep::Position* position);

  const StepPlan& plan() const { return plan_; }
  const std::vector<StepSource>& sources() const { return sources_; }
  bool is_dealt() const { return sources_[0].is_dealt(); }

  // Closes all sources; the first failure of them.
  Status CloseSources(const CallOptions& options) const;

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
  std::vector<StepSource> sources_;
  std::deque<Item> restored_;  // elements before the sources' positions
  int64_t taken_ = 0;          // items
  std::deque<Item> items_;     // of the step that is being made
  std::deque<int64_t> rows_;   // EVEN: the rows of each of items_
  LocalStep::Position position_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_STEP_MAKER_H_
