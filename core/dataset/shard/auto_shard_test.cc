#include "core/dataset/shard/auto_shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/disk.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using Strings = std::vector<std::string>;

class WarningCounter final : public LogSink {
 public:
  void Write(const LogRecord& record) override { lines.emplace_back(record.message); }
  Strings lines;
};

class AutoShardTest : public RecordFileDatasetTest {
 protected:
  static Ref<Dataset> Ok(Result<Ref<Dataset>> dataset) {
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return dataset.ok() ? std::move(dataset).value() : nullptr;
  }

  // Files part-0 ... with two records "0.0", "0.1" each; their names.
  Strings WriteFiles(int count, const std::string& prefix = "part") {
    Strings paths;
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_.Write(Format("{}-{:02}", prefix, i),
                                    TfRecordFrames({Format("{}{}.0", prefix, i),
                                                    Format("{}{}.1", prefix, i)})));
    }
    return paths;
  }
  Ref<Dataset> ListFiles(const std::string& prefix = "part", ListFilesOptions options = {}) {
    return Ok(MakeListFilesDataset(datasets_, {folder_.Path(prefix + "-*")}, std::move(options)));
  }
  static ListFilesOptions Unshuffled() {
    ListFilesOptions options;
    options.shuffle = false;
    return options;
  }
  static Ref<Dataset> Read(const Ref<Dataset>& files) {
    return Ok(MakeTfRecordDataset(*files, {}));
  }
  // One element that holds all the names.
  Ref<Dataset> OneVector(const Strings& names) {
    std::vector<BytesView> views;
    for (const std::string& name : names) views.push_back({name.data(), name.size()});
    Result<Ref<Tensor>> tensor =
        Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views);
    EXPECT_TRUE(tensor.ok());
    return Ok(Dataset::FromTensors(datasets_, Value::OfTensor(std::move(tensor).value())));
  }

  static ShardedDataset Part(const Ref<Dataset>& dataset, AutoShardPolicy policy, int64_t workers,
                             int64_t worker) {
    Result<ShardedDataset> part = AutoShard(*dataset, policy, workers, worker, CallOptions());
    EXPECT_TRUE(part.ok()) << part.status().ToString();
    if (part.ok()) return std::move(part).value();
    ShardedDataset whole;
    whole.dataset = dataset;
    return whole;
  }
  static Status Failure(const Ref<Dataset>& dataset, AutoShardPolicy policy, int64_t workers,
                        int64_t worker) {
    return AutoShard(*dataset, policy, workers, worker, CallOptions()).status();
  }

  // Every worker gets something, and together they get each element of the dataset once.
  static void ExpectDealtOut(const Ref<Dataset>& dataset, AutoShardPolicy policy, int64_t workers) {
    Strings together;
    for (int64_t worker = 0; worker < workers; ++worker) {
      const ShardedDataset part = Part(dataset, policy, workers, worker);
      const Strings own = All(part.dataset);
      EXPECT_FALSE(own.empty()) << "worker " << worker << ": " << part.explanation;
      together.insert(together.end(), own.begin(), own.end());
    }
    Strings all = All(dataset);
    std::sort(together.begin(), together.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(together, all);
  }
};

Result<Ref<Value>> Same(Context&, const Value& in, void*) {
  return Value::OfTensor(in.leaf(0).tensor_ref());
}

TEST_F(AutoShardTest, FilesAreDealtOutOnceAndCompletelyForAnyNumberOfWorkers) {
  const Strings paths = WriteFiles(9);
  const Ref<Dataset> listed = Read(ListFiles());
  const Ref<Dataset> given = Ok(MakeTfRecordDataset(datasets_, paths, {}));
  const Ref<Dataset> vector = Read(OneVector(paths));
  const Ref<Dataset> batched = Read(Ok(ListFiles()->Batch(2)));
  for (const Ref<Dataset>& dataset : {listed, given, vector, batched}) {
    for (int64_t workers = 1; workers <= 9; ++workers) {
      SCOPED_TRACE(Format("{} workers\n{}", workers, dataset->Explain()));
      ExpectDealtOut(dataset, AutoShardPolicy::kFile, workers);
      ExpectDealtOut(dataset, AutoShardPolicy::kAuto, workers);
    }
  }
}

