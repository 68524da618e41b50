// window: datasets of `size` elements each, `stride` apart, of which the next begins `shift`
// elements behind the one before.
//
// An element has, in the place of each component, a dataset of that component's values: a source of
// its own (from_tensor_slices where they are tensors of one shape, else from_elements), which holds
// them and needs nobody. Where the values lie in one piece, it is a view of them.
//
// What the stage keeps of its input, and what becomes of failed elements: window_rows.h. Where a
// function only makes batches of the windows they are made without the datasets
// (window_batches.h).
#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/dataset_of_rows.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/ops/window_rows.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

class WindowStage final : public Stage {
 public:
  WindowStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        environment_(Ref<DatasetEnvironment>::Retain(context.environment)),
        account_(context.account),
        rows_(this->node(), input(), context) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    MakeWindows(demand, options, slab);
    rows_.CountKept();
  }

  Status Restart(const CallOptions& options) override {
    rows_.Clear();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("window");
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("window");
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  void MakeWindows(const Demand& demand, const CallOptions& options, Slab* slab) {
    const int64_t wanted = std::min(demand.max_rows, kMaxSlabRows);
    std::vector<std::vector<Leaf>> columns;
    while (slab->rows < wanted && slab->status.ok() && !slab->end) {
      if (!rows_.IsReady()) {
        // Once there is a window nobody waits.
        if (slab->rows > 0) break;
        slab->status = rows_.TakeLoss();
        if (slab->status.ok()) slab->status = rows_.Read(demand, options);
        if (!slab->status.ok()) break;
      }
      if (rows_.IsOver()) {
        slab->status = rows_.End();
        slab->end = slab->status.ok();
        break;
      }
      Result<Slab> window = Make(demand.count_only);
      if (window.ok() && slab->rows > 0 && !demand.count_only && !(*slab->tree == *window->tree)) {
        break;
      }
      rows_.Pass(1);
      if (!window.ok()) {
        slab->status = window.status();
        break;
      }
      ++slab->rows;
      if (demand.count_only) continue;
      slab->tree = window->tree;
      slab->origins.Add(window->origins.Of(0), 1);
      columns.resize(window->columns.size());
      for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(window->columns[i].Row(0));
    }
    for (std::vector<Leaf>& column : columns) {
      slab->columns.push_back(Column::Rows(std::move(column)));
    }
  }

  // The next window as a slab of one row; fails with an element in it that failed.
  Result<Slab> Make(bool count_only) {
    const int64_t count = rows_.NextSize();
    TUTTI_ASSIGN_OR_RETURN(std::vector<Slab> parts, rows_.Pick(0, count, count_only));
    Slab window;
    window.rows = 1;
    if (count_only) return window;
    Origins origins;
    for (const Slab& part : parts) origins.Append(part.origins, part.rows);
    window.origins.Add(origins.Among(0, count), 1);
    const Status made = MakeDatasets(std::move(parts), &window);
    if (!made.ok()) return made.WithPrefix(node().label()).With("node", node().label());
    return window;
  }

  Status MakeDatasets(std::vector<Slab> parts, Slab* window) const {
    window->tree = parts[0].tree;
    TUTTI_RETURN_IF_ERROR(CheckNoComposites(*window->tree, "an element"));
    for (const Slab& part : parts) {
      TUTTI_RETURN_IF_ERROR(CheckSameStructure(*window->tree, *part.tree, "an element"));
    }
    std::vector<Slab> column(parts.size());
    for (size_t i = 0; i < parts[0].columns.size(); ++i) {
      for (size_t k = 0; k < parts.size(); ++k) {
        column[k].rows = parts[k].rows;
        column[k].tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
        column[k].columns = {std::move(parts[k].columns[i])};
      }
      TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> dataset,
                             DatasetOfRows(environment_, column, account_));
      window->columns.push_back(Column::Rows({Leaf(LeafKind::kDataset, std::move(dataset))}));
    }
    return OkStatus();
  }

  const Ref<DatasetEnvironment> environment_;
  MemoryAccount* const account_;
  WindowRows rows_;
};

Status CheckWindow(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "size", 1, Windows::kMostPlaces));
  if (node.attributes().Find("shift") != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckInt(node, "shift", 1, Windows::kMostPlaces));
  }
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "stride", 1, Windows::kMostPlaces));
  const Ref<const ElementSpec> element = node.input().element_spec();
  if (element) TUTTI_RETURN_IF_ERROR(CheckNoComposites(element->tree(), node.label()));
  return CheckBool(node, "drop_remainder");
}

int64_t WindowCardinality(const Node& node) {
  const int64_t n = node.input().cardinality();
  if (n < 0) return n;
  const Windows windows = Windows::Of(node);
  if (!windows.drop_remainder) return CeilOf(n, windows.shift);
  return n < windows.span ? 0 : (n - windows.span) / windows.shift + 1;
}

// A dataset of it in the place of each component.
Result<Ref<const ElementSpec>> WindowSpec(const Node& node) {
  const Ref<const ElementSpec> element = node.input().element_spec();
  if (!element) return element;
  std::vector<LeafSpec> leaves;
  for (const LeafSpec& leaf : element->leaves()) {
    leaves.push_back(ElementSpec::Dataset(ElementSpec::OfLeaf(leaf))->leaf(0));
  }
  return element->WithLeaves(std::move(leaves));
}

Result<std::unique_ptr<Stage>> MakeWindow(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<WindowStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kWindowOp = {
    .name = "window",
    .attributes = {{"size"}, {"shift"}, {"stride", 1}, {"drop_remainder", false}},
    .row_ratio = RowRatio::kManyToOne,
    .check = CheckWindow,
    .cardinality = WindowCardinality,
    .element_spec = WindowSpec,
    .make_stage = MakeWindow,
};

}  // namespace tutti
