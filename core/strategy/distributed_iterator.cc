// How a step is made: items (elements, or failures that stand for one) come from what a restored
// state still holds, then from the source. An interrupted step keeps the items it has. A step that is
// ready and not taken keeps its items, too, so that Save can write them: the source has moved past
// them.

#include "core/strategy/distributed_iterator.h"

#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/wait.h"
#include "core/dataset/iterator_state.h"
#include "core/dataset/slab.h"
#include "core/strategy/distributed_value.h"
#include "core/strategy/rebatch.h"

namespace tutti {

// ---- Life. ----

DistributedIterator::DistributedIterator(Ref<const DistributedDataset> dataset,
                                         Ref<Iterator> source)
    : Closable(Ref<Environment>::Retain(&dataset->strategy()->environment()), "distributed iterator"),
      dataset_(std::move(dataset)),
      source_(std::move(source)),
      closing_(MakeRef<Cancellation>()) {}

DistributedIterator::~DistributedIterator() = default;

Result<Ref<DistributedIterator>> DistributedIterator::Create(Ref<const DistributedDataset> dataset,
                                                             const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed("iterating over a distributed dataset"));
  TUTTI_RETURN_IF_ERROR(dataset->strategy()->CheckOpen("iterating over a distributed dataset"));
  TUTTI_ASSIGN_OR_RETURN(Ref<Iterator> source,
                         Iterator::Create(dataset->source_ref(), {}, call));
  Ref<DistributedIterator> iterator =
      MakeRef<DistributedIterator>(std::move(dataset), std::move(source));
  TUTTI_RETURN_IF_ERROR(iterator->Register());
  return iterator;
}

Status DistributedIterator::OnClose(const CallOptions& options) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  closing_->Cancel(Cancelled("the distributed iterator was closed"));
  TUTTI_RETURN_IF_ERROR(source_->Close(options));
  {
    std::unique_lock<std::mutex> lock(mutex_);
    TUTTI_RETURN_IF_ERROR(WaitUntil(lock, changed_, environment().clock(), options,
                                    [this] { return !inside_; },
                                    "close: waiting for the call that uses the iterator"));
  }
  return thread_.Join(options);
}

// ---- Calls, one at a time. ----

Status DistributedIterator::Enter(const CallOptions& call, const char* what) {
  TUTTI_RETURN_IF_ERROR(CheckCrossReplicaAllowed(what));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(lock, changed_, environment().clock(), call,
                                  [this] { return !inside_ || stopping_; }, what));
  if (stopping_) return FailedPrecondition("{}: the iterator has been closed", what);
  inside_ = true;
  return OkStatus();
}

void DistributedIterator::Leave() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    inside_ = false;
  }
  changed_.notify_all();
}

Status DistributedIterator::WaitForThread(std::unique_lock<std::mutex>& lock,
                                          const CallOptions& call, const char* what) {
  TUTTI_RETURN_IF_ERROR(WaitUntil(lock, changed_, environment().clock(), call,
                                  [this] { return ahead_ != Ahead::kWanted || stopping_; }, what));
  if (stopping_) return FailedPrecondition("{}: the iterator was closed meanwhile", what);
  return OkStatus();
}

Result<Ref<Value>> DistributedIterator::Next(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "next"));
  Step step;
  Status status = dataset_->options().prefetch_to_device ? TakeStep(call, &step)
                                                         : MakeStep(call, &step);
  Leave();
  TUTTI_RETURN_IF_ERROR(std::move(status));
  TUTTI_RETURN_IF_ERROR(std::move(step.failure));
  return std::move(step.value);
}

Result<Ref<Value>> DistributedIterator::NextOptional(const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> step, Next(call));
  return Value::OfLeaf(Leaf::OfOptional(std::move(step)));
}

// ---- A step ahead. ----

