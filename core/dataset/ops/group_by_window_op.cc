// group_by_window: rows are collected by the key that key_func gives for them; as soon as there are
// so many of one key, reduce_func gets them, as a dataset, together with the key, and the elements
// of the dataset that it gives come out before another row is read. At the input's end come the
// groups that are not full, by ascending keys.
//
// How many rows make a group is one number for all, window_size, or what window_size_func gives for
// a key, for which it is asked once a pass. An element of the input that fails, for which key_func
// or window_size_func does, is reported and missing in its group. A group for which reduce_func
// fails is gone. The datasets that reduce_func gets hold their rows (dataset_of_rows.h).
//
// No function is called for rows that the next group does not need: of as many as a group lacks
// that lacks fewest, the last one can fill a group at the earliest.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/dataset/exec/function_rows.h"
#include "core/dataset/exec/inner_stages.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/dataset_of_rows.h"
#include "core/dataset/ops/inner_spec.h"
#include "core/dataset/ops/key_groups.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

constexpr int64_t kLastIndex = std::numeric_limits<int64_t>::max();

// The functions of a node.
enum : size_t { kKeyFunc = 0, kReduceFunc = 1, kWindowSizeFunc = 2 };

// What messages call what the functions are given.
std::string NameOfGroup(const Value& argument) {
  return Format("the group of key {}", argument.Child(0)->ToString());
}
std::string NameOfKey(const Value& argument) {
  return Format("the window size of key {}", argument.ToString());
}

// 0: each key has its own.
int64_t WindowSizeOf(const Node& node) {
  const int64_t* size = node.attributes().Get<int64_t>("window_size");
  return size != nullptr ? *size : 0;
}

Ref<Value> KeyAndRows(const GroupKey& key, Ref<Dataset> rows) {
  return Value::Tuple({key.ToValue(), Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(rows)))});
}

// What the reduce_func's datasets have in them as far as it promises that; null where it does not.
Result<Ref<const ElementSpec>> GroupByWindowSpec(const Node& node) {
  const Ref<const ElementSpec> element = node.input().element_spec();
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> key,
                         node.function(kKeyFunc).OutputSpec(element.get()));
  if (!element || !key) return PromisedInnerSpec(node, kReduceFunc, nullptr);
  const bool is_unsigned = key->num_leaves() == 1 && key->leaf(0).dtype == DType::kUint64;
  const Ref<const ElementSpec> parts[] = {
      ElementSpec::OfTensor(is_unsigned ? DType::kUint64 : DType::kInt64, PartialShape::Scalar()),
      ElementSpec::Dataset(element)};
  return PromisedInnerSpec(node, kReduceFunc, ElementSpec::Tuple(parts).get());
}

Ref<const ElementSpec> PromiseOf(const Node& node) {
  Result<Ref<const ElementSpec>> promised = GroupByWindowSpec(node);
  return promised.ok() ? std::move(promised).value() : nullptr;
}

