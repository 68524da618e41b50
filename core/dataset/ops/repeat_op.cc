// repeat: the input `count` times, for ever when negative. A pass that yields nothing ends it, so
// that repeating an empty dataset is empty.
#include <limits>

#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class RepeatStage final : public Stage {
 public:
  RepeatStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        count_(node.attributes().Int("count")),
        done_(count_ == 0) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (!done_) {
      if (between_) {
        slab->status = input().Restart(options);
        if (!slab->status.ok()) return;
        between_ = false;
      }
      input().Next(demand, options, slab);
      yielded_ = yielded_ || slab->rows > 0 || !slab->status.ok();
      if (!slab->end) return;
      ++pass_;
      done_ = !yielded_ || pass_ == count_;
      yielded_ = false;
      between_ = !done_;
      slab->end = done_;
      if (slab->rows > 0 || !slab->status.ok()) return;
      // What has no rows may have columns all the same, and the next pass adds its own.
      slab->Clear();
    }
    slab->end = true;
  }

  std::string_view FileOfLast() const override { return input().FileOfLast(); }

  Status Restart(const CallOptions& options) override {
    pass_ = 0;
    done_ = count_ == 0;
    yielded_ = between_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("repeat");
    writer->Int(pass_);
    writer->Int((done_ ? 1 : 0) | (between_ ? 2 : 0) | (yielded_ ? 4 : 0));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("repeat");
    pass_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    const int64_t flags = reader->IntIn(0, 7);
    done_ = (flags & 1) != 0;
    between_ = (flags & 2) != 0;
    yielded_ = (flags & 4) != 0;
    return Stage::Restore(reader, options);
  }

 private:
  const int64_t count_;
  int64_t pass_ = 0;
  bool done_;
  bool between_ = false;  // the input is at its end and is to be restarted
  bool yielded_ = false;  // this pass has given something
};

Status CheckRepeat(const Node& node) { return CheckInt(node, "count"); }

int64_t RepeatCardinality(const Node& node) {
  const int64_t count = node.attributes().Int("count");
  const int64_t n = node.input().cardinality();
  if (n == 0 || count == 0) return 0;
  if (count < 0 && n > 0) return kInfiniteCardinality;
  if (n == kInfiniteCardinality) return kInfiniteCardinality;
  if (n == kUnknownCardinality) return count < 0 ? kInfiniteCardinality : kUnknownCardinality;
  int64_t product = 0;
  return __builtin_mul_overflow(n, count, &product) ? kUnknownCardinality : product;
}

Result<std::unique_ptr<Stage>> MakeRepeat(const Node& node, const ExecContext&,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<RepeatStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kRepeatOp = {
    .name = "repeat",
    .attributes = {{"count", -1}},
    .row_ratio = RowRatio::kRepeated,
    .can_seek = true,
    .passes_elements = true,
    .check = CheckRepeat,
    .cardinality = RepeatCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeRepeat,
};

}  // namespace tutti
