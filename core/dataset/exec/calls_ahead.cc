#include "core/dataset/exec/calls_ahead.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/wait.h"
#include "core/dataset/exec/broken_input.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"

namespace tutti {

CallsAhead::CallsAhead(const Node& node, const ExecContext& context, const Number& number,
                       bool keeps_order, NumberedRows* rows, FunctionRows* function)
    : node_(node),
      environment_(context.environment->environment_ref()),
      permits_(context.permits),
      record_(context.record),
      keeps_order_(keeps_order),
      rows_(*rows),
      ahead_(context, node, HeldBytes::Kind::kAhead),
      function_(*function),
      calls_cancellation_(MakeRef<Cancellation>()),
      calls_(node, context, "num_parallel_calls", number.tunes, number.calls, number.most) {}

Status CallsAhead::Closed() const {
  return Cancelled("{}: the iterator was closed", node_.label());
}

bool CallsAhead::Start() {
  if (started_) return !threads_.empty();
  started_ = true;
  int64_t calls;
  {
    const Lock lock(mutex_);
    calls = calls_.now();
  }
  StartThreads(calls + 1);
  return !threads_.empty();
}

void CallsAhead::StartThreads(int64_t count) {
  while (static_cast<int64_t>(threads_.size()) < count) {
    // A thread that runs has its place, whatever memory there is.
    threads_.reserve(threads_.size() + 1);
    Result<Thread> thread = environment_->StartThread("tutti-map", [this] { Run(); });
    // Fewer threads than asked for do the same, later; a simulation has none.
    if (!thread.ok()) break;
    threads_.push_back(std::move(thread).value());
  }
}

int64_t CallsAhead::RowsAllowed() const {
  const int64_t window = std::max(calls_.now(), demanded_);
  const int64_t rows =
      std::min(window - static_cast<int64_t>(items_.size()), HorizonPlus(wanted_, -row_items_));
  if (!ahead_.counts() || rows <= 0) return rows;
  // The consumer may wait for the only one that there is. What results take the first one tells.
  if (items_.empty()) return ahead_.RowsThatFit(rows);
  return ahead_.HasRoom() && ahead_.BytesEach() >= 0 ? ahead_.RowsThatFit(rows) : 0;
}

bool CallsAhead::MayPull() const {
  return !pulling_ && claims_ == 0 && !ended_ && !undecided_ && interruption_.ok() &&
         broken_.ok() && RowsAllowed() > 0;
}

bool CallsAhead::HasOutcome() const {
  return keeps_order_ ? !items_.empty() && items_.front()->done : done_items_ > 0;
}

void CallsAhead::Next(const Demand& demand, const CallOptions& options, Slab* slab) {
  // Rows, and what they hold of the host's, end without the lock.
  std::vector<std::shared_ptr<Item>> given;
  Lock lock(mutex_);
  demanded_ = demand.count_only ? 0 : std::min(demand.max_rows, kMaxSlabRows);
  wanted_ = demand.count_only ? 0 : demand.Horizon();
  all_wanted_ = demand.all_wanted;
  if (demand.count_only) return Count(demand, options, lock, slab);
  const auto must_decide = [this] { return items_.empty() && undecided_; };
  if (record_ != nullptr) record_->AddFill(done_items_, calls_.now());
  const uint64_t asked = HasOutcome() ? 0 : calls_.Now();
  do {
    if (must_decide() && !stopped_) slab->status = Decide(demand, options, lock);
    if (!slab->status.ok()) return;
    if (MayPull()) work_.notify_one();
    slab->status = WaitUntil(
        lock, ready_, environment_->clock(), options,
        [&] {
          return HasOutcome() || (items_.empty() && ended_) || !interruption_.ok() || IsBroken() ||
                 stopped_ || must_decide();
        },
        node_.label());
    if (!slab->status.ok()) return;
  } while (must_decide() && !stopped_);
  if (stopped_) {
    slab->status = Closed();
  } else if (HasOutcome()) {
    // The input has given rows for all calls that there may be.
    const bool all_busy = row_items_ >= calls_.now();
    Give(demand, &given, slab);
    demanded_ -= slab->rows;
    wanted_ = HorizonPlus(wanted_, -slab->rows);
    slab->end = slab->status.ok() && items_.empty() && ended_;
    const bool grows = calls_.Observe(slab->rows, asked == 0 ? 0 : calls_.Now() - asked, all_busy);
    if (MayPull()) work_.notify_one();
    if (!grows) return;
    const int64_t threads = calls_.now() + 1;
    lock.unlock();
    StartThreads(threads);
    work_.notify_all();
  } else if (IsBroken()) {
    slab->status = broken_;
  } else if (!interruption_.ok()) {
    slab->status = std::exchange(interruption_, OkStatus());
  } else {
    slab->end = true;
  }
}

// The results that are ready, up to one that failed. To a tentative demand only rows, and failures
// that whoever passes over rows meets, too.
void CallsAhead::Give(const Demand& demand, std::vector<std::shared_ptr<Item>>* given, Slab* slab) {
  std::vector<Ref<Value>> values;
  Origins origins;
  Status failure;
  for (size_t i = 0; i < items_.size() && static_cast<int64_t>(values.size()) < demanded_; ++i) {
    Item& item = *items_[i];
    if (!item.done) {
      if (keeps_order_) break;
      continue;
    }
    if (item.status.ok()) {
      const Origin origin = item.in ? item.in->origins.Of(item.row) : Origin();
      Result<Ref<Value>> fitted = function_.Fit(std::move(item.value), item.number, origin);
      if (fitted.ok()) {
        values.push_back(std::move(fitted).value());
        origins.Add(origin, 1);
      }
      item.status = std::move(fitted).status();
    }
    if (!item.status.ok() && item.in && demand.tentative) {
      if (keeps_order_) break;
      continue;
    }
    given->push_back(items_[i]);
    item.dropped = true;
    failure = std::move(item.status);
    if (!failure.ok()) break;
  }
  if (given->empty()) failure = Undecided(node_);
  for (const std::shared_ptr<Item>& item : *given) {
    row_items_ -= item->in ? 1 : 0;
    Uncount(*item);
  }
  done_items_ -= static_cast<int64_t>(given->size());
  if (keeps_order_) {
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(given->size()));
  } else {
    std::erase_if(items_, [](const std::shared_ptr<Item>& item) { return item->dropped; });
  }
  *slab = function_.Collect(std::move(values));
  slab->origins = std::move(origins);
  slab->status = std::move(failure);
}