TEST_F(AutoShardTest, TextFilesAreDealtOutAsOthersAre) {
  Strings paths;
  for (int i = 0; i < 5; ++i) {
    paths.push_back(folder_.Write(Format("text-{}", i), Format("{}.0\r\n{}.1", i, i)));
  }
  const Ref<Dataset> given = Ok(MakeTextLineDataset(datasets_, paths, {}));
  const Ref<Dataset> listed = Ok(MakeTextLineDataset(*ListFiles("text", Unshuffled()), {}));
  for (const Ref<Dataset>& dataset : {given, listed}) {
    for (int64_t workers = 1; workers <= 5; ++workers) {
      ExpectDealtOut(dataset, AutoShardPolicy::kFile, workers);
      ExpectDealtOut(dataset, AutoShardPolicy::kAuto, workers);
    }
    const ShardedDataset part = Part(dataset, AutoShardPolicy::kAuto, 2, 1);
    EXPECT_EQ(part.policy, AutoShardPolicy::kFile);
    EXPECT_EQ(All(part.dataset), (Strings{"1.0", "1.1", "3.0", "3.1"}));
  }
}

TEST_F(AutoShardTest, ADatasetOfAsManyOpsAsAreAllowedCanBeSharded) {
  WriteFiles(4);
  Ref<Dataset> dataset = Read(ListFiles());
  for (Result<Ref<Dataset>> next = dataset; next.ok(); next = dataset->Take(-1)) dataset = *next;
  ASSERT_EQ(dataset->node().depth(), kMaxDepth);
  ExpectDealtOut(dataset, AutoShardPolicy::kFile, 2);
  ExpectDealtOut(dataset, AutoShardPolicy::kAuto, 2);
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kData, 2, 0);
  EXPECT_TRUE(WithSeed(*part.dataset, 7).ok());
}

// What the first worker has kept of its files is nothing for the second.
TEST_F(AutoShardTest, WorkersThatCacheInOneFileAreToldSo) {
  WriteFiles(4);
  const Ref<Dataset> dataset =
      Ok(Read(ListFiles("part", Unshuffled()))->Cache(folder_.Path("kept")));
  const auto of_worker = [&](int64_t worker, int64_t workers) {
    return Part(dataset, AutoShardPolicy::kFile, workers, worker).dataset;
  };
  const Strings first = All(of_worker(0, 2));
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(All(of_worker(0, 2)), first);
  // A second worker, another number of workers, and one alone.
  for (const Ref<Dataset>& other : {of_worker(1, 2), of_worker(0, 4), of_worker(0, 1)}) {
    const Ref<Iterator> iterator = Iterate(other);
    for (int i = 0; i < 2; ++i) {
      const Status refused = iterator->Next(CallOptions()).status();
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(refused.message().find("kept.cache\" keeps the elements of shard 0 of 2, and this "
                                       "dataset has those of "),
                std::string_view::npos)
          << refused.ToString();
      EXPECT_NE(refused.message().find("give each worker a filename of its own"),
                std::string_view::npos)
          << refused.ToString();
    }
  }
  ASSERT_TRUE(environment_->disk().Remove(folder_.Path("kept.cache")).ok());
  EXPECT_EQ(All(of_worker(0, 1)).size(), 8u);
  const Status refused = Iterate(of_worker(1, 2))->Next(CallOptions()).status();
  EXPECT_NE(refused.message().find("keeps the elements of all shards, and this dataset has those "
                                   "of shard 1 of 2"),
            std::string_view::npos)
      << refused.ToString();
}

// Also while it is being written: in its second pass the second worker would read the first one's.
TEST_F(AutoShardTest, WorkersThatCacheInOneFileAtOnceAreToldSo) {
  WriteFiles(4);
  const Ref<Dataset> dataset =
      Ok(Read(ListFiles("part", Unshuffled()))->Cache(folder_.Path("kept")));
  const Ref<Iterator> first = Iterate(Part(dataset, AutoShardPolicy::kFile, 2, 0).dataset);
  ASSERT_TRUE(first->Next(CallOptions()).ok());
  const Ref<Iterator> second = Iterate(Part(dataset, AutoShardPolicy::kFile, 2, 1).dataset);
  const Status refused = second->Next(CallOptions()).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("kept.cache\" is being written: file "),
            std::string_view::npos)
      << refused.ToString();
  EXPECT_NE(refused.message().find("keeps the elements of shard 0 of 2, and this dataset has those "
                                   "of shard 1 of 2; give each worker a filename of its own"),
            std::string_view::npos)
      << refused.ToString();
  ASSERT_TRUE(first->Close(CallOptions()).ok());
  EXPECT_TRUE(second->Next(CallOptions()).ok());
}

TEST_F(AutoShardTest, WorkersThatReadEverythingShareACacheInAFile) {
  WriteFiles(4);
  const Ref<Dataset> dataset =
      Ok(Read(ListFiles("part", Unshuffled()))->Cache(folder_.Path("kept")));
  const Strings all = All(Part(dataset, AutoShardPolicy::kData, 2, 0).dataset);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(All(Part(dataset, AutoShardPolicy::kData, 2, 1).dataset), all);
}

