// bucket_by_sequence_length: padded batches of elements of about the same length: each element goes
// to the bucket that its length lies in, and a bucket that is full comes out as a batch. At the
// input's end come the batches that are not full, by buckets.
//
// An element whose length fails, or is one of the last bucket where batches are padded to their
// bucket's boundary, is one failed element and missing in its batch. A batch that cannot be stacked
// is one failed element, and its rows are gone. No function is called for rows that the next batch
// does not need.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/ops/batch_stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/key_groups.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/convert.h"
#include "core/tensor/device_buffer.h"

namespace tutti {
namespace {

constexpr int64_t kLastRow = std::numeric_limits<int64_t>::max();

bool PadsToBoundary(const Node& node) {
  return node.attributes().Bool("pad_to_bucket_boundary");
}
bool Pads(const Node& node) { return !node.attributes().Bool("no_padding"); }

Result<std::vector<int64_t>> ReadVector(const Node& node, std::string_view attribute) {
  TUTTI_RETURN_IF_ERROR(CheckValue(node, attribute));
  const Value& value = **node.attributes().Get<Ref<const Value>>(attribute);
  const std::string what = Format("{}: {}", node.label(), attribute);
  if (!value.is_leaf() || !value.leaf().is_tensor() || value.leaf().tensor().rank() != 1 ||
      !(IsInteger(value.leaf().tensor().dtype()) || value.leaf().tensor().num_elements() == 0)) {
    return InvalidArgument("{} must be a vector of integers, and is {}", what,
                           ElementSpec::OfValue(value)->ToString());
  }
  if (value.leaf().tensor().num_elements() == 0) return std::vector<int64_t>();
  TUTTI_RETURN_IF_ERROR(CheckOnHost(what, value.leaf().tensor()));
  Result<Ref<Tensor>> converted = Convert(value.leaf().tensor_ref(), DType::kInt64);
  if (converted.ok()) converted = (*converted)->Contiguous();
  if (!converted.ok()) return converted.status().WithPrefix(what);
  const std::span<const int64_t> items = (*converted)->span<int64_t>();
  return std::vector<int64_t>(items.begin(), items.end());
}

struct Buckets {
  std::vector<int64_t> boundaries;
  std::vector<int64_t> batch_sizes;  // one more
};

Result<Buckets> BucketsOf(const Node& node) {
  Buckets buckets;
  TUTTI_ASSIGN_OR_RETURN(buckets.boundaries, ReadVector(node, "bucket_boundaries"));
  TUTTI_ASSIGN_OR_RETURN(buckets.batch_sizes, ReadVector(node, "bucket_batch_sizes"));
  const auto& boundaries = buckets.boundaries;
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i - 1] < boundaries[i]) continue;
    return InvalidArgument("{}: bucket_boundaries must increase, and {} follows {}", node.label(),
                           boundaries[i], boundaries[i - 1]);
  }
  if (buckets.batch_sizes.size() != boundaries.size() + 1) {
    return InvalidArgument("{}: expected one of bucket_batch_sizes for each bucket, {} for {} "
                           "bucket_boundaries, got {}",
                           node.label(), boundaries.size() + 1, boundaries.size(),
                           buckets.batch_sizes.size());
  }
  for (int64_t size : buckets.batch_sizes) {
    if (size > 0) continue;
    return InvalidArgument("{}: bucket_batch_sizes must be positive, got {}", node.label(), size);
  }
  return buckets;
}