Status DistributedIterator::TakeStep(const CallOptions& call, Step* step) {
  if (!thread_.joinable()) {
    TUTTI_ASSIGN_OR_RETURN(thread_,
                           environment().StartThread("tutti-prefetch", [this] { RunAhead(); }));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (ahead_ == Ahead::kNothing) {
    ahead_ = Ahead::kWanted;
    changed_.notify_all();
  }
  TUTTI_RETURN_IF_ERROR(WaitForThread(lock, call, "next: waiting for the step"));
  *step = std::move(step_);
  step_ = Step();
  ahead_ = Ahead::kWanted;
  changed_.notify_all();
  return OkStatus();
}

void DistributedIterator::RunAhead() {
  const CallOptions call{Deadline::Infinite(), closing_.get()};
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Status status = WaitUntil(lock, changed_, environment().clock(), CallOptions(),
                              [this] { return stopping_ || ahead_ == Ahead::kWanted; },
                              "prefetch thread: waiting for work");
    if (!status.ok() || stopping_) return;
    lock.unlock();
    Step step;
    status = MakeStep(call, &step);
    // Interrupted: the iterator is being closed, or its source was.
    if (!status.ok()) step.failure = std::move(status);
    lock.lock();
    step_ = std::move(step);
    ahead_ = Ahead::kReady;
    changed_.notify_all();
  }
}

// ---- Making a step. ----

Status DistributedIterator::NextItem(const CallOptions& call, Item* item) {
  if (!restored_.empty()) {
    *item = std::move(restored_.front());
    restored_.pop_front();
    return OkStatus();
  }
  Result<Ref<Value>> element = source_->Next(call);
  if (element.ok()) {
    item->element = std::move(element).value();
    return OkStatus();
  }
  if (IsInterruption(element.status())) return std::move(element).status();
  item->failure = std::move(element).status();
  return OkStatus();
}

Status DistributedIterator::MakeStep(const CallOptions& call, Step* step) {
  const auto wanted = static_cast<size_t>(dataset_->elements_per_step());
  while (partial_.size() < wanted) {
    Item item;
    TUTTI_RETURN_IF_ERROR(NextItem(call, &item));
    if (!item.failure.ok()) {
      // It stands for one element; the step goes on behind it with the next call.
      step->failure = item.failure;
      step->items.push_back(std::move(item));
      return OkStatus();
    }
    if (!item.element) break;
    partial_.push_back(std::move(item));
  }
  Result<Ref<Value>> value = Assemble(partial_, call);
  if (value.ok()) {
    step->value = std::move(value).value();
  } else {
    if (IsInterruption(value.status())) return std::move(value).status();
    step->failure = std::move(value).status();
  }
  step->items = std::move(partial_);
  partial_.clear();
  return OkStatus();
}

Result<DistributedIterator::Share> DistributedIterator::Exchange(const Share& local,
                                                                 const CallOptions&) {
  return local;
}

namespace {

// An element that is no batch counts as a row.
int64_t RowsOf(const Value& element) {
  for (const Leaf& leaf : element.leaves()) {
    if (leaf.is_tensor() && leaf.tensor().rank() > 0) return leaf.tensor().dim(0);
  }
  return 1;
}

}  // namespace

