#include "core/dataset/ops/chosen_inputs.h"

#include <algorithm>

#include "core/base/error.h"

namespace tutti {

bool ChosenInputs::all_ended() const {
  return std::all_of(ended_.begin(), ended_.end(), [](int64_t ended) { return ended != 0; });
}

int64_t ChosenInputs::Pull(size_t i, int64_t count, const Demand& demand,
                           const CallOptions& options, Slab* slab) {
  rows_[i].Pull(demand.OfInput(count, demand.Horizon()), options, slab);
  if (slab->rows == count) {
    // What comes behind these rows comes when this input is chosen again.
    rows_[i].PutBack(*slab, count);
    slab->status = OkStatus();
    slab->end = false;
    return count;
  }
  if (slab->end) {
    slab->end = false;
    ended_[i] = 1;
    return slab->rows + 1;
  }
  const bool failed = !slab->status.ok() && !IsInterruption(slab->status);
  return slab->rows + (failed && LossOf(slab->status) != Loss::kMany ? 1 : 0);
}

void ChosenInputs::Clear() {
  for (InputRows& rows : rows_) rows.Clear();
  std::fill(ended_.begin(), ended_.end(), 0);
}

Status ChosenInputs::Save(StateWriter* writer) const {
  writer->Ints(ended_);
  for (const InputRows& rows : rows_) TUTTI_RETURN_IF_ERROR(rows.Save(writer));
  return OkStatus();
}

void ChosenInputs::Restore(StateReader* reader) {
  std::vector<int64_t> ended = reader->Ints();
  if (ended.size() != ended_.size()) reader->Fail("another number of inputs");
  if (reader->ok()) ended_ = std::move(ended);
  for (InputRows& rows : rows_) rows.Restore(reader);
}

Result<Ref<const ElementSpec>> SpecOfChosen(const Node& node, size_t first) {
  Ref<const ElementSpec> all;
  for (size_t i = first; i < node.inputs().size(); ++i) {
    const Ref<const ElementSpec> own = node.input(i).element_spec();
    if (!own) return own;
    if (!all) {
      all = own;
      continue;
    }
    Result<Ref<const ElementSpec>> both = all->Relax(*own, node.label());
    if (!both.ok()) {
      return std::move(both).status().With("index", static_cast<int64_t>(i - first));
    }
    all = std::move(both).value();
  }
  return all;
}

Result<std::vector<Ref<Dataset>>> DatasetsIn(const Value& datasets, std::string_view op) {
  std::vector<Ref<Dataset>> inputs;
  for (size_t i = 0; i < datasets.num_leaves(); ++i) {
    const Leaf& leaf = datasets.leaf(i);
    if (leaf.kind() != LeafKind::kDataset) {
      return InvalidArgument("{}: expected datasets, but leaf {}{} is {}", op, i,
                             PathToString(datasets.spec().LeafPath(i)), LeafKindName(leaf.kind()));
    }
    inputs.push_back(Ref<Dataset>::Retain(leaf.object_as<Dataset>()));
  }
  if (inputs.empty()) return InvalidArgument("{}: there are no datasets; give one or more", op);
  return inputs;
}

}  // namespace tutti