// padded_shapes, or the shapes of elements, with `filler` for the sizes that are open.
Result<Ref<const Value>> FilledShapes(const Node& node, int64_t filler) {
  const auto* given = node.attributes().Get<Ref<const Value>>("padded_shapes");
  const bool is_given =
      given != nullptr && !((*given)->is_leaf() && (*given)->leaf().is_none());
  const Ref<const ElementSpec> spec =
      PromisesSpec(node.input()) ? node.input().element_spec() : nullptr;
  if (!spec && !is_given) {
    return InvalidArgument("{}: pad_to_bucket_boundary needs the shapes of elements, which are not "
                           "known; give padded_shapes",
                           node.label());
  }
  const TreeSpec& tree = is_given ? (*given)->spec() : spec->tree();
  std::vector<Leaf> leaves;
  for (size_t i = 0; i < tree.num_leaves(); ++i) {
    std::vector<int64_t> sizes;
    if (is_given && !(*given)->leaf(i).is_none()) {
      TUTTI_ASSIGN_OR_RETURN(sizes, ReadSizes((*given)->leaf(i),
                                              Format("{}: padded_shapes", node.label())));
    } else if (!spec || i >= spec->num_leaves() || !spec->leaf(i).is_tensor() ||
               !spec->leaf(i).shape.has_rank()) {
      return InvalidArgument("{}: pad_to_bucket_boundary needs the number of axes of each "
                             "component, and that of component {} is not known; give it in "
                             "padded_shapes",
                             node.label(), i);
    } else {
      for (size_t axis = 0; axis < spec->leaf(i).shape.rank(); ++axis) {
        sizes.push_back(spec->leaf(i).shape.dim(axis));
      }
    }
    for (int64_t& size : sizes) size = size < 0 ? filler : size;
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Tensor> vector,
        Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(sizes.size())}), sizes));
    leaves.push_back(Leaf::OfTensor(std::move(vector)));
  }
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Value> shapes,
      Value::FromLeaves(is_given ? (*given)->spec_ref() : spec->tree_ref(), std::move(leaves)));
  return Ref<const Value>(std::move(shapes));
}

// The batch of a bucket as a node of its own, which knows how rows are padded; `boundary` null: the
// bucket has none.
Result<Ref<const Node>> BatchOf(const Node& node, const int64_t* boundary) {
  Attributes attributes;
  attributes.Set("batch_size", int64_t{1});
  if (Pads(node)) {
    if (PadsToBoundary(node) && boundary != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(Ref<const Value> shapes, FilledShapes(node, *boundary - 1));
      attributes.Set("padded_shapes", std::move(shapes));
    } else if (const Attribute* shapes = node.attributes().Find("padded_shapes")) {
      attributes.Set("padded_shapes", *shapes);
    }
    if (const Attribute* values = node.attributes().Find("padding_values")) {
      attributes.Set("padding_values", *values);
    }
  }
  return Node::Create(Pads(node) ? kPaddedBatchOp : kBatchOp, node.label(), std::move(attributes),
                      {node.inputs()[0]}, {}, kMaxDepth + kMaxAddedDepth);
}