TEST_F(AutoShardTest, OtherReadersAreShardedByTheSameTraits) {
  Strings paths;
  for (const char* name : {"a", "b", "c"}) {
    paths.push_back(folder_.Write(name, std::string(name) + "1" + name + "2"));
  }
  FixedLengthRecordFormat format;
  format.record_bytes = 2;
  ExpectDealtOut(Ok(MakeFixedLengthRecordDataset(datasets_, paths, format, {})),
                 AutoShardPolicy::kFile, 3);
}

TEST_F(AutoShardTest, WorkerIGetsEveryWthFileInTheOrderOfTheNames) {
  WriteFiles(5);
  const Ref<Dataset> dataset = Read(ListFiles("part", Unshuffled()));
  EXPECT_EQ(All(Part(dataset, AutoShardPolicy::kFile, 2, 0).dataset),
            (Strings{"part0.0", "part0.1", "part2.0", "part2.1", "part4.0", "part4.1"}));
  EXPECT_EQ(All(Part(dataset, AutoShardPolicy::kFile, 2, 1).dataset),
            (Strings{"part1.0", "part1.1", "part3.0", "part3.1"}));
}

TEST_F(AutoShardTest, AShuffleOfFileNamesComesAfterTheShardAndNeedsNoAgreement) {
  WriteFiles(6);
  const Ref<Dataset> dataset = Read(Ok(ListFiles()->Prefetch(2)));
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 1);
  EXPECT_FALSE(part.needs_agreed_seed);
  EXPECT_TRUE(HasUnseededRandomness(*part.dataset));
  const std::string plan = part.dataset->Explain();
  EXPECT_LT(plan.find("shuffle"), plan.find("shard")) << plan;
  EXPECT_LT(plan.find("shard"), plan.find("list_files")) << plan;
}

TEST_F(AutoShardTest, EachPassOfARepeatedListReadsTheSameFilesOfThisWorker) {
  WriteFiles(3);
  const Ref<Dataset> dataset = Read(Ok(ListFiles("part", Unshuffled())->Repeat(2)));
  EXPECT_EQ(All(Part(dataset, AutoShardPolicy::kFile, 2, 1).dataset),
            (Strings{"part1.0", "part1.1", "part1.0", "part1.1"}));
}

TEST_F(AutoShardTest, TheExplanationCountsFiles) {
  WriteFiles(8);
  const ShardedDataset part = Part(Read(ListFiles()), AutoShardPolicy::kAuto, 3, 2);
  EXPECT_EQ(part.policy, AutoShardPolicy::kFile);
  EXPECT_EQ(part.num_files, 8);
  EXPECT_EQ(part.explanation,
            "sharded by file: 2 of 8 files (tf_record), because the policy is AUTO and all of the "
            "data is read from files");
}

TEST_F(AutoShardTest, TheGraphThatComesInIsNotChanged) {
  WriteFiles(4);
  const Ref<Dataset> dataset = Ok(Read(ListFiles())->Batch(2));
  const std::string before = dataset->Explain();
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 0);
  EXPECT_EQ(dataset->Explain(), before);
  EXPECT_NE(part.dataset->Explain(), before);
  EXPECT_NE(part.dataset.get(), dataset.get());
}

TEST_F(AutoShardTest, EveryBranchOfZipAndConcatenateIsSharded) {
  WriteFiles(4, "a");
  WriteFiles(4, "b");
  const Ref<Dataset> a = Read(ListFiles("a", Unshuffled()));
  const Ref<Dataset> b = Read(ListFiles("b", Unshuffled()));
  ExpectDealtOut(Ok(a->Concatenate(*b)), AutoShardPolicy::kFile, 3);

  const Ref<Value> both = Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, a)),
                                        Value::OfLeaf(Leaf(LeafKind::kDataset, b))});
  const Ref<Dataset> zipped = Ok(Dataset::Zip(datasets_, *both));
  const ShardedDataset part = Part(zipped, AutoShardPolicy::kFile, 2, 1);
  const Ref<Iterator> iterator = Iterate(part.dataset);
  Strings pairs;
  while (true) {
    const Result<Ref<Value>> pair = iterator->Next(CallOptions());
    ASSERT_TRUE(pair.ok()) << pair.status().ToString();
    if (!pair.value()) break;
    const auto text = [&](size_t i) {
      return std::string((*pair)->leaf(i).tensor().item<BytesView>().text());
    };
    pairs.push_back(text(0) + " " + text(1));
  }
  EXPECT_EQ(pairs, (Strings{"a1.0 b1.0", "a1.1 b1.1", "a3.0 b3.0", "a3.1 b3.1"}));
}

