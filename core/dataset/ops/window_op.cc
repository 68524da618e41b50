// window: datasets of `size` elements each, `stride` apart, of which the next begins `shift`
// elements behind the one before.
//
// An element has, in the place of each component, a dataset of that component's values: a source of
// its own (from_tensor_slices where they are tensors of one shape, else from_elements), which holds
// them and needs nobody. Where the values lie in one piece, it is a view of them.
//
// The stage keeps what it has read from the next window's first element on, element by element or
// failed. A failed element fails the windows that it would stand in, with its own status, and
// between windows it fails nothing; what lies between windows that do not overlap is passed over. A
// failure that is of no element (Loss::kMany) has no place: it comes once, between windows, and
// windows go on behind it with what was kept.
#include <algorithm>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/pick_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/dataset_of_rows.h"
#include "core/dataset/ops/op_parts.h"
#include "core/tensor/composite.h"

namespace tutti {
namespace {

constexpr int64_t kMostPlaces = std::numeric_limits<int64_t>::max();

struct Windows {
  int64_t size;
  int64_t shift;
  int64_t stride;
  bool drop_remainder;
  int64_t span;  // of a window, from its first element to its last

  static Windows Of(const Node& node) {
    const Attributes& attributes = node.attributes();
    Windows all;
    all.size = attributes.Int("size");
    const int64_t* shift = attributes.Get<int64_t>("shift");
    all.shift = shift != nullptr ? *shift : all.size;
    all.stride = attributes.Int("stride");
    all.drop_remainder = attributes.Bool("drop_remainder");
    all.span = HorizonPlus(HorizonTimes(all.size - 1, all.stride), 1);
    return all;
  }
};

class WindowStage final : public Stage {
 public:
  WindowStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        environment_(Ref<DatasetEnvironment>::Retain(context.environment)),
        account_(context.account),
        windows_(Windows::Of(node)),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    MakeWindows(demand, options, slab);
    if (kept_.counts()) CountKept();
  }

