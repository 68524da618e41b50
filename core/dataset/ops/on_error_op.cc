// on_error: what becomes of elements of the input that failed. With the policy "fail" they are
// reported in their places, as without this operation; with "skip" they are left out, at most
// `max_skipped` of them in one pass (-1: any number), and those beyond are reported as the errors
// that they are, with a word on how many were skipped. "quarantine:PATH" skips, too, and leaves
// what was skipped in a file (quarantine_file.h), which is of one pass and goes on from a position.
//
// Only what is one element's is skipped. Never skipped, nor counted, are
//   - interruptions, DEADLINE_EXCEEDED and CANCELLED, which stand for no element;
//   - what takes an unknown number of elements with it (Loss::kMany): a missing file, the rest of
//     one that cannot be read, an input that broke. Left out, it would look like data that never
//     was. The same failure of a generator that has no more to give (Loss::kPerhapsRest): it is
//     held until the input has said what follows, as shard does;
//   - RESOURCE_EXHAUSTED: the process has no memory for the element, nor for those behind it.
//
// Which element fails is only known once it is made, so that those that are passed over are made as
// well. In the log the first failure that is skipped is a warning, then every ten seconds how many
// there were since, and what there was at the end of the pass.
#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/quarantine_file.h"

namespace tutti {
namespace {

constexpr int64_t kSkipLogIntervalNs = 10 * kSecondNs;
constexpr int64_t kAnyNumber = -1;
constexpr std::string_view kQuarantine = "quarantine:";

const std::string& PolicyOf(const Node& node) {
  return *node.attributes().Get<std::string>("policy");
}

bool IsQuarantine(const Node& node) { return PolicyOf(node).starts_with(kQuarantine); }

bool Skips(const Node& node) {
  return (PolicyOf(node) == "skip" || IsQuarantine(node)) &&
         node.attributes().Int("max_skipped") != 0;
}

std::string ElementsText(int64_t count) {
  return count == 1 ? std::string("1 element") : Format("{} elements", count);
}

class OnErrorStage final : public Stage {
 public:
  OnErrorStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        environment_(context.environment->environment()),
        skips_(Skips(node)),
        logs_(!context.probe),
        max_skipped_(node.attributes().Int("max_skipped")) {
    if (skips_ && logs_ && IsQuarantine(node)) {
      quarantine_.emplace(environment_, PolicyOf(node).substr(kQuarantine.size()));
    }
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (!skips_) return input().Next(demand, options, slab);
    slab->end = slab->end || lost_;
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      slab->status = CheckCallOptions(options, environment_.clock(), node().label());
      if (slab->status.ok() && stopped_) {
        slab->status = Cancelled("{}: the iterator was closed", node().label());
      }
      if (!slab->status.ok()) return;
      slab->Clear();
      // A failure is none of the rows that are asked for.
      input().Next(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), demand.Horizon()), options,
                   slab);
      Sift(slab);
      KeepQuarantine(slab);
    }
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    skipped_ = 0;
    held_ = OkStatus();
    unlogged_ = 0;
    if (quarantine_) {
      if (!lost_) TUTTI_RETURN_IF_ERROR(quarantine_->Flush().WithPrefix(node().label()));
      quarantine_->Clear();
      quarantined_ = OkStatus();
      lost_ = false;
    }
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("on_error");
    writer->Int(skipped_);
    writer->Failure(WithoutRefused(held_));
    if (IsQuarantine(node())) {
      if (quarantine_) TUTTI_RETURN_IF_ERROR(quarantine_->Flush().WithPrefix(node().label()));
      writer->Int(quarantine_ ? quarantine_->size() : 0);
    }
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("on_error");
    skipped_ = reader->IntIn(0, max_skipped_ == kAnyNumber || !skips_
                                    ? std::numeric_limits<int64_t>::max()
                                    : max_skipped_);
    held_ = reader->Failure();
    unlogged_ = 0;
    const int64_t quarantined = IsQuarantine(node()) ? reader->IntIn(0, skipped_) : 0;
    if (quarantine_ && reader->ok()) quarantine_->Reload(quarantined);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    stopped_ = true;
    Stage::Stop();
  }

 private:
  // A quarantine that cannot be written loses elements without a trace: that ends the pass.
  void KeepQuarantine(Slab* slab) {
    if (!quarantine_) return;
    Status kept = quarantined_.ok() && slab->end ? quarantine_->Flush() : quarantined_;
    if (kept.ok()) return;
    lost_ = true;
    slab->Clear();
    slab->status = WithLoss(std::move(kept).WithPrefix(node().label()), Loss::kMany);
  }

  bool HasRoom() const { return max_skipped_ == kAnyNumber || skipped_ < max_skipped_; }

  // Takes out of what the input gave what is skipped.
  void Sift(Slab* slab) {
    if (IsInterruption(slab->status)) {
      // A call that has rows was not interrupted.
      if (slab->rows > 0) slab->status = OkStatus();
      if (slab->rows == 0) return;
    }
    const bool at_end = slab->rows == 0 && slab->end;
    if (!held_.ok() && at_end) {
      // The input broke off.
      slab->end = false;
      slab->status = std::exchange(held_, OkStatus());
      LogRest();
      return;
    }
    if (!held_.ok()) Skip(std::exchange(held_, OkStatus()));
    if (slab->end) LogRest();
    if (slab->status.ok()) return;
    const Loss loss = LossOf(slab->status);
    if (loss == Loss::kMany || slab->status.code() == StatusCode::kResourceExhausted) return;
    Status failure = std::exchange(slab->status, OkStatus());
    if (!HasRoom()) {
      slab->status = TooMany(std::move(failure));
    } else if (loss == Loss::kPerhapsRest) {
      held_ = std::move(failure);
    } else {
      Skip(failure);
    }
  }

  Status TooMany(Status failure) const {
    return WithoutRefused(std::move(failure))
        .WithPrefix(Format("{}: {} that failed {} skipped before this one in this pass, as many as "
                           "max_skipped allows",
                           node().label(), ElementsText(skipped_), skipped_ == 1 ? "was" : "were"))
        .With("skipped", skipped_);
  }

  void Skip(const Status& failure) {
    ++skipped_;
    if (!logs_) return;
    if (quarantine_) quarantined_ = quarantine_->Add(failure);
    ++unlogged_;
    last_ = WithoutRefused(failure);
    const int64_t now_ns = environment_.clock().NowNs();
    if (logged_ && now_ns - logged_ns_ < kSkipLogIntervalNs) return;
    logged_ = true;
    logged_ns_ = now_ns;
    LogRest();
  }

  void LogRest() {
    if (unlogged_ == 0) return;
    environment_.log().Warning(Format("{}: skipped {} that failed, {} in this pass{}; the last: {}",
                                      node().label(), ElementsText(unlogged_), skipped_,
                                      max_skipped_ == kAnyNumber
                                          ? std::string()
                                          : Format(" of at most {}", max_skipped_),
                                      last_.ToString()));
    if (quarantine_ && quarantine_->left_out() > 0) {
      environment_.log().Warning(Format("{}: the quarantine is full: {} are not in it",
                                        node().label(), ElementsText(quarantine_->left_out())));
    }
    unlogged_ = 0;
    last_ = OkStatus();
  }

  Environment& environment_;
  const bool skips_;
  const bool logs_;
  const int64_t max_skipped_;
  int64_t skipped_ = 0;  // in this pass
  Status held_;          // a failure that is skipped unless the end follows
  std::atomic<bool> stopped_{false};
  std::optional<QuarantineFile> quarantine_;
  Status quarantined_;  // how the last element came into it
  bool lost_ = false;   // it could not be kept, which was said: the pass is over
  // Of the log.
  int64_t unlogged_ = 0;
  Status last_;
  bool logged_ = false;
  int64_t logged_ns_ = 0;
};