// Passes over rows, those of the window first. What their calls give is nobody's.
void CallsAhead::Count(const Demand& demand, const CallOptions& options, Lock& lock, Slab* slab) {
  std::vector<std::shared_ptr<Item>> passed;
  if (items_.empty()) {
    // What is being pulled comes into the window.
    slab->status = TakeInput(options, lock);
    if (!slab->status.ok()) return;
    if (items_.empty() && !ended_ && broken_.ok() && !stopped_) {
      NumberedRows::Run run;
      lock.unlock();
      Status thrown = CatchExceptions(node_.label(), [&] {
        rows_.Pull(demand, options, &run);
        return OkStatus();
      });
      lock.lock();
      undecided_ = false;
      slab->rows = run.slab.rows;
      slab->status = std::move(run.slab.status);
      slab->end = run.slab.end;
      ended_ = slab->end;
      if (!thrown.ok()) slab->status = broken_ = BrokenInput(std::move(thrown));
      ReturnInput();
      lock.unlock();
      return;
    }
    ReturnInput();
  }
  while (!items_.empty() && slab->rows < demand.max_rows && slab->status.ok()) {
    passed.push_back(std::move(items_.front()));
    items_.pop_front();
    Item& item = *passed.back();
    item.dropped = true;
    Uncount(item);
    done_items_ -= item.done ? 1 : 0;
    if (item.in) {
      ++slab->rows;
      --row_items_;
    } else {
      slab->status = std::move(item.status);
    }
  }
  slab->end = items_.empty() && ended_ && slab->status.ok();
  if (slab->rows == 0 && slab->status.ok() && !slab->end) {
    slab->status = stopped_ ? Closed() : broken_;
  }
  lock.unlock();
}

Status CallsAhead::TakeInput(const CallOptions& options, Lock& lock) {
  ++claims_;
  if (pulling_) {
    const Ref<Cancellation> cancellation = pull_cancellation_;
    lock.unlock();
    cancellation->Cancel();
    lock.lock();
  }
  Status status = WaitUntil(
      lock, ready_, environment_->clock(), options, [this] { return !pulling_; }, node_.label());
  if (status.ok()) {
    pulling_ = true;
  } else {
    --claims_;
    work_.notify_all();
  }
  return status;
}

void CallsAhead::ReturnInput() {
  pulling_ = false;
  --claims_;
  work_.notify_all();
}