  Status Restart(const CallOptions& options) override {
    Clear();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("window");
    writer->Int(first_);
    writer->Int(next_);
    writer->Int(ended_ ? 1 : 0);
    writer->Failure(lost_);
    HeldRows held;
    std::vector<int64_t> used;
    for (const Part& part : parts_) {
      held.Append(part.rows);
      used.push_back(part.used ? 1 : 0);
    }
    writer->Ints(used);
    TUTTI_RETURN_IF_ERROR(held.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    Clear();
    reader->Section("window");
    first_ = reader->IntIn(0, kMostPlaces);
    next_ = reader->IntIn(first_, kMostPlaces);
    ended_ = reader->IntIn(0, 1) != 0;
    lost_ = reader->Failure();
    const std::vector<int64_t> used = reader->Ints();
    HeldRows held;
    held.Restore(reader);
    for (size_t i = 0; reader->ok() && !held.empty(); ++i) {
      Part part;
      held.Pop(kMaxSlabRows, &part.rows);
      part.used = i < used.size() && used[i] != 0;
      part.rows.end = false;
      if ((part.rows.rows > 0) == part.rows.status.ok()) {
        Append(std::move(part));
      } else {
        reader->Fail("an impossible part of a window");
      }
    }
    if (reader->ok() && !parts_.empty() && next_ >= end()) reader->Fail("an impossible window");
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // Elements one after the other, or one that failed.
  struct Part {
    Slab rows;
    bool used = false;  // of a failed one: a window has failed with it, or more came behind it

    bool failed() const { return rows.rows == 0; }
    int64_t places() const { return failed() ? 1 : rows.rows; }
  };

  // Behind the last element that was read.
  int64_t end() const { return first_ + places_; }

  void Clear() {
    parts_.clear();
    kept_.Clear();
    first_ = places_ = next_ = 0;
    ended_ = false;
    lost_ = OkStatus();
  }

  void Append(Part part) {
    places_ += part.places();
    parts_.push_back(std::move(part));
  }

  void CountKept() {
    int64_t bytes = 0;
    for (const Part& part : parts_) bytes += ElementBytes(part.rows);
    kept_.Set(bytes);
  }

  void MakeWindows(const Demand& demand, const CallOptions& options, Slab* slab) {
    const int64_t wanted = std::min(demand.max_rows, kMaxSlabRows);
    std::vector<std::vector<Leaf>> columns;
    while (slab->rows < wanted && slab->status.ok() && !slab->end) {
      if (!IsReady()) {
        // Once there is a window nobody waits.
        if (slab->rows > 0) break;
        slab->status = LossOf(lost_) == Loss::kMany ? std::exchange(lost_, OkStatus())
                                                    : Read(demand, options);
        if (!slab->status.ok()) break;
      }
      if (IsOver()) {
        ForgetUntil(end());
        next_ = std::max(next_, end());
        slab->status = std::exchange(lost_, OkStatus());
        slab->end = slab->status.ok();
        break;
      }
      Result<Slab> window = Make(demand.count_only);
      if (window.ok() && slab->rows > 0 && !demand.count_only && !(*slab->tree == *window->tree)) {
        break;
      }
      next_ = HorizonPlus(next_, windows_.shift);
      ForgetUntil(std::min(next_, end()));
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

  // Whether the next window is complete, or as complete as it gets.
  bool IsReady() const {
    return ended_ || (next_ <= end() && end() - next_ >= windows_.span);
  }

  bool IsOver() const {
    if (!ended_) return false;
    return windows_.drop_remainder ? next_ > end() || end() - next_ < windows_.span
                                   : next_ >= end();
  }

  // Until the next window is ready. Fails when interrupted, and when more than one element is lost.
  Status Read(const Demand& demand, const CallOptions& options) {
    for (bool first = true; !IsReady(); first = false) {
      if (!first) TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, clock_, node().label()));
      const int64_t gap = next_ - end();
      const int64_t last = LastOf(std::min(demand.max_rows, kMaxSlabRows));
      if (gap <= 0) TUTTI_RETURN_IF_ERROR(kept_.CheckRoom());
      const int64_t wanted =
          gap > 0 ? gap : kept_.RowsThatFit(std::min(last - end(), kMaxSlabRows));
      Slab in;
      // Rows of windows are made also where the windows are passed over.
      const bool all_wanted = windows_.shift <= windows_.span;
      input().Next(Demand{wanted, gap > 0, Horizon(demand), all_wanted, false}, options, &in);
      ended_ = in.end;
      if (in.rows > 0 || !in.status.ok()) HearOfMore(in.status);
      Status status = std::exchange(in.status, OkStatus());
      in.end = false;
      if (gap > 0) {
        first_ += in.rows;
      } else if (in.rows > 0) {
        kept_.Add(in);
        Append({std::move(in)});
      }
      if (status.ok()) continue;
      if (IsInterruption(status)) return status;
      if (LossOf(status) == Loss::kMany) {
        // Windows that are complete come before it.
        lost_ = std::move(status);
        if (!parts_.empty() && parts_.back().failed()) parts_.back().used = true;
        return IsReady() ? OkStatus() : std::exchange(lost_, OkStatus());
      }
      if (gap > in.rows) {
        ++first_;
        Lose(std::move(status));
      } else {
        Part failed;
        failed.rows.status = std::move(status);
        Append(std::move(failed));
      }
    }
    return OkStatus();
  }

  // Behind the last element of so many windows; of one, where elements lie between them.
  int64_t LastOf(int64_t windows) const {
    if (windows_.shift > windows_.span) windows = 1;
    return HorizonPlus(HorizonTimes(windows - 1, windows_.shift),
                       HorizonPlus(next_, windows_.span));
  }

  int64_t Horizon(const Demand& demand) const {
    const int64_t windows = demand.Horizon();
    if (windows == kNoHorizon) return kNoHorizon;
    const int64_t last = HorizonPlus(HorizonTimes(windows - 1, windows_.shift),
                                     HorizonPlus(next_, windows_.span));
    return last == kNoHorizon ? kNoHorizon : last - end();
  }

  // An element that no window failed with. It is passed over, unless others were lost with it.
  void Lose(Status status) {
    if (LossOf(status) == Loss::kElement || LossOf(lost_) == Loss::kMany) return;
    lost_ = std::move(status);
  }

  // Something comes behind a failure after which there might have been nothing.
  void HearOfMore(const Status& status) {
    if (LossOf(lost_) == Loss::kPerhapsRest && !IsInterruption(status)) lost_ = OkStatus();
  }

  // Elements before `place` are not needed any more.
  void ForgetUntil(int64_t place) {
    while (!parts_.empty() && first_ < place) {
      Part& part = parts_.front();
      const int64_t dropped = std::min(place - first_, part.places());
      first_ += dropped;
      places_ -= dropped;
      if (dropped < part.places()) {
        part.rows = part.rows.Slice(dropped, part.places());
        continue;
      }
      Part gone = std::move(part);
      parts_.pop_front();
      if (!gone.failed()) continue;
      const bool more = LossOf(gone.rows.status) == Loss::kPerhapsRest && !parts_.empty();
      if (gone.used || more) continue;
      Lose(std::move(gone.rows.status));
    }
  }

  // The next window as a slab of one row; fails with an element in it that failed.
  Result<Slab> Make(bool count_only) {
    const int64_t count = std::min(windows_.size, CeilOf(end() - next_, windows_.stride));
    std::vector<Slab> parts;
    Status failure;
    int64_t at = first_;
    int64_t place = next_;  // of the window's next element
    int64_t missing = count;
    std::vector<int64_t> picked;
    for (Part& part : parts_) {
      const int64_t behind = at + part.places();
      picked.clear();
      while (missing > 0 && place < behind) {
        picked.push_back(place - at);
        if (--missing > 0) place += windows_.stride;
      }
      at = behind;
      if (picked.empty()) continue;
      if (part.failed()) {
        part.used = true;
        if (failure.ok()) failure = part.rows.status;
      } else if (!count_only && failure.ok()) {
        TUTTI_ASSIGN_OR_RETURN(Slab rows, PickRows(part.rows, picked, account_));
        parts.push_back(std::move(rows));
      }
    }
    TUTTI_RETURN_IF_ERROR(failure);
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

  Clock& clock_;
  const Ref<DatasetEnvironment> environment_;
  MemoryAccount* const account_;
  const Windows windows_;
  HeldBytes kept_;
  std::deque<Part> parts_;  // the elements [first_, first_ + places_) of the input
  int64_t first_ = 0;
  int64_t places_ = 0;
  int64_t next_ = 0;  // the first element of the next window, kMostPlaces for all behind, too
  bool ended_ = false;
  Status lost_;  // a failure between windows, with which others may have been lost
};

Status CheckWindow(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "size", 1, kMostPlaces));
  if (node.attributes().Find("shift") != nullptr) {
    TUTTI_RETURN_IF_ERROR(CheckInt(node, "shift", 1, kMostPlaces));
  }
  TUTTI_RETURN_IF_ERROR(CheckInt(node, "stride", 1, kMostPlaces));
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
