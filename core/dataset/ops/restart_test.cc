// A restart that is interrupted is made again, and that is one pass: what is drawn anew in each
// pass is as if nobody had interrupted.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

// Passes its input's elements on; every restart is interrupted `times` times.
class HesitatingStage final : public Stage {
 public:
  HesitatingStage(const Node& node, StageInputs inputs) : Stage(node, std::move(inputs)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    input().Next(demand, options, slab);
  }
  Status Restart(const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Stage::Restart(options));
    if (interrupted_++ < node().attributes().Int("times")) return Cancelled("not now");
    interrupted_ = 0;
    return OkStatus();
  }

 private:
  int64_t interrupted_ = 0;
};

constinit const OpTraits kHesitatingOp = {
    .name = "hesitating",
    .attributes = {{"times"}},
    .can_seek = true,
    .passes_elements = true,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = [](const Node& node, const ExecContext&,
                     StageInputs inputs) -> Result<std::unique_ptr<Stage>> {
      return std::unique_ptr<Stage>(std::make_unique<HesitatingStage>(node, std::move(inputs)));
    },
};

class Restart : public DatasetTest {
 protected:
  // What three passes of `above` over the numbers below 12 give.
  std::vector<std::string> ThreePasses(
      const std::function<Result<Ref<Dataset>>(const Dataset&)>& above, int64_t times) {
    environment_->SetDefaultSeed(11);
    Attributes attributes;
    attributes.Set("times", times);
    const Ref<Dataset> numbers = Range(12);
    Result<Ref<const Node>> node =
        Node::Create(kHesitatingOp, "", std::move(attributes), {numbers->node_ref()});
    const Ref<Dataset> below =
        Dataset::OfNode(numbers->environment(), std::move(node).value(), numbers->options());
    const Ref<Iterator> iterator = Iterate(Ok(Ok(above(*below))->Repeat(3)));
    std::vector<std::string> all;
    int64_t interruptions = 0;
    for (std::string next = Next(*iterator); next != "."; next = Next(*iterator)) {
      if (next.find("not now") == std::string::npos) {
        all.push_back(std::move(next));
      } else {
        ++interruptions;
      }
    }
    Close(*iterator);
    EXPECT_EQ(interruptions, 2 * times);
    return all;
  }
  void ExpectOnePassEach(const std::function<Result<Ref<Dataset>>(const Dataset&)>& above) {
    const std::vector<std::string> calm = ThreePasses(above, 0);
    const auto pass = static_cast<std::ptrdiff_t>(calm.size() / 3);
    // The passes differ, or nothing would be seen here.
    EXPECT_NE(std::vector(calm.begin(), calm.begin() + pass),
              std::vector(calm.begin() + pass, calm.begin() + 2 * pass));
    EXPECT_EQ(ThreePasses(above, 1), calm);
    EXPECT_EQ(ThreePasses(above, 3), calm);
  }

  // x -> the numbers from x to x + 5 in a random order.
  Ref<TestFunction> ShuffledFrom() {
    return MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(
              const Ref<Dataset> numbers,
              Dataset::Range(*static_cast<const Ref<DatasetEnvironment>*>(data), NumberIn(in),
                             NumberIn(in) + 5, 1));
          TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, numbers->Shuffle(5));
          return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
        },
        {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)});
  }
};

TEST_F(Restart, OfShuffleIsOneEpoch) {
  ExpectOnePassEach([](const Dataset& numbers) { return numbers.Shuffle(12); });
}

TEST_F(Restart, OfInterleaveIsOnePass) {
  const Ref<TestFunction> shuffled = ShuffledFrom();
  ExpectOnePassEach([&](const Dataset& numbers) { return numbers.Interleave(shuffled, 3); });
}

TEST_F(Restart, OfAParallelInterleaveIsOnePass) {
  const Ref<TestFunction> shuffled = ShuffledFrom();
  ExpectOnePassEach([&](const Dataset& numbers) { return numbers.Interleave(shuffled, 3, 1, 3); });
}

TEST_F(Restart, OfGroupByWindowIsOnePass) {
  const Ref<TestFunction> odd =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Number(NumberIn(in) % 2);
      });
  const Ref<TestFunction> shuffled =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, in.leaf(1).object_as<Dataset>()->Shuffle(6));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
      });
  ExpectOnePassEach(
      [&](const Dataset& numbers) { return numbers.GroupByWindow(odd, shuffled, 6); });
}

}  // namespace
}  // namespace tutti