TEST_F(AutoShardTest, NamesFromSeveralListsAreDealtOutAsOneList) {
  WriteFiles(1, "a");
  WriteFiles(4, "b");
  const Ref<Dataset> names =
      Ok(ListFiles("a", Unshuffled())->Concatenate(*ListFiles("b", Unshuffled())));
  ExpectDealtOut(Read(names), AutoShardPolicy::kFile, 5);
  const ShardedDataset part = Part(Read(names), AutoShardPolicy::kFile, 5, 0);
  EXPECT_EQ(part.num_files, 5);
  EXPECT_FALSE(part.needs_agreed_seed);
}

TEST_F(AutoShardTest, FewerFilesThanWorkersFailsOnEveryWorkerAndNamesTheWaysOut) {
  const Strings paths = WriteFiles(2);
  const Ref<Dataset> vector = Read(OneVector(paths));
  for (const Ref<Dataset>& dataset : {Read(ListFiles()), vector}) {
    for (AutoShardPolicy policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto}) {
      for (int64_t worker = 0; worker < 3; ++worker) {
        const Status failure = Failure(dataset, policy, 3, worker);
        ASSERT_EQ(failure.code(), StatusCode::kInvalidArgument);
        for (const char* word :
             {"2 files", "3 workers", "FILE", "DATA", "OFF", "share_files", "3 files or more"}) {
          EXPECT_NE(failure.message().find(word), std::string::npos)
              << word << ": " << failure.ToString();
        }
      }
    }
  }
}

TEST_F(AutoShardTest, WorkersShareFilesWhereThereAreFewer) {
  WriteFiles(2);
  const Ref<Dataset> dataset = Read(ListFiles("part", Unshuffled()));
  const Strings whole[] = {All(Part(dataset, AutoShardPolicy::kFile, 2, 0).dataset),
                           All(Part(dataset, AutoShardPolicy::kFile, 2, 1).dataset)};
  for (int64_t worker = 0; worker < 5; ++worker) {
    const ShardedDataset shared = AutoShard(*dataset, AutoShardPolicy::kAuto, 5, worker,
                                            CallOptions(), TooFewFiles::kShare)
                                      .value();
    EXPECT_EQ(shared.policy, AutoShardPolicy::kFile);
    EXPECT_EQ(shared.num_parts, 2);
    EXPECT_EQ(shared.part, worker % 2);
    EXPECT_EQ(shared.before, worker / 2);
    EXPECT_EQ(shared.stride, worker % 2 == 0 ? 3 : 2);
    EXPECT_EQ(All(shared.dataset), whole[worker % 2]);
  }
  EXPECT_EQ(AutoShard(*dataset, AutoShardPolicy::kFile, 2, 1, CallOptions(), TooFewFiles::kShare)
                .value()
                .num_parts,
            0);
}

TEST_F(AutoShardTest, TheSmallestBranchDecidesWhetherThereAreEnoughFiles) {
  WriteFiles(4, "a");
  WriteFiles(1, "b");
  const Ref<Dataset> both = Ok(Read(ListFiles("a"))->Concatenate(*Read(ListFiles("b"))));
  EXPECT_EQ(Failure(both, AutoShardPolicy::kFile, 2, 0).code(), StatusCode::kInvalidArgument);
}

TEST_F(AutoShardTest, PatternsThatMatchNothingFailAtOnce) {
  const Status failure = Failure(Read(ListFiles("none")), AutoShardPolicy::kAuto, 2, 0);
  EXPECT_EQ(failure.code(), StatusCode::kNotFound) << failure.ToString();
}

TEST_F(AutoShardTest, AutoFallsBackToDataOnlyWithoutFilesAndSaysSoOnce) {
  WriteFiles(4);
  const Ref<WarningCounter> sink = MakeRef<WarningCounter>();
  ASSERT_TRUE(environment_->log().SetSink(sink).ok());
  const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 8, 1));
  const ShardedDataset part = Part(range, AutoShardPolicy::kAuto, 2, 1);
  EXPECT_EQ(part.policy, AutoShardPolicy::kData);
  EXPECT_EQ(part.dataset->Explain(), range->Explain());
  EXPECT_EQ(part.explanation,
            "sharded by data: part 2 of 2 of every batch, because the policy is AUTO and "
            "range reads no files");
  ASSERT_EQ(sink->lines.size(), 1u);
  EXPECT_NE(sink->lines[0].find("falls back to DATA"), std::string::npos) << sink->lines[0];

  Part(Read(ListFiles()), AutoShardPolicy::kAuto, 2, 1);
  Part(range, AutoShardPolicy::kData, 2, 1);
  EXPECT_EQ(sink->lines.size(), 1u);
  ASSERT_TRUE(environment_->log().SetSink(nullptr).ok());
}

