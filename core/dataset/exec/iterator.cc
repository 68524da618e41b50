#include "core/dataset/exec/iterator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/base/placement_log.h"
#include "core/base/wait.h"
#include "core/dataset/exec/autotuner.h"
#include "core/dataset/exec/graph_header.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/refused.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/host_functions.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/graph/run_report.h"

namespace tutti {
namespace {

// A saved state: in its envelope the header of the graph (graph_header.h), as a byte string, and
// the body. "TUTTI-I1" had no versions of ops.
constexpr std::string_view kStateMagic = "TUTTI-I2";
constexpr const char* kMaking = "making an iterator";

std::string NameOf(const IteratorOptions& options, const Dataset& dataset) {
  if (!options.name.empty()) return Format("iterator '{}'", options.name);
  return Format("iterator over {}", dataset.node().label());
}

Status NoState(std::string_view why) {
  return InvalidArgument(
      "restore: these bytes are no state of this iterator ({}); pass what save "
      "gave for an equal dataset",
      why);
}

Status OtherStateFormat(std::string_view format) {
  return InvalidArgument(
             "restore: this is an iterator's state in the format {}, and {} is read here: {} "
             "release saved it; start the iterator afresh, or restore with the release that saved "
             "it",
             format, kStateMagic, format < kStateMagic ? "an earlier" : "a later")
      .With("format", std::string(format))
      .With("known_format", std::string(kStateMagic));
}

// What Next pulls at once: one for the first elements, which may be all that somebody looks at;
// then twice as many each time, as long as they stay in the first cache and nobody waits long.
constexpr int64_t kPullsAlone = 16;
constexpr int64_t kMostPulled = 256;
constexpr int64_t kPulledBytes = 32 * 1024;
constexpr int64_t kPullNs = 200'000;

// Ends what may have threads, however long that takes: they have been told to stop.
struct Discarded {
  std::unique_ptr<RamBudget> budget;  // of the stage, which goes first
  Ref<RunProfile> profile;            // the same
  std::unique_ptr<Stage> stage;
  ~Discarded() {
    if (!stage) return;
    stage->Stop();
    (void)stage->Join(CallOptions());
  }
};

}  // namespace

// From Enter on, as long as it lives, its owner has the stages for itself.
class Iterator::Turn {
 public:
  explicit Turn(Iterator& iterator) : iterator_(iterator) {}
  ~Turn() {
    if (!entered_) return;
    {
      std::lock_guard lock(iterator_.mutex_);
      iterator_.busy_ = false;
    }
    iterator_.idle_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status Enter(const CallOptions& call, std::string_view what) {
    Iterator& self = iterator_;
    TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
    TUTTI_RETURN_IF_ERROR(self.environment().CheckUsable(what));
    std::unique_lock lock(self.mutex_);
    TUTTI_RETURN_IF_ERROR(WaitUntil(
        lock, self.idle_, self.environment().clock(), call,
        [&] { return !self.busy_ || self.closing_; }, self.closable_name()));
    if (self.closing_) {
      return FailedPrecondition("{}: {} was called after close; make a new iterator",
                                self.closable_name(), what);
    }
    self.busy_ = entered_ = true;
    return OkStatus();
  }

 private:
  Iterator& iterator_;
  bool entered_ = false;
};

Iterator::Iterator(Ref<const Dataset> dataset, std::string name)
    : Closable(dataset->environment()->environment_ref(), name),
      dataset_(std::move(dataset)),
      account_(MakeRef<MemoryAccount>(std::move(name),
                                      Ref<MemoryAccount>::Retain(&environment().memory()))),
      permits_(dataset_->options().private_threadpool_size()),
      budget_(MakeBudget()),
      runs_ahead_(!dataset_->node().has_host_functions() && !budget_ &&
                  !dataset_->options().profile() && !dataset_->options().aggregator()) {
  context_.environment = dataset_->environment().get();
  context_.account = account_.get();
  context_.options = &dataset_->options();
  context_.permits = &permits_;
  context_.budget = budget_.get();
  context_.depth_around = dataset_->node().depth();
  if (dataset_->options().autotune()) {
    autotuner_ = std::make_unique<Autotuner>(dataset_->options().autotune_cpu_budget());
    context_.autotuner = autotuner_.get();
  }
  profile_ = MakeProfile();
  context_.profile = profile_.get();
  if (dataset_->options().slack()) {
    context_.slack_node = LastPrefetch(dataset_->node());
    context_.slack_period = std::max<int64_t>(1, dataset_->options().num_devices());
  }
}

Iterator::~Iterator() = default;

Result<Ref<Iterator>> Iterator::Create(Ref<const Dataset> dataset, IteratorOptions options,
                                       const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(kMaking));
  TUTTI_RETURN_IF_ERROR(dataset->environment()->environment().CheckUsable(kMaking));
  std::string name = NameOf(options, *dataset);
  TUTTI_RETURN_IF_ERROR(CheckNativeFunctions(*dataset, name));
  if (PlacementsAreLogged()) {
    LogPlacement(dataset->environment()->environment().log(), name, "CPU:0",
                 "elements of datasets are made on the host");
  }
  Ref<Iterator> iterator = MakeRef<Iterator>(std::move(dataset), std::move(name));
  TUTTI_RETURN_IF_ERROR(iterator->MakeRoot(&iterator->root_));
  iterator->dataset_->NoteRun(iterator->profile_);
  // A shutdown may close it from Register on: its close waits for what runs here.
  Turn turn(*iterator);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, kMaking));
  TUTTI_RETURN_IF_ERROR(iterator->Register());
  iterator->spec_ = iterator->dataset_->known_element_spec();
  if (iterator->spec_) return iterator;
  const Status first = iterator->MakeFirstElement(call);
  TUTTI_RETURN_IF_ERROR(iterator->environment().CheckUsable(kMaking));
  TUTTI_RETURN_IF_ERROR(first);
  return iterator;
}

