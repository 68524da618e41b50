// choose_from_datasets: of several datasets the next element of the one whose number the next
// element of another dataset, the first input, is (choosing_stage.h). A choice that is no
// number of a dataset is one failed element.
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/chosen_inputs.h"
#include "core/dataset/ops/choosing_stage.h"
#include "core/dataset/ops/key_groups.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

class ChooseStage final : public ChoosingStage {
 public:
  using ChoosingStage::ChoosingStage;

  Status Save(StateWriter* writer) override {
    writer->Section("choose_from_datasets");
    TUTTI_RETURN_IF_ERROR(SaveChoices(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("choose_from_datasets");
    RestoreChoices(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 protected:
  Result<int64_t> ChoiceIn(const Slab& choices, int64_t row) override {
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
    if (status.ok() && (choice < 0 || choice >= num_choices())) {
      status = InvalidArgument("choice_dataset must give numbers of the {} datasets, 0 to {}, and "
                               "gave {}",
                               num_choices(), num_choices() - 1,
                               is_unsigned ? Format("{}", static_cast<uint64_t>(choice))
                                           : Format("{}", choice));
    }
    if (status.ok()) return choice;
    return FailedChoice(status, row);
  }
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
    .cardinality = CardinalityOfChosen,
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