TEST_F(AutoShardTest, OneBranchWithoutFilesIsEnoughToRuleOutFile) {
  WriteFiles(4);
  const Ref<Dataset> scalars = Ok(MakeFileNamesDataset(datasets_, Strings{"x", "y"}));
  const Ref<Dataset> mixed = Ok(Read(ListFiles())->Concatenate(*scalars));
  EXPECT_EQ(Part(mixed, AutoShardPolicy::kAuto, 2, 0).policy, AutoShardPolicy::kData);
  const Status failure = Failure(mixed, AutoShardPolicy::kFile, 2, 0);
  EXPECT_EQ(failure.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(failure.message().find("from_tensor_slices reads no files"), std::string::npos)
      << failure.ToString();
}

TEST_F(AutoShardTest, OneWorkerAndOffLeaveTheDatasetAlone) {
  WriteFiles(1);
  const Ref<Dataset> dataset = Read(ListFiles());
  for (AutoShardPolicy policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile,
                                 AutoShardPolicy::kData, AutoShardPolicy::kHint}) {
    const ShardedDataset part = Part(dataset, policy, 1, 0);
    EXPECT_EQ(part.dataset.get(), dataset.get());
    EXPECT_EQ(part.policy, AutoShardPolicy::kOff);
    EXPECT_EQ(part.explanation, "not sharded, because there is one worker");
  }
  const ShardedDataset off = Part(dataset, AutoShardPolicy::kOff, 3, 2);
  EXPECT_EQ(off.dataset.get(), dataset.get());
  EXPECT_EQ(off.explanation, "not sharded, because the policy is OFF");
}

TEST_F(AutoShardTest, ImpossibleArgumentsAreRefused) {
  const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 8, 1));
  EXPECT_EQ(Failure(range, AutoShardPolicy::kData, 0, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Failure(range, AutoShardPolicy::kData, 2, 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Failure(range, AutoShardPolicy::kData, 2, -1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Failure(range, static_cast<AutoShardPolicy>(4), 2, 0).code(),
            StatusCode::kInvalidArgument);
}

// ---- Functions of the user between the names and the data. ----

TEST_F(AutoShardTest, NamesThatAFunctionMakesAreCountedWithoutCallingIt) {
  WriteFiles(4);
  const Ref<const ElementSpec> name = ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
  const Ref<TestFunction> function = MakeFunction(Same, {.spec = name});
  const Ref<Dataset> dataset = Read(Ok(ListFiles("part", Unshuffled())->Map(function)));
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 0);
  EXPECT_EQ(part.num_files, 4);
  EXPECT_EQ(function->calls, 0);
  ExpectDealtOut(dataset, AutoShardPolicy::kFile, 2);
  EXPECT_EQ(Failure(dataset, AutoShardPolicy::kFile, 5, 0).code(), StatusCode::kInvalidArgument);
}

TEST_F(AutoShardTest, NamesThatAFunctionPicksAreOfUnknownNumberAndDealtOutAllTheSame) {
  WriteFiles(4);
  const Ref<TestFunction> predicate = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const std::string_view text = in.leaf(0).tensor().item<BytesView>().text();
        return Value::OfTensor(Tensor::Scalar(text.back() != '0'));
      },
      {.spec = ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar())});
  const Ref<Dataset> dataset = Read(Ok(ListFiles("part", Unshuffled())->Filter(predicate)));
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 0);
  EXPECT_EQ(part.num_files, std::nullopt);
  EXPECT_EQ(predicate->calls, 0);
  EXPECT_EQ(part.explanation,
            "sharded by file: files of unknown number (tf_record), because the policy is FILE");
  ExpectDealtOut(dataset, AutoShardPolicy::kFile, 3);
}

TEST_F(AutoShardTest, NamesThatAFunctionReadsItselfAreDealtOutBeforeIt) {
  WriteFiles(4);
  const Ref<const ElementSpec> name = ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
  const Ref<Dataset> names = Ok(ListFiles()->Take(3));
  const Ref<TestFunction> function = MakeFunction(Same, {.spec = name});
  const Ref<Dataset> dataset = Ok(names->Map(function));
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kAuto, 3, 0);
  EXPECT_EQ(part.policy, AutoShardPolicy::kFile);
  EXPECT_EQ(part.num_files, 3);
  EXPECT_EQ(All(part.dataset).size(), 1u);
  EXPECT_EQ(function->calls, 1);
}

