// An operation for tests whose stage throws std::bad_alloc where it is told to, as any stage may
// when memory runs out.
#ifndef TUTTI_CORE_DATASET_TESTING_THROWING_STAGE_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_THROWING_STAGE_TESTING_H_

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {

// Passes its input's elements on, one at a time, and throws in one of the calls that are told apart
// as "make", "next", "save" and "restore".
class ThrowingStage final : public Stage {
 public:
  ThrowingStage(const Node& node, StageInputs inputs) : Stage(node, std::move(inputs)) {
    ThrowAt("make");
  }
  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    ThrowAt("next");
    input().Next(demand.OfInput(1, 1), options, slab);
  }
  Status Save(StateWriter* writer) override {
    ThrowAt("save");
    return Stage::Save(writer);
  }
  Status Restore(StateReader* reader, const CallOptions& options) override {
    ThrowAt("restore");
    return Stage::Restore(reader, options);
  }

 private:
  void ThrowAt(std::string_view what) {
    if (what == *node().attributes().Get<std::string>("what") &&
        calls_++ == node().attributes().Int("at")) {
      throw std::bad_alloc();
    }
  }

  int64_t calls_ = 0;
};

inline Result<std::unique_ptr<Stage>> MakeThrowingStage(const Node& node, const ExecContext&,
                                                        StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<ThrowingStage>(node, std::move(inputs)));
}

inline constinit const OpTraits kThrowingOp = {
    .name = "throwing",
    .attributes = {{"what"}, {"at"}},
    .can_seek = true,
    .passes_elements = true,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeThrowingStage,
};

// Throws in the call number `at` of `what`, which each stage counts from 0 on.
inline Ref<Dataset> Throwing(const Dataset& input, std::string_view what, int64_t at) {
  Attributes attributes;
  attributes.Set("what", std::string(what));
  attributes.Set("at", at);
  Result<Ref<const Node>> node =
      Node::Create(kThrowingOp, "", std::move(attributes), {input.node_ref()});
  return Dataset::OfNode(input.environment(), std::move(node).value(), input.options());
}

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_THROWING_STAGE_TESTING_H_
