// A failure that comes with the rows before it, for whoever passes over those rows: it is the next
// element's, and is neither lost nor counted with them.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/ops/op_parts.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// Its input's elements, of which the fourth fails; the failure comes with the rows before it, but
// not with a single one: so whoever asks row by row, and later passes over many at once, meets it
// in other company.
class FailsWithRowsStage final : public Stage {
 public:
  FailsWithRowsStage(const Node& node, StageInputs inputs) : Stage(node, std::move(inputs)) {}
  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    Demand wanted = demand;
    if (at_ < kFailing) wanted.max_rows = std::min(wanted.max_rows, kFailing - at_);
    if (at_ != kFailing) {
      input().Next(wanted, options, slab);
      at_ += slab->rows;
      if (at_ != kFailing || slab->rows == 1) return;
    }
    Slab failed;
    input().Next(Demand{1, true}, options, &failed);
    ++at_;
    slab->status = DataLoss("the fourth");
  }
  Status Save(StateWriter* writer) override {
    writer->Section("fails with rows");
    writer->Int(at_);
    return Stage::Save(writer);
  }
  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("fails with rows");
    at_ = reader->Int();
    return Stage::Restore(reader, options);
  }

 private:
  static constexpr int64_t kFailing = 3;
  int64_t at_ = 0;
};

Result<std::unique_ptr<Stage>> MakeFailsWithRows(const Node& node, const ExecContext&,
                                                 StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<FailsWithRowsStage>(node, std::move(inputs)));
}

constinit const OpTraits kFailsWithRowsOp = {
    .name = "fails_with_rows",
    .can_seek = true,
    .passes_elements = true,
    .cardinality = CardinalityOfInput,
    .element_spec = SpecOfInput,
    .make_stage = MakeFailsWithRows,
};

class FailureBehind : public DatasetTest {
 protected:
  // 0, 1, 2, a failure, 4, 5.
  Ref<Dataset> Failing() {
    const Ref<Dataset> input = Range(6);
    return Dataset::OfNode(
        input->environment(),
        Node::Create(kFailsWithRowsOp, "", Attributes(), {input->node_ref()}).value(),
        input->options());
  }
  // From each position, also twice restored, the rest is what it was.
  static void ExpectTheRestEverywhere(const Ref<Dataset>& dataset) {
    const std::vector<std::string> all = All(dataset);
    ASSERT_EQ(all.size(), 6u);
    EXPECT_THAT(all[3], HasSubstr("the fourth"));
    const Ref<Iterator> iterator = Iterate(dataset);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string state = iterator->Save(CallOptions()).value();
      const Ref<Iterator> other = Iterate(dataset);
      ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
      const std::string again = other->Save(CallOptions()).value();
      const std::vector<std::string> rest(all.begin() + static_cast<ptrdiff_t>(i), all.end());
      EXPECT_EQ(All(*other), rest) << "behind " << i;
      ASSERT_TRUE(other->Restore(again, CallOptions()).ok());
      EXPECT_EQ(Next(*other), all[i]) << "behind " << i << ", restored again";
      const std::string behind = other->Save(CallOptions()).value();
      ASSERT_TRUE(other->Restore(behind, CallOptions()).ok());
      EXPECT_EQ(All(*other), std::vector<std::string>(rest.begin() + 1, rest.end()))
          << "behind " << i << " and one more";
      EXPECT_EQ(Next(*iterator), all[i]);
    }
  }
};

TEST_F(FailureBehind, IsHandedToWhoPassesOverTheRowsBeforeIt) {
  const Ref<Dataset> dataset = Failing();
  const ExecContext context{datasets_.get(), &environment_->memory(), &dataset->options(), true};
  for (int64_t count : {2, 3, 4, 5}) {
    const std::unique_ptr<Stage> stage = MakeStage(dataset->node(), context).value();
    int64_t passed = 0;
    Status behind;
    ASSERT_TRUE(PassOver(*stage, count, CallOptions(), &passed, &behind).ok());
    EXPECT_EQ(passed, count);
    EXPECT_EQ(behind.ok(), count != 3) << count;
  }
}

TEST_F(FailureBehind, ComesBehindARestoredPrefetch) {
  ExpectTheRestEverywhere(Ok(Failing()->Prefetch(2)));
}

TEST_F(FailureBehind, ComesBehindTheRestoredInputOfAnInterleave) {
  const Ref<TestFunction> one = MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        return Value::OfLeaf(Leaf(LeafKind::kDataset,
                                  Dataset::Range(*static_cast<const Ref<DatasetEnvironment>*>(data),
                                                 NumberIn(in), NumberIn(in) + 1, 1)
                                      .value()));
      },
      {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)});
  ExpectTheRestEverywhere(Ok(Failing()->Interleave(one, 1, 1, 1)));
}

TEST_F(FailureBehind, ComesBehindARestoredDatasetOfAnInterleave) {
  Ref<Dataset> failing = Failing();
  const Ref<TestFunction> gives = MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        return Value::OfLeaf(Leaf(LeafKind::kDataset, *static_cast<Ref<Dataset>*>(data)));
      },
      {.data = &failing});
  ExpectTheRestEverywhere(Ok(Range(1)->Interleave(gives, 1, 1, 1)));
}

}  // namespace
}  // namespace tutti