// ---- Seeds. ----

TEST_F(AutoShardTest, PickingFromShuffledNamesNeedsAnAgreedSeedAndThenIsDisjoint) {
  WriteFiles(8);
  const auto program = [&] { return Read(Ok(ListFiles()->Take(6))); };  // of one worker's process
  Strings together;
  for (int64_t worker = 0; worker < 3; ++worker) {
    const Ref<Dataset> dataset = program();
    // A look at the data beforehand, on some workers, changes nothing.
    for (int64_t i = 0; i < worker; ++i) All(dataset);
    const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 3, worker);
    EXPECT_TRUE(part.needs_agreed_seed);
    const Strings own = All(Ok(WithSeed(*part.dataset, 17)));
    EXPECT_EQ(own.size(), 4u);
    together.insert(together.end(), own.begin(), own.end());
  }
  std::sort(together.begin(), together.end());
  EXPECT_EQ(std::unique(together.begin(), together.end()), together.end());
  EXPECT_EQ(together.size(), 12u);
}

TEST_F(AutoShardTest, WorkersThatAgreeOnASeedMakeTheSameSequenceEpochByEpoch) {
  const auto program = [&] {
    const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 50, 1));
    const Ref<Dataset> shuffled = Ok(Ok(range->Shuffle(50))->Shuffle(10));
    return Ok(Ok(shuffled->Batch(5))->Repeat(2));
  };
  const auto text = [](const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::string all;
    while (true) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      EXPECT_TRUE(element.ok());
      if (!element.ok() || !element.value()) return all;
      all += (*element)->ToString();
    }
  };
  const Ref<Dataset> one = program();
  const Ref<Dataset> other = program();
  EXPECT_TRUE(HasUnseededRandomness(*one));
  EXPECT_NE(text(one), text(other));
  const ShardedDataset a = Part(one, AutoShardPolicy::kData, 2, 0);
  const ShardedDataset b = Part(other, AutoShardPolicy::kData, 2, 1);
  EXPECT_TRUE(a.needs_agreed_seed);
  EXPECT_NE(text(a.dataset), text(b.dataset));
  const Ref<Dataset> seeded_a = Ok(WithSeed(*a.dataset, 5));
  const Ref<Dataset> seeded_b = Ok(WithSeed(*b.dataset, 5));
  const std::string first = text(seeded_a);
  EXPECT_EQ(first, text(seeded_b));
  const std::string second = text(seeded_a);
  EXPECT_NE(first, second);  // each iterator draws anew
  EXPECT_EQ(second, text(seeded_b));
  EXPECT_NE(first, text(Ok(WithSeed(*a.dataset, 6))));
}

TEST_F(AutoShardTest, ASeedThatTheUserGaveStays) {
  const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 20, 1));
  const Ref<Dataset> dataset = Ok(range->Shuffle(20, Seed(3)));
  EXPECT_FALSE(HasUnseededRandomness(*dataset));
  EXPECT_FALSE(Part(dataset, AutoShardPolicy::kData, 2, 0).needs_agreed_seed);
  EXPECT_EQ(Ok(WithSeed(*dataset, 9))->Explain(), dataset->Explain());
}

TEST_F(AutoShardTest, AStateFitsTheSameGraphWithAnotherAgreedSeed) {
  WriteFiles(4);
  const Ref<Dataset> dataset = Read(Ok(ListFiles()->Take(4)));
  const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 0);
  const Result<std::string> one = GraphFingerprint(Ok(WithSeed(*part.dataset, 1))->node());
  const Result<std::string> other = GraphFingerprint(Ok(WithSeed(*part.dataset, 2))->node());
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(*one, *other);
}

TEST_F(AutoShardTest, LongChainsAreRewrittenWithoutRecursion) {
  constexpr int64_t kParts = 50'000;
  WriteFiles(2);
  const Ref<Dataset> files = Read(ListFiles("part", Unshuffled()));
  Ref<Dataset> of_files = files;
  const Ref<Dataset> numbers = Ok(Ok(Dataset::Range(datasets_, 0, 1, 1))->Shuffle(1));
  Ref<Dataset> of_numbers = numbers;
  for (int64_t i = 1; i < kParts; ++i) {
    of_files = Ok(of_files->Concatenate(*files));
    of_numbers = Ok(of_numbers->Concatenate(*numbers));
  }
  const ShardedDataset by_file = Part(of_files, AutoShardPolicy::kAuto, 2, 1);
  EXPECT_EQ(by_file.policy, AutoShardPolicy::kFile);
  EXPECT_EQ(by_file.dataset->node().num_parts(), kParts);
  EXPECT_EQ(All(Ok(by_file.dataset->Take(3))), (Strings{"part1.0", "part1.1", "part1.0"}));
  const ShardedDataset by_data = Part(of_numbers, AutoShardPolicy::kAuto, 2, 1);
  EXPECT_EQ(by_data.policy, AutoShardPolicy::kData);
  EXPECT_TRUE(by_data.needs_agreed_seed);
  EXPECT_EQ(Ok(WithSeed(*by_data.dataset, 3))->cardinality(), kParts);
}

