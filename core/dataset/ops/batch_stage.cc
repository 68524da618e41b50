// Rows of the input are collected until there are enough for what is asked for. Those of a batch
// that is not full yet stay here when an element fails or a call is interrupted.
//
// Rows of batches that are passed over are only counted. Those of a batch that is not full yet may
// be wanted after all, when an element fails: so the input's position before them is kept, and they
// are recalled from there.
#include "core/dataset/ops/batch_stage.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/composite.h"
#include "core/tensor/convert.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

bool DropsRemainder(const Node& node) {
  return node.op().FindAttribute("drop_remainder") != nullptr &&
         node.attributes().Bool("drop_remainder");
}

// A position of the input that takes more bytes is kept only where it saves calls of functions.
constexpr size_t kMaxMarkBytes = 64 * 1024;

// Among which records each batch lies.
Origins OriginsOfBatches(std::span<const Slab> parts, int64_t batches, int64_t rows_each) {
  Origins of_batches;
  if (std::ranges::all_of(parts, [](const Slab& part) { return part.origins.empty(); })) {
    return of_batches;
  }
  Origins of_rows;
  for (const Slab& part : parts) of_rows.Append(part.origins, part.rows);
  for (int64_t i = 0; i < batches; ++i) {
    of_batches.Add(of_rows.Among(i * rows_each, (i + 1) * rows_each), 1);
  }
  return of_batches;
}