class BucketStage final : public Stage {
 public:
  BucketStage(const Node& node, const ExecContext& context, StageInputs inputs, Buckets buckets)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        drops_(node.attributes().Bool("drop_remainder")),
        buckets_(std::move(buckets)),
        rows_(input()),
        lengths_(this->node(), context, nullptr),
        groups_(0),
        counts_(buckets_.batch_sizes.size(), 0),
        batches_(counts_.size()),
        stackers_(counts_.size()),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand&, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      const KeyGroups::Entry* group = groups_.full();
      if (group == nullptr && !ended_) {
        slab->status = Read(options);
        if (!slab->status.ok()) return;
        continue;
      }
      if (group == nullptr && !drops_) group = groups_.First();
      if (group == nullptr) {
        slab->end = true;
        return;
      }
      return GiveBatch(*group, slab);
    }
  }

  Status Restart(const CallOptions& options) override {
    Empty();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("bucket_by_sequence_length");
    writer->Int(index_);
    writer->Int(number_);
    writer->Int(ended_ ? 1 : 0);
    writer->Ints(counts_);
    TUTTI_RETURN_IF_ERROR(groups_.Save(writer));
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    Empty();
    reader->Section("bucket_by_sequence_length");
    index_ = reader->IntIn(0, kLastRow);
    number_ = reader->IntIn(0, kLastRow);
    ended_ = reader->IntIn(0, 1) != 0;
    std::vector<int64_t> counts = reader->Ints();
    bool fits = counts.size() == counts_.size();
    for (size_t i = 0; fits && i < counts.size(); ++i) {
      fits = counts[i] >= 0 && counts[i] <= buckets_.batch_sizes[i];
    }
    if (!fits) reader->Fail("impossible buckets");
    groups_.Restore(reader);
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    counts_ = std::move(counts);
    kept_.Set(kept_.counts() ? groups_.ElementBytes() : 0);
    return Stage::Restore(reader, options);
  }

 private:
  void Empty() {
    groups_.Clear();
    std::fill(counts_.begin(), counts_.end(), 0);
    kept_.Clear();
    rows_.Clear();
    index_ = number_ = 0;
    ended_ = false;
  }

  int64_t RowsUntilFull() const {
    int64_t least = kMaxSlabRows;
    for (size_t i = 0; i < counts_.size(); ++i) {
      least = std::min(least, buckets_.batch_sizes[i] - counts_[i]);
    }
    return std::max<int64_t>(least, 1);
  }

  // Some rows into their buckets, up to one that is full; a row that cannot get there has failed.
  Status Read(const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(kept_.CheckRoom());
    Slab in;
    rows_.Pull(Demand::Made(kept_.RowsThatFit(RowsUntilFull()), kNoHorizon), options, &in);
    for (int64_t row = 0; row < in.rows; ++row) {
      const Status status = AddRow(in, row, options);
      if (status.ok()) {
        ++index_;
        continue;
      }
      const bool used = !IsInterruption(status);
      index_ += used ? 1 : 0;
      rows_.PutBack(in, row + (used ? 1 : 0));
      return status;
    }
    if (groups_.full() != nullptr && in.rows > 0) {
      // It comes before what is behind its last row.
      if (!IsInterruption(in.status)) rows_.PutBack(in, in.rows);
      return OkStatus();
    }
    ended_ = in.end;
    if (!in.status.ok() && !IsInterruption(in.status)) ++index_;
    return in.status;
  }

  Status AddRow(const Slab& in, int64_t row, const CallOptions& options) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> given, lengths_.CallRow(in, row, index_, options));
    const auto failed = [&](const Status& status) {
      return status.ok() ? status : lengths_.Fail(status, index_, CallOptions());
    };
    int64_t length = 0;
    bool is_unsigned = false;
    TUTTI_RETURN_IF_ERROR(
        failed(ReadInteger(*given, "element_length_func", &length, &is_unsigned)));
    // What no int64 holds is longer than all boundaries.
    if (is_unsigned && length < 0) length = kLastRow;
    const auto& boundaries = buckets_.boundaries;
    const auto bucket = static_cast<size_t>(
        std::upper_bound(boundaries.begin(), boundaries.end(), length) - boundaries.begin());
    if (PadsToBoundary(node()) && bucket == boundaries.size()) {
      return failed(InvalidArgument(
          "its length {} lies in the last bucket, which has no boundary to pad to; with "
          "pad_to_bucket_boundary elements must be shorter than the last of bucket_boundaries",
          length));
    }
    GroupKey key;
    key.value = static_cast<int64_t>(bucket);
    if (!groups_.KnowsSize(key)) groups_.SetSize(key, buckets_.batch_sizes[bucket]);
    Result<Ref<Value>> element = in.Row(row);
    if (!element.ok()) return failed(element.status());
    const int64_t bytes = kept_.counts() ? ElementBytes(**element) : 0;
    TUTTI_RETURN_IF_ERROR(failed(groups_.Add(key, std::move(element).value())));
    kept_.AddBytes(1, bytes);
    ++counts_[bucket];
    return OkStatus();
  }

  void GiveBatch(const KeyGroups::Entry& group, Slab* slab) {
    const auto bucket = static_cast<size_t>(group.first.value);
    const auto rows = static_cast<int64_t>(group.second.rows.size());
    Result<Slab> batch = Stack(bucket, group.second.Slice(0, group.second.rows.size()), rows);
    if (kept_.counts()) {
      for (const Ref<const Value>& row : group.second.rows) kept_.AddBytes(0, -ElementBytes(*row));
    }
    groups_.Remove(group);
    counts_[bucket] = 0;
    ++number_;
    if (batch.ok()) {
      *slab = std::move(batch).value();
      return;
    }
    slab->status = batch.status()
                       .WithPrefix(Format("{}: batch {}", node().label(), number_ - 1))
                       .With("node", node().label())
                       .With("index", number_ - 1);
  }

  Result<Slab> Stack(size_t bucket, Slab rows, int64_t count) {
    std::vector<Slab> parts;
    parts.push_back(std::move(rows));
    if (!Pads(node())) return StackRows(std::move(parts), count, account_);
    if (!stackers_[bucket]) {
      const bool is_last = bucket == buckets_.boundaries.size();
      TUTTI_ASSIGN_OR_RETURN(batches_[bucket],
                             BatchOf(node(), is_last ? nullptr : &buckets_.boundaries[bucket]));
      stackers_[bucket] = MakePaddedRows(*batches_[bucket]);
    }
    return stackers_[bucket]->Stack(std::move(parts), count, account_);
  }

  Clock& clock_;
  MemoryAccount* const account_;
  const bool drops_;
  const Buckets buckets_;
  InputRows rows_;
  FunctionRows lengths_;
  KeyGroups groups_;
  std::vector<int64_t> counts_;             // of rows in each bucket
  std::vector<Ref<const Node>> batches_;    // by bucket, once there was a batch
  std::vector<std::unique_ptr<RowStacker>> stackers_;
  HeldBytes kept_;
  int64_t index_ = 0;   // of the input's next element
  int64_t number_ = 0;  // of the next batch
  bool ended_ = false;  // the input
};