// With an empty window, and behind it an element of which nobody knew whether it is wanted: it is,
// and its row or failure comes into the window.
Status CallsAhead::Decide(const Demand& demand, const CallOptions& options, Lock& lock) {
  if (demand.tentative) return Undecided(node_);
  TUTTI_RETURN_IF_ERROR(TakeInput(options, lock));
  NumberedRows::Run run;
  lock.unlock();
  Status thrown = CatchExceptions(node_.label(), [&] {
    rows_.Pull(demand.OfInput(1, demand.Horizon()), options, &run);
    return OkStatus();
  });
  lock.lock();
  Status interruption;
  if (thrown.ok() && IsInterruption(run.slab.status)) {
    interruption = std::move(run.slab.status);
  } else if (thrown.ok()) {
    thrown = CatchExceptions(node_.label(), [&] {
      Queue(std::move(run));
      return OkStatus();
    });
  }
  undecided_ = !interruption.ok();
  if (!thrown.ok()) broken_ = BrokenInput(std::move(thrown));
  ReturnInput();
  return interruption;
}

Status CallsAhead::InputTurn::Take(const CallOptions& options) {
  if (calls_ == nullptr) return OkStatus();
  Lock lock(calls_->mutex_);
  TUTTI_RETURN_IF_ERROR(calls_->TakeInput(options, lock));
  taken_ = true;
  return OkStatus();
}

CallsAhead::InputTurn::~InputTurn() {
  if (!taken_) return;
  const Lock lock(calls_->mutex_);
  calls_->ReturnInput();
}

Status CallsAhead::Held(std::vector<NumberedRows::Run>* held) {
  std::vector<std::shared_ptr<Item>> items;
  {
    const Lock lock(mutex_);
    TUTTI_RETURN_IF_ERROR(broken_);
    items.assign(items_.begin(), items_.end());
  }
  for (size_t i = 0; i < items.size();) {
    const Item& first = *items[i];
    NumberedRows::Run run;
    run.first = first.number;
    size_t next = i;
    while (next < items.size() && items[next]->in && items[next]->in == first.in &&
           items[next]->row == first.row + static_cast<int64_t>(next - i)) {
      ++next;
    }
    if (next > i) run.slab = first.in->Slice(first.row, items[next - 1]->row + 1);
    if (next < items.size() && !items[next]->in &&
        items[next]->number == first.number + static_cast<int64_t>(next - i)) {
      run.slab.status = items[next++]->status;
    }
    held->push_back(std::move(run));
    i = next;
  }
  return OkStatus();
}

void CallsAhead::Forget() {
  std::deque<std::shared_ptr<Item>> items;
  std::deque<std::shared_ptr<Item>> waiting;
  Ref<Cancellation> cancellation = MakeRef<Cancellation>();
  {
    const Lock lock(mutex_);
    for (const std::shared_ptr<Item>& item : items_) item->dropped = true;
    ahead_.Clear();
    items.swap(items_);
    waiting.swap(waiting_);
    std::swap(cancellation, calls_cancellation_);
    demanded_ = wanted_ = row_items_ = done_items_ = 0;
    ended_ = undecided_ = false;
    interruption_ = OkStatus();
  }
  cancellation->Cancel();
}

void CallsAhead::Stop() {
  Ref<Cancellation> calls;
  Ref<Cancellation> pull;
  {
    const Lock lock(mutex_);
    stopped_ = true;
    calls = calls_cancellation_;
    pull = pull_cancellation_;
  }
  work_.notify_all();
  ready_.notify_all();
  calls->Cancel();
  if (pull) pull->Cancel();
}

Status CallsAhead::Join(const CallOptions& options) {
  for (Thread& thread : threads_) TUTTI_RETURN_IF_ERROR(thread.Join(options));
  return OkStatus();
}

// ---- The threads. ----

void CallsAhead::Run() {
  const auto lose = [this](Status why) {
    {
      const Lock lock(mutex_);
      broken_ = BrokenInput(std::move(why));
      lost_ = true;
    }
    ready_.notify_all();
  };
  IfThreadEnds ends(node_.label(), lose);
  Status thrown = CatchExceptions(node_.label(), [this] {
    Serve();
    return OkStatus();
  });
  ends.Stays();
  if (!thrown.ok()) lose(std::move(thrown));
}

void CallsAhead::Serve() {
  Lock lock(mutex_);
  while (true) {
    // Asked once: what other stages hold of a budget changes without this lock.
    bool pulls = false;
    work_.wait(lock, [&] {
      pulls = MayPull();
      return stopped_ || pulls || MayCall();
    });
    if (stopped_) return;
    if (pulls) {
      Pull(lock);
    } else {
      Call(lock);
    }
  }
}

