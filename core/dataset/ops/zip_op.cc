// zip: elements with the structure of a value of datasets, one element of each; as long as the
// shortest. When an element of one input fails, the others pass over theirs of that place.
#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

const TreeSpec& TreeOf(const Node& node) {
  return **node.attributes().Get<Ref<const TreeSpec>>("tree");
}

class ZipStage final : public Stage {
 public:
  ZipStage(const Node& node, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        places_(node.cardinality() >= 0 ? node.cardinality() : kNoHorizon),
        owed_(num_inputs(), 0),
        trees_(num_inputs()) {
    rows_.reserve(num_inputs());
    for (size_t i = 0; i < num_inputs(); ++i) rows_.emplace_back(input(i));
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (!PayOwed(options, slab)) return;
    std::vector<Slab> parts(num_inputs());
    // Where one input is known to be shorter, the others make nothing behind its end.
    const int64_t left = std::max<int64_t>(HorizonPlus(places_, -place_), 1);
    const int64_t horizon = std::min(demand.Horizon(), left);
    int64_t rows = std::min({demand.max_rows, left, kMaxSlabRows});
    for (size_t i = 0; i < parts.size(); ++i) {
      rows_[i].Pull(Demand::Made(rows, horizon), options, &parts[i]);
      rows = std::min(rows, parts[i].rows);
      if (rows > 0) continue;
      return Fail(parts, i, slab);
    }
    for (size_t i = 0; i < parts.size(); ++i) rows_[i].PutBack(parts[i], rows);
    slab->rows = rows;
    place_ += rows;
    slab->origins = parts[0].origins.Slice(0, rows);
    bool same_trees = static_cast<bool>(tree_);
    for (size_t i = 0; i < parts.size(); ++i) {
      Slab& part = parts[i];
      for (Column& column : part.columns) slab->columns.push_back(column.Slice(0, rows));
      same_trees = same_trees && *trees_[i] == *part.tree;
      trees_[i] = part.tree;
    }
    if (!same_trees) {
      Result<Ref<const TreeSpec>> tree = ComposeTrees(TreeOf(node()), trees_);
      if (!tree.ok()) {
        slab->Clear();
        slab->status = tree.status();
        return;
      }
      tree_ = std::move(tree).value();
    }
    slab->tree = tree_;
  }

  Status Restart(const CallOptions& options) override {
    for (InputRows& rows : rows_) rows.Clear();
    std::fill(owed_.begin(), owed_.end(), 0);
    place_ = 0;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("zip");
    writer->Ints(owed_);
    for (const InputRows& rows : rows_) TUTTI_RETURN_IF_ERROR(rows.Save(writer));
    writer->Int(place_);
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("zip");
    std::vector<int64_t> owed = reader->Ints();
    if (owed.size() != owed_.size()) reader->Fail("another number of inputs");
    if (reader->ok()) owed_ = std::move(owed);
    for (InputRows& rows : rows_) rows.Restore(reader);
    place_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // Input `i` gave no row: the place in the sequence has failed, or the sequence ends.
  void Fail(const std::vector<Slab>& parts, size_t i, Slab* slab) {
    slab->status = parts[i].status;
    slab->end = parts[i].end;
    const bool interrupted = IsInterruption(slab->status);
    for (size_t k = 0; k < i; ++k) {
      const bool drops = !interrupted && !slab->end;
      rows_[k].PutBack(parts[k], drops ? 1 : 0);
    }
    if (slab->end || interrupted) return;
    ++place_;
    for (size_t k = i + 1; k < owed_.size(); ++k) ++owed_[k];
  }

  // Passes over what inputs owe to failed places. False when *slab says what came in between.
  bool PayOwed(const CallOptions& options, Slab* slab) {
    for (size_t i = 0; i < owed_.size(); ++i) {
      while (owed_[i] > 0) {
        Slab passed;
        // Made like all others: whether an element fails must not depend on its neighbours.
        rows_[i].Pull(Demand::Made(owed_[i], owed_[i]), options, &passed);
        owed_[i] -= passed.rows;
        if (passed.end && owed_[i] > 0) {
          slab->end = true;
          return false;
        }
        if (passed.end) rows_[i].PutBack(passed, passed.rows);
        if (IsInterruption(passed.status)) {
          slab->status = passed.status;
          return false;
        }
        if (passed.status.ok()) continue;
        --owed_[i];
        if (LossOf(passed.status) != Loss::kMany) continue;
        slab->status = passed.status;
        return false;
      }
    }
    return true;
  }

  const int64_t places_;  // of the shortest input, as far as that is known
  std::vector<InputRows> rows_;
  int64_t place_ = 0;  // of this pass, behind what was given
  std::vector<int64_t> owed_;  // elements of each input whose places have failed already
  std::vector<Ref<const TreeSpec>> trees_;
  Ref<const TreeSpec> tree_;  // of all, from trees_
};

Status CheckZip(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckTree(node, "tree"));
  if (TreeOf(node).num_leaves() == node.inputs().size()) return OkStatus();
  return InvalidArgument("{}: the structure {} has {} leaves, but there are {} datasets",
                         node.label(), TreeOf(node).ToString(), TreeOf(node).num_leaves(),
                         node.inputs().size());
}

int64_t ZipCardinality(const Node& node) {
  int64_t least = kInfiniteCardinality;
  for (const Ref<const Node>& input : node.inputs()) {
    const int64_t n = input->cardinality();
    if (n == kUnknownCardinality) return kUnknownCardinality;
    if (n == kInfiniteCardinality) continue;
    least = least == kInfiniteCardinality ? n : std::min(least, n);
  }
  return least;
}

Result<Ref<const ElementSpec>> ZipSpec(const Node& node) {
  std::vector<Ref<const ElementSpec>> parts;
  for (const Ref<const Node>& input : node.inputs()) {
    parts.push_back(input->element_spec());
    if (!parts.back()) return Ref<const ElementSpec>();
  }
  return ElementSpec::Compose(TreeOf(node), parts);
}

Result<std::unique_ptr<Stage>> MakeZip(const Node& node, const ExecContext&, StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ZipStage>(node, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kZipOp = {
    .name = "zip",
    .attributes = {{"tree"}},
    .state_version = 2,
    .num_inputs = -1,
    .row_ratio = RowRatio::kCombined,
    .can_seek = true,
    .check = CheckZip,
    .cardinality = ZipCardinality,
    .element_spec = ZipSpec,
    .make_stage = MakeZip,
};

Result<Ref<Dataset>> Dataset::Zip(Environments environment, const Value& datasets,
                                  std::string name) {
  std::vector<Ref<Dataset>> inputs;
  for (size_t i = 0; i < datasets.num_leaves(); ++i) {
    const Leaf& leaf = datasets.leaf(i);
    if (leaf.kind() != LeafKind::kDataset) {
      return InvalidArgument("zip: expected a structure of datasets, but leaf {}{} is {}", i,
                             PathToString(datasets.spec().LeafPath(i)), LeafKindName(leaf.kind()));
    }
    inputs.push_back(Ref<Dataset>::Retain(leaf.object_as<Dataset>()));
  }
  if (inputs.empty()) {
    return InvalidArgument("zip: the structure holds no datasets; give one or more");
  }
  const Attribute tree = datasets.spec_ref();
  Attributes attributes;
  attributes.Set("tree", tree);
  return Make(environment, "zip", std::move(name), std::move(attributes), inputs);
}

}  // namespace tutti