Status CheckOnError(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckText(node, "policy"));
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "max_skipped"));
  const std::string& policy = *node.attributes().Get<std::string>("policy");
  const int64_t most = node.attributes().Int("max_skipped");
  if (policy == kQuarantine) {
    return InvalidArgument("{}: the policy is {}; expected the path of a file behind it",
                           node.label(), Quote(policy));
  }
  if (policy != "fail" && policy != "skip" && !IsQuarantine(node)) {
    return InvalidArgument(
        "{}: the policy must be 'fail' (failed elements are reported in their places), 'skip' "
        "(they are left out) or 'quarantine:PATH' (they are left in a file), got {}",
        node.label(), Quote(policy));
  }
  if (most < kAnyNumber) {
    return InvalidArgument("{}: max_skipped must be -1 (any number) or 0 and more, got {}",
                           node.label(), most);
  }
  if (policy == "fail" && most != kAnyNumber) {
    return InvalidArgument(
        "{}: max_skipped is {}, and the policy 'fail' skips nothing; leave it out, or choose the "
        "policy 'skip'",
        node.label(), most);
  }
  return OkStatus();
}

// Whatever could fail below, an input without an end is taken to have enough that does not.
int64_t OnErrorCardinality(const Node& node) {
  const int64_t input = node.input().cardinality();
  return !Skips(node) || input == kInfiniteCardinality || input == 0 ? input : kUnknownCardinality;
}

Result<std::unique_ptr<Stage>> MakeOnError(const Node& node, const ExecContext& context,
                                           StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<OnErrorStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kOnErrorOp = {
    .name = "on_error",
    .attributes = {{"policy"}, {"max_skipped", kAnyNumber}},
    .row_ratio = RowRatio::kSubset,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckOnError,
    .cardinality = OnErrorCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeOnError,
};

}  // namespace tutti
