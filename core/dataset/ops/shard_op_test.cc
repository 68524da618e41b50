// What shards see of failures: each has its element's shard, but none takes an input that broke off
// for one that ended.
#include <gmock/gmock.h>

#include <vector>

#include "core/dataset/records/tf_record.h"
#include "core/dataset/shard/auto_shard.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using Strings = std::vector<std::string>;

Result<Ref<Value>> Same(Context&, const Value& in, void*) {
  return Value::OfTensor(in.leaf(0).tensor_ref());
}

Ref<const ElementSpec> BytesScalar() {
  return ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
}

class ShardOfRecords : public RecordFileDatasetTest {
 protected:
  static Ref<Dataset> Ok(Result<Ref<Dataset>> dataset) {
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return dataset.ok() ? std::move(dataset).value() : nullptr;
  }
  Ref<Dataset> Read(const Strings& paths) { return Ok(MakeTfRecordDataset(datasets_, paths, {})); }
  std::string File(const std::string& name, const Strings& records) {
    return folder_.Write(name, TfRecordFrames(records));
  }
  // Two good records, then one whose bytes differ from what was written: byte `at` of its frame.
  std::string Damaged(const std::string& name, size_t at, const Strings& behind) {
    Strings records = {"one", "two", "bad"};
    records.insert(records.end(), behind.begin(), behind.end());
    std::string bytes = TfRecordFrames(records);
    bytes[2 * 19 + at] ^= 1;
    return folder_.Write(name, bytes);
  }
  // What iterators over `dataset` give element by element and by the slab, which is the same, also
  // from each place on.
  static Strings Outcomes(const Ref<Dataset>& dataset) {
    const Strings all = All(dataset);
    ExpectResumesEverywhere(dataset);
    const Ref<Iterator> iterator = Iterate(dataset);
    Strings by_slab;
    Slab slab;
    while (!slab.end && by_slab.size() < 100) {
      EXPECT_TRUE(iterator->NextSlab(5, CallOptions(), &slab).ok());
      for (int64_t i = 0; i < slab.rows; ++i) {
        by_slab.emplace_back((*slab.Row(i))->leaf().tensor().item<BytesView>().text());
      }
      if (!slab.status.ok()) by_slab.emplace_back("!");
    }
    EXPECT_EQ(by_slab, all);
    return all;
  }
};

TEST_F(ShardOfRecords, AMissingFileReachesEveryShard) {
  const Ref<Dataset> records = Read({File("good", {"0", "1"}), folder_.Path("missing")});
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 0))), ElementsAre("0", "!"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 1))), ElementsAre("1", "!"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 2))), ElementsAre("!"));
}

TEST_F(ShardOfRecords, AMissingFileBeforeAnotherReachesEveryShardAndHasOnePlace) {
  const Ref<Dataset> records =
      Read({folder_.Path("missing"), File("good", {"1", "2", "3", "4", "5"})});
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 0))), ElementsAre("!", "3"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 1))), ElementsAre("!", "1", "4"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(3, 2))), ElementsAre("!", "2", "5"));
}

TEST_F(ShardOfRecords, ADamagedLengthReachesEveryShard) {
  const Ref<Dataset> records = Read({Damaged("bad", 0, {"lost", "lost"}), File("good", {"3"})});
  std::vector<Status> errors;
  EXPECT_THAT(All(Ok(records->Shard(2, 1)), &errors), ElementsAre("two", "!", "3"));
  EXPECT_EQ(errors[0].code(), StatusCode::kDataLoss);
  EXPECT_THAT(Outcomes(Ok(records->Shard(2, 0))), ElementsAre("one", "!"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(2, 1))), ElementsAre("two", "!", "3"));
}

TEST_F(ShardOfRecords, ADamagedRecordIsTheFailureOfItsShardOnly) {
  const Ref<Dataset> records = Read({Damaged("bad", 12, {"three", "four"})});
  EXPECT_THAT(Outcomes(Ok(records->Shard(2, 0))), ElementsAre("one", "!", "four"));
  EXPECT_THAT(Outcomes(Ok(records->Shard(2, 1))), ElementsAre("two", "three"));
  const Ref<Dataset> last = Read({Damaged("last", 12, {})});
  EXPECT_THAT(Outcomes(Ok(last->Shard(2, 0))), ElementsAre("one", "!"));
  EXPECT_THAT(Outcomes(Ok(last->Shard(2, 1))), ElementsAre("two"));
}