Result<Ref<Value>> DistributedIterator::Assemble(const std::vector<Item>& items,
                                                 const CallOptions& call) {
  constexpr const char* kWhat = "distributed iterator";
  const size_t n = dataset_->strategy()->num_local_replicas();
  std::vector<Ref<Value>> parts;
  Share local;
  if (dataset_->cuts_batches()) {
    if (!items.empty()) {
      const Value& batch = *items[0].element;
      TUTTI_ASSIGN_OR_RETURN(local.rows, BatchRows(batch, kWhat));
      parts = CutBatch(batch, local.rows, n);
      local.replicas_with_data = static_cast<int64_t>(n);
    }
  } else {
    for (const Item& item : items) {
      local.rows += RowsOf(*item.element);
      parts.push_back(item.element);
    }
    local.replicas_with_data = static_cast<int64_t>(items.size());
    while (!items.empty() && parts.size() < n) {
      const Value& last = *items.back().element;
      TUTTI_RETURN_IF_ERROR(BatchRows(last, "a step in which the data ends").status());
      parts.push_back(EmptyBatchLike(last));
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const Share all, Exchange(local, call));
  if (all.replicas_with_data == 0) return Ref<Value>();
  return Regroup(parts, Wrap::kAlways, kWhat, all.rows);
}

// ---- Position. ----

namespace {

constexpr int64_t kStateVersion = 1;

Slab SlabOf(const Value& element) {
  Slab slab;
  slab.rows = 1;
  slab.tree = element.spec_ref();
  for (const Leaf& leaf : element.leaves()) slab.columns.push_back(Column::Rows({leaf}));
  return slab;
}

}  // namespace

Status DistributedIterator::WriteItem(const Item& item, StateWriter* writer) {
  writer->Int(static_cast<int64_t>(item.failure.code()));
  if (item.failure.ok()) return writer->Rows(SlabOf(*item.element));
  writer->Bytes(item.failure.message());
  return OkStatus();
}

Status DistributedIterator::ReadItem(StateReader* reader, const Ref<const TreeSpec>& tree,
                                     Item* item) {
  const int64_t code = reader->IntIn(0, static_cast<int64_t>(StatusCode::kUnauthenticated));
  if (code != 0) {
    item->failure = Status(static_cast<StatusCode>(code), std::string(reader->Bytes()));
    return reader->status();
  }
  Slab slab;
  slab.tree = tree;
  reader->Rows(&slab);
  TUTTI_RETURN_IF_ERROR(reader->status());
  if (slab.rows != 1) {
    reader->Fail("an element that was made ahead is missing");
    return reader->status();
  }
  TUTTI_ASSIGN_OR_RETURN(item->element, slab.Row(0));
  return OkStatus();
}

Result<std::string> DistributedIterator::Save(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "save"));
  StateWriter position;
  Status status = SaveInto(&position, call);
  Leave();
  TUTTI_RETURN_IF_ERROR(std::move(status));
  StateWriter state;
  state.Section("distributed_iterator");
  state.Int(kStateVersion);
  state.Int(Crc32c(position.bytes().data(), position.bytes().size()));
  state.Bytes(position.bytes());
  return std::move(state).TakeBytes();
}

Status DistributedIterator::SaveInto(StateWriter* writer, const CallOptions& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitForThread(lock, call, "save: waiting for the step being made"));
  lock.unlock();
  // Nobody makes steps now: the caller is inside, and the thread has nothing to do.
  TUTTI_ASSIGN_OR_RETURN(const std::string source, source_->Save(call));
  writer->Bytes(source);
  const size_t count = step_.items.size() + partial_.size() + restored_.size();
  writer->Int(static_cast<int64_t>(count));
  for (const Item& item : step_.items) TUTTI_RETURN_IF_ERROR(WriteItem(item, writer));
  for (const Item& item : partial_) TUTTI_RETURN_IF_ERROR(WriteItem(item, writer));
  for (const Item& item : restored_) TUTTI_RETURN_IF_ERROR(WriteItem(item, writer));
  return OkStatus();
}

Status DistributedIterator::Restore(std::string_view state, const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "restore"));
  Status status = RestoreFrom(state, call);
  Leave();
  return status;
}

Status DistributedIterator::RestoreFrom(std::string_view state, const CallOptions& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitForThread(lock, call, "restore: waiting for the step being made"));
  lock.unlock();
  StateReader envelope(state);
  envelope.Section("distributed_iterator");
  envelope.IntIn(kStateVersion, kStateVersion);
  const int64_t checksum = envelope.IntIn(0, UINT32_MAX);
  const std::string_view position = envelope.Bytes();
  if (envelope.ok() && (!envelope.at_end() || checksum != Crc32c(position.data(), position.size()))) {
    envelope.Fail("the checksum does not fit");
  }
  TUTTI_RETURN_IF_ERROR(envelope.status());
  StateReader reader(position);
  const std::string_view source = reader.Bytes();
  const int64_t count = reader.IntIn(0, static_cast<int64_t>(position.size()));
  TUTTI_RETURN_IF_ERROR(reader.status());
  std::deque<Item> items;
  for (int64_t i = 0; i < count; ++i) {
    Item item;
    TUTTI_RETURN_IF_ERROR(ReadItem(&reader, dataset_->element_spec().tree_ref(), &item));
    items.push_back(std::move(item));
  }
  if (!reader.at_end()) reader.Fail("there are bytes behind the end");
  TUTTI_RETURN_IF_ERROR(reader.status());
  TUTTI_RETURN_IF_ERROR(source_->Restore(source, call));
  restored_ = std::move(items);
  partial_.clear();
  lock.lock();
  step_ = Step();
  ahead_ = Ahead::kNothing;
  return OkStatus();
}

}  // namespace tutti