Result<Ref<const ElementSpec>> BucketSpec(const Node& node) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Node> batch, BatchOf(node, nullptr));
  Ref<const ElementSpec> spec = batch->element_spec();
  if (!spec) return spec;
  std::vector<LeafSpec> leaves;
  for (const LeafSpec& leaf : spec->leaves()) {
    leaves.push_back(leaf);
    if (leaf.is_tensor() && leaf.shape.has_rank() && leaf.shape.rank() > 0) {
      std::vector<int64_t> dims = {PartialShape::kUnknownDim};
      for (size_t axis = 1; axis < leaf.shape.rank(); ++axis) dims.push_back(leaf.shape.dim(axis));
      leaves.back().shape = PartialShape(std::move(dims));
    }
  }
  return spec->WithLeaves(std::move(leaves));
}

Status CheckBuckets(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 1));
  for (const char* flag : {"pad_to_bucket_boundary", "no_padding", "drop_remainder"}) {
    TUTTI_RETURN_IF_ERROR(CheckBool(node, flag));
  }
  TUTTI_ASSIGN_OR_RETURN(const Buckets buckets, BucketsOf(node));
  if (PadsToBoundary(node) && !Pads(node)) {
    return InvalidArgument("{}: pad_to_bucket_boundary and no_padding exclude each other; give one",
                           node.label());
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> length,
                         node.function().OutputSpec(node.input().element_spec().get()));
  if (length && !(length->tree().is_leaf() && length->leaf(0).is_tensor() &&
                  IsInteger(length->leaf(0).dtype) &&
                  length->leaf(0).shape.IsCompatibleWith(PartialShape::Scalar()))) {
    return InvalidArgument("{}: element_length_func must give an integer scalar, and gives {}",
                           node.label(), length->ToString());
  }
  if (PadsToBoundary(node)) {
    for (const int64_t& boundary : buckets.boundaries) {
      if (boundary < 1) {
        return InvalidArgument("{}: with pad_to_bucket_boundary bucket_boundaries must be "
                               "positive, got {}",
                               node.label(), boundary);
      }
      TUTTI_RETURN_IF_ERROR(FilledShapes(node, boundary - 1).status());
    }
  }
  return BucketSpec(node).status();
}

int64_t BucketCardinality(const Node& node) {
  return node.input().cardinality() == kInfiniteCardinality ? kInfiniteCardinality
                                                            : kUnknownCardinality;
}

Result<std::unique_ptr<Stage>> MakeBuckets(const Node& node, const ExecContext& context,
                                           StageInputs inputs) {
  TUTTI_ASSIGN_OR_RETURN(Buckets buckets, BucketsOf(node));
  return std::unique_ptr<Stage>(
      std::make_unique<BucketStage>(node, context, std::move(inputs), std::move(buckets)));
}

}  // namespace

constinit const OpTraits kBucketBySequenceLengthOp = {
    .name = "bucket_by_sequence_length",
    .attributes = {{"bucket_boundaries"},
                   {"bucket_batch_sizes"},
                   {"padded_shapes"},
                   {"padding_values"},
                   {"pad_to_bucket_boundary", false},
                   {"no_padding", false},
                   {"drop_remainder", false}},
    .row_ratio = RowRatio::kExpanding,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kWithFunctions,
    .check = CheckBuckets,
    .cardinality = BucketCardinality,
    .element_spec = BucketSpec,
    .make_stage = MakeBuckets,
};

}  // namespace tutti
