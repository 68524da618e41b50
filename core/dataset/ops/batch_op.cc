// batch: consecutive elements stacked along a new axis 0.
//
// The rows of one batch that come in one piece are not copied: the batch is a view with another
// shape. Otherwise each piece is copied once. Rows of a batch that is not full yet stay here when
// an element fails or a call is interrupted.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class BatchStage final : public Stage {
 public:
  BatchStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        batch_size_(node.attributes().Int("batch_size")),
        drop_remainder_(node.attributes().Bool("drop_remainder")),
        account_(context.account) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (true) {
      if (pending_rows_ >= batch_size_ || (ended_ && pending_rows_ > 0)) {
        Emit(demand, slab);
        return;
      }
      if (!deferred_.ok()) {
        slab->status = std::exchange(deferred_, OkStatus());
        return;
      }
      if (ended_) {
        slab->end = true;
        return;
      }
      Slab part;
      input().Next(Demand{Wanted(demand), demand.count_only}, options, &part);
      deferred_ = std::exchange(part.status, OkStatus());
      ended_ = std::exchange(part.end, false);
      if (part.rows > 0) {
        pending_rows_ += part.rows;
        pending_.push_back(std::move(part));
      }
      if (ended_ && drop_remainder_) DropRemainder();
    }
  }

  Status Restart(const CallOptions& options) override {
    pending_.clear();
    pending_rows_ = 0;
    deferred_ = OkStatus();
    index_ = 0;
    ended_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("batch");
    writer->Int(index_);
    writer->Int(ended_ ? 1 : 0);
    writer->Int(static_cast<int64_t>(pending_.size()));
    for (const Slab& part : pending_) TUTTI_RETURN_IF_ERROR(writer->Rows(part));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("batch");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    ended_ = reader->IntIn(0, 1) != 0;
    const int64_t parts = reader->IntIn(0, batch_size_);
    pending_.clear();
    pending_rows_ = 0;
    for (int64_t i = 0; i < parts && reader->ok(); ++i) {
      Slab part;
      reader->Rows(&part);
      pending_rows_ += part.rows;
      pending_.push_back(std::move(part));
    }
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // Rows of the input that complete what is demanded. Large batches come in several slabs anyway.
  int64_t Wanted(const Demand& demand) const {
    int64_t wanted = 0;
    const int64_t batches =
        demand.count_only ? demand.max_rows
                          : std::clamp<int64_t>(kMaxSlabRows / batch_size_, 1, demand.max_rows);
    if (__builtin_mul_overflow(batches, batch_size_, &wanted)) {
      wanted = std::numeric_limits<int64_t>::max();
    }
    return wanted - pending_rows_;
  }

  // Leaves whole batches only.
  void DropRemainder() {
    int64_t rest = pending_rows_ % batch_size_;
    pending_rows_ -= rest;
    while (rest > 0) {
      Slab& last = pending_.back();
      const int64_t dropped = std::min(rest, last.rows);
      rest -= dropped;
      if (dropped == last.rows) {
        pending_.pop_back();
      } else {
        last = last.Slice(0, last.rows - dropped);
      }
    }
  }

  // Makes the batches that are complete, or the last, smaller one.
  void Emit(const Demand& demand, Slab* slab) {
    int64_t batches = std::min(pending_rows_ / batch_size_, demand.max_rows);
    const int64_t rows_each = batches > 0 ? batch_size_ : pending_rows_;
    // Batches whose rows differ from one to the next do not lie in one tensor.
    if (batches == 0 || (!demand.count_only && batches > 1 && !RowsAreUniform(pending_))) {
      batches = 1;
    }
    std::vector<Slab> parts = TakePending(batches * rows_each);
    if (demand.count_only) {
      slab->rows = batches;
    } else {
      Result<Slab> stacked = StackRows(std::move(parts), rows_each, account_);
      if (stacked.ok()) {
        *slab = std::move(stacked).value();
      } else {
        const Status& error = stacked.status();
        slab->status = Status(error.code(), Format("{}: {}", node().label(), error.message()))
                           .With("node", node().label())
                           .With("index", index_);
      }
    }
    index_ += batches;
    // There is something to deliver: the call was not interrupted after all.
    if (IsInterruption(deferred_)) deferred_ = OkStatus();
    if (pending_rows_ == 0 && slab->status.ok())
      slab->status = std::exchange(deferred_, OkStatus());
    slab->end = ended_ && pending_rows_ == 0 && slab->status.ok() && deferred_.ok();
  }

  std::vector<Slab> TakePending(int64_t rows) {
    std::vector<Slab> taken;
    pending_rows_ -= rows;
    size_t used = 0;
    while (rows > 0) {
      Slab& part = pending_[used];
      if (part.rows <= rows) {
        rows -= part.rows;
        taken.push_back(std::move(part));
        ++used;
        continue;
      }
      taken.push_back(part.Slice(0, rows));
      part = part.Slice(rows, part.rows);
      rows = 0;
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(used));
    return taken;
  }

  const int64_t batch_size_;
  const bool drop_remainder_;
  MemoryAccount* const account_;
  std::vector<Slab> pending_;
  int64_t pending_rows_ = 0;
  Status deferred_;    // came after the pending rows
  int64_t index_ = 0;  // of the next batch
  bool ended_ = false;
};

Status CheckBatch(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "batch_size", 1, std::numeric_limits<int64_t>::max()));
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "drop_remainder"));
  const Ref<const ElementSpec> element = node.input().element_spec();
  return element ? element->Prepend(1, node.label()).status() : OkStatus();
}

int64_t BatchCardinality(const Node& node) {
  const int64_t n = node.input().cardinality();
  if (n < 0) return n;
  const int64_t size = node.attributes().Int("batch_size");
  return n / size + (n % size != 0 && !node.attributes().Bool("drop_remainder") ? 1 : 0);
}

Result<Ref<const ElementSpec>> BatchSpec(const Node& node) {
  Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  return element->Prepend(node.attributes().Bool("drop_remainder")
                              ? node.attributes().Int("batch_size")
                              : PartialShape::kUnknownDim,
                          node.label());
}

Result<std::unique_ptr<Stage>> MakeBatch(const Node& node, const ExecContext& context,
                                         StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<BatchStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kBatchOp = {
    .name = "batch",
    .row_ratio = RowRatio::kManyToOne,
    .can_seek = true,
    .check = CheckBatch,
    .cardinality = BatchCardinality,
    .element_spec = BatchSpec,
    .make_stage = MakeBatch,
};

Result<Ref<Dataset>> Dataset::Batch(int64_t batch_size, bool drop_remainder,
                                    std::string name) const {
  Attributes attributes;
  attributes.Set("batch_size", batch_size).Set("drop_remainder", drop_remainder);
  return Derive("batch", std::move(name), std::move(attributes));
}

}  // namespace tutti