TEST_F(ShardOfRecords, ALostFileIsSeenThroughTheStagesBetween) {
  const Ref<Dataset> records = Read({File("good", {"0", "1"}), folder_.Path("missing")});
  const auto same = [] { return MakeFunction(Same, {.spec = BytesScalar()}); };
  const Ref<Dataset> mapped = Ok(Ok(records->Map(same()))->Map(same()));
  EXPECT_THAT(Outcomes(Ok(mapped->Shard(3, 0))), ElementsAre("0", "!"));
  EXPECT_THAT(Outcomes(Ok(Ok(mapped->Prefetch(2))->Shard(3, 0))), ElementsAre("0", "!"));
  EXPECT_THAT(Outcomes(Ok(Ok(mapped->Cache())->Shard(3, 0))), ElementsAre("0", "!"));
  EXPECT_THAT(Outcomes(Ok(Ok(mapped->Shuffle(1))->Shard(3, 0))), ElementsAre("0", "!"));
  EXPECT_THAT(Outcomes(Ok(Ok(mapped->Shard(2, 0))->Shard(2, 0))), ElementsAre("0", "!"));
}

TEST_F(ShardOfRecords, HintsThatAreReplacedSeeLostFilesToo) {
  const Ref<Dataset> records = Read({File("good", {"0", "1"}), folder_.Path("missing")});
  const Ref<Dataset> hinted = Ok(records->Shard(kShardHint, kShardHint));
  EXPECT_THAT(Outcomes(hinted), ElementsAre("0", "1", "!"));
  const Strings wanted[] = {{"0", "!"}, {"1", "!"}, {"!"}};
  for (int64_t worker = 0; worker < 3; ++worker) {
    const Result<ShardedDataset> part =
        AutoShard(*hinted, AutoShardPolicy::kHint, 3, worker, CallOptions());
    ASSERT_TRUE(part.ok()) << part.status().ToString();
    EXPECT_EQ(Outcomes(part->dataset), wanted[worker]) << part->explanation;
  }
}

TEST_F(ShardOfRecords, AZipThatPassesOverElementsReportsALostFile) {
  // Place 0 fails in the first input; the second, which is to pass over it, lacks its first file.
  const std::string bad = folder_.Write("bad", [] {
    std::string bytes = TfRecordFrames({"bad", "a", "b"});
    bytes[12] ^= 1;
    return bytes;
  }());
  const Ref<Value> both = Value::Tuple(
      {Value::OfLeaf(Leaf(LeafKind::kDataset, Read({bad}))),
       Value::OfLeaf(Leaf(LeafKind::kDataset,
                          Read({folder_.Path("missing"), File("good", {"1", "2"})})))});
  const Ref<Iterator> iterator = Iterate(Ok(Dataset::Zip(datasets_, *both)));
  EXPECT_EQ(iterator->Next(CallOptions()).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(iterator->Next(CallOptions()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ((*iterator->Next(CallOptions()))->ToString(), "(\"a\", \"1\")");
}

// ---- A source of the host's ----

using ShardOfElements = DatasetTest;

TEST_F(ShardOfElements, AGeneratorThatBrokeOffIsNotOneThatEnded) {
  const Ref<TestFunction> start =
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Vector<int64_t>({0}));
      });
  // 0, and then it raises.
  const Ref<TestFunction> next =
      MakeFunction([](Context&, const Value& state, void*) -> Result<Ref<Value>> {
        auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
        const int64_t number = (*at)++;
        if (number == 1) return Status(StatusCode::kUnknown, "raised");
        return number == 0 ? Number(number) : Value::None();
      });
  const Ref<Dataset> dataset =
      Ok(Dataset::FromGenerator(datasets_, start, next, Int64Scalar(), "broken"));
  const std::string error = "!from_generator 'broken': element 1: raised";
  EXPECT_THAT(All(Ok(dataset->Shard(2, 0))), ElementsAre("0", error));
  EXPECT_THAT(All(Ok(dataset->Shard(2, 1))), ElementsAre(error));
  EXPECT_THAT(All(Ok(dataset->Shard(3, 2))), ElementsAre(error));
}

}  // namespace
}  // namespace tutti
