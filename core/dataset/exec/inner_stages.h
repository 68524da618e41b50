// InnerStages: the running datasets inside one stage, made one by one while it runs: those that a
// function gives for elements, or parts whose turn comes. flat_map, interleave, group_by_window,
// snapshot and long concatenations have them here.
//
//   Result<Inner*> inner = inners_.Make(element, index, options);   // calls the function
//   (*inner)->stage().Next(...);
//   inners_.End(*inner);                                            // told to stop, not waited for
//   TUTTI_RETURN_IF_ERROR(inners_.JoinEnded(options));              // with whose deadline ever
//
// Saved is what the function was given and where the stage stands; to restore, the function is
// called again, and must give an equal dataset. What is drawn at random in a dataset that a
// function gave follows from the seed of the outer op, from the pass over it and from the element's
// index, and never from when or where it was built: so all workers have the same, and a restored
// iterator has what the saved one had.
//
// Files that the function wants written (recorded_writes.h) are a part of the dataset: its stage
// writes them before its first element, and its state says whether they have been.
//
// Threads: Make, MakePart and Stop from any; all others by who has the outer stage for itself.
#ifndef TUTTI_CORE_DATASET_EXEC_INNER_STAGES_H_
#define TUTTI_CORE_DATASET_EXEC_INNER_STAGES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/tensor/value.h"

namespace tutti {

// The dataset that a function's result is; INVALID_ARGUMENT for anything else.
Result<Ref<const Dataset>> DatasetOfResult(const Value& result);

// An element on its own in a saved state.
Status WriteElement(const Value& element, StateWriter* writer);
Result<Ref<const Value>> ReadElement(StateReader* reader);

// What the function gives for `argument`, to be looked at: files that it wants written are not.
Result<Ref<const Dataset>> LookAtDataset(FunctionRows* function, const Value& argument,
                                         const CallOptions& options);
// The same of the first function of `node`, for an element of its input.
Result<Ref<const Dataset>> LookAtInnerDataset(const Node& node, const ExecContext& context,
                                              const Ref<Value>& element,
                                              const CallOptions& options);

class InnerStages {
 public:
  class Inner {
   public:
    Stage& stage() const { return *stage_; }
    // Null of a part.
    const Dataset* dataset() const { return dataset_.get(); }
    int64_t index() const { return index_; }

   private:
    friend class InnerStages;
    Ref<const Value> element_;  // what the function was given
    int64_t index_ = 0;
    Ref<const Dataset> dataset_;
    mutable std::string header_;  // of the dataset's graph; empty before it is wanted
    // The stages refer to both.
    IterationNumbers numbers_{0};
    ExecContext context_;
    std::unique_ptr<Stage> stage_;
  };

  // `use`: the node's function that gives the datasets; its first one for elements of the input.
  InnerStages(const Node& node, const ExecContext& context, FunctionUse use = {});

  // The dataset that the function gives for `element`, number `index` in this pass of those that it
  // is given: elements of the input, or what the stage makes of them. A failure is that element's;
  // an interruption leaves everything as it is.
  Result<Inner*> Make(Ref<const Value> element, int64_t index, const CallOptions& options);
  // `part` of the node, its part `index`.
  Result<Inner*> MakePart(const Node& part, int64_t index, bool restoring = false);

  // Tells it to stop; `inner` is not used any more.
  void End(Inner* inner);
  // Joins the threads of those that were ended. An interruption leaves the rest to the next call.
  Status JoinEnded(const CallOptions& options);
  Status EndAll(const CallOptions& options);

  // A new pass over the input begins, in which all is drawn anew.
  void BeginPass() { ++pass_; }

  // What all of them have in common.
  void Save(StateWriter* writer) const;
  void Restore(StateReader* reader);
  // What the function was given for this one; its stage is saved beside it.
  Status SaveElement(const Inner& inner, StateWriter* writer) const;
  // Made again, for its stage to be restored.
  Result<Inner*> RestoreElement(StateReader* reader, const CallOptions& options);

  void Stop();
  // After Stop.
  Status Join(const CallOptions& options) { return EndAll(options); }

 private:
  static Status MakeHeader(const Inner& inner);
  Result<Inner*> MakeFrom(Ref<const Value> element, int64_t index, bool restoring,
                          const CallOptions& options);
  Result<Inner*> Add(std::unique_ptr<Inner> inner, const Node& node, bool restoring);

  const Node& node_;
  const FunctionUse use_;
  ExecContext context_;
  std::optional<FunctionRows> function_;
  int64_t seed_ = 0;
  int64_t iteration_;
  int64_t pass_ = 0;

  std::mutex mutex_;  // guards all below
  bool stopped_ = false;
  std::list<std::unique_ptr<Inner>> live_;
  std::list<std::unique_ptr<Inner>> ended_;  // told to stop already
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_INNER_STAGES_H_
