// The stage of a parallel interleave: see interleave_stage.h for the order of elements.
//
// Each thread takes the work that is wanted soonest: elements for the slots, in the order of the
// cycle, then for the datasets that will take the slots' places, which are opened ahead, then more
// of the input. One thread at a time works on a dataset, and one on the input.
//
// What was made ahead does not count in the saved state. The threads note positions of the input
// and of each dataset from time to time; Save gives the last one before what was delivered, how
// many elements lie between, and the elements of the input whose datasets are not at their ends.
//
// An exception on a thread ends all; then every call fails with its status.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/thread.h"
#include "core/base/wait.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/broken_input.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/ops/inner_spec.h"
#include "core/dataset/ops/interleave_stage.h"

namespace tutti {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
// Elements that a dataset has ready, at least and at most.
constexpr int64_t kFewestReady = 16;
constexpr int64_t kMostReady = 1024;
// Elements between two notes of a position, at least.
constexpr int64_t kElementsBetweenNotes = 64;

// Saved positions of a stage along the way, of which the last before what was delivered counts.
class Notes {
 public:
  // Whether a note is due of a stage that has given `position` elements so far.
  bool IsDue(int64_t position, bool failed) const {
    if (notes_.empty() || failed) return true;
    const int64_t bytes = static_cast<int64_t>(notes_.back().state.size());
    return position - notes_.back().position >= std::max(kElementsBetweenNotes, bytes / 16);
  }
  // A later one that cannot be made is left out.
  void Add(int64_t position, Result<std::string> state) {
    if (!state.ok() && !notes_.empty()) return;
    if (!state.ok()) status_ = state.status();
    notes_.push_back(Note{position, state.ok() ? std::move(state).value() : std::string()});
  }
  void Forget(int64_t delivered) {
    while (notes_.size() > 1 && notes_[1].position <= delivered) notes_.pop_front();
  }
  void Clear() {
    notes_.clear();
    status_ = OkStatus();
  }
  bool empty() const { return notes_.empty(); }
  Status Save(int64_t delivered, StateWriter* writer) const {
    TUTTI_RETURN_IF_ERROR(status_);
    writer->Bytes(notes_.front().state);
    writer->Int(delivered - notes_.front().position);
    return OkStatus();
  }

