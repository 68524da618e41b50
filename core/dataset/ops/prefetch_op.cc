// prefetch: a thread makes elements ahead, up to `buffer_size` of them, and none that nobody can
// want (the demand's horizon).
//
// The thread lives for one pass over the input and asks for as many elements as are buffered
// already, at least one: so the first comes at once, and a fast consumer is served in slabs.
//
// What was made ahead does not count in the saved state. The thread notes the input's position from
// time to time, the less often the more bytes that takes; Save gives the last one before what was
// delivered and how many elements lie between, and Restore passes over those.
//
// With the option experimental_slack the thread of the last prefetch leaves the machine to whoever
// consumes a step: after each `num_devices` elements it pauses for a fifth of the time that the
// last of such elements lay ready before it was asked for.
//
// An exception below ends the thread. What was made before it is delivered, then every call fails
// with its status: nobody knows where the input stands.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/thread.h"
#include "core/base/wait.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/broken_input.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

// What "you choose" begins with: enough to hide the difference between neighbours.
constexpr int64_t kAutotunedElements = 8;
// Elements between two notes of the input's position, at least.
constexpr int64_t kNoteInterval = 64;
// A pause is this part of the slack, of which no more counts than a second.
constexpr int64_t kSlackPart = 5;
constexpr int64_t kMostSlackNs = 1'000'000'000;

int64_t FirstCapacity(const Node& node) {
  const int64_t given = node.attributes().Int("buffer_size");
  return given == kAutotune ? kAutotunedElements : given;
}

bool IsTuned(const Node& node, const ExecContext& context) {
  return node.attributes().Int("buffer_size") == kAutotune &&
         (context.options == nullptr || context.options->autotune_buffers());
}

class PrefetchStage final : public Stage {
 public:
  PrefetchStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        environment_(context.environment->environment_ref()),
        record_(context.record),
        capacity_(this->node(), context, IsTuned(node, context), FirstCapacity(node)),
        inline_(capacity_.now() == 0 || context.probe),
         slack_period_(context.slack_node == &node ? context.slack_period : 0),
        ahead_(context, node, HeldBytes::Kind::kAhead) {}

