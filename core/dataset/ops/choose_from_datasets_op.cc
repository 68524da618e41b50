// choose_from_datasets: of several datasets the next element of the one whose number the next
// element of another dataset, the first input, is.
//
// A number of a dataset that has ended is passed over, or ends the pass. A choice that fails, or
// that is no number of a dataset, is one failed element.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/chosen_inputs.h"
#include "core/dataset/ops/key_groups.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class ChooseStage final : public Stage {
 public:
  ChooseStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        stops_(node.attributes().Bool("stop_on_empty_dataset")),
        choices_(input(0)) {
    for (size_t i = 1; i < num_inputs(); ++i) inputs_.Add(input(i));
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true; !done_; first = false) {
      // Many choices may be of datasets that have ended.
      if (!first) slab->status = CheckCallOptions(options, clock_, node().label());
      if (!slab->status.ok()) return;
      Slab choices;
      choices_.Pull(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), kNoHorizon), options,
                    &choices);
      if (choices.rows == 0) {
        slab->status = std::move(choices.status);
        if (!slab->status.ok() && !IsInterruption(slab->status)) ++index_;
        done_ = choices.end;
        if (!done_) return;
        break;
      }
      const int64_t used = Choose(choices, demand, options, slab);
      index_ += used;
      choices_.PutBack(choices, used);
      if (slab->rows > 0 || !slab->status.ok()) return;
      slab->Clear();
    }
    slab->end = true;
  }

  Status Restart(const CallOptions& options) override {
    choices_.Clear();
    inputs_.Clear();
    index_ = 0;
    done_ = false;
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("choose_from_datasets");
    writer->Int(index_);
    writer->Int(done_ ? 1 : 0);
    TUTTI_RETURN_IF_ERROR(choices_.Save(writer));
    TUTTI_RETURN_IF_ERROR(inputs_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("choose_from_datasets");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    done_ = reader->IntIn(0, 1) != 0;
    choices_.Restore(reader);
    inputs_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // The elements of the first choices, which are of one dataset; gives how many choices are used.
  int64_t Choose(const Slab& choices, const Demand& demand, const CallOptions& options,
                 Slab* slab) {
    const Result<int64_t> chosen = ChoiceIn(choices, 0);
    slab->status = chosen.status();
    if (!slab->status.ok()) return 1;
    const auto i = static_cast<size_t>(*chosen);
    if (inputs_.has_ended(i)) return 1;
    int64_t count = 1;
    while (count < choices.rows) {
      const Result<int64_t> next = ChoiceIn(choices, count);
      if (!next.ok() || *next != *chosen) break;
      ++count;
    }
    const int64_t used = inputs_.Pull(i, count, demand, options, slab);
    done_ = inputs_.has_ended(i) && (stops_ || inputs_.all_ended());
    return used;
  }

  Result<int64_t> ChoiceIn(const Slab& choices, int64_t row) const {
    int64_t choice = 0;
    bool is_unsigned = false;
    Status status;
    if (choices.columns.size() == 1 && choices.columns[0].is_dense() &&
        choices.columns[0].dense()->dtype() == DType::kInt64 &&
        choices.columns[0].dense()->rank() == 1) {
      choice = choices.columns[0].dense()->span<int64_t>()[static_cast<size_t>(row)];
    } else {
      const Result<Ref<Value>> value = choices.Row(row);
      status = value.ok() ? ReadInteger(**value, "choice_dataset", &choice, &is_unsigned)
                          : value.status();
    }
    if (status.ok() && (choice < 0 || choice >= static_cast<int64_t>(inputs_.size()))) {
      status = InvalidArgument("choice_dataset must give numbers of the {} datasets, 0 to {}, and "
                               "gave {}",
                               inputs_.size(), inputs_.size() - 1,
                               is_unsigned ? Format("{}", static_cast<uint64_t>(choice))
                                           : Format("{}", choice));
    }
    if (status.ok()) return choice;
    return status.WithPrefix(Format("{}: element {}", node().label(), index_ + row))
        .With("node", node().label())
        .With("index", index_ + row);
  }

  Clock& clock_;
  const bool stops_;
  InputRows choices_;
  ChosenInputs inputs_;
  int64_t index_ = 0;  // of the next choice
  bool done_ = false;
};

Result<Ref<const ElementSpec>> ChooseSpec(const Node& node) { return SpecOfChosen(node, 1); }

Status CheckChoose(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckBool(node, "stop_on_empty_dataset"));
  if (node.inputs().size() < 2) {
    return InvalidArgument("{}: there are no datasets; give one or more", node.label());
  }
  const Ref<const ElementSpec> choice = node.input(0).element_spec();
  if (choice && !(choice->tree().is_leaf() && choice->leaf(0).is_tensor() &&
                  IsInteger(choice->leaf(0).dtype) &&
                  choice->leaf(0).shape.IsCompatibleWith(PartialShape::Scalar()))) {
    return InvalidArgument("{}: choice_dataset must give integer scalars, and gives {}",
                           node.label(), choice->ToString());
  }
  return ChooseSpec(node).status();
}

int64_t ChooseCardinality(const Node& node) {
  for (size_t i = 1; i < node.inputs().size(); ++i) {
    if (node.input(i).cardinality() != kInfiniteCardinality) return kUnknownCardinality;
  }
  return node.input(0).cardinality();
}

Result<std::unique_ptr<Stage>> MakeChoose(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ChooseStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kChooseFromDatasetsOp = {
    .name = "choose_from_datasets",
    .attributes = {{"stop_on_empty_dataset", true}},
    .num_inputs = -1,
    .row_ratio = RowRatio::kCombined,
    .can_seek = true,
    .check = CheckChoose,
    .cardinality = ChooseCardinality,
    .element_spec = ChooseSpec,
    .make_stage = MakeChoose,
};

Result<Ref<Dataset>> Dataset::ChooseFromDatasets(Environments environment, const Value& datasets,
                                                 const Dataset& choice_dataset,
                                                 bool stop_on_empty_dataset, std::string name) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<Ref<Dataset>> inputs,
                         DatasetsIn(datasets, "choose_from_datasets"));
  inputs.insert(inputs.begin(), Ref<Dataset>::Retain(const_cast<Dataset*>(&choice_dataset)));
  Attributes attributes;
  attributes.Set("stop_on_empty_dataset", stop_on_empty_dataset);
  return Make(environment, "choose_from_datasets", std::move(name), std::move(attributes), inputs);
}

}  // namespace tutti
