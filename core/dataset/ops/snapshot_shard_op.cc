// snapshot_shard: a source of the rows of one shard of a snapshot. A reader of shards is given
// datasets of it.
#include "core/dataset/ops/snapshot_shard.h"

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/value_proto.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/tensor.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

const Value& ValueOfShardNode(const Node& node) {
  return **node.attributes().Get<Ref<const Value>>("value");
}

SnapshotShard ShardOfNode(const Node& node) {
  const Value& value = ValueOfShardNode(node);
  const std::span<const int64_t> numbers = value.leaf(2).tensor().span<int64_t>();
  return {numbers[0], numbers[1], numbers[2], std::string(value.leaf(0).string())};
}

Result<Ref<const ElementSpec>> SpecOfShard(const Node& node) {
  const std::string_view text = ValueOfShardNode(node).leaf(1).string();
  if (text.empty()) return Ref<const ElementSpec>();
  v1::SpecDef def;
  if (text.size() > std::numeric_limits<int>::max() ||
      !def.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return InvalidArgument("{}: its spec does not parse", node.label());
  }
  return ReadSpec(def);
}

Status CheckSnapshotShard(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckValue(node, "value"));
  const Value& value = ValueOfShardNode(node);
  const bool fits = value.spec().kind() == NodeKind::kTuple && value.num_leaves() == 3 &&
                    value.num_children() == 3 && value.leaf(0).kind() == LeafKind::kString &&
                    value.leaf(1).kind() == LeafKind::kString && value.leaf(2).is_tensor() &&
                    value.leaf(2).tensor().dtype() == DType::kInt64 &&
                    value.leaf(2).tensor().shape() == Shape({3}) &&
                    value.leaf(2).tensor().is_contiguous();
  if (!fits || ShardOfNode(node).rows < 0) {
    return InvalidArgument("{}: expected (path, spec, [number, rows, checksum]), found {}",
                           node.label(), value.spec().ToString());
  }
  return SpecOfShard(node).status();
}

int64_t RowsOfShard(const Node& node) { return ShardOfNode(node).rows; }

class SnapshotShardStage final : public Stage {
 public:
  SnapshotShardStage(const Node& node, const ExecContext& context)
      : Stage(node, {}), context_(context), shard_(ShardOfNode(node)) {}

  void Next(const Demand& demand, const CallOptions&, Slab* slab) override {
    if (reader_ == nullptr && !ended_) slab->status = OpenAt(0);
    if (!slab->status.ok()) {
      // The next call finds the end.
      ended_ = true;
      slab->status = WithLoss(std::move(slab->status), Loss::kMany);
      return;
    }
    if (ended_) {
      slab->end = true;
      return;
    }
    reader_->Next(demand, slab);
    position_ += slab->rows;
    ended_ = slab->end;
  }

  Status Restart(const CallOptions&) override {
    reader_.reset();
    position_ = 0;
    ended_ = false;
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("shard");
    writer->Int(position_);
    writer->Int(ended_ ? 1 : 0);
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Restart(options));
    reader->Section("shard");
    const int64_t position = reader->IntIn(0, shard_.rows);
    ended_ = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    if (ended_ || position == 0) {
      position_ = position;
      return OkStatus();
    }
    const Status opened = OpenAt(position);
    return opened.ok() ? opened : opened.WithPrefix("restore");
  }

 private:
  Status OpenAt(int64_t position) {
    TUTTI_ASSIGN_OR_RETURN(
        reader_,
        SnapshotShardReader::Open(context_.environment->environment().disk(), shard_,
                                  Ref<MemoryAccount>::Retain(context_.account)));
    position_ = position;
    return reader_->Skip(position);
  }

  const ExecContext& context_;
  const SnapshotShard shard_;
  std::unique_ptr<SnapshotShardReader> reader_;
  int64_t position_ = 0;
  bool ended_ = false;
};

Result<std::unique_ptr<Stage>> MakeSnapshotShard(const Node& node, const ExecContext& context,
                                                 StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<SnapshotShardStage>(node, context));
}

}  // namespace

Ref<Value> ValueOfSnapshotShard(const SnapshotShard& shard, const std::string& spec) {
  return Value::Tuple(
      {Value::OfString(shard.path), Value::OfString(spec),
       Value::OfTensor(Tensor::Vector<int64_t>({shard.number, shard.rows, shard.checksum}))});
}

constinit const OpTraits kSnapshotShardOp = {
    .name = "snapshot_shard",
    .attributes = {{"value"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .can_seek = true,
    .is_value = true,
    .check = CheckSnapshotShard,
    .cardinality = RowsOfShard,
    .element_spec = SpecOfShard,
    .make_stage = MakeSnapshotShard,
};

}  // namespace tutti