class BatchStage final : public Stage {
 public:
  BatchStage(const Node& node, const ExecContext& context, StageInputs inputs,
             std::unique_ptr<RowStacker> stacker)
      : Stage(node, std::move(inputs)),
        batch_size_(node.attributes().Int("batch_size")),
        drop_remainder_(DropsRemainder(node)),
        saves_calls_(node.has_host_functions()),
        environment_(context.environment),
        account_(context.account),
        stacker_(std::move(stacker)),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    MakeBatches(demand, options, slab);
    if (kept_.counts()) CountKept();
  }

  Status Restart(const CallOptions& options) override {
    Forget();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    TUTTI_RETURN_IF_ERROR(Resume(CallOptions()));
    writer->Section("batch");
    writer->Int(index_);
    writer->Int(ended_ ? 1 : 0);
    writer->Failure(deferred_);
    writer->Int(static_cast<int64_t>(pending_.size()));
    for (const Part& part : pending_) {
      writer->Int(part.counted ? part.rows() : 0);
      if (!part.counted) {
        TUTTI_RETURN_IF_ERROR(writer->Rows(part.slab));
        continue;
      }
      writer->Bytes(part.mark);
      writer->Int(part.behind_mark);
    }
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
    Forget();
    reader->Section("batch");
    index_ = reader->IntIn(0, kMaxInt);
    ended_ = reader->IntIn(0, 1) != 0;
    deferred_ = reader->Failure();
    const int64_t parts = reader->IntIn(0, kMaxInt);
    for (int64_t i = 0; i < parts && reader->ok(); ++i) {
      Part part;
      part.slab.rows = reader->IntIn(0, kMaxInt);
      part.counted = part.slab.rows > 0;
      if (part.counted) {
        part.mark = reader->Bytes();
        part.behind_mark = reader->IntIn(0, kMaxInt);
      } else {
        reader->Rows(&part.slab);
      }
      if (__builtin_add_overflow(pending_rows_, part.rows(), &pending_rows_)) {
        reader->Fail("too many rows");
      }
      pending_.push_back(std::move(part));
    }
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // Rows of the input that came in one piece.
  struct Part {
    Slab slab;             // of counted rows only their number
    bool counted = false;  // then they are had again
    std::string mark;      // from this position of the input,
    int64_t behind_mark = 0;  // behind so many rows

    int64_t rows() const { return slab.rows; }
    // Takes rows off the front.
    void Drop(int64_t rows) {
      if (counted) {
        behind_mark += rows;
        slab.rows -= rows;
      } else {
        slab = slab.Slice(rows, slab.rows);
      }
    }
    // Takes rows off the back.
    void Keep(int64_t rows) {
      if (counted) {
        slab.rows = rows;
      } else {
        slab = slab.Slice(0, rows);
      }
    }
  };

  void Forget() {
    pending_.clear();
    kept_.Clear();
    pending_rows_ = 0;
    deferred_ = OkStatus();
    index_ = 0;
    ended_ = false;
    resume_.clear();
  }

  void CountKept() {
    int64_t bytes = 0;
    for (const Part& part : pending_) bytes += part.counted ? 0 : ElementBytes(part.slab);
    kept_.Set(bytes);
  }

  void MakeBatches(const Demand& demand, const CallOptions& options, Slab* slab) {
    if (demand.tentative && HasCounted()) {
      // Rows of theirs may fail.
      slab->status = Undecided(node());
      return;
    }
    slab->status = demand.count_only ? Resume(options) : Recall(options);
    if (!slab->status.ok()) return;
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
      if (!demand.count_only) slab->status = kept_.CheckRoom();
      if (!slab->status.ok()) return;
      Pull(demand, options);
      if (ended_ && drop_remainder_) DropRemainder();
    }
  }

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

  void Pull(const Demand& demand, const CallOptions& options) {
    Part part;
    if (demand.count_only && counts_) {
      StateWriter mark;
      // What cannot be recalled is made.
      part.counted = Stage::Save(&mark).ok();
      part.mark = std::move(mark).TakeBytes();
      counts_ = part.counted && (saves_calls_ || part.mark.size() <= kMaxMarkBytes);
    }
    Slab& slab = part.slab;
    const int64_t horizon =
        HorizonPlus(HorizonTimes(demand.Horizon(), batch_size_), -pending_rows_);
    Demand rows = demand.OfInput(Wanted(demand), horizon);
    rows.count_only = part.counted;
    if (!part.counted) rows.max_rows = kept_.RowsThatFit(rows.max_rows);
    input().Next(rows, options, &slab);
    deferred_ = std::exchange(slab.status, OkStatus());
    ended_ = std::exchange(slab.end, false);
    if (slab.rows == 0) return;
    pending_rows_ += slab.rows;
    if (part.counted) {
      slab.tree.reset();
      slab.columns.clear();
    } else {
      kept_.Add(slab);
    }
    pending_.push_back(std::move(part));
  }

  bool HasCounted() const {
    return std::any_of(pending_.begin(), pending_.end(),
                       [](const Part& part) { return part.counted; });
  }

  // Makes rows that were only counted. The first that fails now counts no more, and its failure
  // comes back; the next call goes on behind it.
  Status Recall(const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(Resume(options));
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (!pending_[i].counted) continue;
      StateWriter here;
      TUTTI_RETURN_IF_ERROR(Stage::Save(&here));
      resume_ = std::move(here).TakeBytes();
      std::vector<Slab> made;
      const Status status = Remake(pending_[i], options, &made);
      const bool emptied = pending_[i].rows() == 0;
      for (Slab& slab : made) {
        Part part;
        part.slab = std::move(slab);
        pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(i++), std::move(part));
      }
      if (emptied) pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i--));
      if (!status.ok()) return status;
      TUTTI_RETURN_IF_ERROR(Resume(options));
    }
    return OkStatus();
  }

  Status GoBack(const Part& part, const CallOptions& options) {
    StateReader reader(part.mark, environment_);
    TUTTI_RETURN_IF_ERROR(Stage::Restore(&reader, options));
    TUTTI_RETURN_IF_ERROR(reader.status());
    int64_t passed = 0;
    Status behind;
    TUTTI_RETURN_IF_ERROR(PassOver(input(), part.behind_mark, options, &passed, &behind));
    return behind;  // where a row was that is to be had again
  }

  // Takes from `part` what comes into `made`, and a row that fails; all of it when it cannot be had
  // again.
  Status Remake(Part& part, const CallOptions& options, std::vector<Slab>* made) {
    Status gone = GoBack(part, options);
    if (IsInterruption(gone)) return gone;
    while (gone.ok() && part.rows() > 0) {
      Slab slab;
      input().Next(Demand{part.rows(), false}, options, &slab);
      const Status status = std::exchange(slab.status, OkStatus());
      const bool end = std::exchange(slab.end, false);
      part.Drop(slab.rows);
      if (slab.rows > 0) made->push_back(std::move(slab));
      // What comes behind the last row has come already.
      if (part.rows() == 0) break;
      if (!status.ok()) {
        if (!IsInterruption(status)) {
          part.Drop(1);
          --pending_rows_;
        }
        return status;
      }
      if (end && part.rows() > 0) {
        gone = FailedPrecondition("{}: {} has fewer elements than when they were counted",
                                  node().label(), node().input().label());
      }
    }
    if (gone.ok()) return gone;
    pending_rows_ -= part.rows();
    part.Drop(part.rows());
    return WithLoss(std::move(gone), Loss::kMany);
  }

  // Puts the input back to where it was before a recall.
  Status Resume(const CallOptions& options) {
    if (resume_.empty()) return OkStatus();
    StateReader reader(resume_, environment_);
    TUTTI_RETURN_IF_ERROR(Stage::Restore(&reader, options));
    TUTTI_RETURN_IF_ERROR(reader.status());
    resume_.clear();
    return OkStatus();
  }

  // Leaves whole batches only.
  void DropRemainder() {
    int64_t rest = pending_rows_ % batch_size_;
    pending_rows_ -= rest;
    while (rest > 0) {
      Part& last = pending_.back();
      const int64_t dropped = std::min(rest, last.rows());
      rest -= dropped;
      if (dropped == last.rows()) {
        pending_.pop_back();
      } else {
        last.Keep(last.rows() - dropped);
      }
    }
  }

  // Makes the batches that are complete, or the last, smaller one.
  void Emit(const Demand& demand, Slab* slab) {
    int64_t batches = std::min(pending_rows_ / batch_size_, demand.max_rows);
    const int64_t rows_each = batches > 0 ? batch_size_ : pending_rows_;
    batches = std::max<int64_t>(batches, 1);
    if (demand.count_only) {
      TakePending(batches * rows_each);
      slab->rows = batches;
    } else {
      std::vector<Slab> parts = TakePending(batches * rows_each);
      if (batches > 1 && !stacker_->StacksTogether(parts)) {
        batches = 1;
        PutBack(rows_each, &parts);
      }
      std::vector<Slab> kept;
      if (demand.tentative) kept = parts;
      Origins origins = OriginsOfBatches(parts, batches, rows_each);
      Result<Slab> stacked = stacker_->Stack(std::move(parts), rows_each, account_);
      if (stacked.ok()) {
        *slab = std::move(stacked).value();
        slab->origins = std::move(origins);
      } else if (demand.tentative) {
        PutBack(0, &kept);
        slab->status = Undecided(node());
        return;
      } else {
        const Status& error = stacked.status();
        const Origin origin = origins.Of(0);
        slab->status = origin.About(Status(error.code(), Format("{}{}: {}", node().label(),
                                                                origin.ToString(),
                                                                error.message()))
                                        .With("node", node().label())
                                        .With("index", index_));
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
      Part& part = pending_[used];
      if (part.rows() <= rows) {
        rows -= part.rows();
        taken.push_back(std::move(part.slab));
        ++used;
        continue;
      }
      if (!part.counted) taken.push_back(part.slab.Slice(0, rows));
      part.Drop(rows);
      rows = 0;
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(used));
    return taken;
  }

  // All of `parts` but the first `rows` are pending again.
  void PutBack(int64_t rows, std::vector<Slab>* parts) {
    size_t kept = 0;
    while (rows >= (*parts)[kept].rows) rows -= (*parts)[kept++].rows;
    std::vector<Part> back;
    for (size_t i = kept; i < parts->size(); ++i) {
      Slab& slab = (*parts)[i];
      Part part;
      part.slab = i == kept && rows > 0 ? slab.Slice(rows, slab.rows) : slab;
      pending_rows_ += part.rows();
      back.push_back(std::move(part));
    }
    if (rows > 0) (*parts)[kept] = (*parts)[kept].Slice(0, rows);
    parts->resize(kept + (rows > 0 ? 1 : 0));
    pending_.insert(pending_.begin(), std::make_move_iterator(back.begin()),
                    std::make_move_iterator(back.end()));
  }

  const int64_t batch_size_;
  const bool drop_remainder_;
  const bool saves_calls_;  // passing over rows does not call functions
  DatasetEnvironment* const environment_;
  MemoryAccount* const account_;
  const std::unique_ptr<RowStacker> stacker_;
  HeldBytes kept_;
  std::vector<Part> pending_;
  int64_t pending_rows_ = 0;
  Status deferred_;      // came after the pending rows
  int64_t index_ = 0;    // of the next batch
  bool ended_ = false;
  bool counts_ = true;   // rows that are passed over are not made
  std::string resume_;   // the input's position while it is elsewhere, of a recall
};

}  // namespace

