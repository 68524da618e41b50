// DistributedIterator: one walk over the steps of a DistributedDataset.
//
// With prefetch_to_device a thread makes one step ahead, from the first Next on; what it has made
// and nobody has taken does not count for Save. Threads: Next, Save and Restore one at a time (a
// second caller waits); Close from any thread.

#ifndef TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_
#define TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/closable.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/dataset/iterator.h"
#include "core/strategy/distributed_dataset.h"
#include "core/tensor/value.h"

namespace tutti {

class StateReader;
class StateWriter;

class DistributedIterator final : public Closable {
 public:
  // Starts at the first step.
  static Result<Ref<DistributedIterator>> Create(Ref<const DistributedDataset> dataset,
                                                 const CallOptions& call);

  // The next step, its leaves distributed; null at the end, then and ever after. A failure belongs
  // to one element; DEADLINE_EXCEEDED and CANCELLED lose nothing.
  Result<Ref<Value>> Next(const CallOptions& call);
  // The same as an optional leaf, empty at the end.
  Result<Ref<Value>> NextOptional(const CallOptions& call);

  const ElementSpec& element_spec() const { return dataset_->element_spec(); }
  const DistributedDataset& dataset() const { return *dataset_; }

  // The position behind the last step that Next gave.
  Result<std::string> Save(const CallOptions& call);
  // Goes to a saved position, also one of another number of replicas. INVALID_ARGUMENT for other
  // bytes; on any failure the iterator is where it was.
  Status Restore(std::string_view state, const CallOptions& call);

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);

  // An element of the source, or the failure that stands in its place.
  struct Item {
    Ref<Value> element;
    Status failure;
  };
  struct Step {
    Ref<Value> value;         // null: the end, or a failure
    Status failure;
    std::vector<Item> items;  // what it was made of, for Save
  };
  // What a worker brings to a step, and what all bring together.
  struct Share {
    int64_t replicas_with_data = 0;
    int64_t rows = 0;
  };
  enum class Ahead { kNothing, kWanted, kReady };

  DistributedIterator(Ref<const DistributedDataset> dataset, Ref<Iterator> source);
  ~DistributedIterator() override;
  Status OnClose(const CallOptions& options) override;

  Status Enter(const CallOptions& call, const char* what);
  void Leave();
  // Until the thread is not making a step.
  Status WaitForThread(std::unique_lock<std::mutex>& lock, const CallOptions& call,
                       const char* what);
  Status TakeStep(const CallOptions& call, Step* step);
  void RunAhead();

  // Makes the next step. An interruption (deadline, cancellation) is the returned status and loses
  // nothing; everything else is in the step.
  Status MakeStep(const CallOptions& call, Step* step);
  // The next element: null at the end.
  Status NextItem(const CallOptions& call, Item* item);
  // Sums the shares of all workers; the one place where they meet. One worker has its own only.
  Result<Share> Exchange(const Share& local, const CallOptions& call);
  // The step of these elements: null at the end.
  Result<Ref<Value>> Assemble(const std::vector<Item>& items, const CallOptions& call);

  Status SaveInto(StateWriter* writer, const CallOptions& call);
  Status RestoreFrom(std::string_view state, const CallOptions& call);
  static Status WriteItem(const Item& item, StateWriter* writer);
  static Status ReadItem(StateReader* reader, const Ref<const TreeSpec>& tree, Item* item);

  const Ref<const DistributedDataset> dataset_;
  const Ref<Iterator> source_;
  const Ref<Cancellation> closing_;

  // Of whoever makes steps: the thread while a step is wanted, else the caller that is inside.
  std::deque<Item> restored_;  // elements before the source's position
  std::vector<Item> partial_;  // elements of a step that was interrupted

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool inside_ = false;
  bool stopping_ = false;
  Ahead ahead_ = Ahead::kNothing;
  Step step_;      // when kReady
  Thread thread_;  // written by the caller that is inside, and by OnClose
};

}  // namespace tutti

#endif  // TUTTI_CORE_STRATEGY_DISTRIBUTED_ITERATOR_H_