// ---- HINT. ----

TEST_F(AutoShardTest, HintReplacesTheShardsThatAreHints) {
  const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 10, 1));
  const Ref<Dataset> hint = Ok(range->Shard(kShardHint, kShardHint));
  EXPECT_EQ(hint->cardinality(), 10);
  const Ref<Dataset> dataset = Ok(Ok(hint->Skip(1))->Take(2));
  const auto numbers = [](const Ref<Dataset>& numbers_of) {
    const Ref<Iterator> iterator = Iterate(numbers_of);
    std::vector<int64_t> all;
    while (true) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      EXPECT_TRUE(element.ok());
      if (!element.ok() || !element.value()) return all;
      all.push_back(NumberIn(**element));
    }
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(numbers(dataset), (Numbers{1, 2}));
  EXPECT_EQ(numbers(Part(dataset, AutoShardPolicy::kHint, 2, 0).dataset), (Numbers{2, 4}));
  EXPECT_EQ(numbers(Part(dataset, AutoShardPolicy::kHint, 2, 1).dataset), (Numbers{3, 5}));
  EXPECT_EQ(Part(dataset, AutoShardPolicy::kHint, 2, 1).explanation,
            "sharded by hint: shard(2, 1) in 1 place, because the policy is HINT");
}

TEST_F(AutoShardTest, HintWithoutAHintIsRefused) {
  const Ref<Dataset> range = Ok(Dataset::Range(datasets_, 0, 10, 1));
  const Status failure = Failure(Ok(range->Shard(2, 0)), AutoShardPolicy::kHint, 2, 0);
  EXPECT_EQ(failure.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(range->Shard(kShardHint, 0).ok());
  EXPECT_FALSE(range->Shard(2, kShardHint).ok());
}

// ---- What is rewritten can be saved and sent like any other graph. ----

TEST_F(AutoShardTest, AShardedIterationResumesAtEveryElement) {
  const Strings paths = WriteFiles(5);
  ExpectResumesEverywhere(Part(Read(ListFiles("part", Unshuffled())), AutoShardPolicy::kFile, 2, 1)
                              .dataset);
  ExpectResumesEverywhere(Part(Read(OneVector(paths)), AutoShardPolicy::kFile, 2, 1).dataset);
  const Ref<Dataset> batched = Read(Ok(ListFiles("part", Unshuffled())->Batch(2)));
  ExpectResumesEverywhere(Part(batched, AutoShardPolicy::kFile, 2, 1).dataset);
}

TEST_F(AutoShardTest, AShardedDatasetCanBeSerialised) {
  const Strings paths = WriteFiles(5);
  for (const Ref<Dataset>& dataset : {Read(ListFiles()), Read(OneVector(paths))}) {
    const ShardedDataset part = Part(dataset, AutoShardPolicy::kFile, 2, 1);
    const Result<std::string> bytes = part.dataset->Serialize();
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    const Ref<Dataset> back = Ok(Dataset::Deserialize(datasets_, *bytes));
    Strings expected = All(part.dataset);
    Strings found = All(back);
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected);
  }
}

// ---- Functions that give datasets.

Result<Ref<Value>> ReadFile(Context&, const Value& in, void* data) {
  const std::string path(in.leaf(0).tensor().item<BytesView>().text());
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Dataset> records,
      MakeTfRecordDataset(*static_cast<const Ref<DatasetEnvironment>*>(data), {&path, 1}, {}));
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(records)));
}
Result<Ref<Value>> GiveName(Context&, const Value& in, void* data) {
  TUTTI_ASSIGN_OR_RETURN(
      Ref<Dataset> name,
      Dataset::FromTensors(*static_cast<const Ref<DatasetEnvironment>*>(data),
                           Value::OfTensor(in.leaf(0).tensor_ref())));
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(name)));
}