class GroupByWindowStage final : public Stage {
 public:
  GroupByWindowStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        environment_(Ref<DatasetEnvironment>::Retain(context.environment)),
        account_(context.account),
        rows_(input()),
        keys_(this->node(), context, nullptr),
        inners_(this->node(), context, {kReduceFunc, NameOfGroup}),
        spec_(this->node(), PromiseOf(this->node())),
        groups_(WindowSizeOf(this->node())),
        kept_(context, node, HeldBytes::Kind::kKept) {
    if (WindowSizeOf(this->node()) == 0) {
      sizes_.emplace(this->node(), context, nullptr, FunctionUse{kWindowSizeFunc, NameOfKey});
    }
  }

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    for (bool first = true;; first = false) {
      slab->status = inners_.JoinEnded(options);
      // Many rows may be read for a group, and many groups give nothing.
      if (slab->status.ok() && !first) {
        slab->status = CheckCallOptions(options, clock_, node().label());
      }
      if (!slab->status.ok()) return;
      if (current_ != nullptr) {
        Visit(demand, options, slab);
        if (slab->rows > 0 || !slab->status.ok()) return;
        slab->Clear();
        continue;
      }
      const KeyGroups::Entry* group = groups_.full();
      if (group == nullptr && !ended_) {
        slab->status = Read(options);
        if (!slab->status.ok()) return;
        continue;
      }
      if (group == nullptr) group = groups_.First();
      if (group == nullptr) {
        slab->end = true;
        return;
      }
      slab->status = Open(*group, options);
      if (!slab->status.ok()) return;
    }
  }

  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Empty(options));
    // What is interrupted is restarted again, and that is one pass.
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    inners_.BeginPass();
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("group_by_window");
    inners_.Save(writer);
    writer->Int(index_);
    writer->Int(number_);
    writer->Int(ended_ ? 1 : 0);
    TUTTI_RETURN_IF_ERROR(groups_.Save(writer));
    writer->Int(current_ != nullptr ? 1 : 0);
    if (current_ != nullptr) {
      TUTTI_RETURN_IF_ERROR(inners_.SaveElement(*current_, writer));
      TUTTI_RETURN_IF_ERROR(held_.Save(writer));
      TUTTI_RETURN_IF_ERROR(current_->stage().Save(writer));
    }
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Empty(options));
    reader->Section("group_by_window");
    inners_.Restore(reader);
    index_ = reader->IntIn(0, kLastIndex);
    number_ = reader->IntIn(0, kLastIndex);
    ended_ = reader->IntIn(0, 1) != 0;
    groups_.Restore(reader);
    kept_.Set(kept_.counts() ? groups_.ElementBytes() : 0);
    if (reader->IntIn(0, 1) != 0) {
      TUTTI_ASSIGN_OR_RETURN(current_, inners_.RestoreElement(reader, options));
      TUTTI_RETURN_IF_ERROR(spec_.CheckDataset(*current_->dataset(), &known_));
      held_.Restore(reader);
      TUTTI_RETURN_IF_ERROR(reader->status());
      TUTTI_RETURN_IF_ERROR(current_->stage().Restore(reader, options));
    }
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

  void Stop() override {
    inners_.Stop();
    Stage::Stop();
  }

  Status Join(const CallOptions& options) override {
    current_ = nullptr;
    TUTTI_RETURN_IF_ERROR(inners_.Join(options));
    return Stage::Join(options);
  }

 private:
  Status Empty(const CallOptions& options) {
    current_ = nullptr;
    held_.Clear();
    groups_.Clear();
    kept_.Clear();
    rows_.Clear();
    index_ = number_ = 0;
    ended_ = false;
    return inners_.EndAll(options);
  }

  // Some rows into their groups, up to one that is full; a row that cannot get there has failed.
  Status Read(const CallOptions& options) {
    TUTTI_RETURN_IF_ERROR(kept_.CheckRoom());
    Slab in;
    const int64_t wanted = kept_.RowsThatFit(std::min(groups_.RowsUntilFull(), kMaxSlabRows));
    // How many groups give what is wanted, nobody knows.
    rows_.Pull(Demand::Made(wanted, kNoHorizon), options, &in);
    int64_t used = 0;
    while (used < in.rows) {
      const int64_t before = used;
      const Status status = AddRows(in, options, &used);
      index_ += used - before;
      if (status.ok()) continue;
      rows_.PutBack(in, used);
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

  // Rows from *used on. A failed status is about the row before *used, or an interruption.
  Status AddRows(const Slab& in, const CallOptions& options, int64_t* used) {
    const int64_t begin = *used;
    if (!keys_.takes_slabs()) {
      const Result<Ref<Value>> key = keys_.CallRow(in, begin, index_, options);
      if (!key.ok()) {
        *used += IsInterruption(key.status()) ? 0 : 1;
        return key.status();
      }
      return AddRow(in, **key, 0, options, used);
    }
    int64_t called = 0;
    const Result<Slab> keys =
        keys_.CallFirstRows(in.Slice(begin, in.rows), index_, options, &called);
    if (!keys.ok()) {
      *used += called;
      return keys.status();
    }
    for (int64_t row = 0; row < called; ++row) {
      TUTTI_ASSIGN_OR_RETURN(const Ref<Value> key, keys->Row(row));
      TUTTI_RETURN_IF_ERROR(AddRow(in, *key, row, options, used));
    }
    return OkStatus();
  }

  // The row *used, which is row `ahead` behind the one of index_.
  Status AddRow(const Slab& in, const Value& given, int64_t ahead, const CallOptions& options,
                int64_t* used) {
    const int64_t index = index_ + ahead;
    const auto failed = [&](const Status& status) {
      return status.ok() ? status : keys_.Fail(status, index, CallOptions());
    };
    GroupKey key;
    Status status = failed(ReadInteger(given, "key_func", &key.value, &key.is_unsigned));
    if (status.ok()) status = LearnSize(key, index, options);
    if (IsInterruption(status)) return status;
    if (status.ok()) {
      Result<Ref<Value>> row = in.Row(*used);
      const int64_t bytes = kept_.counts() && row.ok() ? ElementBytes(**row) : 0;
      status = failed(row.ok() ? groups_.Add(key, std::move(row).value()) : row.status());
      if (status.ok()) kept_.AddBytes(1, bytes);
    }
    ++*used;
    return status;
  }

  // Asks how many rows make a group of this key, unless that is known.
  Status LearnSize(const GroupKey& key, int64_t index, const CallOptions& options) {
    if (groups_.KnowsSize(key)) return OkStatus();
    const Ref<Value> asked = key.ToValue();
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> result, sizes_->CallValue(*asked, index, options));
    int64_t size = 0;
    bool is_unsigned = false;
    Status status = ReadInteger(*result, "window_size_func", &size, &is_unsigned);
    if (status.ok() && (size == 0 || (size < 0 && !is_unsigned))) {
      status = InvalidArgument("window_size_func must give a positive number, and gave {}", size);
    }
    if (!status.ok()) return sizes_->FailOf(*asked, status, index, CallOptions());
    // What no int64 holds is never reached.
    groups_.SetSize(key, size < 0 ? kLastIndex : size);
    return OkStatus();
  }

  // Calls reduce_func for a group, which has been used up then, unless it is interrupted.
  Status Open(const KeyGroups::Entry& group, const CallOptions& options) {
    const GroupKey key = group.first;
    Result<InnerStages::Inner*> made = Make(group, options);
    if (!made.ok() && IsInterruption(made.status())) return made.status();
    if (kept_.counts()) {
      for (const Ref<const Value>& row : group.second.rows) kept_.AddBytes(0, -ElementBytes(*row));
    }
    groups_.Remove(group);
    ++number_;
    if (!made.ok()) return made.status().With("key", key.value);
    const Status fits = spec_.CheckDataset(*(*made)->dataset(), &known_);
    if (!fits.ok()) {
      inners_.End(*made);
      return fits.With("index", number_ - 1).With("key", key.value);
    }
    current_ = *made;
    return OkStatus();
  }

  Result<InnerStages::Inner*> Make(const KeyGroups::Entry& group, const CallOptions& options) {
    const Slab rows = group.second.Slice(0, group.second.rows.size());
    Result<Ref<Dataset>> dataset = DatasetOfRows(environment_, {&rows, 1}, account_);
    if (!dataset.ok()) {
      return dataset.status()
          .WithPrefix(Format("{}: the group of key {}", node().label(),
                             group.first.ToValue()->ToString()))
          .With("node", node().label())
          .With("index", number_);
    }
    return inners_.Make(KeyAndRows(group.first, std::move(dataset).value()), number_, options);
  }

  // Takes what is wanted of the current group's dataset.
  void Visit(const Demand& demand, const CallOptions& options, Slab* slab) {
    if (!held_.empty()) {
      held_.Pop(demand.max_rows, slab);
    } else {
      // What comes behind a bad row may be passed over after all.
      const bool one_by_one = !known_ && !demand.count_only && !demand.all_wanted;
      const int64_t most =
          demand.count_only ? demand.max_rows : std::min(demand.max_rows, kMaxSlabRows);
      current_->stage().Next(demand.OfInput(one_by_one ? 1 : most, demand.Horizon()), options,
                             slab);
    }
    if (!known_ && !demand.count_only) HoldBadRow(demand, slab);
    if (!std::exchange(slab->end, false)) return;
    inners_.End(std::exchange(current_, nullptr));
    held_.Clear();
  }

  // A row that is another than all others has failed; those behind it come later.
  void HoldBadRow(const Demand& demand, Slab* slab) {
    Status status;
    const int64_t good = spec_.CheckRows(*slab, &status);
    if (good == slab->rows) return;
    held_.Prepend(*slab, good + (demand.tentative ? 0 : 1));
    *slab = slab->Slice(0, good);
    if (!demand.tentative) {
      slab->status = std::move(status);
    } else if (good == 0) {
      slab->status = Undecided(node());
    }
  }

  Clock& clock_;
  const Ref<DatasetEnvironment> environment_;
  MemoryAccount* const account_;
  InputRows rows_;
  FunctionRows keys_;
  std::optional<FunctionRows> sizes_;  // none where all groups are of one size
  InnerStages inners_;
  InnerSpec spec_;
  KeyGroups groups_;
  HeldBytes kept_;
  InnerStages::Inner* current_ = nullptr;  // of the group that is read out
  bool known_ = false;                     // its elements need not be looked at
  HeldRows held_;                          // what has been made of them and comes next
  int64_t index_ = 0;                      // of the input's next element
  int64_t number_ = 0;                     // of the next group
  bool ended_ = false;                     // the input
};