void CallsAhead::Pull(Lock& lock) {
  // One after the other at first, so that a slow input's first row is called at once.
  const int64_t rows =
      std::max<int64_t>(1, std::min(std::max<int64_t>(row_items_, 1), RowsAllowed()));
  const Demand demand{rows, false, HorizonPlus(wanted_, -row_items_), all_wanted_, !all_wanted_};
  pulling_ = true;
  // Also when a function of the input ends the thread: the input is nobody's then.
  const struct Pulling {
    CallsAhead& self;
    Lock& lock;
    ~Pulling() {
      if (!lock.owns_lock()) lock.lock();
      self.pulling_ = false;
    }
  } at_end{*this, lock};
  Ref<Cancellation> cancellation;
  NumberedRows::Run run;
  Status thrown = CatchExceptions(node_.label(), [&] {
    cancellation = MakeRef<Cancellation>();
    pull_cancellation_ = cancellation;
    lock.unlock();
    rows_.Pull(demand, CallOptions{Deadline::Infinite(), cancellation.get()}, &run);
    return OkStatus();
  });
  if (!lock.owns_lock()) lock.lock();
  pulling_ = false;
  if (IsInterruption(run.slab.status)) {
    if (!cancellation->cancelled() && !stopped_) {
      // Whatever it was is met again by whoever wants the element.
      undecided_ = demand.tentative;
      if (!undecided_) interruption_ = run.slab.status;
    }
    run.slab.status = OkStatus();
  }
  if (thrown.ok()) {
    thrown = CatchExceptions(node_.label(), [&] {
      Queue(std::move(run));
      return OkStatus();
    });
  }
  if (!thrown.ok()) broken_ = BrokenInput(std::move(thrown));
  work_.notify_all();
  ready_.notify_all();
}

void CallsAhead::Queue(NumberedRows::Run run) {
  Status failure = std::exchange(run.slab.status, OkStatus());
  ended_ = std::exchange(run.slab.end, false);
  const auto make = [&](int64_t row) {
    auto item = std::make_shared<Item>();
    item->row = row;
    item->number = run.first + row;
    item->cancellation = calls_cancellation_;
    return item;
  };
  const int64_t rows = run.slab.rows;
  std::shared_ptr<const Slab> in;
  int64_t row_bytes = 0;
  int64_t bytes = 0;
  if (rows > 0) {
    if (ahead_.counts()) {
      // Results that are not there yet are counted as those before.
      row_bytes = ElementBytes(run.slab) / rows;
      bytes = std::max(row_bytes, ahead_.BytesEach());
      ahead_.AddBytes(0, bytes * rows);
    }
    in = std::make_shared<Slab>(std::move(run.slab));
  }
  for (int64_t row = 0; row < rows; ++row) {
    std::shared_ptr<Item> item = make(row);
    item->in = in;
    item->row_bytes = row_bytes;
    item->bytes = bytes;
    items_.push_back(item);
    ++row_items_;
    waiting_.push_back(std::move(item));
  }
  if (failure.ok()) return;
  std::shared_ptr<Item> item = make(rows);
  item->status = std::move(failure);
  item->done = true;
  items_.push_back(std::move(item));
  ++done_items_;
}

void CallsAhead::Call(Lock& lock) {
  std::shared_ptr<Item> item = std::move(waiting_.front());
  waiting_.pop_front();
  Ref<Value> value;
  Status status;
  if (!item->dropped) {
    ++calling_;
    lock.unlock();
    status = CatchExceptions(node_.label(), [&]() -> Status {
      std::optional<CallPermits::Holder> permit;
      if (permits_ != nullptr) permit.emplace(*permits_);
      const CallOptions options{Deadline::Infinite(), item->cancellation.get()};
      TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment_->clock(), node_.label()));
      TUTTI_ASSIGN_OR_RETURN(value, function_.CallRow(*item->in, item->row, item->number, options));
      return OkStatus();
    });
    lock.lock();
    --calling_;
  }
  if (!item->dropped) {
    if (ahead_.counts()) {
      Uncount(*item);
      item->bytes = item->row_bytes + (value ? ElementBytes(*value) : 0);
      ahead_.AddBytes(1, item->bytes);
      if (MayPull()) work_.notify_one();
    }
    item->value = std::move(value);
    item->status = std::move(status);
    item->done = true;
    ++done_items_;
    if (!keeps_order_ || items_.front() == item) ready_.notify_all();
  }
  if (MayCall()) work_.notify_one();
  // What nobody wants any more ends without the lock.
  lock.unlock();
  value.reset();
  item.reset();
  lock.lock();
}

}  // namespace tutti
