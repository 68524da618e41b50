// assert_cardinality: the elements as they are, of which there must be as many as was said.
//
// An element that fails counts, too. The first element that is too many, or the end where some are
// missing, is one failure that nobody passes over, and the end follows it.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

constexpr std::string_view kExpected = "expected_cardinality";

class AssertCardinalityStage final : public Stage {
 public:
  AssertCardinalityStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)), expected_(node.attributes().Int(kExpected)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (done_) {
      slab->end = true;
      return;
    }
    const bool is_finite = expected_ != kInfiniteCardinality;
    const int64_t left = is_finite ? expected_ - seen_ : demand.max_rows;
    if (left == 0) return ExpectEnd(demand, options, slab);
    input().Next(demand.OfInput(std::min(demand.max_rows, left), demand.Horizon()), options, slab);
    seen_ += slab->rows;
    if (!slab->status.ok() && !IsInterruption(slab->status) &&
        LossOf(slab->status) != Loss::kMany) {
      if (is_finite && seen_ == expected_) return Fail(TooMany(), slab);
      ++seen_;
    }
    if (!slab->end || (is_finite && seen_ == expected_)) return;
    slab->end = false;
    // The end may come along with as many rows as were asked for; the failure is behind them.
    if (slab->rows > 0) return;
    Fail(is_finite
             ? FailedPrecondition("{}: expected {} elements, and there were {}; correct "
                                  "expected_cardinality, or what is read",
                                  node().label(), expected_, seen_)
             : FailedPrecondition("{}: expected elements without end, and there were {}; correct "
                                  "expected_cardinality, or repeat what is read",
                                  node().label(), seen_),
         slab);
  }

  Status Restart(const CallOptions& options) override {
    seen_ = 0;
    done_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("assert_cardinality");
    writer->Int(seen_);
    writer->Int(done_ ? 1 : 0);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("assert_cardinality");
    const int64_t most =
        expected_ >= 0 ? expected_ : std::numeric_limits<int64_t>::max();
    seen_ = reader->IntIn(0, most);
    done_ = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  Status TooMany() const {
    return FailedPrecondition("{}: expected {} elements, and there are more; correct "
                              "expected_cardinality, or take as many as are wanted",
                              node().label(), expected_);
  }

  void ExpectEnd(const Demand& demand, const CallOptions& options, Slab* slab) {
    input().Next(demand.OfInput(1, 1), options, slab);
    if (slab->rows == 0 && (slab->end || IsInterruption(slab->status))) return;
    if (slab->rows == 0 && LossOf(slab->status) == Loss::kMany) return;
    slab->Clear();
    Fail(TooMany(), slab);
  }

  void Fail(Status status, Slab* slab) {
    slab->status = WithLoss(std::move(status), Loss::kMany);
    done_ = true;
  }

  const int64_t expected_;
  int64_t seen_ = 0;   // elements of this pass
  bool done_ = false;  // it has failed
};

Status CheckAssertCardinality(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, kExpected));
  const int64_t expected = node.attributes().Int(kExpected);
  if (expected >= kInfiniteCardinality) return OkStatus();
  return InvalidArgument("{}: expected_cardinality must be a number of elements, or -1 for those "
                         "without end, got {}",
                         node.label(), expected);
}

int64_t AssertedCardinality(const Node& node) { return node.attributes().Int(kExpected); }

Result<std::unique_ptr<Stage>> MakeAssertCardinality(const Node& node, const ExecContext& context,
                                                     StageInputs inputs) {
  // To look at one element is no pass.
  if (context.probe) return std::move(inputs[0]);
  return std::unique_ptr<Stage>(std::make_unique<AssertCardinalityStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kAssertCardinalityOp = {
    .name = "assert_cardinality",
    .attributes = {{"expected_cardinality"}},
    .row_ratio = RowRatio::kSubset,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckAssertCardinality,
    .cardinality = AssertedCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeAssertCardinality,
};

}  // namespace tutti
