// Datasets in values of datasets: each is looked at and written once, however often it stands
// there.
#include <gmock/gmock.h>

#include <string>
#include <string_view>

#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/testing/dataset_testing.h"
#include "tutti/v1/dataset.pb.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kDefinition = "TUTTI-D1";

class NestedDatasets : public DatasetTest {
 protected:
  static Ref<Value> ValueOf(const Ref<Dataset>& dataset) {
    return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
  }
  // One whose only element has the dataset below twice, and so on.
  Ref<Dataset> Doubled(int levels) {
    Ref<Dataset> dataset = Range(3);
    for (int i = 0; i < levels; ++i) {
      const Ref<Value> twice = Value::Tuple({ValueOf(dataset), ValueOf(dataset)});
      dataset = Ok(Dataset::FromTensors(datasets_, twice));
    }
    return dataset;
  }
  Ref<Dataset> Read(std::string_view bytes) { return Ok(Dataset::Deserialize(datasets_, bytes)); }
};

TEST_F(NestedDatasets, AreWrittenOnceHoweverOftenTheyStandThere) {
  const Ref<Dataset> dataset = Doubled(28);
  const std::string bytes = dataset->Serialize().value();
  EXPECT_LT(bytes.size(), 10'000u);
  const Ref<Dataset> read = Read(bytes);
  EXPECT_EQ(read->Serialize().value(), bytes);
  EXPECT_EQ(GraphFingerprint(read->node()).value(), GraphFingerprint(dataset->node()).value());
  EXPECT_EQ(ContentFingerprint(read->node(), read->node(), {}).value(),
            ContentFingerprint(dataset->node(), dataset->node(), {}).value());
  // Down to the numbers.
  Ref<const Dataset> level = read;
  for (int i = 0; i < 28; ++i) {
    const Ref<Iterator> iterator = Iterate(Ref<Dataset>::Retain(const_cast<Dataset*>(level.get())));
    const Ref<Value> element = iterator->Next(CallOptions()).value();
    EXPECT_EQ(element->leaf(0).object_as<const Dataset>(),
              element->leaf(1).object_as<const Dataset>());
    level = Ref<const Dataset>::Retain(element->leaf(1).object_as<const Dataset>());
  }
  EXPECT_EQ(Numbers(Ref<Dataset>::Retain(const_cast<Dataset*>(level.get()))).size(), 3u);
}

TEST_F(NestedDatasets, ThatAreTooDeepAreSaidToBe) {
  const Status deep = Doubled(60)->Serialize().status();
  EXPECT_EQ(deep.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(deep.message()), HasSubstr("a definition holds at most 32"));
}

TEST_F(NestedDatasets, OfTwoOperationsShareWhatIsWritten) {
  const Ref<Dataset> inner = Range(1000);
  const auto holds = [&] { return Ok(Dataset::FromTensors(datasets_, ValueOf(inner))); };
  const std::string both = Ok(holds()->Concatenate(*holds()))->Serialize().value();
  EXPECT_EQ(Read(both)->Serialize().value(), both);
  EXPECT_LT(both.size(), 2 * holds()->Serialize().value().size());
}

TEST_F(NestedDatasets, ThatAreToBeOthersWhichAreNotThereAreRefused) {
  const std::string bytes = Doubled(1)->Serialize().value();
  std::string_view content;
  ASSERT_EQ(OpenEnvelope(kDefinition, bytes, &content), nullptr);
  v1::DatasetDef def;
  ASSERT_TRUE(def.ParseFromArray(content.data(), static_cast<int>(content.size())));
  v1::LeafDef* const second =
      def.mutable_nodes(0)->mutable_attributes(0)->mutable_element()->mutable_leaves(1);
  ASSERT_EQ(second->same_as(), 1);
  for (const int32_t wrong : {2, -1, 1'000'000'000}) {
    second->set_same_as(wrong);
    const Status refused =
        Dataset::Deserialize(datasets_, SealEnvelope(kDefinition, def.SerializeAsString()))
            .status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("one that does not come before it"));
  }
}

}  // namespace
}  // namespace tutti