std::unique_ptr<RamBudget> Iterator::MakeBudget() const {
  const int64_t bytes = dataset_->options().ram_budget();
  return bytes > 0 ? std::make_unique<RamBudget>(bytes) : nullptr;
}

Ref<RunProfile> Iterator::MakeProfile() const {
  return MakeRef<RunProfile>(environment().clock(), dataset_->options().profile());
}

RunReport Iterator::Explain() const {
  Ref<RunProfile> profile;
  {
    std::lock_guard lock(mutex_);
    profile = profile_;
  }
  return RunReport::Of(dataset_->node(), dataset_->options(), profile.get());
}

Status Iterator::MakeRoot(std::unique_ptr<Stage>* root) {
  TUTTI_ASSIGN_OR_RETURN(*root, MakeStage(dataset_->node(), context_));
  return OkStatus();
}

// Only an element can tell the spec: it is made now and kept for the first Next.
Status Iterator::MakeFirstElement(const CallOptions& call) {
  Result<std::string> fresh = SaveBody();
  if (fresh.ok()) fresh_state_ = std::move(fresh).value();
  return Move([&]() -> Status {
    Slab first;
    root_->Next(Demand::Made(1, kNoHorizon), call, &first);
    if (IsInterruption(first.status)) return first.status;
    spec_ = dataset_->known_element_spec();
    if (!spec_ && first.rows > 0) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> element, first.Row(0));
      spec_ = ElementSpec::OfValue(*element);
    }
    held_.Prepend(first, 0);
    return OkStatus();
  });
}

Status Iterator::CheckWhole() const {
  if (!moving_) return OkStatus();
  if (!exception_.ok()) return exception_;
  return Aborted(
      "{}: a thread was cancelled while it made an element, and the position is lost; restore one "
      "that was saved, or make a new iterator",
      closable_name());
}

template <typename Body>
Status Iterator::Move(Body&& body) {
  TUTTI_RETURN_IF_ERROR(CheckWhole());
  moving_ = true;
  exception_ = CatchExceptions(closable_name(), [&]() -> Status {
    Status status = body();
    moving_ = false;
    return status;
  });
  return moving_ ? exception_ : std::exchange(exception_, OkStatus());
}

