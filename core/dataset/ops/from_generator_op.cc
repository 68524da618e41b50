// from_generator: elements that the host makes one by one, converted to the dtypes that were
// declared. A position is found again by making and
// dropping the elements before it.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"
#include "core/function/function.h"

namespace tutti {
namespace {

const ElementSpec& SpecOf(const Node& node) {
  return **node.attributes().Get<Ref<const ElementSpec>>("spec");
}

// The host's code may wait between two elements: what there is is handed on soon.
constexpr int64_t kRowsAtOnce = 64;

class GeneratorStage final : public Stage {
 public:
  GeneratorStage(const Node& node, const ExecContext& context)
      : Stage(node, {}), environment_(context.environment->environment()) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    std::vector<std::vector<Leaf>> columns(SpecOf(node()).num_leaves());
    Status status;
    const int64_t wanted = std::min(demand.max_rows, kRowsAtOnce);
    while (!ended_ && slab->rows < wanted) {
      status = CheckCallOptions(options, environment_.clock(), node().label());
      if (!status.ok()) break;
      Ref<Value> element;
      status = MakeElement(options, &element);
      if (!status.ok() || !element) break;
      ++slab->rows;
      for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(element->leaf(i));
    }
    if (slab->rows > 0) {
      slab->tree = SpecOf(node()).tree_ref();
      for (std::vector<Leaf>& column : columns) {
        slab->columns.push_back(Column::Rows(std::move(column)));
      }
    }
    if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
    slab->end = ended_ && slab->status.ok();
  }

  Status Restart(const CallOptions&) override {
    state_.reset();
    position_ = 0;
    ended_ = false;
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("generator");
    writer->Int(position_);
    writer->Int(ended_ ? 1 : 0);
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Restart(options));
    reader->Section("generator");
    const int64_t position = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    const bool ended = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    while (position_ < position && !ended) {
      TUTTI_RETURN_IF_ERROR(CheckCallOptions(options, environment_.clock(), node().label()));
      Ref<Value> element;
      const Status status = MakeElement(options, &element);
      if (IsInterruption(status)) return status;
      if (ended_) {
        return FailedPrecondition(
            "restore: {} ended after {} elements, and had {} when the state "
            "was saved",
            node().label(), position_, position);
      }
    }
    position_ = position;
    ended_ = ended;
    return OkStatus();
  }

 private:
  Status Raised(const Status& status, const CallOptions& options) {
    return WithLoss(Fail(status, options), Loss::kPerhapsRest);
  }

  Status Fail(const Status& status, const CallOptions& options) {
    Status failure = status.WithPrefix(Format("{}: element {}", node().label(), position_))
                         .With("node", node().label())
                         .With("index", position_);
    const bool interrupted = !CheckCallOptions(options, environment_.clock(), node().label()).ok();
    if (IsInterruption(failure)) {
      // The host's generator stopped because the call did: the element is still to come.
      if (interrupted) return failure;
      Status own(StatusCode::kAborted, std::string(failure.message()));
      if (failure.host_object() != nullptr) {
        own = std::move(own).WithHostObject(Ref<const HostData>::Retain(failure.host_object()));
      }
      failure = std::move(own).With("node", node().label()).With("index", position_);
    }
    ++position_;
    return failure;
  }

  Status Call(size_t function, Context& context, const Value& in, Ref<Value>* out) {
    return CatchExceptions("the generator",
                           [&] { return node().function(function).Call(context, in, out); });
  }

  // Null at the end. A failed element counts.
  Status MakeElement(const CallOptions& options, Ref<Value>* element) {
    ContextFields fields;
    fields.options = options;
    Context context(environment_, fields);
    if (!state_) {
      const Ref<Value> none = Value::None();
      const Status started = Call(0, context, *none, &state_);
      // The next element meets it again.
      if (!started.ok()) return WithLoss(Fail(started, options), Loss::kMany);
    }
    Ref<Value> made;
    const Status status = Call(1, context, *state_, &made);
    if (!status.ok()) return Raised(status, options);
    if (!made || (made->is_leaf() && made->leaf().is_none())) {
      ended_ = true;
      state_.reset();
      return OkStatus();
    }
    Result<Ref<Value>> fitted = SpecOf(node()).Fit(std::move(made), "the generated value");
    if (!fitted.ok()) return Fail(fitted.status(), options);
    ++position_;
    *element = std::move(fitted).value();
    return OkStatus();
  }

  Environment& environment_;
  Ref<Value> state_;  // what start gave; null before the first element
  int64_t position_ = 0;
  bool ended_ = false;
};

Status CheckGenerator(const Node& node) {
  TUTTI_RETURN_IF_ERROR(CheckFunctions(node, 2));
  return CheckSpec(node, "spec");
}

int64_t GeneratorCardinality(const Node&) { return kUnknownCardinality; }

Result<Ref<const ElementSpec>> GeneratorSpec(const Node& node) {
  return Ref<const ElementSpec>::Retain(&SpecOf(node));
}

Result<std::unique_ptr<Stage>> MakeGenerator(const Node& node, const ExecContext& context,
                                             StageInputs) {
  return std::unique_ptr<Stage>(std::make_unique<GeneratorStage>(node, context));
}

}  // namespace

constinit const OpTraits kFromGeneratorOp = {
    .name = "from_generator",
    .attributes = {{"spec"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .determinism = Determinism::kHost,
    .serializability = Serializability::kNever,
    .check = CheckGenerator,
    .cardinality = GeneratorCardinality,
    .element_spec = GeneratorSpec,
    .make_stage = MakeGenerator,
};

Result<Ref<Dataset>> Dataset::FromGenerator(Environments environment, Ref<Function> start,
                                            Ref<Function> next, Ref<const ElementSpec> spec,
                                            std::string name) {
  Attributes attributes;
  attributes.Set("spec", std::move(spec));
  return Make(environment, "from_generator", std::move(name), std::move(attributes), {},
              {std::move(start), std::move(next)});
}

}  // namespace tutti