Status CheckBatchArguments(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "batch_size", 1, std::numeric_limits<int64_t>::max()));
  return node.op().FindAttribute("drop_remainder") ? CheckBool(node, "drop_remainder") : OkStatus();
}

Result<std::vector<int64_t>> ReadSizes(const Leaf& leaf, const std::string& what) {
  if (leaf.is_tensor()) TUTTI_RETURN_IF_ERROR(CheckOnHost(what, leaf.tensor()));
  if (!leaf.is_tensor() || leaf.tensor().rank() > 1) {
    return InvalidArgument("{} must be the sizes of a shape, a vector of int64, and is {}", what,
                           LeafSpec::Of(leaf).ToString());
  }
  Result<Ref<Tensor>> sizes = Convert(leaf.tensor_ref(), DType::kInt64);
  if (sizes.ok()) sizes = (*sizes)->Contiguous();
  if (!sizes.ok()) return sizes.status().WithPrefix(what);
  const std::span<const int64_t> items = (*sizes)->span<int64_t>();
  const Result<PartialShape> shape = PartialShape::Create(items.data(), items.size());
  if (!shape.ok()) {
    return InvalidArgument("{} must be sizes of 0 or more, or null (-1) for the largest of a "
                           "batch, got {}",
                           what, (*sizes)->ContentsToString());
  }
  return std::vector<int64_t>(items.begin(), items.end());
}

int64_t BatchCardinality(const Node& node) {
  const int64_t n = node.input().cardinality();
  if (n < 0) return n;
  const int64_t size = node.attributes().Int("batch_size");
  return n / size + (n % size != 0 && !DropsRemainder(node) ? 1 : 0);
}

Result<Ref<const ElementSpec>> SpecOfBatches(const Node& node, const ElementSpec& rows) {
  return StackedSpec(rows,
                     DropsRemainder(node) ? node.attributes().Int("batch_size")
                                          : PartialShape::kUnknownDim,
                     node.label());
}

std::unique_ptr<Stage> MakeBatchStage(const Node& node, const ExecContext& context,
                                      StageInputs inputs,
                                      std::unique_ptr<RowStacker> stacker) {
  return std::make_unique<BatchStage>(node, context, std::move(inputs), std::move(stacker));
}

}  // namespace tutti
