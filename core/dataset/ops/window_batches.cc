#include "core/dataset/ops/window_batches.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/ops/batch_stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/window_rows.h"
#include "core/tensor/gather.h"

namespace tutti {
namespace {

// What a function makes of its windows.
struct Batches {
  const Node* batch = nullptr;  // the first, where there are several
  int64_t size = 0;
  bool drop_remainder = false;
  Ref<const TreeSpec> tree;     // of a row
  std::vector<size_t> columns;  // of the input, for each leaf of the tree
};

// The leaves of the element that the node, or a zip of some, is.
bool ReadElements(const Node& node, Batches* batches) {
  if (const std::optional<int64_t> leaf = ElementLeafOf(node)) {
    batches->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    batches->columns.push_back(static_cast<size_t>(*leaf));
    return true;
  }
  if (&node.op() != &kZipOp) return false;
  for (const Ref<const Node>& input : node.inputs()) {
    const std::optional<int64_t> leaf = ElementLeafOf(*input);
    if (!leaf) return false;
    batches->columns.push_back(static_cast<size_t>(*leaf));
  }
  batches->tree = *node.attributes().Get<Ref<const TreeSpec>>("tree");
  return true;
}

bool ReadBatch(const Node& node, Batches* batches) {
  if (&node.op() != &kBatchOp || !ReadElements(node.input(), batches)) return false;
  batches->batch = &node;
  batches->size = node.attributes().Int("batch_size");
  batches->drop_remainder = node.attributes().Bool("drop_remainder");
  return true;
}

bool HaveOneShape(const ElementSpec& rows) {
  return std::ranges::all_of(rows.leaves(), [](const LeafSpec& leaf) {
    return leaf.is_tensor() && leaf.shape.has_rank() &&
           std::ranges::all_of(leaf.shape.dims(), [](int64_t dim) { return dim >= 0; });
  });
}

// Of datasets that are batches each. They fail apart from each other where rows do not fit: so
// there may be none that do not.
bool ReadZip(const Node& node, const ElementSpec& rows, Batches* batches) {
  if (&node.op() != &kZipOp || !HaveOneShape(rows)) return false;
  for (const Ref<const Node>& input : node.inputs()) {
    Batches one;
    if (!ReadBatch(*input, &one) || !one.tree->is_leaf()) return false;
    if (batches->batch == nullptr) {
      batches->batch = one.batch;
      batches->size = one.size;
      batches->drop_remainder = one.drop_remainder;
    }
    if (batches->size != one.size || batches->drop_remainder != one.drop_remainder) return false;
    batches->columns.push_back(one.columns[0]);
  }
  batches->tree = *node.attributes().Get<Ref<const TreeSpec>>("tree");
  return true;
}

// Nothing where the node does anything else with its windows.
std::optional<Batches> BatchesOf(const Node& node) {
  if (node.functions().size() != 1 || node.inputs().size() != 1) return std::nullopt;
  const Node& window = node.input();
  const Dataset* const given = DatasetOfElement(node.function());
  if (&window.op() != &kWindowOp || given == nullptr || !given->options().empty()) {
    return std::nullopt;
  }
  // What was learnt of one row says nothing of others.
  if (!PromisesSpec(window.input())) return std::nullopt;
  const Ref<const ElementSpec> rows = window.input().element_spec();
  Batches batches;
  if (!rows || rows->tree().has_composites() ||
      (!ReadBatch(given->node(), &batches) && !ReadZip(given->node(), *rows, &batches))) {
    return std::nullopt;
  }
  std::vector<LeafSpec> leaves;
  for (const size_t column : batches.columns) {
    if (column >= rows->num_leaves() || !rows->leaf(column).is_tensor()) return std::nullopt;
    leaves.push_back(rows->leaf(column));
  }
  // Batches of these rows are all what the function promises.
  Result<Ref<const ElementSpec>> picked = ElementSpec::Create(batches.tree, std::move(leaves));
  if (!picked.ok()) return std::nullopt;
  const Result<Ref<const ElementSpec>> made = SpecOfBatches(*batches.batch, **picked);
  const Ref<const ElementSpec> promised = node.element_spec();
  if (!made.ok() || !promised || !promised->IsMoreGeneralThan(**made)) return std::nullopt;
  return batches;
}

// Runs of `each` rows of `source`, contiguous rows, of which number i begins at row begins[i].
Result<Ref<Tensor>> CopyRuns(const Ref<Tensor>& source, const std::vector<int64_t>& begins,
                             int64_t each, int64_t stride, MemoryAccount* account) {
  TensorOptions options;
  options.zeroed = false;
  options.account = account;
  std::vector<int64_t> dims = {static_cast<int64_t>(begins.size()), each};
  const std::span<const int64_t> row_dims = source->shape().dims().subspan(1);
  dims.insert(dims.end(), row_dims.begin(), row_dims.end());
  if (stride != 1 || source->dtype() == DType::kBytes || !source->is_contiguous()) {
    std::vector<int64_t> rows;
    rows.reserve(begins.size() * static_cast<size_t>(each));
    for (const int64_t begin : begins) {
      for (int64_t i = 0; i < each; ++i) rows.push_back(begin + i * stride);
    }
    TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> gathered, GatherRows(*source, rows, options));
    return gathered->Reshape(dims);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims.data(), dims.size()));
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(source->dtype(), shape, options));
  const size_t row_bytes =
      static_cast<size_t>(source->shape().RowShape().num_elements()) * source->item_size();
  const size_t run_bytes = row_bytes * static_cast<size_t>(each);
  if (run_bytes == 0) return out;
  const auto* const from = static_cast<const char*>(source->data());
  auto* to = static_cast<char*>(out->mutable_data());
  for (const int64_t begin : begins) {
    std::memcpy(to, from + static_cast<size_t>(begin) * row_bytes, run_bytes);
    to += run_bytes;
  }
  return out;
}