  ~PrefetchStage() override = default;

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (!behind_.ok()) {
      slab->status = std::exchange(behind_, OkStatus());
      return;
    }
    if (!inline_ && !thread_.joinable()) slab->status = Start();
    if (!slab->status.ok()) return;
    if (inline_) return input().Next(demand, options, slab);
    std::unique_lock lock(mutex_);
    const bool was_at_limit = rows_made_ >= limit_;
    limit_ = HorizonPlus(demand.Horizon(), rows_made_ - buffered_);
    if (was_at_limit) changed_.notify_all();
    if (record_ != nullptr) record_->AddFill(buffered_, capacity_.now());
    if (buffered_ == 0 && !ended_ && capacity_.WasEmpty(row_bytes_)) changed_.notify_all();
    slab->status = WaitUntil(
        lock, changed_, environment_->clock(), options,
        [this] { return !queue_.empty() || ended_ || stopped_ || !broken_.ok(); }, node().label());
    if (!slab->status.ok()) return;
    if (queue_.empty()) {
      slab->end = ended_ && !stopped_;
      if (!slab->end) slab->status = stopped_ ? Closed() : broken_;
      return;
    }
    Slab& front = queue_.front();
    const int64_t rows = std::min(demand.max_rows, front.rows);
    if (rows == front.rows) {
      *slab = std::move(front);
      queue_.pop_front();
    } else {
      *slab = front.Slice(0, rows);
      Slab rest = front.Slice(rows, front.rows);
      rest.status = std::move(front.status);
      front = std::move(rest);
    }
    ahead_.Remove(*slab);
    if (slack_period_ > 0) NoteSlack(rows);
    buffered_ -= rows;
    delivered_ += rows + (slab->status.ok() ? 0 : 1);
    while (notes_.size() > 1 && notes_[1].position <= delivered_) notes_.pop_front();
    slab->end = slab->status.ok() && queue_.empty() && ended_;
    lock.unlock();
    changed_.notify_all();
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(EndPass(options));
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("prefetch");
    std::unique_lock lock(mutex_);
    if (!behind_.ok()) {
      writer->Bytes(restored_.state);
      writer->Int(-restored_.position);
      return OkStatus();
    }
    if (!thread_.joinable()) {
      lock.unlock();
      StateWriter state;
      TUTTI_RETURN_IF_ERROR(Stage::Save(&state));
      writer->Bytes(state.bytes());
      writer->Int(0);
      return OkStatus();
    }
    TUTTI_RETURN_IF_ERROR(note_status_);
    writer->Bytes(notes_.front().state);
    writer->Int(delivered_ - notes_.front().position);
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(EndPass(options));
    reader->Section("prefetch");
    const std::string_view bytes = reader->Bytes();
    StateReader state(bytes, reader->environment());
    const int64_t passed_since = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    TUTTI_RETURN_IF_ERROR(reader->status());
    TUTTI_RETURN_IF_ERROR(Stage::Restore(&state, options));
    int64_t passed = 0;
    TUTTI_RETURN_IF_ERROR(PassOver(input(), passed_since, options, &passed, &behind_));
    if (!behind_.ok()) restored_ = Note{-passed_since, std::string(bytes)};
    return OkStatus();
  }

  void Stop() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (cancellation_) cancellation_->Cancel();
    }
    changed_.notify_all();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(thread_.Join(options));
    return Stage::Join(options);
  }

 private:
  // The input's position before outcome `position` of this pass; a row or a failed element is one.
  struct Note {
    int64_t position = 0;
    std::string state = {};
  };

  Status Closed() const { return Cancelled("{}: the iterator was closed", node().label()); }

  Status Start() {
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return Closed();
      TUTTI_RETURN_IF_ERROR(broken_);
      cancellation_ = MakeRef<Cancellation>();
    }
    StateWriter writer;
    note_status_ = Stage::Save(&writer);
    notes_.push_back(Note{0, std::move(writer).TakeBytes()});
    Result<Thread> thread = environment_->StartThread("tutti-prefetch", [this] { Run(); });
    if (thread.ok()) {
      thread_ = std::move(thread).value();
      return OkStatus();
    }
    // A simulation has one thread: then elements are made when they are asked for.
    if (thread.status().code() != StatusCode::kUnimplemented) return thread.status();
    inline_ = true;
    return OkStatus();
  }

  // Ends the thread and forgets what it made.
  Status EndPass(const CallOptions& options) {
    {
      std::lock_guard lock(mutex_);
      if (cancellation_) cancellation_->Cancel();
      pass_over_ = true;
    }
    changed_.notify_all();
    TUTTI_RETURN_IF_ERROR(thread_.Join(options));
    thread_ = Thread();
    std::lock_guard lock(mutex_);
    queue_.clear();
    ahead_.Clear();
    notes_.clear();
    step_ends_.clear();
    slack_ns_ = 0;
    note_status_ = behind_ = OkStatus();
    buffered_ = delivered_ = produced_ = rows_made_ = limit_ = 0;
    ended_ = pass_over_ = false;
    return OkStatus();
  }

  void Run() {
    const auto lose = [this](Status why) {
      {
        std::lock_guard lock(mutex_);
        broken_ = BrokenInput(std::move(why));
      }
      changed_.notify_all();
    };
    IfThreadEnds ends(node().label(), lose);
    Status status = CatchExceptions(node().label(), [this] {
      MakeAhead();
      return OkStatus();
    });
    ends.Stays();
    if (!status.ok()) lose(std::move(status));
  }

  // Whether a step ends with the last of `rows` rows behind `before` ones.
  bool EndsStep(int64_t before, int64_t rows) const {
    return rows > 0 && before / slack_period_ != (before + rows) / slack_period_;
  }

  // Under the mutex, as `rows` rows are handed out.
  void NoteSlack(int64_t rows) {
    const int64_t before = rows_made_ - buffered_;
    if (!EndsStep(before, rows) || step_ends_.empty()) return;
    const int64_t ready_ns = step_ends_.front();
    step_ends_.pop_front();
    slack_ns_ = std::clamp<int64_t>(environment_->clock().NowNs() - ready_ns, 0, kMostSlackNs);
  }

  // Under the mutex, as a step was made.
  void Pause(std::unique_lock<std::mutex>& lock) {
    step_ends_.push_back(environment_->clock().NowNs());
    const int64_t pause_ns = slack_ns_ / kSlackPart;
    if (pause_ns == 0) return;
    const CallOptions options{Deadline::After(environment_->clock(), pause_ns),
                              cancellation_.get()};
    (void)WaitUntil(
        lock, changed_, environment_->clock(), options,
        [this] { return stopped_ || pass_over_; }, node().label());
  }

  void MakeAhead() {
    const CallOptions options{Deadline::Infinite(), cancellation_.get()};
    std::unique_lock lock(mutex_);
    while (true) {
      const Status waited = WaitUntil(
          lock, changed_, environment_->clock(), options,
          [this] {
            return buffered_ < capacity_.now() && rows_made_ < limit_ &&
                   (buffered_ == 0 || ahead_.HasRoom());
          },
          node().label());
      if (!waited.ok() || stopped_ || pass_over_) return;
      const int64_t horizon = HorizonPlus(limit_, -rows_made_);
      int64_t wanted = ahead_.RowsThatFit(
          std::min(std::clamp<int64_t>(buffered_, 1, capacity_.now() - buffered_), horizon));
      if (slack_period_ > 0) {
        wanted = std::min(wanted, slack_period_ - rows_made_ % slack_period_);
      }
      lock.unlock();
      Slab slab;
      input().Next(Demand::Made(wanted, horizon), options, &slab);
      const bool failed = !slab.status.ok();
      // Nothing is passed over that failed, as it need not fail again: the position behind it is
      // there before it is.
      std::optional<Note> note;
      if (failed) note = MakeNote(produced_ + slab.rows + 1);
      lock.lock();
      if (IsInterruption(slab.status)) {
        if (stopped_ || pass_over_ || cancellation_->cancelled()) return;
      }
      const bool end = std::exchange(slab.end, false);
      ahead_.Add(slab);
      const int64_t slab_rows = slab.rows;
      produced_ += slab.rows + (failed ? 1 : 0);
      buffered_ += slab.rows;
      rows_made_ += slab.rows;
      if (buffered_ >= capacity_.now()) {
        capacity_.WasFull();
        if (row_bytes_ == 0 && slab.rows > 0) row_bytes_ = ElementBytes(slab) / slab.rows;
      }
      if (slab.rows > 0 || failed) queue_.push_back(std::move(slab));
      if (note) notes_.push_back(*std::move(note));
      ended_ = end;
      changed_.notify_all();
      if (end) return;
      if (slack_period_ > 0 && slab_rows > 0 && rows_made_ % slack_period_ == 0) Pause(lock);
      const int64_t interval =
          std::max<int64_t>(kNoteInterval, static_cast<int64_t>(notes_.back().state.size() / 16));
      if (produced_ - notes_.back().position < interval) continue;
      lock.unlock();
      note = MakeNote(produced_);
      lock.lock();
      if (note) notes_.push_back(*std::move(note));
    }
  }

  // Without the mutex: an input with threads of its own may have to wait for one of them. None when
  // the input cannot be saved now.
  std::optional<Note> MakeNote(int64_t position) {
    StateWriter writer;
    if (!Stage::Save(&writer).ok()) return std::nullopt;
    return Note{position, std::move(writer).TakeBytes()};
  }

  const Ref<Environment> environment_;
  NodeProfile* const record_;  // null: nothing is measured
  TunedBuffer capacity_;       // changes under the mutex
  bool inline_;
  const int64_t slack_period_;  // rows of a step; 0: no slack is given
  HeldBytes ahead_;
  Thread thread_;  // of the consumer; runs for one pass
  // Of a restore, until the next element is asked for, which has failed: how, and the position that
  // was gone to, less what was passed over.
  Status behind_;
  Note restored_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Ref<Cancellation> cancellation_;
  std::deque<Slab> queue_;
  std::deque<Note> notes_;  // the first is the last before what was delivered
  Status note_status_;      // why the first note could not be made
  int64_t buffered_ = 0;    // rows in the queue
  int64_t row_bytes_ = 0;   // of one of them, once it was full; 0: not known
  int64_t delivered_ = 0;   // outcomes of this pass that Next has returned
  int64_t produced_ = 0;    // outcomes of this pass
  Status broken_;           // the exception that ended the thread
  int64_t rows_made_ = 0;   // rows among them
  int64_t limit_ = 0;       // of rows_made_: no more can be wanted as far as the last Next knew
  std::deque<int64_t> step_ends_;  // when the last rows of steps were made that are buffered
  int64_t slack_ns_ = 0;           // how long the last such row lay ready
  bool ended_ = false;
  bool pass_over_ = false;
  bool stopped_ = false;
};

Status CheckPrefetch(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "buffer_size"));
  const int64_t size = node.attributes().Int("buffer_size");
  if (size >= 0 || size == kAutotune) return OkStatus();
  return InvalidArgument("{}: buffer_size must be 0 or more, or -1 (AUTOTUNE), got {}",
                         node.label(), size);
}

Result<std::unique_ptr<Stage>> MakePrefetch(const Node& node, const ExecContext& context,
                                            StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<PrefetchStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kPrefetchOp = {
    .name = "prefetch",
    .attributes = {{"buffer_size", kAutotune, AttributeRole::kTuning}},
    .can_seek = true,
    .passes_elements = true,
    .makes_ahead = true,
    .check = CheckPrefetch,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakePrefetch,
};

}  // namespace tutti