Status CheckRowFunction(const Node& node, size_t function, std::string_view name) {
  if (node.function(function).granularity() != Granularity::kSlab) return OkStatus();
  return InvalidArgument(
      "{}: {} takes many rows at once, and is called for one group; give a function of one row",
      node.label(), name);
}

// INVALID_ARGUMENT unless the function gives an integer scalar as far as that is known.
Status CheckGivesInteger(const Node& node, size_t function, std::string_view name,
                         const ElementSpec* input) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<const ElementSpec> output,
                         node.function(function).OutputSpec(input));
  if (!output) return OkStatus();
  if (output->tree().is_leaf() && output->leaf(0).is_tensor() &&
      IsInteger(output->leaf(0).dtype) &&
      output->leaf(0).shape.IsCompatibleWith(PartialShape::Scalar())) {
    return OkStatus();
  }
  return InvalidArgument("{}: {} must give an integer scalar, and gives {}", node.label(), name,
                         output->ToString());
}

Status CheckGroupByWindow(const Node& node) {
  const bool has_size = node.attributes().Find("window_size") != nullptr;
  const bool has_function = node.functions().size() > kWindowSizeFunc;
  if (has_size == has_function) {
    return InvalidArgument(
        "{}: exactly one of window_size and window_size_func must be given, and {}; give the size "
        "of all windows, or a function from a key to the size of its windows",
        node.label(), has_size ? "both are" : "none is");
  }
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, has_function ? 3 : 2));
  if (has_size) TUTTI_RETURN_IF_ERROR(CheckInt(node, "window_size", 1, kLastIndex));
  TUTTI_RETURN_IF_ERROR(CheckSeed(node));
  TUTTI_RETURN_IF_ERROR(CheckGivesInteger(node, kKeyFunc, "key_func",
                                          node.input().element_spec().get()));
  TUTTI_RETURN_IF_ERROR(CheckRowFunction(node, kReduceFunc, "reduce_func"));
  if (has_function) {
    TUTTI_RETURN_IF_ERROR(CheckRowFunction(node, kWindowSizeFunc, "window_size_func"));
    TUTTI_RETURN_IF_ERROR(CheckGivesInteger(node, kWindowSizeFunc, "window_size_func", nullptr));
  }
  return GroupByWindowSpec(node).status();
}