class WindowBatchesStage final : public Stage {
 public:
  WindowBatchesStage(const Node& node, const ExecContext& context, StageInputs inputs,
                     Batches batches)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        context_(context),
        batches_(std::move(batches)),
        rows_(node.input(), input(), context) {
    // What is drawn after this must not depend on which stage there is.
    (void)context.DrawIteration(node);
    if (node.op().determinism == Determinism::kSeeded) (void)context.SeedOf(node);
    // Stages for a position are made late, and not measured.
    profile_ = std::exchange(context_.profile, nullptr);
    context_.record = nullptr;
    const int64_t size = rows_.windows().size;
    if (size % batches_.size == 0 || batches_.drop_remainder) {
      rows_each_ = batches_.size;
      each_window_ = size / batches_.size;
    } else if (size < batches_.size) {
      rows_each_ = size;
      each_window_ = 1;
    }
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (as_written_ != nullptr) return as_written_->Next(demand, options, slab);
    MakeBatches(demand, options, slab);
    rows_.CountKept();
  }

  Status Restart(const CallOptions& options) override {
    if (as_written_ != nullptr) return as_written_->Restart(options);
    rows_.Clear();
    given_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    if (as_written_ != nullptr) return as_written_->Save(writer);
    writer->Section(kWindowBatchesSection);
    writer->Int(given_);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    if (!reader->IsAt(kWindowBatchesSection)) return RestoreAsWritten(reader, options);
    if (as_written_ != nullptr) {
      reader->Fail("its operations have gone on from a position that each had saved for itself");
      return reader->status();
    }
    reader->Section(kWindowBatchesSection);
    given_ = reader->IntIn(0, Windows::kMostPlaces);
    rows_.Restore(reader);
    if (reader->ok() && given_ > 0 &&
        (!rows_.IsReady() || rows_.IsOver() || given_ >= BatchesOfNext())) {
      reader->Fail("an impossible batch of a window");
    }
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      if (as_written_ != nullptr) as_written_->Stop();
    }
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    if (as_written_ != nullptr) TUTTI_RETURN_IF_ERROR(as_written_->Join(options));
    return Stage::Join(options);
  }

 private:
  // The position is that of the two operations: so they go on from it.
  Status RestoreAsWritten(StateReader* reader, const CallOptions& options) {
    if (as_written_ == nullptr) {
      context_.restoring = true;
      TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> window, MakeStage(node().input(), context_));
      StageInputs inputs;
      inputs.push_back(std::move(window));
      TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Stage> stage,
                             node().op().make_stage(node(), context_, std::move(inputs)));
      context_.restoring = false;
      if (profile_ != nullptr) {
        profile_->AddDecision(node(), "windows are made, as in the position gone on from");
      }
      const std::lock_guard lock(mutex_);
      if (stopped_) stage->Stop();
      as_written_ = std::move(stage);
    }
    return as_written_->Restore(reader, options);
  }

  void MakeBatches(const Demand& demand, const CallOptions& options, Slab* slab) {
    for (bool first = true;; first = false) {
      // Many windows without batches may follow each other.
      if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
      if (slab->status.ok() && !rows_.IsReady()) slab->status = rows_.TakeLoss();
      if (slab->status.ok() && !rows_.IsReady()) {
        slab->status = rows_.Read(Demand::Made(Wanted(demand), kNoHorizon), options);
      }
      if (!slab->status.ok()) return;
      if (rows_.IsOver()) {
        slab->status = rows_.End();
        slab->end = slab->status.ok();
        return;
      }
      const int64_t whole = each_window_ > 0 ? rows_.WholeWindows() : 0;
      if (whole > 0 && MakeWhole(demand, whole, slab)) return;
      if (MakeOne(demand, slab)) return;
    }
  }

  // So many windows hold what is demanded.
  int64_t Wanted(const Demand& demand) const {
    if (each_window_ < 1) return 1;
    return CeilOf(HorizonPlus(demand.max_rows, given_), each_window_);
  }

  // How many batches the next window has.
  int64_t BatchesOfNext() const {
    const int64_t rows = rows_.NextSize();
    return batches_.drop_remainder ? rows / batches_.size : CeilOf(rows, batches_.size);
  }

  // The next batches are given: on to the window behind them.
  void Give(int64_t batches, int64_t each_window) {
    given_ += batches;
    const int64_t windows = given_ / each_window;
    given_ -= windows * each_window;
    if (windows > 0) rows_.Pass(windows);
  }

  // Batches of `whole` windows, all of which have rows_each_ rows. False: they cannot be made
  // together.
  bool MakeWhole(const Demand& demand, int64_t whole, Slab* slab) {
    const Windows& windows = rows_.windows();
    int64_t count = HorizonPlus(HorizonTimes(whole, each_window_), -given_);
    count = std::min(count, demand.max_rows);
    if (!demand.count_only) {
      count = std::min(count, std::max<int64_t>(1, kMaxSlabRows / rows_each_));
      Result<Slab> made = windows.stride == 1 && each_window_ * rows_each_ == windows.shift
                              ? Neighbours(count)
                              : Runs(count);
      // What failed says so of its batch.
      if (!made.ok() || made->rows != count) return false;
      *slab = std::move(made).value();
    } else {
      slab->rows = count;
    }
    Give(count, each_window_);
    return true;
  }

  // Batches that follow each other row by row.
  Result<Slab> Neighbours(int64_t count) {
    const int64_t first = given_ * rows_each_;
    std::vector<Slab> parts = rows_.Slices(first, first + count * rows_each_);
    for (Slab& part : parts) TUTTI_RETURN_IF_ERROR(Select(&part));
    if (!RowsAreUniform(parts)) return Slab();
    return StackRows(std::move(parts), rows_each_, account_);
  }

  Result<Slab> Runs(int64_t count) {
    const Windows& windows = rows_.windows();
    std::vector<int64_t> begins;
    begins.reserve(static_cast<size_t>(count));
    for (int64_t i = given_; i < given_ + count; ++i) {
      begins.push_back(i / each_window_ * windows.shift +
                       i % each_window_ * rows_each_ * windows.stride);
    }
    // Where windows overlap, the last batch of one may begin behind the next ones' first.
    const auto [least, most] = std::ranges::minmax(begins);
    for (int64_t& begin : begins) begin -= least;
    TUTTI_ASSIGN_OR_RETURN(
        Slab rows, rows_.OnePiece(least, most + (rows_each_ - 1) * windows.stride + 1));
    TUTTI_RETURN_IF_ERROR(Select(&rows));
    if (!RowsAreUniform({&rows, 1})) return Slab();
    Slab made;
    made.rows = count;
    made.tree = batches_.tree;
    for (const Column& column : rows.columns) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> dense, column.ToDense(account_));
      TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> runs,
                             CopyRuns(dense, begins, rows_each_, windows.stride, account_));
      made.columns.push_back(Column::Dense(std::move(runs)));
    }
    return made;
  }

  // The columns that the function takes, as it puts them together. Nothing knows any more which
  // records they were, as of the elements of windows.
  Status Select(Slab* part) const {
    std::vector<Column> columns;
    for (const size_t column : batches_.columns) {
      if (column >= part->columns.size()) {
        return Internal("{}: an element of {} components has none at {}", node().label(),
                        part->columns.size(), column);
      }
      columns.push_back(part->columns[column]);
    }
    part->columns = std::move(columns);
    part->tree = batches_.tree;
    part->origins = Origins();
    return OkStatus();
  }

  // One batch of the next window, or its failure. False: it has none.
  bool MakeOne(const Demand& demand, Slab* slab) {
    const int64_t size = rows_.NextSize();
    const int64_t batches = BatchesOfNext();
    if (given_ == 0) {
      const Result<std::vector<Slab>> all = rows_.Pick(0, size, true);
      if (!all.ok()) {
        rows_.Pass(1);
        slab->status = all.status();
        return true;
      }
    }
    if (batches == 0) {
      rows_.Pass(1);
      return false;
    }
    if (demand.count_only) {
      slab->rows = std::min(batches - given_, demand.max_rows);
      Give(slab->rows, batches);
      return true;
    }
    const int64_t first = given_ * batches_.size;
    Result<Slab> made = StackOne(first, std::min(size, HorizonPlus(first, batches_.size)));
    if (made.ok()) {
      *slab = std::move(made).value();
    } else if (demand.tentative) {
      slab->status = Undecided(node());
      return true;
    } else {
      const Node& batch = *batches_.batch;
      const Status& error = made.status();
      slab->status = Status(error.code(), Format("{}: {}", batch.label(), error.message()))
                         .With("node", batch.label())
                         .With("index", given_);
    }
    Give(1, batches);
    return true;
  }

  Result<Slab> StackOne(int64_t begin, int64_t end) {
    TUTTI_ASSIGN_OR_RETURN(std::vector<Slab> parts, rows_.Pick(begin, end, false));
    for (Slab& part : parts) TUTTI_RETURN_IF_ERROR(Select(&part));
    return StackRows(std::move(parts), end - begin, account_);
  }

  const Clock& clock_;
  MemoryAccount* const account_;
  ExecContext context_;
  RunProfile* profile_ = nullptr;
  const Batches batches_;
  WindowRows rows_;
  // Of whole windows, where all their batches have the same size: that, and how many each has.
  int64_t rows_each_ = 0;
  int64_t each_window_ = 0;
  int64_t given_ = 0;  // batches of the next window
  std::mutex mutex_;   // of who stops it while as_written_ is made
  bool stopped_ = false;
  std::unique_ptr<Stage> as_written_;  // both operations, which then do everything
};

}  // namespace

const Node* InputOfWindowBatches(const Node& node, const ExecContext& context) {
  if (context.options != nullptr && !context.options->applies_default_optimizations()) {
    return nullptr;
  }
  return BatchesOf(node) ? &node.input().input() : nullptr;
}

Result<std::unique_ptr<Stage>> MakeWindowBatches(const Node& node, const ExecContext& context,
                                                 StageInputs inputs) {
  std::optional<Batches> batches = BatchesOf(node);
  if (!batches) return Internal("{}: it makes no batches of windows", node.label());
  if (context.profile != nullptr) {
    context.profile->AddDecision(
        node, "batches of windows are made in one operation, without the windows");
  }
  return std::unique_ptr<Stage>(std::make_unique<WindowBatchesStage>(
      node, context, std::move(inputs), std::move(*batches)));
}

}  // namespace tutti