Status Iterator::Pull(int64_t max_rows, const CallOptions& call, Slab* slab) {
  const bool measures = profile_->measures();
  const uint64_t then = measures ? profile_->clock().Now() : 0;
  if (!held_.empty()) {
    held_.Pop(max_rows, slab);
  } else {
    root_->Next(Demand::Made(max_rows, kNoHorizon), call, slab);
  }
  if (measures) profile_->AddTurn(then, profile_->clock().Now(), slab->rows);
  if (IsInterruption(slab->status)) {
    // With rows the call was not interrupted. A shutdown closes iterators, and is what is told.
    if (slab->rows == 0) {
      TUTTI_RETURN_IF_ERROR(environment().CheckUsable("next"));
      return slab->status;
    }
    slab->status = OkStatus();
  }
  fresh_state_.clear();
  // Somebody else's quarantine may have wanted it.
  if (!slab->status.ok()) slab->status = WithoutRefused(std::move(slab->status));
  if (slab->rows == 0) return OkStatus();
  std::lock_guard lock(mutex_);
  if (spec_) return OkStatus();
  spec_ = dataset_->known_element_spec();
  return OkStatus();
}

Status Iterator::PullAhead(const CallOptions& call) {
  // Where memory is limited it is one at a time: then what does not fit is the element's that says
  // so, and not that of others with it.
  if (environment().memory().limit_bytes() != 0) next_pull_ = pulls_ = 1;
  const bool learns = runs_ahead_ && ++pulls_ >= kPullsAlone;
  const Clock& clock = environment().clock();
  const int64_t then = learns ? clock.NowNs() : 0;
  Slab pulled;
  TUTTI_RETURN_IF_ERROR(Pull(next_pull_, call, &pulled));
  Status status = std::exchange(pulled.status, OkStatus());
  const bool end = std::exchange(pulled.end, false);
  if (pulled.rows == 0) {
    if (!status.ok()) ++delivered_;
    return status;
  }
  if (learns) {
    const int64_t bytes = std::max<int64_t>(1, ElementBytes(pulled) / pulled.rows);
    const int64_t fit = std::clamp<int64_t>(kPulledBytes / bytes, 1, kMostPulled);
    next_pull_ = clock.NowNs() - then > kPullNs ? std::max<int64_t>(1, next_pull_ / 2)
                                                : std::min(2 * next_pull_, fit);
  }
  if (!status.ok() || end) {
    // What comes after the rows comes when it is their turn.
    Slab after;
    after.status = std::move(status);
    after.end = end;
    held_.Prepend(after, 0);
  }
  ahead_ = std::move(pulled);
  return OkStatus();
}

void Iterator::HoldAhead() {
  if (ahead_row_ < ahead_.rows) held_.Prepend(ahead_, ahead_row_);
  ahead_.Clear();
  ahead_row_ = 0;
}

Result<Ref<Value>> Iterator::Next(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "next"));
  Ref<Value> element;
  TUTTI_RETURN_IF_ERROR(Move([&]() -> Status {
    if (ahead_row_ == ahead_.rows) TUTTI_RETURN_IF_ERROR(PullAhead(call));
    if (ahead_.rows == 0) return OkStatus();
    ++delivered_;
    Result<Ref<Value>> row = ahead_.Row(ahead_row_++);
    // Who has the last one may have it alone.
    if (ahead_row_ == ahead_.rows) HoldAhead();
    TUTTI_ASSIGN_OR_RETURN(element, std::move(row));
    return OkStatus();
  }));
  return element;
}

Result<Ref<Value>> Iterator::NextOptional(const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> element, Next(call));
  if (element) return Value::OfLeaf(Leaf::OfOptional(std::move(element)));
  std::lock_guard lock(mutex_);
  return Value::OfLeaf(Leaf::OfEmptyOptional(spec_));
}

Status Iterator::NextSlab(int64_t max_rows, const CallOptions& call, Slab* slab) {
  if (max_rows < 1)
    return InvalidArgument("next_slab: max_rows must be positive, got {}", max_rows);
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "next_slab"));
  slab->Clear();
  return Move([&]() -> Status {
    HoldAhead();
    TUTTI_RETURN_IF_ERROR(Pull(max_rows, call, slab));
    delivered_ += slab->rows + (slab->status.ok() ? 0 : 1);
    return OkStatus();
  });
}

Ref<const ElementSpec> Iterator::element_spec() const {
  std::lock_guard lock(mutex_);
  return spec_ ? spec_ : no_spec_;
}

