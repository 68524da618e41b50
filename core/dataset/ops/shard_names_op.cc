// shard_names: of the names that its input's elements hold, one (bytes[]) or several (bytes[n]),
// numbers index, index + num_shards, ... An element gives one vector, which may be empty.
//
// Auto-sharding by file puts it before a reader whose elements hold several names each; shard would
// deal out the elements.
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

class ShardNamesStage final : public Stage {
 public:
  ShardNamesStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        num_shards_(node.attributes().Int("num_shards")),
        index_(node.attributes().Int("index")) {}

  // Rows that are passed over are read all the same: their names count.
  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    Slab in;
    input().Next(Demand::Made(1, demand.Horizon()), options, &in);
    slab->end = in.end;
    slab->status = std::move(in.status);
    if (in.rows == 0) return;
    Result<Ref<Tensor>> ours = Pick(in);
    if (!ours.ok()) {
      slab->status = std::move(ours).status();
      return;
    }
    slab->rows = 1;
    if (demand.count_only) return;
    slab->tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    std::vector<Leaf> leaves;
    leaves.push_back(Leaf::OfTensor(std::move(ours).value()));
    slab->columns.push_back(Column::Rows(std::move(leaves)));
  }

  Status Restart(const CallOptions& options) override {
    phase_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section(node().op().name);
    writer->Int(phase_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section(node().op().name);
    phase_ = reader->IntIn(0, num_shards_ - 1);
    return Stage::Restore(reader, options);
  }

 private:
  Result<Ref<Tensor>> Pick(const Slab& row) {
    const Leaf leaf = row.columns.size() == 1 ? row.columns[0].Row(0) : Leaf::None();
    if (!leaf.is_tensor() || leaf.tensor().dtype() != DType::kBytes || leaf.tensor().rank() > 1) {
      return InvalidArgument(
          "{}: an element of its input should name files (bytes[] or bytes[n]) and is {}",
          node().label(),
          leaf.is_tensor() ? leaf.tensor().SpecString() : std::string(LeafKindName(leaf.kind())));
    }
    const Tensor& names = leaf.tensor();
    std::vector<BytesView> ours;
    for (int64_t i = 0; i < names.num_elements(); ++i) {
      if (phase_ == index_) ours.push_back(*static_cast<const BytesView*>(names.ElementAt(i)));
      phase_ = (phase_ + 1) % num_shards_;
    }
    return Tensor::FromStrings(Shape({static_cast<int64_t>(ours.size())}), ours);
  }

  const int64_t num_shards_;
  const int64_t index_;
  int64_t phase_ = 0;  // the number of names before, modulo num_shards_
};

Status CheckShardNames(const Node& node) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "num_shards", 1, kMax));
  return CheckInt(node, "index", 0, node.attributes().Int("num_shards") - 1);
}

Result<Ref<const ElementSpec>> ShardNamesSpec(const Node&) {
  return ElementSpec::OfTensor(DType::kBytes, PartialShape({-1}));
}

Result<std::unique_ptr<Stage>> MakeShardNames(const Node& node, const ExecContext&,
                                              StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ShardNamesStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kShardNamesOp = {
    .name = "shard_names",
    .attributes = {{"num_shards"}, {"index"}},
    .can_seek = true,
    .check = CheckShardNames,
    .cardinality = CardinalityOfInput,
    .element_spec = ShardNamesSpec,
    .make_stage = MakeShardNames,
};

}  // namespace tutti