TEST_F(AutoShardTest, WhatAFunctionReadsFromFilesIsDealtOutByFile) {
  const Strings paths = WriteFiles(5);
  const Ref<Dataset> names = Ok(OneVector(paths)->FlatMap(MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(
            Ref<Dataset> slices,
            Dataset::FromTensorSlices(*static_cast<const Ref<DatasetEnvironment>*>(data),
                                      Value::OfTensor(in.leaf(0).tensor_ref())));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(slices)));
      },
      {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)})));
  std::vector<BytesView> views;
  for (const std::string& path : paths) views.push_back({path.data(), path.size()});
  const Ref<Dataset> slices = Ok(Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Tensor::FromStrings(Shape({5}), views).value())));
  const auto read = [&] {
    return MakeFunction(ReadFile, {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)});
  };
  const Ref<Dataset> interleaved = Ok(slices->Interleave(read(), 2));
  ExpectDealtOut(interleaved, AutoShardPolicy::kFile, 2);
  ExpectDealtOut(interleaved, AutoShardPolicy::kAuto, 5);
  ExpectDealtOut(Ok(slices->Interleave(read(), 2, 1, 2)), AutoShardPolicy::kAuto, 3);
  ExpectDealtOut(Ok(Ok(slices->Repeat(2))->FlatMap(read())), AutoShardPolicy::kFile, 2);
  ExpectDealtOut(Ok(ListFiles("part", Unshuffled())->FlatMap(read())), AutoShardPolicy::kFile, 2);
  // The first one fails, and does not decide how the others are dealt out.
  const auto read_but_first = [&] {
    return MakeFunction(
        [](Context& context, const Value& in, void* data) -> Result<Ref<Value>> {
          if (in.leaf(0).tensor().item<BytesView>().text().ends_with("part0")) {
            return Status(StatusCode::kDataLoss, "not this one");
          }
          return ReadFile(context, in, data);
        },
        {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)});
  };
  EXPECT_EQ(Part(Ok(slices->FlatMap(read_but_first())), AutoShardPolicy::kAuto, 2, 0).policy,
            AutoShardPolicy::kFile);
  // Elements that come from a function are dealt out, and their number is not known.
  ExpectDealtOut(Ok(names->FlatMap(read())), AutoShardPolicy::kFile, 2);
  const ShardedDataset part = Part(interleaved, AutoShardPolicy::kAuto, 2, 1);
  EXPECT_EQ(part.policy, AutoShardPolicy::kFile);
  EXPECT_EQ(part.num_files, 5);
  EXPECT_NE(part.explanation.find("2 of 5 files (interleave)"), std::string::npos)
      << part.explanation;
  EXPECT_EQ(All(part.dataset), (Strings{"part1.0", "part3.0", "part1.1", "part3.1"}));
  EXPECT_NE(std::string(Failure(interleaved, AutoShardPolicy::kFile, 6, 0).message())
                .find("interleave reads 5 files and there are 6 workers"),
            std::string::npos);
}

TEST_F(AutoShardTest, WhatAFunctionMakesOfOtherThingsIsShardedByData) {
  const Strings paths = WriteFiles(4);
  std::vector<BytesView> views;
  for (const std::string& path : paths) views.push_back({path.data(), path.size()});
  const Ref<Dataset> slices = Ok(Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Tensor::FromStrings(Shape({4}), views).value())));
  const Ref<Dataset> names = Ok(slices->FlatMap(
      MakeFunction(GiveName, {.data = const_cast<Ref<DatasetEnvironment>*>(&datasets_)})));
  EXPECT_EQ(Part(names, AutoShardPolicy::kAuto, 2, 0).policy, AutoShardPolicy::kData);
  EXPECT_EQ(Failure(names, AutoShardPolicy::kFile, 2, 0).code(), StatusCode::kInvalidArgument);
  // Where the elements are names of files, a function of the user's reads them.
  const Ref<Dataset> listed = Ok(ListFiles("part", Unshuffled())
                                     ->FlatMap(MakeFunction(
                                         GiveName, {.data = const_cast<Ref<DatasetEnvironment>*>(
                                                        &datasets_)})));
  EXPECT_EQ(Part(listed, AutoShardPolicy::kAuto, 2, 0).policy, AutoShardPolicy::kFile);
  ExpectDealtOut(listed, AutoShardPolicy::kFile, 2);
  // A function that fails reads nothing.
  const Ref<Dataset> failing = Ok(slices->FlatMap(
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Status(StatusCode::kDataLoss, "bad call");
      })));
  EXPECT_EQ(Part(failing, AutoShardPolicy::kAuto, 2, 0).policy, AutoShardPolicy::kData);
}

}  // namespace
}  // namespace tutti