Result<std::string> Iterator::SaveBody() {
  HoldAhead();
  StateWriter writer;
  writer.Int(delivered_);
  TUTTI_RETURN_IF_ERROR(held_.Save(&writer));
  TUTTI_RETURN_IF_ERROR(root_->Save(&writer));
  return std::move(writer).TakeBytes();
}

Result<std::string> Iterator::Save(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "save"));
  std::string state;
  TUTTI_RETURN_IF_ERROR(CatchExceptions(closable_name(), [&]() -> Status {
    TUTTI_RETURN_IF_ERROR(CheckExternalState(*dataset_, "save", &external_state_told_));
    std::string body = fresh_state_;
    if (body.empty()) {
      TUTTI_RETURN_IF_ERROR(CheckWhole());
      TUTTI_ASSIGN_OR_RETURN(body, SaveBody());
    }
    TUTTI_RETURN_IF_ERROR(MakeHeader());
    StateWriter content;
    content.Bytes(header_);
    state = SealEnvelope(kStateMagic, content.bytes() + body);
    return OkStatus();
  }));
  return state;
}

Status Iterator::MakeHeader() {
  if (!header_.empty()) return OkStatus();
  TUTTI_ASSIGN_OR_RETURN(header_,
                         GraphHeader(dataset_->node(), HeaderText::kDescribed));
  return OkStatus();
}

Status Iterator::RestoreFrom(std::string_view state, const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(MakeHeader());
  if (const std::string_view format = OtherFormat(kStateMagic, state); !format.empty()) {
    return OtherStateFormat(format);
  }
  std::string_view content;
  if (const char* why = OpenEnvelope(kStateMagic, state, &content)) return NoState(why);
  StateReader reader(content, context_.environment);
  const std::string_view header = reader.Bytes();
  TUTTI_RETURN_IF_ERROR(reader.status());
  TUTTI_RETURN_IF_ERROR(CheckGraphHeader(header_, header));
  const int64_t delivered = reader.IntIn(0, std::numeric_limits<int64_t>::max());
  HeldRows held;
  held.Restore(&reader);
  TUTTI_RETURN_IF_ERROR(reader.status());
  Discarded other;  // the new stages, then the former ones
  other.budget = MakeBudget();
  other.profile = MakeProfile();
  // Stages look at the context while they restore, too.
  struct Budgets {
    Iterator& self;
    Budgets(Iterator& iterator, const Discarded& made) : self(iterator) {
      self.context_.budget = made.budget.get();
      self.context_.profile = made.profile.get();
    }
    ~Budgets() {
      self.context_.budget = self.budget_.get();
      self.context_.profile = self.profile_.get();
    }
  } const budgets(*this, other);
  const Status made = [&] {
    const struct Restoring {
      bool& flag;
      ~Restoring() { flag = false; }
    } restoring{context_.restoring = true};
    return MakeRoot(&other.stage);
  }();
  TUTTI_RETURN_IF_ERROR(made);
  TUTTI_RETURN_IF_ERROR(other.stage->Restore(&reader, call));
  TUTTI_RETURN_IF_ERROR(reader.status());
  if (!reader.at_end()) return NoState("they go on behind their end");
  {
    std::lock_guard lock(mutex_);
    std::swap(root_, other.stage);
    std::swap(budget_, other.budget);
    std::swap(profile_, other.profile);
    if (closing_) root_->Stop();
  }
  dataset_->NoteRun(profile_);
  ahead_.Clear();
  ahead_row_ = 0;
  pulls_ = 0;
  next_pull_ = 1;
  held_ = std::move(held);
  delivered_ = delivered;
  fresh_state_.clear();
  moving_ = false;
  exception_ = OkStatus();
  return OkStatus();
}

Status Iterator::Restore(std::string_view state, const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "restore"));
  return CatchExceptions(closable_name(), [&] { return RestoreFrom(state, call); });
}

Status Iterator::OnClose(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("close"));
  std::unique_lock lock(mutex_);
  closing_ = true;
  if (root_) root_->Stop();
  idle_.notify_all();
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, environment().clock(), call, [this] { return !busy_; }, closable_name()));
  lock.unlock();
  return root_ ? root_->Join(call) : OkStatus();
}

}  // namespace tutti
