// Stage: one op of one running iterator. Stages form the same tree as the graph's nodes; each owns
// its inputs and pulls slabs from them on the thread that pulls from it. Threads are the business
// of the few stages that have them (prefetch, parallel map).
//
// The contract of Next:
//   - At most demand.max_rows rows, and with columns at most kMaxSlabRows. Fewer are fine.
//   - It returns rows, a failed status or the end: never nothing. Once it has a row it does not
//     wait.
//   - No user function runs for a row beyond the demand. Only a stage whose user asked for it
//     (num_parallel_calls, prefetch) makes rows ahead, and none beyond demand.horizon. Who hands a
//     demand down says what it knows of its own input's: rows that it passes over are among them.
//   - A failed status stands for one element that could not be made; the next call goes on behind
//     it where the source can, and fails again where not. DEADLINE_EXCEEDED and CANCELLED stand
//     for none: nothing is lost, and the next call goes on as if they had not been.
//   - After the end it says so again, until Restart.
//   - Calls that pass over rows (demand.count_only) and calls that do not may follow each other as
//     they please, also behind a failure or an interruption; unless demand.all_wanted said that
//     there would be none that pass over.
//   - An element may fail only because it is made, as one whose function fails does. Such a failure
//     is nobody's who passes over the element. Who asks ahead of who may yet do that says so
//     (demand.tentative): then the failed element stays where it is, and the call is interrupted.
//   - Failures come in the order of their elements, each once, and an element that failed keeps its
//     place among the others.
// Save writes the position behind what Next has returned; Restore, on a stage that is new or not,
// goes there. What was returned then and what is returned after Restore are the same.
//
// One thread at a time, but for Stop.
#ifndef TUTTI_CORE_DATASET_EXEC_STAGE_H_
#define TUTTI_CORE_DATASET_EXEC_STAGE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/random.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class Autotuner;
class CallPermits;
class DatasetEnvironment;
class DatasetOptions;
class MemoryAccount;
class NodeProfile;
class RamBudget;
class RunProfile;

// A key for random numbers that depends on all of `values`.
uint64_t KeyOf(std::initializer_list<uint64_t> values);

// The numbers of iterations for stages that are made late, or made again: what they are depends on
// `key` only, and not on when they are drawn or on what else is iterated over.
//
// A dataset that a function gave for an element gets its seeds here, too, wherever nobody gave one:
// what was drawn when it was built is another number in every process. What was built in the
// function has a seed for each element, what the function only hands on has the same for all.
class IterationNumbers {
 public:
  explicit IterationNumbers(uint64_t key) : numbers_(key) {}
  static IterationNumbers OfElement(uint64_t key, uint64_t op_key, uint64_t element_key);
  // Of a part, made late, of what has these numbers.
  IterationNumbers OfPart(uint64_t key, uint64_t index) const;

  int64_t Draw() { return static_cast<int64_t>(numbers_.Next() >> 2); }
  bool gives_seeds() const { return gives_seeds_; }
  int64_t DrawSeed(bool by_element) {
    return static_cast<int64_t>(by_element ? element_seeds_.Next() : op_seeds_.Next());
  }

 private:
  SplitMix64 numbers_;
  bool gives_seeds_ = false;
  uint64_t op_key_ = 0;
  uint64_t element_key_ = 0;
  SplitMix64 op_seeds_{0};
  SplitMix64 element_seeds_{0};
};

// What the stages of one iterator share; outlives them.
struct ExecContext {
  DatasetEnvironment* environment = nullptr;
  MemoryAccount* account = nullptr;  // of this iterator's arenas
  const DatasetOptions* options = nullptr;
  // Made to look at one element only (to learn a spec): draws no iteration numbers, starts no
  // threads.
  bool probe = false;
  // Made to be restored: the iteration's number comes from the state.
  bool restoring = false;
  // Null: the definition numbers its iterations.
  IterationNumbers* numbers = nullptr;
  // For calls on threads of the stages; null: any number.
  CallPermits* permits = nullptr;
  // Of what buffers hold; null: any number of bytes.
  RamBudget* budget = nullptr;
  // Where what is chosen is written down, and measured what is; null: nowhere.
  RunProfile* profile = nullptr;
  // Of the stage that is made; null where it is not measured.
  NodeProfile* record = nullptr;
  // Null: AUTOTUNE is a constant.
  Autotuner* autotuner = nullptr;
  // The node that pauses after each `slack_period` elements; null: none does.
  const Node* slack_node = nullptr;
  int64_t slack_period = 0;
  // Of datasets that functions gave: the depth of those around them, which stand on the same stack.
  int32_t depth_around = 0;

  // The number of this iteration of `node`, for a stage that draws anew for each.
  int64_t DrawIteration(const Node& node) const {
    if (probe || restoring) return 0;
    return numbers != nullptr ? numbers->Draw() : node.DrawIteration();
  }
  // The seed of a seeded `node`.
  int64_t SeedOf(const Node& node) const;
};

class Stage;
using StageInputs = std::vector<std::unique_ptr<Stage>>;

class Stage {
 public:
  Stage(const Node& node, StageInputs inputs)
      : node_(Ref<const Node>::Retain(&node)), inputs_(std::move(inputs)) {}
  virtual ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // `slab` is empty on entry.
  virtual void Next(const Demand& demand, const CallOptions& options, Slab* slab) = 0;
  // Goes to the first element of the next iteration, as repeat wants it: shuffle draws a new order.
  // By default: restarts the inputs.
  virtual Status Restart(const CallOptions& options);

  // By default: those of the inputs. A stage that adds its own writes a Section first.
  virtual Status Save(StateWriter* writer);
  // A reader that fails leaves the stage in some position: the iterator restores into new stages
  // and drops them on failure. Blocking work (replay) obeys `options`.
  virtual Status Restore(StateReader* reader, const CallOptions& options);

  // Tells threads below to end, from any thread, and does not wait; afterwards Next fails. By
  // default: stops the inputs.
  virtual void Stop();
  // Joins threads after Stop. By default: joins the inputs'.
  virtual Status Join(const CallOptions& options);

  const Node& node() const { return *node_; }

 protected:
  Stage& input(size_t i = 0) const { return *inputs_[i]; }
  size_t num_inputs() const { return inputs_.size(); }

 private:
  const Ref<const Node> node_;
  const StageInputs inputs_;
};

// The stage of `node` on those of its inputs, by the op's traits; without inputs where they come
// late. RESOURCE_EXHAUSTED for more stages than anybody has memory for.
Result<std::unique_ptr<Stage>> MakeStage(const Node& node, const ExecContext& context);

// Passes over `count` rows and failed elements; sets *passed to how many there were before the end.
// The failure of the element behind them may come with the last of them: then it is in *behind, and
// the stage will not give it again.
Status PassOver(Stage& stage, int64_t count, const CallOptions& options, int64_t* passed,
                Status* behind);

// DEADLINE_EXCEEDED and CANCELLED: the call ended, not the element.
bool IsInterruption(const Status& status);
// The interruption of a tentative call, at an element that has failed if it is wanted.
Status Undecided(const Node& node);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_STAGE_H_
