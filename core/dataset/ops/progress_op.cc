// progress: the elements as they are, and on a terminal a line about them: how many there were, how
// many come in a second, and how long the rest will take where it is known how many that are.
//
//   train: 1200 of 5000 (24 %), 310 a second, 12 s left
//
// The line is on standard error, written anew at most five times a second, and at the end of each
// pass. Where standard error is no terminal there is no stage at all. It stands in no position:
// what came before a restore is not counted, and nothing is said of the rest then.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

constexpr int64_t kLinePeriodNs = kSecondNs / 5;

Status CheckProgress(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckText(node, "label"));
  const std::string& label = *node.attributes().Get<std::string>("label");
  if (!label.empty() && IsReadable(label) && label.find('\n') == std::string::npos) {
    return OkStatus();
  }
  return InvalidArgument(
      "{}: the label is {}; expected one line of text, which stands before the numbers",
      node.label(), Quote(label));
}

class ProgressStage final : public Stage {
 public:
  ProgressStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        label_(*node.attributes().Get<std::string>("label")),
        total_(node.cardinality()) {}

  ~ProgressStage() override {
    if (shown_) Write("\n");
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (start_ns_ < 0) start_ns_ = told_ns_ = clock_.NowNs();
    input().Next(demand, options, slab);
    rows_ += slab->rows;
    const int64_t now_ns = clock_.NowNs();
    const bool ends = slab->end && !std::exchange(ended_, slab->end);
    if (!ends && now_ns - told_ns_ < kLinePeriodNs) return;
    told_ns_ = now_ns;
    Tell(now_ns, ends);
  }

  Status Restart(const CallOptions& options) override {
    Forget();
    total_ = node().cardinality();
    return Stage::Restart(options);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    Forget();
    total_ = kUnknownCardinality;
    return Stage::Restore(reader, options);
  }

 private:
  void Forget() {
    rows_ = 0;
    start_ns_ = -1;
    ended_ = false;
  }

  void Tell(int64_t now_ns, bool ends) {
    const double seconds = static_cast<double>(std::max<int64_t>(now_ns - start_ns_, 1)) * 1e-9;
    const double rate = static_cast<double>(rows_) / seconds;
    std::string line = Format("{}: {}", label_, rows_);
    if (total_ > 0) {
      line += Format(" of {} ({:.0f} %)", total_,
                     100 * static_cast<double>(rows_) / static_cast<double>(total_));
    }
    line += rate < 10 ? Format(", {:.1f} a second", rate) : Format(", {:.0f} a second", rate);
    if (ends) {
      line += Format(", in {}", HumanDuration(now_ns - start_ns_));
    } else if (total_ > 0 && rate > 0) {
      const double left = static_cast<double>(std::max<int64_t>(total_ - rows_, 0)) / rate;
      line += Format(", {} left", HumanDuration(static_cast<int64_t>(std::min(left, 1e9) * 1e9)));
    }
    // Back to the line's begin, and what was there before is taken away.
    Write("\r" + line + "\x1b[K" + (ends ? "\n" : ""));
    shown_ = !ends;
  }

  // A terminal that does not take it misses a line.
  static void Write(const std::string& text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }

  Clock& clock_;
  const std::string label_;
  int64_t total_;  // of a pass; not positive: not known
  int64_t rows_ = 0;
  int64_t start_ns_ = -1;
  int64_t told_ns_ = 0;
  bool ended_ = false;
  bool shown_ = false;  // a line that has no end yet
};

Result<std::unique_ptr<Stage>> MakeProgress(const Node& node, const ExecContext& context,
                                            StageInputs inputs) {
  if (context.probe || isatty(STDERR_FILENO) == 0) return std::move(inputs[0]);
  return std::unique_ptr<Stage>(std::make_unique<ProgressStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kProgressOp = {
    .name = "progress",
    .attributes = {{"label"}},
    .row_ratio = RowRatio::kOneToOne,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckProgress,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeProgress,
};

}  // namespace tutti
