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
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

class PassingStage : public Stage {
 public:
  PassingStage(const Node& node, StageInputs inputs) : Stage(node, std::move(inputs)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    input().Next(demand, options, slab);
  }
};

template <typename S>
Result<std::unique_ptr<Stage>> MakePassing(const Node& node, const ExecContext&,
                                           StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<S>(node, std::move(inputs)));
}

// Every restart is interrupted `times` times.
class HesitatingStage final : public PassingStage {
 public:
  using PassingStage::PassingStage;

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
    .make_stage = MakePassing<HesitatingStage>,
};

// The first `joins_refused` times it is joined it does not end.
int64_t joins_refused = 0;

class LingeringStage final : public PassingStage {
 public:
  using PassingStage::PassingStage;

  Status Join(const CallOptions& options) override {
    if (joins_refused > 0) {
      --joins_refused;
      return Cancelled("not now");
    }
    return Stage::Join(options);
  }
};

constinit const OpTraits kLingeringOp = {
    .name = "lingering",
    .can_seek = true,
    .passes_elements = true,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakePassing<LingeringStage>,
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

// What is read is restarted; what writes has nothing to join.
TEST_F(Restart, OfASnapshotThatIsReadIsOnePass) {
  ASSERT_TRUE(
      functions_
          ->Register("itself", MakeFunction([](Context&, const Value& in, void*) {
                       return Result<Ref<Value>>(Value::OfLeaf(in.leaf()));
                     }))
          .ok());
  // All shards in a random order.
  ASSERT_TRUE(
      functions_
          ->Register("read",
                     MakeFunction(
                         [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
                           const auto& functions = *static_cast<Ref<FunctionRegistry>*>(data);
                           TUTTI_ASSIGN_OR_RETURN(const Ref<Function> itself,
                                                  functions->Find("itself"));
                           TUTTI_ASSIGN_OR_RETURN(
                               const Ref<Dataset> flat,
                               in.leaf().object_as<Dataset>()->FlatMap(itself));
                           TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> mixed, flat->Shuffle(12));
                           TUTTI_ASSIGN_OR_RETURN(
                               Ref<const Node> node,
                               Node::Create(kLingeringOp, "", Attributes(), {mixed->node_ref()}));
                           return Value::OfLeaf(
                               Leaf(LeafKind::kDataset,
                                    Dataset::OfNode(mixed->environment(), std::move(node), {})));
                         },
                         {.data = const_cast<Ref<FunctionRegistry>*>(&functions_)}))
          .ok());
  const auto three_passes = [&](int64_t times) {
    const TempFolder folder;
    environment_->SetDefaultSeed(11);
    SnapshotOptions options;
    options.reader_func = functions_->Find("read").value();
    const Ref<Iterator> iterator =
        Iterate(Ok(Ok(Range(12)->Snapshot(folder.path(), options))->Repeat(3)));
    joins_refused = times;
    std::vector<std::string> all;
    int64_t interruptions = 0;
    for (std::string next = Next(*iterator); next != "."; next = Next(*iterator)) {
      if (next.find("not now") != std::string::npos) {
        ++interruptions;
        continue;
      }
      all.push_back(std::move(next));
    }
    Close(*iterator);
    EXPECT_EQ(interruptions, times);
    return all;
  };
  const std::vector<std::string> calm = three_passes(0);
  ASSERT_EQ(calm.size(), 36u);
  EXPECT_NE(std::vector(calm.begin() + 12, calm.begin() + 24),
            std::vector(calm.begin() + 24, calm.end()));
  EXPECT_EQ(three_passes(1), calm);
  EXPECT_EQ(three_passes(3), calm);
}

}  // namespace
}  // namespace tutti