 private:
  struct Note {
    int64_t position;
    std::string state;
  };
  std::deque<Note> notes_;
  Status status_;  // why there is no first note
};

class ParallelInterleaveStage final : public Stage {
 public:
  ParallelInterleaveStage(const Node& node, const ExecContext& context, StageInputs inputs,
                          const Cycle& cycle, const Parallelism& parallelism)
      : Stage(node, std::move(inputs)),
        environment_(context.environment->environment_ref()),
        cycle_length_(cycle.length),
        block_length_(cycle.length == 1 ? kLargest : cycle.block_length),
        record_(context.record),
        deterministic_(parallelism.deterministic),
        ready_(std::clamp(std::min(cycle.block_length, kMostReady) * 2, kFewestReady, kMostReady)),
        inners_(this->node(), context),
        spec_(this->node()),
        ahead_bytes_(context, node, HeldBytes::Kind::kAhead),
        num_threads_(this->node(), context, "num_parallel_calls", parallelism.tunes,
                     parallelism.threads, parallelism.most_threads) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    slab->status = inners_.JoinEnded(options);
    if (slab->status.ok() && !started_) slab->status = Start();
    if (!slab->status.ok()) return;
    std::unique_lock lock(mutex_);
    horizon_ = demand.Horizon();
    if (record_ != nullptr) record_->AddFill(num_ready_, ready_ * cycle_length_);
    uint64_t asked = 0;
    bool all_busy = false;
    while (true) {
      if (stopped_) slab->status = Closed();
      if (slab->status.ok()) slab->status = broken_;
      if (!slab->status.ok() || Deliver(demand, slab)) break;
      // One of them may be between two datasets.
      if (asked == 0) {
        asked = num_threads_.Now();
        all_busy = NumBusy() + 1 >= num_threads_.now();
      }
      slab->status = Wait(lock, options);
      if (!slab->status.ok()) break;
    }
    const uint64_t waited = asked == 0 ? 0 : num_threads_.Now() - asked;
    if (!num_threads_.Observe(slab->rows, waited, all_busy) || threads_.empty()) return;
    const int64_t threads = num_threads_.now();
    lock.unlock();
    StartThreads(threads);
    wanted_.notify_all();
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(EndPass(options));
    // What is interrupted is restarted again, and that is one pass.
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    inners_.BeginPass();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("parallel interleave");
    std::lock_guard lock(mutex_);
    TUTTI_RETURN_IF_ERROR(broken_);
    inners_.Save(writer);
    if (input_notes_.empty()) input_notes_.Add(pulled_, StateOfInput());
    TUTTI_RETURN_IF_ERROR(input_notes_.Save(pulled_, writer));
    writer->Int(pulled_);
    writer->Int(input_ended_ ? 1 : 0);
    writer->Int(static_cast<int64_t>(current_));
    writer->Int(given_);
    writer->Int(static_cast<int64_t>(slots_.size()));
    for (const auto& item : slots_) {
      writer->Int(item ? 1 : 0);
      if (item) TUTTI_RETURN_IF_ERROR(SaveItem(*item, writer));
    }
    writer->Int(static_cast<int64_t>(ahead_.size()));
    for (const auto& item : ahead_) TUTTI_RETURN_IF_ERROR(SaveItem(*item, writer));
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(EndPass(options));
    reader->Section("parallel interleave");
    inners_.Restore(reader);
    StateReader input_state(reader->Bytes(), reader->environment());
    const int64_t passed_since = reader->IntIn(0, kLargest);
    pulled_ = reader->IntIn(0, kLargest);
    input_ended_ = reader->IntIn(0, 1) != 0;
    current_ = static_cast<size_t>(reader->IntIn(0, cycle_length_ - 1));
    given_ = reader->IntIn(0, block_length_ - 1);
    const int64_t slots = reader->IntIn(0, cycle_length_);
    for (int64_t i = 0; i < slots && reader->ok(); ++i) {
      slots_.emplace_back();
      if (reader->IntIn(0, 1) == 0) continue;
      TUTTI_RETURN_IF_ERROR(RestoreItem(reader, options, &slots_.back()));
      if (!slots_.back()->opened) reader->Fail("a slot without a dataset");
      ++open_;
    }
    const int64_t ahead = reader->IntIn(0, kLargest);
    for (int64_t i = 0; i < ahead && reader->ok(); ++i) {
      ahead_.emplace_back();
      TUTTI_RETURN_IF_ERROR(RestoreItem(reader, options, &ahead_.back()));
    }
    TUTTI_RETURN_IF_ERROR(reader->status());
    TUTTI_RETURN_IF_ERROR(Stage::Restore(&input_state, options));
    int64_t passed = 0;
    Status behind;
    TUTTI_RETURN_IF_ERROR(PassOver(input(), passed_since, options, &passed, &behind));
    if (behind.ok()) return OkStatus();
    ahead_.push_back(std::make_unique<Item>());
    ahead_.back()->index = pulled_++;
    ahead_.back()->failure = std::move(behind);
    return OkStatus();
  }

