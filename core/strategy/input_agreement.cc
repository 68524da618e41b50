#include "core/strategy/input_agreement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/node.h"
#include "core/strategy/rebatch.h"

namespace tutti {

namespace {

void WriteSpec(const ElementSpec& spec, StateWriter* writer) {
  writer->Tree(spec.tree());
  for (const LeafSpec& leaf : spec.leaves()) {
    writer->Int(static_cast<int64_t>(leaf.kind));
    writer->Int(static_cast<int64_t>(leaf.dtype));
    writer->Int(leaf.shape.has_rank() ? 1 : 0);
    writer->Ints(leaf.shape.dims());
  }
}

Result<Ref<const ElementSpec>> ReadSpec(StateReader* reader) {
  Ref<const TreeSpec> tree = reader->Tree();
  TUTTI_RETURN_IF_ERROR(reader->status());
  std::vector<LeafSpec> leaves(tree->num_leaves());
  for (LeafSpec& leaf : leaves) {
    leaf.kind = static_cast<LeafKind>(reader->Int());
    leaf.dtype = static_cast<DType>(reader->Int());
    const bool has_rank = reader->IntIn(0, 1) != 0;
    const std::vector<int64_t> dims = reader->Ints();
    if (!has_rank) continue;
    TUTTI_ASSIGN_OR_RETURN(leaf.shape, PartialShape::Create(dims.data(), dims.size()));
  }
  TUTTI_RETURN_IF_ERROR(reader->status());
  return ElementSpec::Create(std::move(tree), std::move(leaves));
}

std::string Write(const InputFacts& facts) {
  StateWriter writer;
  writer.Bytes(facts.plan);
  writer.Int(facts.needs_seed ? 1 : 0);
  writer.Int(facts.seed);
  writer.Int(facts.steps);
  writer.Int(facts.whole_steps ? 1 : 0);
  writer.Int(facts.spec ? 1 : 0);
  if (facts.spec) WriteSpec(*facts.spec, &writer);
  return std::move(writer).TakeBytes();
}

Result<InputFacts> Read(std::string_view bytes) {
  StateReader reader(bytes);
  InputFacts facts;
  facts.plan = reader.Bytes();
  facts.needs_seed = reader.IntIn(0, 1) != 0;
  facts.seed = reader.Int();
  facts.steps = reader.Int();
  facts.whole_steps = reader.IntIn(0, 1) != 0;
  if (reader.IntIn(0, 1) != 0) {
    TUTTI_ASSIGN_OR_RETURN(facts.spec, ReadSpec(&reader));
  }
  TUTTI_RETURN_IF_ERROR(reader.status());
  return facts;
}

// The steps until the last worker's data ends.
int64_t LongerOf(int64_t a, int64_t b) {
  if (a == kInfiniteCardinality || b == kInfiniteCardinality) return kInfiniteCardinality;
  if (a == kUnknownCardinality || b == kUnknownCardinality) return kUnknownCardinality;
  return std::max(a, b);
}

bool KnowsRows(const ElementSpec& spec) {
  return std::all_of(spec.leaves().begin(), spec.leaves().end(), [](const LeafSpec& leaf) {
    return leaf.is_tensor() && leaf.shape.has_rank() && leaf.shape.rank() > 0 &&
           leaf.shape.dim(0) != PartialShape::kUnknownDim;
  });
}

}  // namespace

Result<AgreedInput> AgreeOnInput(TeamChannel& team, const char* what, const InputFacts& mine,
                                 const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                         team.Exchange(TeamLabel{what}, mine.status,
                                       mine.status.ok() ? Write(mine) : std::string(), call));
  AgreedInput agreed;
  std::string plan;
  size_t spec_of = 0;
  for (size_t w = 0; w < parts.size(); ++w) {
    TUTTI_ASSIGN_OR_RETURN(InputFacts facts, Read(parts[w]));
    if (w == 0) {
      plan = facts.plan;
      agreed.seed = facts.seed;
      agreed.steps = facts.steps;
      agreed.whole_steps = facts.whole_steps;
    } else if (facts.plan != plan) {
      return InvalidArgument(
                 "{}: the workers divide the data in different ways: worker 0: {}; worker {}: {}; "
                 "all workers must distribute the same dataset with the same options",
                 what, plan, w, facts.plan)
          .With("worker", w);
    } else {
      agreed.whole_steps = agreed.whole_steps && facts.whole_steps && facts.steps == agreed.steps;
      agreed.steps = LongerOf(agreed.steps, facts.steps);
    }
    agreed.needs_seed |= facts.needs_seed;
    if (!facts.spec) continue;
    if (!agreed.spec) {
      agreed.spec = facts.spec;
      spec_of = w;
      continue;
    }
    Result<Ref<const ElementSpec>> common = agreed.spec->Relax(*facts.spec, what);
    if (!common.ok()) {
      return InvalidArgument(
                 "{}: worker {} has elements {}, worker {} has {}; all workers must have elements "
                 "of one structure, with equal dtypes and ranks ({})",
                 what, spec_of, agreed.spec->ToString(), w, facts.spec->ToString(),
                 common.status().message())
          .With("worker", w);
    }
    agreed.spec = std::move(common).value();
  }
  if (!agreed.spec) {
    return FailedPrecondition(
        "{}: no worker has an element that would show what the elements are like; give the "
        "functions "
        "that make them output specs",
        what);
  }
  agreed.whole_steps = agreed.whole_steps && KnowsRows(*agreed.spec);
  if (!agreed.whole_steps) agreed.spec = AnyRowsSpec(*agreed.spec);
  return agreed;
}

}  // namespace tutti
