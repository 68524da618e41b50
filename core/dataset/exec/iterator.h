// Iterator: one walk over a dataset's elements.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Iterator> iterator, Iterator::Create(dataset, {}, options));
//   while (true) {
//     TUTTI_ASSIGN_OR_RETURN(Ref<Value> element, iterator->Next(options));
//     if (!element) break;
//   }
//
// Threads: Next, NextSlab, Save and Restore one at a time (a second caller waits); Close from any
// thread. They are refused inside dataset and notification callbacks.
//
// An exception while elements are made leaves the stages in a position that nobody knows: its
// status is what Next and Save say from then on, until Restore has gone to a position that was
// saved. One in Save or Restore fails that call only.
#ifndef TUTTI_CORE_DATASET_EXEC_ITERATOR_H_
#define TUTTI_CORE_DATASET_EXEC_ITERATOR_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/closable.h"
#include "core/base/memory_account.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/exec/call_permits.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/slab.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"

namespace tutti {

class Autotuner;
class RamBudget;
class RunProfile;
struct RunReport;

struct IteratorOptions {
  std::string name;  // for messages
};

class Iterator final : public Closable {
 public:
  // When the dataset's spec can only be learnt, the first element is made here and delivered by the
  // first Next.
  static Result<Ref<Iterator>> Create(Ref<const Dataset> dataset, IteratorOptions options,
                                      const CallOptions& call);

  // The next element; null at the end, then and ever after. A failure belongs to one element: the
  // next call goes on behind it where the source can. DEADLINE_EXCEEDED and CANCELLED lose nothing.
  Result<Ref<Value>> Next(const CallOptions& call);
  // The same as an optional leaf, empty at the end, when its spec is that of the elements.
  Result<Ref<Value>> NextOptional(const CallOptions& call);
  // Up to max_rows > 0 elements at once, as stages make them (slab.h); `slab->status` is not an
  // error of this call.
  Status NextSlab(int64_t max_rows, const CallOptions& call, Slab* slab);

  // Until the first element has shown it, the spec of a dataset that only learns is that of none.
  // The object lives as long as the iterator.
  Ref<const ElementSpec> element_spec() const;
  const Dataset& dataset() const { return *dataset_; }
  // The plan with what was measured and decided so far; of the time since the last Restore.
  RunReport Explain() const;

  // The position behind what was delivered.
  Result<std::string> Save(const CallOptions& call);
  // Goes to a position saved by an iterator over an equal dataset; attributes for tuning may be
  // others. INVALID_ARGUMENT for other bytes, and for what a release saved that has another format
  // or another version of an op's state; on any failure the iterator is where it was.
  Status Restore(std::string_view state, const CallOptions& call);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  Iterator(Ref<const Dataset> dataset, std::string name);
  ~Iterator() override;
  Status OnClose(const CallOptions& call) override;

  class Turn;

  // A budget for stages that are yet to be made; null where there is none.
  std::unique_ptr<RamBudget> MakeBudget() const;
  Ref<RunProfile> MakeProfile() const;
  Status MakeRoot(std::unique_ptr<Stage>* root);
  Status MakeFirstElement(const CallOptions& call);
  // Whether the stages are in a position that is known.
  Status CheckWhole() const;
  // Runs `body`, which moves the stages and returns a Status, and notes when it is left by an
  // exception.
  template <typename Body>
  Status Move(Body&& body);
  Status Pull(int64_t max_rows, const CallOptions& call, Slab* slab);
  // The elements from ahead_row_ on, of which there is none.
  Status PullAhead(const CallOptions& call);
  // Puts what was pulled ahead before what is held.
  void HoldAhead();
  Result<std::string> SaveBody();
  Status MakeHeader();
  Status RestoreFrom(std::string_view state, const CallOptions& call);

  const Ref<const Dataset> dataset_;
  const Ref<MemoryAccount> account_;
  CallPermits permits_;
  std::unique_ptr<RamBudget> budget_;  // of root_, which it outlives
  std::unique_ptr<Autotuner> autotuner_;  // the same; null: nothing is tuned
  Ref<RunProfile> profile_;               // replaced under the mutex
  ExecContext context_;
  // Used by whoever is inside.
  int64_t delivered_ = 0;    // elements, failed ones included
  // Elements that Next has pulled with another one, of which [ahead_row_, ahead_.rows) come before
  // all that is held. Where no function of the host stands in the graph many are pulled at once, as
  // the work for a small one is mostly that of the call.
  Slab ahead_;
  int64_t ahead_row_ = 0;
  const bool runs_ahead_;
  int64_t pulls_ = 0;      // of Next, since the last Restore
  int64_t next_pull_ = 1;  // so many elements it asks for next time
  HeldRows held_;            // what the stages have given and nobody has got yet
  std::string fresh_state_;  // the position before the first element, while held_ has that
  std::string header_;       // of the graph, once it was needed
  bool external_state_told_ = false;
  bool moving_ = false;  // between two calls: an exception has left the stages somewhere
  Status exception_;     // that; OK when the thread was cancelled

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  bool busy_ = false;
  bool closing_ = false;
  std::unique_ptr<Stage> root_;  // used by whoever is inside; replaced under the mutex
  Ref<const ElementSpec> spec_;
  // What element_spec says before: borrowed pointers to it live as long as the iterator.
  const Ref<const ElementSpec> no_spec_ = ElementSpec::None();
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_ITERATOR_H_