  void Stop() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (cancellation_) cancellation_->Cancel();
    }
    wanted_.notify_all();
    made_.notify_all();
    inners_.Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    for (Thread& thread : threads_) TUTTI_RETURN_IF_ERROR(thread.Join(options));
    TUTTI_RETURN_IF_ERROR(inners_.Join(options));
    return Stage::Join(options);
  }

 private:
  // An element of the input, and what becomes of it.
  struct Item {
    int64_t index = 0;
    Ref<const Value> element;
    Status failure;  // of the input or the function, in the place of a dataset
    InnerStages::Inner* inner = nullptr;
    bool opened = false;
    bool busy = false;     // a thread works on it
    bool checked = false;  // the dataset's spec
    bool known = false;    // its elements need not be looked at
    HeldRows ready;
    int64_t num_ready = 0;  // elements in `ready`, failed ones, too
    int64_t bytes = 0;      // of those, where there is a budget
    int64_t produced = 0;
    bool ended = false;  // nothing follows what is ready
    Notes notes;
  };
  using ItemRef = std::unique_ptr<Item>;

  struct Job {
    enum class Kind { kNone, kItem, kInput };
    Kind kind = Kind::kNone;
    Item* item = nullptr;
  };

  Status Closed() const { return Cancelled("{}: the iterator was closed", node().label()); }

  static bool IsFailed(const Item& item) { return !item.failure.ok(); }

  // ---- The consumer's side, with the mutex held.

  // True when *slab says something.
  bool Deliver(const Demand& demand, Slab* slab) {
    return deterministic_ ? DeliverInOrder(demand, slab) : DeliverAny(demand, slab);
  }

  bool DeliverInOrder(const Demand& demand, Slab* slab) {
    while (true) {
      if (SlotIsEmpty()) {
        if (!ahead_.empty()) {
          if (!IsSettled(*ahead_.front())) return false;
          if (Fill(0, slab)) return true;
        } else if (!input_ended_) {
          return false;
        } else if (open_ == 0) {
          slab->end = true;
          return true;
        } else {
          GoOn();
        }
        continue;
      }
      Item& item = *slots_[current_];
      if (!item.ready.empty()) {
        Take(demand, slab);
        return true;
      }
      if (!item.ended || item.busy) return false;
      Retire();
    }
  }

  // A walk over the slots from the current one on; behind those that were filled once there is one
  // to be filled.
  bool DeliverAny(const Demand& demand, Slab* slab) {
    for (size_t steps = 0; steps <= slots_.size(); ++steps) {
      if (current_ > slots_.size()) current_ = 0;
      while (!SlotIsEmpty() || FillWithReady(slab)) {
        if (SlotIsEmpty()) return true;  // a failure
        Item& item = *slots_[current_];
        if (!item.ready.empty()) {
          Take(demand, slab);
          return true;
        }
        if (!item.ended || item.busy) break;
        const size_t current = current_;
        Retire();
        current_ = current;
      }
      GoOn();
    }
    slab->end = ahead_.empty() && input_ended_ && open_ == 0;
    return slab->end;
  }

  bool SlotIsEmpty() const { return current_ >= slots_.size() || !slots_[current_]; }

  // It is known whether it becomes a dataset or a failure, and nobody works on a failure.
  bool IsSettled(Item& item) {
    if (item.opened && !item.checked) {
      item.checked = true;
      const Status fits = spec_.CheckDataset(*item.inner->dataset(), &item.known);
      if (!fits.ok()) item.failure = fits.With("index", item.index);
    }
    return IsFailed(item) ? !item.busy : item.opened;
  }

  // Puts the item at `place` in ahead_, which is settled, into the current slot. True when it has
  // failed: *slab says so, and the slot stays empty.
  bool Fill(size_t place, Slab* slab) {
    ItemRef item = std::move(ahead_[place]);
    ahead_.erase(ahead_.begin() + static_cast<ptrdiff_t>(place));
    wanted_.notify_one();
    if (IsFailed(*item)) {
      num_ready_ -= item->num_ready;
      ahead_bytes_.AddBytes(0, -item->bytes);
      if (item->inner != nullptr) inners_.End(item->inner);
      slab->status = std::move(item->failure);
      return true;
    }
    if (current_ >= slots_.size()) slots_.resize(current_ + 1);
    slots_[current_] = std::move(item);
    ++open_;
    return false;
  }

  // Fills the current slot with the first that has something, or says in *slab that it has failed;
  // false when none has.
  bool FillWithReady(Slab* slab) {
    for (size_t i = 0; i < ahead_.size(); ++i) {
      Item& item = *ahead_[i];
      if (!IsSettled(item)) continue;
      if (!IsFailed(item) && item.ready.empty() && !item.ended) continue;
      Fill(i, slab);
      return true;
    }
    return false;
  }

  void GoOn() {
    given_ = 0;
    current_ = static_cast<int64_t>(current_) + 1 == cycle_length_ ? 0 : current_ + 1;
    if (current_ >= slots_.size() && input_ended_ && ahead_.empty()) current_ = 0;
  }

  void Retire() {
    inners_.End(slots_[current_]->inner);
    slots_[current_].reset();
    --open_;
    GoOn();
  }

  void Take(const Demand& demand, Slab* slab) {
    Item& item = *slots_[current_];
    const int64_t left = block_length_ - given_;
    item.ready.Pop(std::min(demand.max_rows, left), slab);
    if (!item.known) HoldBadRow(item, slab);
    bool failed = !slab->status.ok();
    if (failed && slab->rows == left) {
      // It is the first of the next block.
      Slab failure;
      failure.status = std::exchange(slab->status, OkStatus());
      item.ready.Prepend(failure, 0);
      failed = false;
    }
    const int64_t taken = slab->rows + (failed ? 1 : 0);
    const bool had_enough = item.num_ready > ready_ / 2;
    item.num_ready -= taken;
    num_ready_ -= taken;
    if (ahead_bytes_.counts()) CountTaken(item, *slab);
    item.notes.Forget(item.produced - item.num_ready);
    if (block_length_ != kLargest) given_ += taken;
    if (ahead_bytes_.counts() || (had_enough && item.num_ready <= ready_ / 2)) {
      wanted_.notify_one();
    }
    if (given_ >= block_length_) GoOn();
  }

  void CountTaken(Item& item, const Slab& taken) {
    // Of what is ready no more, also where a bad row has gone with it.
    const int64_t bytes = item.num_ready == 0 ? item.bytes
                                              : std::min(item.bytes, ElementBytes(taken));
    item.bytes -= bytes;
    ahead_bytes_.AddBytes(0, -bytes);
  }

  void HoldBadRow(Item& item, Slab* slab) {
    Status status;
    const int64_t good = spec_.CheckRows(*slab, &status);
    if (good == slab->rows) return;
    item.ready.Prepend(*slab, good + 1);
    *slab = slab->Slice(0, good);
    slab->status = std::move(status);
  }

  // Until something was made. Without threads it is made here.
  Status Wait(std::unique_lock<std::mutex>& lock, const CallOptions& options) {
    if (threads_.empty()) {
      const Job job = Choose();
      lock.unlock();
      Status status = Run(job, options);
      lock.lock();
      return status;
    }
    const uint64_t seen = events_;
    wanted_.notify_one();
    return WaitUntil(
        lock, made_, environment_->clock(), options,
        [&] { return events_ != seen || stopped_ || !broken_.ok(); }, node().label());
  }

  // ---- Threads.

  Status Start() {
    int64_t threads;
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return Closed();
      TUTTI_RETURN_IF_ERROR(broken_);
      threads = num_threads_.now();
      cancellation_ = MakeRef<Cancellation>();
      input_notes_.Clear();
      input_notes_.Add(pulled_, StateOfInput());
    }
    StartThreads(threads);
    started_ = true;
    return OkStatus();
  }

  void StartThreads(int64_t count) {
    while (static_cast<int64_t>(threads_.size()) < count) {
      threads_.reserve(threads_.size() + 1);
      Result<Thread> thread = environment_->StartThread("tutti-interleave", [this] { Serve(); });
      // Fewer threads than asked for do the same, later; a simulation has none.
      if (!thread.ok()) break;
      threads_.push_back(std::move(thread).value());
    }
  }

  // With the mutex held.
  int64_t NumBusy() const { return num_busy_ + (pulling_ ? 1 : 0); }

  // Ends the threads and forgets what they made.
  Status EndPass(const CallOptions& options) {
    {
      std::lock_guard lock(mutex_);
      pass_over_ = true;
      if (cancellation_) cancellation_->Cancel();
    }
    wanted_.notify_all();
    for (Thread& thread : threads_) TUTTI_RETURN_IF_ERROR(thread.Join(options));
    threads_.clear();
    slots_.clear();
    ahead_.clear();
    ahead_bytes_.Clear();
    TUTTI_RETURN_IF_ERROR(inners_.EndAll(options));
    std::lock_guard lock(mutex_);
    input_notes_.Clear();
    open_ = pulled_ = given_ = num_ready_ = num_busy_ = 0;
    current_ = 0;
    started_ = input_ended_ = pulling_ = pass_over_ = false;
    return OkStatus();
  }

  void Serve() {
    const auto lose = [this](Status why) {
      {
        std::lock_guard lock(mutex_);
        if (broken_.ok()) broken_ = BrokenInput(std::move(why));
      }
      wanted_.notify_all();
      made_.notify_all();
    };
    IfThreadEnds ends(node().label(), lose);
    Status status = CatchExceptions(node().label(), [this] {
      MakeAhead();
      return OkStatus();
    });
    ends.Stays();
    if (!status.ok()) lose(std::move(status));
  }

  void MakeAhead() {
    const CallOptions options{Deadline::Infinite(), cancellation_.get()};
    std::unique_lock lock(mutex_);
    while (true) {
      Job job;
      const Status waited = WaitUntil(
          lock, wanted_, environment_->clock(), options,
          [&] {
            if (stopped_ || pass_over_ || !broken_.ok()) return true;
            job = Choose();
            return job.kind != Job::Kind::kNone;
          },
          node().label());
      if (!waited.ok() || job.kind == Job::Kind::kNone) {
        Release(job);
        return;
      }
      lock.unlock();
      const uint64_t then = record_ != nullptr ? record_->Now() : 0;
      const Status status = Run(job, options);
      if (record_ != nullptr) record_->AddWork(record_->Now() - then);
      lock.lock();
      if (IsInterruption(status) && (stopped_ || pass_over_ || cancellation_->cancelled())) return;
    }
  }

  // What is wanted soonest, marked as being worked on. With the mutex held.
  //
  // No more elements are made than can be wanted, but for what the consumer may be waiting for: in
  // order that is the current slot, or what will fill it; in any order each slot with nothing
  // ready.
  Job Choose() {
    if (NumBusy() >= num_threads_.now()) return {};
    const bool awaits_input = deterministic_ && SlotIsEmpty();
    const bool has_room = num_ready_ + num_busy_ < horizon_ && ahead_bytes_.HasRoom();
    for (size_t i = 0; i < slots_.size(); ++i) {
      const size_t slot = (current_ + i) % slots_.size();
      Item* item = slots_[slot].get();
      const bool awaited = item != nullptr && item->num_ready == 0 &&
                           (!deterministic_ || slot == current_);
      if (item != nullptr && (has_room || awaited) && Wants(*item)) return Begin(item);
    }
    for (const ItemRef& item : ahead_) {
      const bool awaited = awaits_input && item == ahead_.front() && item->num_ready == 0;
      if ((has_room || awaited) && Wants(*item)) return Begin(item.get());
    }
    if (pulling_ || input_ended_ || IsFarAhead()) return {};
    // Each dataset may have an element.
    const bool wants_more = open_ + static_cast<int64_t>(ahead_.size()) < horizon_ &&
                            ahead_bytes_.HasRoom();
    if (!wants_more && !(awaits_input && ahead_.empty())) return {};
    pulling_ = true;
    return {Job::Kind::kInput, nullptr};
  }

  bool IsFarAhead() const { return static_cast<int64_t>(ahead_.size()) >= num_threads_.now(); }

  bool Wants(const Item& item) const {
    if (item.busy || item.ended || IsFailed(item)) return false;
    return !item.opened || item.num_ready <= ready_ / 2;
  }

  Job Begin(Item* item) {
    item->busy = true;
    ++num_busy_;
    return {Job::Kind::kItem, item};
  }

  void Release(const Job& job) {
    if (job.kind == Job::Kind::kItem) {
      job.item->busy = false;
      --num_busy_;
    }
    if (job.kind == Job::Kind::kInput) pulling_ = false;
  }

  // Without the mutex. An interruption leaves everything to the next.
  Status Run(const Job& job, const CallOptions& options) {
    Status status;
    switch (job.kind) {
      case Job::Kind::kNone:
        return Internal("{}: nothing is left to be made, and somebody waits", node().label());
      case Job::Kind::kInput:
        status = PullInput(options);
        break;
      case Job::Kind::kItem:
        status = MakeElements(*job.item, options);
        break;
    }
    {
      std::lock_guard lock(mutex_);
      Release(job);
      ++events_;
    }
    made_.notify_all();
    // There may be work for others now.
    wanted_.notify_one();
    return status;
  }

  Status PullInput(const CallOptions& options) {
    Slab in;
    input().Next(Demand::Made(1, kNoHorizon), options, &in);
    if (in.rows == 0 && IsInterruption(in.status)) return in.status;
    const bool failed = !in.status.ok() && !IsInterruption(in.status);
    std::vector<ItemRef> items;
    for (int64_t i = 0; i < in.rows; ++i) {
      items.push_back(std::make_unique<Item>());
      Result<Ref<Value>> element = in.Row(i);
      if (element.ok()) {
        items.back()->element = std::move(element).value();
      } else {
        items.back()->failure = element.status();
      }
    }
    if (failed) {
      items.push_back(std::make_unique<Item>());
      items.back()->failure = std::move(in.status);
    }
    std::lock_guard lock(mutex_);
    for (ItemRef& item : items) {
      item->index = pulled_++;
      ahead_.push_back(std::move(item));
    }
    input_ended_ = in.end;
    // The elements that are not at their ends are saved themselves. Nothing is passed over that
    // failed: it need not fail again.
    if (!input_notes_.IsDue(pulled_, failed)) return OkStatus();
    input_notes_.Add(pulled_, StateOfInput());
    input_notes_.Forget(pulled_);
    return OkStatus();
  }

  Status MakeElements(Item& item, const CallOptions& options) {
    if (!item.opened) {
      Result<InnerStages::Inner*> inner = inners_.Make(item.element, item.index, options);
      if (!inner.ok()) {
        if (IsInterruption(inner.status())) return inner.status();
        std::lock_guard lock(mutex_);
        item.failure = inner.status();
        return OkStatus();
      }
      Result<std::string> state = StateOf((*inner)->stage());
      std::lock_guard lock(mutex_);
      item.inner = *inner;
      item.opened = true;
      item.notes.Add(0, std::move(state));
    }
    int64_t wanted = 0;
    int64_t horizon = 0;
    {
      std::lock_guard lock(mutex_);
      wanted = std::clamp<int64_t>(item.num_ready, 1, ready_ - item.num_ready);
      wanted = ahead_bytes_.RowsThatFit(std::clamp<int64_t>(horizon_ - num_ready_, 1, wanted));
      horizon = horizon_;
    }
    Slab slab;
    item.inner->stage().Next(Demand::Made(wanted, horizon), options, &slab);
    if (IsInterruption(slab.status)) {
      if (slab.rows == 0) return slab.status;
      slab.status = OkStatus();
    }
    const bool failed = !slab.status.ok();
    const bool ended = std::exchange(slab.end, false);
    const int64_t elements = slab.rows + (failed ? 1 : 0);
    const int64_t produced = item.produced + elements;
    // Only whoever works on it adds notes; those that are there are forgotten in between.
    bool due = false;
    {
      std::lock_guard lock(mutex_);
      due = !ended && item.notes.IsDue(produced, failed);
    }
    Result<std::string> state = std::string();
    if (due) state = StateOf(item.inner->stage());
    const int64_t bytes = ahead_bytes_.counts() ? ElementBytes(slab) : 0;
    std::lock_guard lock(mutex_);
    item.bytes += bytes;
    ahead_bytes_.AddBytes(slab.rows, bytes);
    if (elements > 0) item.ready.Append(std::move(slab));
    item.num_ready += elements;
    num_ready_ += elements;
    item.produced = produced;
    item.ended = ended;
    if (due) item.notes.Add(produced, std::move(state));
    return OkStatus();
  }

  // ---- Positions.

  static Result<std::string> StateOf(Stage& stage) {
    StateWriter writer;
    TUTTI_RETURN_IF_ERROR(stage.Save(&writer));
    return std::move(writer).TakeBytes();
  }
  Result<std::string> StateOfInput() {
    StateWriter writer;
    TUTTI_RETURN_IF_ERROR(Stage::Save(&writer));
    return std::move(writer).TakeBytes();
  }

  Status SaveItem(const Item& item, StateWriter* writer) {
    writer->Failure(item.failure);
    if (IsFailed(item)) return OkStatus();
    writer->Int(item.opened ? 1 : 0);
    if (!item.opened) {
      writer->Int(item.index);
      return WriteElement(*item.element, writer);
    }
    TUTTI_RETURN_IF_ERROR(inners_.SaveElement(*item.inner, writer));
    return item.notes.Save(item.produced - item.num_ready, writer);
  }

  Status RestoreItem(StateReader* reader, const CallOptions& options, ItemRef* place) {
    *place = std::make_unique<Item>();
    Item& item = **place;
    item.failure = reader->Failure();
    if (IsFailed(item)) return reader->status();
    item.opened = reader->IntIn(0, 1) != 0;
    if (!item.opened) {
      item.index = reader->IntIn(0, kLargest);
      TUTTI_ASSIGN_OR_RETURN(item.element, ReadElement(reader));
      return OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(item.inner, inners_.RestoreElement(reader, options));
    item.index = item.inner->index();
    const std::string_view bytes = reader->Bytes();
    StateReader state(bytes, reader->environment());
    const int64_t passed_since = reader->IntIn(0, kLargest);
    TUTTI_RETURN_IF_ERROR(reader->status());
    Stage& stage = item.inner->stage();
    TUTTI_RETURN_IF_ERROR(stage.Restore(&state, options));
    int64_t passed = 0;
    Slab behind;
    TUTTI_RETURN_IF_ERROR(PassOver(stage, passed_since, options, &passed, &behind.status));
    if (!behind.status.ok()) {
      // It is ready, and the stage stands behind it.
      item.notes.Add(-passed_since, std::string(bytes));
      item.ready.Append(std::move(behind));
      ++item.num_ready;
      ++item.produced;
      ++num_ready_;
    }
    item.notes.Add(item.produced, StateOf(stage));
    item.checked = true;
    return spec_.CheckDataset(*item.inner->dataset(), &item.known);
  }

  const Ref<Environment> environment_;
  const int64_t cycle_length_;
  const int64_t block_length_;
  NodeProfile* const record_;  // null: nothing is measured
  const bool deterministic_;
  const int64_t ready_;  // elements that a dataset has ready at most
  InnerStages inners_;
  InnerSpec spec_;               // of the consumer
  HeldBytes ahead_bytes_;
  std::vector<Thread> threads_;  // of the consumer; run for one pass
  bool started_ = false;

  std::mutex mutex_;  // guards all below
  std::condition_variable wanted_;  // for threads: there may be work
  std::condition_variable made_;    // for the consumer: something was made
  Ref<Cancellation> cancellation_;
  std::vector<ItemRef> slots_;  // those that were filled once
  std::deque<ItemRef> ahead_;   // for the next slots, in the input's order
  Notes input_notes_;
  TunedCalls num_threads_;
  size_t current_ = 0;
  int64_t given_ = 0;   // elements of the current slot in this visit
  int64_t open_ = 0;    // slots with a dataset
  int64_t pulled_ = 0;  // elements of the input, failed ones, too
  int64_t num_ready_ = 0;  // elements that wait for the consumer
  int64_t num_busy_ = 0;   // datasets that threads work on
  int64_t horizon_ = 1;    // elements that can be wanted, as was said last
  uint64_t events_ = 0;
  bool pulling_ = false;
  bool input_ended_ = false;
  bool pass_over_ = false;
  bool stopped_ = false;
  Status broken_;  // the exception that ended the threads
};

}  // namespace

std::unique_ptr<Stage> MakeParallelInterleaveStage(const Node& node, const ExecContext& context,
                                                   StageInputs inputs, const Cycle& cycle,
                                                   const Parallelism& parallelism) {
  return std::make_unique<ParallelInterleaveStage>(node, context, std::move(inputs), cycle,
                                                   parallelism);
}

}  // namespace tutti