int64_t GroupByWindowCardinality(const Node& node) {
  return node.input().cardinality() == kInfiniteCardinality ? kInfiniteCardinality
                                                            : kUnknownCardinality;
}

// A dataset of one row that says of its elements what the input says of its own, as groups of other
// rows may have other shapes. It is never written, and runs nowhere but to learn a spec.
constinit const OpTraits kFirstRowOp = {
    .name = "from_elements",
    .attributes = {{"value"}, {"spec"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .cardinality = [](const Node&) { return int64_t{1}; },
    .element_spec = [](const Node& node) -> Result<Ref<const ElementSpec>> {
      return *node.attributes().Get<Ref<const ElementSpec>>("spec");
    },
    .make_stage = [](const Node& node, const ExecContext& context, StageInputs inputs) {
      return kFromElementsOp.make_stage(node, context, std::move(inputs));
    },
};

// What reduce_func gives for a group of this element alone.
Result<Ref<const Dataset>> LookAtGroup(const Node& node, const ExecContext& context,
                                       const Ref<Value>& element, const CallOptions& options) {
  FunctionRows keys(node, context, nullptr);
  TUTTI_ASSIGN_OR_RETURN(const Ref<Value> given, keys.CallValue(*element, 0, options));
  GroupKey key;
  TUTTI_RETURN_IF_ERROR(ReadInteger(*given, "key_func", &key.value, &key.is_unsigned));
  const Ref<const ElementSpec> spec = node.input().element_spec();
  Attributes attributes;
  attributes.Set("value", Ref<const Value>(Value::List({element})));
  attributes.Set("spec", spec ? spec : ElementSpec::OfValue(*element));
  TUTTI_ASSIGN_OR_RETURN(Ref<const Node> row,
                         Node::Create(kFirstRowOp, "", std::move(attributes), {}));
  const Ref<Value> group = KeyAndRows(
      key, Dataset::OfNode(Ref<DatasetEnvironment>::Retain(context.environment), std::move(row),
                           {}));
  FunctionRows function(node, context, nullptr, {kReduceFunc, NameOfGroup});
  return LookAtDataset(&function, *group, options);
}

Result<std::unique_ptr<Stage>> MakeGroupByWindow(const Node& node, const ExecContext& context,
                                                 StageInputs inputs) {
  return std::unique_ptr<Stage>(
      std::make_unique<GroupByWindowStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kGroupByWindowOp = {
    .name = "group_by_window",
    .attributes = {{"window_size"}, {"seed"}, {"seed_given", true}, {"seed_by_element"}},
    .row_ratio = RowRatio::kExpanding,
    .determinism = Determinism::kSeeded,
    .serializability = Serializability::kWithFunctions,
    .check = CheckGroupByWindow,
    .cardinality = GroupByWindowCardinality,
    .element_spec = GroupByWindowSpec,
    .look_at_dataset = LookAtGroup,
    .make_stage = MakeGroupByWindow,
};

}  // namespace tutti
