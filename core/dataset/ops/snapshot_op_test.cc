#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/disk.h"
#include "core/base/host_data.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/full_disk_testing.h"
#include "core/dataset/testing/op_walks_testing.h"
#include "core/dataset/testing/record_file_testing.h"
#include "core/function/callback.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Lines = std::vector<std::string>;

// Pass p of a generator gives 10p, 10p + 1, 10p + 2.
Ref<TestFunction> StartPass(std::atomic<int64_t>* passes) {
  return MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        const int64_t pass = (*static_cast<std::atomic<int64_t>*>(data))++;
        return Value::OfTensor(Tensor::Vector<int64_t>({pass * 10, pass * 10 + 3}));
      },
      {.data = passes});
}
Ref<TestFunction> NextOfPass() {
  return MakeFunction([](Context&, const Value& state, void*) -> Result<Ref<Value>> {
    auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
    if (at[0] == at[1]) return Value::None();
    return Number(at[0]++);
  });
}

class Snapshot : public OpWalksTest {
 protected:
  Snapshot() {
    Register("modulo_3", [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Number(NumberIn(in) % 3);
    });
    Register("minus_one",
             [](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(-1); });
    Register("each_its_own", [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Number(NumberIn(in));
    });
    Register("fails_at_two", [](Context&, const Value& in, void* fails) -> Result<Ref<Value>> {
      if (*static_cast<bool*>(fails) && NumberIn(in) == 2) {
        return Status(StatusCode::kInvalidArgument, "two is bad");
      }
      return Number(NumberIn(in));
    });
    Register("itself", [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Value::OfLeaf(in.leaf(0));
    });
    Register("one_after_another", [](Context&, const Value& in, void* self) -> Result<Ref<Value>> {
      return static_cast<Snapshot*>(self)->Read(
          in, [self](const Dataset& shards) {
            return shards.FlatMap(static_cast<Snapshot*>(self)->Registered("itself"));
          });
    }, this);
    Register("shuffled_shards", [](Context&, const Value& in, void* self) -> Result<Ref<Value>> {
      return static_cast<Snapshot*>(self)->Read(
          in, [self](const Dataset& shards) -> Result<Ref<Dataset>> {
            TUTTI_ASSIGN_OR_RETURN(const Ref<Dataset> mixed, shards.Shuffle(10));
            return mixed->FlatMap(static_cast<Snapshot*>(self)->Registered("itself"));
          });
    }, this);
    Register("in_batches", [](Context&, const Value& in, void* self) -> Result<Ref<Value>> {
      return static_cast<Snapshot*>(self)->Read(
          in, [self](const Dataset& shards) -> Result<Ref<Dataset>> {
            TUTTI_ASSIGN_OR_RETURN(
                const Ref<Dataset> flat,
                shards.FlatMap(static_cast<Snapshot*>(self)->Registered("itself")));
            return flat->Batch(2);
          });
    }, this);
  }

  template <class Make>
  static Result<Ref<Value>> Read(const Value& in, Make make) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, make(*in.leaf(0).object_as<const Dataset>()));
    return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
  }
  void Register(std::string name, TestFunction::Body body, void* data = nullptr) {
    EXPECT_TRUE(
        functions_->Register(std::move(name), MakeFunction(body, {.data = data ? data : &fails_}))
            .ok());
  }
  Ref<Function> Registered(std::string_view name) { return functions_->Find(name).value(); }
  SnapshotOptions With(std::string_view sharder, std::string_view reader = "") {
    SnapshotOptions options;
    if (!sharder.empty()) options.shard_func = Registered(sharder);
    if (!reader.empty()) options.reader_func = Registered(reader);
    return options;
  }
  static SnapshotOptions Packed(const char* compression) {
    SnapshotOptions options;
    options.compression = compression;
    return options;
  }
  static SnapshotOptions WithFunctions(Ref<Function> sharder, Ref<Function> reader) {
    SnapshotOptions options;
    options.shard_func = std::move(sharder);
    options.reader_func = std::move(reader);
    return options;
  }
  Ref<Dataset> Passes() {
    return Ok(Dataset::FromGenerator(datasets_, StartPass(&passes_), NextOfPass(), Int64Scalar(),
                                     "passes"));
  }
  Disk& disk() { return environment_->disk(); }
  std::string At(const std::string& name) const { return folder_.Path(name); }
  // The folders below `path`, and what lies in the only one.
  Lines FoldersAt(const std::string& path) {
    const Result<Lines> names = disk().List(path);
    return names.ok() ? *names : Lines();
  }
  std::string FolderAt(const std::string& path) {
    const Lines folders = FoldersAt(path);
    EXPECT_EQ(folders.size(), 1u);
    return path + "/" + folders.at(0);
  }
  Lines FilesAt(const std::string& path) { return disk().List(FolderAt(path)).value(); }
  static std::string Saved(Iterator& iterator) {
    Result<std::string> state = iterator.Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? std::move(state).value() : std::string();
  }
  // Restores what was saved before each element into iterators of datasets built anew.
  void GoesOnFromEveryElement(const std::function<Ref<Dataset>()>& build) {
    const Ref<Iterator> iterator = Iterate(build());
    Lines states, all;
    do {
      states.push_back(Saved(*iterator));
      all.push_back(Next(*iterator));
    } while (all.back() != ".");
    Close(*iterator);
    for (size_t i = 0; i < states.size(); ++i) {
      SCOPED_TRACE(i);
      const Ref<Iterator> elsewhere = Iterate(build());
      const Status restored = elsewhere->Restore(states[i], CallOptions());
      ASSERT_TRUE(restored.ok()) << restored.ToString();
      EXPECT_EQ(All(*elsewhere), Lines(all.begin() + static_cast<ptrdiff_t>(i), all.end() - 1));
      Close(*elsewhere);
    }
  }

  const TempFolder folder_;
  std::atomic<int64_t> passes_{0};
  bool fails_ = true;
};

TEST_F(Snapshot, TheFirstPassIsWrittenAndReadFromThenOn) {
  const Ref<Dataset> kept = Ok(Passes()->Snapshot(At("snap")));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2));
  EXPECT_THAT(FilesAt(At("snap")), ElementsAre("00000.shard", "index"));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2));
  // Another definition of the same.
  EXPECT_THAT(Numbers(Ok(Passes()->Snapshot(At("snap")))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(Ok(kept->Repeat(2))), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(passes_, 1);
  // Within one iterator.
  EXPECT_THAT(Numbers(Ok(Ok(Passes()->Snapshot(At("again")))->Repeat(3))),
              ElementsAre(10, 11, 12, 10, 11, 12, 10, 11, 12));
  EXPECT_EQ(passes_, 2);
}

TEST_F(Snapshot, ARandomOrderIsKept) {
  const Ref<Dataset> kept = Ok(Ok(Range(50)->Shuffle(50))->Snapshot(At("snap")));
  const std::vector<int64_t> first = Numbers(kept);
  EXPECT_EQ(Numbers(kept), first);
  // The seed was drawn: it is the same pipeline.
  EXPECT_EQ(Numbers(Ok(Ok(Range(50)->Shuffle(50))->Snapshot(At("snap")))), first);
}

TEST_F(Snapshot, AnotherPipelineHasAnother) {
  EXPECT_EQ(Numbers(Ok(Range(6)->Snapshot(At("snap")))).size(), 6u);
  EXPECT_THAT(Numbers(Ok(Range(3)->Snapshot(At("snap")))), ElementsAre(0, 1, 2));
  EXPECT_EQ(Numbers(Ok(Ok(Range(6)->Shuffle(6, Seed(1)))->Snapshot(At("snap")))).size(), 6u);
  EXPECT_EQ(Numbers(Ok(Ok(Range(6)->Shuffle(6, Seed(2)))->Snapshot(At("snap")))).size(), 6u);
  EXPECT_EQ(FoldersAt(At("snap")).size(), 4u);
  // How it is compressed, read and tuned makes none.
  SnapshotOptions other = With("", "one_after_another");
  other.compression = "GZIP";
  EXPECT_EQ(Numbers(Ok(Ok(Range(6)->Prefetch(3))->Snapshot(At("snap")))).size(), 6u);
  EXPECT_EQ(Numbers(Ok(Range(3)->Snapshot(At("snap"), other))).size(), 3u);
  EXPECT_EQ(FoldersAt(At("snap")).size(), 5u);
  // How it is sharded does.
  EXPECT_EQ(Numbers(Ok(Range(3)->Snapshot(At("snap"), With("modulo_3")))).size(), 3u);
  EXPECT_EQ(FoldersAt(At("snap")).size(), 6u);
}

TEST_F(Snapshot, AFunctionCountsByItsNameOrByWhatItsCodeIs) {
  const auto refused = [](const Result<Ref<Dataset>>& made, std::string_view what) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(what));
  };
  refused(Ok(Range(3)->Map(AddOne()))->Snapshot(At("snap")),
          "snapshot: what is kept goes by what the pipeline computes, and of the function "
          "\"add_one\" in map nobody can tell that; register it under a name");
  refused(Range(3)->Snapshot(At("snap"), WithFunctions(AddOne(), nullptr)),
          "in snapshot nobody can tell");
  refused(Ok(Dataset::FromGenerator(datasets_, StartPass(&passes_), NextOfPass(), Int64Scalar()))
              ->Snapshot(At("snap")),
          "give this dataset a name");
  // reader_func decides nothing of what is kept.
  EXPECT_TRUE(Range(3)->Snapshot(At("snap"), WithFunctions(nullptr, AddOne(nullptr))).ok());
  EXPECT_TRUE(Ok(Range(3)->Map(Registered("each_its_own")))->Snapshot(At("snap")).ok());

  const auto stored = [](std::string fingerprint) {
    StoredCallbackOptions options;
    options.output_spec = Int64Scalar();
    options.fingerprint = std::move(fingerprint);
    return StoredCallback::Create(
               [](Context*, const Value* in, Value** out, void*) -> const StatusRep* {
                 *out = Ref<Value>::Retain(const_cast<Value*>(in)).release();
                 return nullptr;
               },
               MakeRef<HostData>(nullptr, nullptr, nullptr),
               options)
        .value();
  };
  const auto kept = [&](const char* fingerprint) {
    return Numbers(Ok(Ok(Range(3)->Map(stored(fingerprint)))->Snapshot(At("by_code"))));
  };
  kept("a");
  kept("a");
  EXPECT_EQ(FoldersAt(At("by_code")).size(), 1u);
  kept("b");
  EXPECT_EQ(FoldersAt(At("by_code")).size(), 2u);
}

TEST_F(Snapshot, IsCompressedAsOneLikes) {
  // Behind a function of the host no element is made before its turn: all shards have the same
  // chunks.
  Register("more", [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    return Number(NumberIn(in) + 1);
  });
  const Ref<Dataset> numbered = Ok(Range(40'000)->Map(Registered("more")));
  std::vector<size_t> sizes;
  for (const char* compression : {"NONE", "AUTO", "SNAPPY", "GZIP"}) {
    SCOPED_TRACE(compression);
    const std::string path = At(compression);
    const Ref<Dataset> kept = Ok(numbered->Snapshot(path, Packed(compression)));
    const std::vector<int64_t> numbers = Numbers(kept);
    EXPECT_EQ(Numbers(kept), numbers);
    EXPECT_EQ(numbers.size(), 40'000u);
    sizes.push_back(disk().Stat(FolderAt(path) + "/00000.shard").value().bytes);
  }
  EXPECT_EQ(sizes[1], sizes[2]);
  EXPECT_LT(sizes[1], sizes[0]);
  EXPECT_LT(sizes[3], sizes[1]);
  for (const char* wrong : {"ZLIB", "snappy", "", "LZ4"}) {
    const Status status = Range(3)->Snapshot(At("snap"), Packed(wrong)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "snapshot: compression must be AUTO, GZIP, SNAPPY or none (NONE), "
                                "got \"" + std::string(wrong) + "\"");
  }
  EXPECT_EQ(Range(3)->Snapshot("").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(Snapshot, KeepsTuplesByteStringsAndRowsOfAnyShape) {
  const BytesView views[] = {{"a", 1}, {"", 0}, {"bc", 2}};
  const Ref<Dataset> texts = Ok(Dataset::FromTensorSlices(
      datasets_, Value::OfTensor(Tensor::FromStrings(Shape({3}), views).value())));
  const Ref<Dataset> tuples = Ok(Ok(texts->Enumerate())->Snapshot(At("tuples")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(All(tuples), ElementsAre(R"((0, "a"))", R"((1, ""))", R"((2, "bc"))"));
  }
  const Ref<Dataset> batches = Ok(Ok(Range(5)->Batch(2))->Snapshot(At("batches")));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(All(batches), ElementsAre("[0 1]", "[2 3]", "[4]"));
  const Ref<Dataset> none = Ok(Range(0)->Snapshot(At("none")));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(All(none), IsEmpty());
  EXPECT_THAT(FilesAt(At("none")), ElementsAre("00000.shard", "index"));
  const Status windows = Ok(Range(4)->Window(2))->Snapshot(At("windows")).status();
  EXPECT_EQ(windows.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(windows.message()), HasSubstr("map the elements to tensors"));
}

TEST_F(Snapshot, LookingWritesNothing) {
  const Ref<Dataset> kept = Ok(Ok(Range(6)->Map(Registered("each_its_own")))->Snapshot(At("snap")));
  EXPECT_EQ(kept->cardinality(), 6);
  EXPECT_EQ(SpecText(kept), "int64[]");
  EXPECT_EQ(SpecText(Ok(kept->Map(AddOne(nullptr)))), "int64[]");
  // To the end, where every element fails.
  EXPECT_THAT(SpecText(Ok(kept->Map(
                  MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
                    return Status(StatusCode::kDataLoss, "it is bad");
                  })))),
              HasSubstr("each of the first 6 elements"));
  const Ref<Iterator> unused = Iterate(kept);
  EXPECT_EQ(Saved(*unused).empty(), false);
  EXPECT_FALSE(disk().Exists(At("snap")));
  EXPECT_EQ(Ok(Passes()->Snapshot(At("snap")))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(passes_, 0);
}

TEST_F(Snapshot, APassThatIsGivenUpOrFailsLeavesNothing) {
  const Ref<Dataset> kept = Ok(Passes()->Snapshot(At("snap")));
  {
    const Ref<Iterator> iterator = Iterate(kept);
    EXPECT_EQ(Next(*iterator), "0");
    EXPECT_EQ(FilesAt(At("snap")).size(), 2u);
    Close(*iterator);
  }
  EXPECT_THAT(FilesAt(At("snap")), IsEmpty());
  EXPECT_THAT(Numbers(kept), ElementsAre(10, 11, 12));

  const Ref<Dataset> failing =
      Ok(Ok(Range(4)->Map(Registered("fails_at_two")))->Snapshot(At("failing")));
  const Ref<Iterator> iterator = Iterate(failing);
  EXPECT_THAT(Take(*iterator, 2), ElementsAre("0", "1"));
  EXPECT_THAT(Next(*iterator), HasSubstr("two is bad"));
  EXPECT_THAT(All(*iterator), ElementsAre("3"));
  EXPECT_THAT(FilesAt(At("failing")), IsEmpty());
  fails_ = false;
  EXPECT_THAT(Numbers(failing), ElementsAre(0, 1, 2, 3));
  fails_ = true;
  EXPECT_THAT(Numbers(failing), ElementsAre(0, 1, 2, 3));
}

TEST_F(Snapshot, ASecondWriterPassesThrough) {
  const Ref<Dataset> kept = Ok(Passes()->Snapshot(At("snap")));
  const Ref<Iterator> writer = Iterate(kept);
  EXPECT_EQ(Next(*writer), "0");
  EXPECT_THAT(Numbers(kept), ElementsAre(10, 11, 12));
  EXPECT_THAT(Numbers(Ok(Passes()->Snapshot(At("snap")))), ElementsAre(20, 21, 22));
  EXPECT_THAT(All(*writer), ElementsAre("1", "2"));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2));
}

TEST_F(Snapshot, WhatHasNoIndexIsNotThere) {
  const Ref<Dataset> kept = Ok(Passes()->Snapshot(At("snap")));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2));
  const std::string folder = FolderAt(At("snap"));
  ASSERT_TRUE(disk().Remove(folder + "/index").ok());
  // Of a dead writer.
  ASSERT_TRUE(disk().WriteFile(folder + "/00007.shard", "half").ok());
  ASSERT_TRUE(disk().WriteFile(folder + "/index.0123456789abcdef.tmp", "half").ok());
  ASSERT_TRUE(disk().WriteFile(folder + "/lock", "process 1 on a host of old").ok());
  EXPECT_THAT(Numbers(kept), ElementsAre(10, 11, 12));
  EXPECT_THAT(FilesAt(At("snap")), ElementsAre("00000.shard", "index"));
  EXPECT_THAT(Numbers(kept), ElementsAre(10, 11, 12));
}

TEST_F(Snapshot, NamesTheFileAndThePlaceOfDamage) {
  for (const char* compression : {"NONE", "SNAPPY", "GZIP"}) {
    SCOPED_TRACE(compression);
    const std::string path = At(compression);
    const Ref<Dataset> kept = Ok(Range(30'000)->Snapshot(path, Packed(compression)));
    Numbers(kept);
    const std::string shard = FolderAt(path) + "/00000.shard";
    const std::string index = FolderAt(path) + "/index";
    const auto expect_data_loss = [&](const std::string& file, const char* what) {
      SCOPED_TRACE(what);
      const Ref<Iterator> iterator = Iterate(kept);
      Result<Ref<Value>> element = iterator->Next(CallOptions());
      int64_t number = 0;
      while (element.ok() && *element) {
        ASSERT_EQ(NumberIn(**element), number++);
        element = iterator->Next(CallOptions());
      }
      const Status& status = element.status();
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("the snapshot is damaged"));
      EXPECT_THAT(std::string(status.message()), HasSubstr(file));
      ASSERT_NE(status.FindDetail("file"), nullptr);
      EXPECT_EQ(std::get<std::string>(status.FindDetail("file")->value), file);
      EXPECT_NE(status.FindDetail("offset"), nullptr);
      Close(*iterator);
    };
    const std::string whole = disk().ReadFile(shard).value();
    std::string flipped = whole;
    flipped[whole.size() / 2] ^= 1;
    ASSERT_TRUE(disk().WriteFile(shard, flipped).ok());
    expect_data_loss(shard, "a flipped bit");
    ASSERT_TRUE(disk().WriteFile(shard, whole.substr(0, whole.size() - 3)).ok());
    expect_data_loss(shard, "a torn record");
    ASSERT_TRUE(disk().WriteFile(shard, "").ok());
    expect_data_loss(shard, "an empty file");
    ASSERT_TRUE(disk().Remove(shard).ok());
    expect_data_loss(shard, "no file");
    // One of another snapshot is good in itself.
    Numbers(Ok(Range(5)->Snapshot(At("other"), Packed(compression))));
    ASSERT_TRUE(disk()
                    .WriteFile(shard, disk()
                                          .ReadFile(FolderAt(At("other")) + "/00000.shard")
                                          .value())
                    .ok());
    expect_data_loss(shard, "another file");
    ASSERT_TRUE(disk().WriteFile(shard, whole).ok());
    std::string bad_index = disk().ReadFile(index).value();
    bad_index[bad_index.size() / 2] ^= 1;
    ASSERT_TRUE(disk().WriteFile(index, bad_index).ok());
    expect_data_loss(index, "the index");
    std::filesystem::remove_all(At("other"));
  }
}

TEST_F(Snapshot, LosesNothingWhenTheDiskIsFullAndNamesTheFile) {
  FullDisk full(300'000);
  const Ref<Environment> environment = MakeRef<DiskEnvironment>(environment_, &full);
  {
    const Ref<DatasetEnvironment> datasets = DatasetEnvironment::Create(environment, functions_);
    const Ref<Iterator> iterator = Iterate(Ok(Ok(Dataset::Range(datasets, 0, 60'000, 1))
                                                  ->Snapshot("/snap", Packed("NONE"))));
    Slab slab;
    int64_t rows = 0;
    std::vector<Status> failures;
    while (!slab.end) {
      ASSERT_TRUE(iterator->NextSlab(100, CallOptions(), &slab).ok());
      if (!slab.status.ok()) failures.push_back(slab.status);
      if (slab.rows > 0) {
        EXPECT_EQ(NumberIn(*slab.Row(0).value()), rows);
      }
      rows += slab.rows;
    }
    EXPECT_EQ(rows, 60'000);
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(failures[0].message()),
                HasSubstr("snapshot: this pass cannot be kept, and goes on without: cannot write"));
    EXPECT_THAT(std::string(failures[0].message()), HasSubstr("/00000.shard: No space left"));
    ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  }
  ASSERT_TRUE(environment->Shutdown(CallOptions()).ok());
}

TEST_F(Snapshot, ShardsAreFilesAndReadInTurn) {
  const Ref<Dataset> kept = Ok(Range(8)->Snapshot(At("snap"), With("modulo_3")));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(FilesAt(At("snap")),
              ElementsAre("00000.shard", "00001.shard", "00002.shard", "index"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
  // Shards that are not there leave no gap.
  const Ref<Dataset> sparse =
      Ok(Ok(Range(8)->Skip(4))->Snapshot(At("sparse"), With("each_its_own")));
  EXPECT_THAT(Numbers(sparse), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(FilesAt(At("sparse")).front(), "00004.shard");
  EXPECT_THAT(Numbers(sparse), ElementsAre(4, 5, 6, 7));
}

TEST_F(Snapshot, ReaderFuncSaysHowShardsAreRead) {
  const Ref<Dataset> kept =
      Ok(Range(8)->Snapshot(At("snap"), With("modulo_3", "one_after_another")));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Numbers(kept), ElementsAre(0, 3, 6, 1, 4, 7, 2, 5));
  EXPECT_THAT(Numbers(Ok(kept->Repeat(2))),
              ElementsAre(0, 3, 6, 1, 4, 7, 2, 5, 0, 3, 6, 1, 4, 7, 2, 5));
  // What it draws at random is another order in each pass.
  const Ref<Dataset> mixed =
      Ok(Range(64)->Snapshot(At("mixed"), With("each_its_own", "shuffled_shards")));
  std::vector<int64_t> numbers = Numbers(Ok(mixed->Repeat(3)));
  ASSERT_EQ(numbers.size(), 192u);
  const std::vector<int64_t> second(numbers.begin() + 64, numbers.begin() + 128);
  const std::vector<int64_t> third(numbers.begin() + 128, numbers.end());
  EXPECT_NE(second, third);
  EXPECT_TRUE(std::ranges::is_permutation(second, third));
  // It must give such elements, and a dataset.
  const auto first_error = [&](std::string_view reader) {
    const Ref<Dataset> wrong =
        Ok(Range(8)->Snapshot(At("snap"), With("modulo_3", reader)));
    const Status status = Iterate(wrong)->Next(CallOptions()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(first_error("in_batches"), HasSubstr("reader_func must give the input's elements"));
  EXPECT_THAT(first_error("minus_one"), HasSubstr("must give a dataset"));
}

TEST_F(Snapshot, AShardThatIsNoneIsSaidAndThePassGoesOn) {
  const Ref<Dataset> kept = Ok(Range(3)->Snapshot(At("snap"), With("minus_one")));
  EXPECT_THAT(All(kept),
              ElementsAre("!snapshot: this pass cannot be kept, and goes on without: element 0: "
                          "shard_func must give the number of a shard, 0 or more, and gave -1",
                          "0", "1", "2"));
  EXPECT_THAT(FilesAt(At("snap")), IsEmpty());
  const Ref<Dataset> failing = Ok(Range(4)->Snapshot(At("failing"), With("fails_at_two")));
  const Lines all = All(failing);
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(std::ranges::count_if(
                all, [](const std::string& text) { return text.find("two is bad") != text.npos; }),
            1);
  const Lines too_many = All(Ok(Range(2000)->Snapshot(At("many"), With("each_its_own"))));
  EXPECT_EQ(too_many.size(), 2001u);
  EXPECT_EQ(std::ranges::count_if(too_many,
                                  [](const std::string& text) {
                                    return text.find("more than 1000 different") != text.npos;
                                  }),
            1);
}

TEST_F(Snapshot, GoesOnFromWhereItWasSaved) {
  const auto plain = [this] { return Ok(Ok(Range(7)->Shuffle(7, Seed(3)))->Snapshot(At("a"))); };
  const auto shards = [this] {
    return Ok(Ok(Range(11)->Shuffle(11, Seed(3)))->Snapshot(At("b"), With("modulo_3")));
  };
  const auto by_reader = [this] {
    environment_->SetDefaultSeed(9);
    return Ok(Ok(Range(11)->Shuffle(11, Seed(3)))
                  ->Snapshot(At("c"), With("modulo_3", "shuffled_shards")));
  };
  const auto twice = [&] { return Ok(by_reader()->Repeat(2)); };
  for (const std::function<Ref<Dataset>()>& build :
       std::vector<std::function<Ref<Dataset>()>>{plain, shards, by_reader, twice}) {
    // While it is written, and while it is read.
    GoesOnFromEveryElement(build);
    GoesOnFromEveryElement(build);
  }
}

TEST_F(Snapshot, ARestoredWriterPassesThroughWhateverIsCompleteByThen) {
  const Ref<Dataset> kept =
      Ok(Ok(Range(9)->Shuffle(9, Seed(3)))->Snapshot(At("snap"), With("modulo_3")));
  const Ref<Iterator> writer = Iterate(kept);
  const Lines first = Take(*writer, 3);
  const std::string state = Saved(*writer);
  const Lines rest = All(*writer);
  EXPECT_TRUE(disk().Exists(FolderAt(At("snap")) + "/index"));
  // What is read has the shards' order; who wrote goes on in the input's.
  const Ref<Iterator> again = Iterate(kept);
  ASSERT_TRUE(again->Restore(state, CallOptions()).ok());
  EXPECT_EQ(All(*again), rest);
}

// Also at a row that is only counted, which passing through would not compute.
TEST_F(Snapshot, ARestoredWriterFailsWhereItWouldHave) {
  struct Stop {
    Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    bool is_set = true;
  } stop;
  const TestFunction::Body body = [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
    auto& stop = *static_cast<Stop*>(data);
    if (stop.is_set && NumberIn(in) == 1) {
      stop.cancellation->Cancel();
      return Cancelled("enough");
    }
    if (NumberIn(in) == 2) return Status(StatusCode::kInvalidArgument, "two is bad");
    return Number(NumberIn(in));
  };
  // With a spec, so that no element is made before it is asked for.
  EXPECT_TRUE(functions_
                  ->Register("stops_at_one_and_fails_at_two",
                             MakeFunction(body, {.data = &stop,
                                                 .spec = ElementSpec::OfTensor(
                                                     DType::kInt64, PartialShape::Scalar())}))
                  .ok());
  const Ref<Dataset> rest =
      Ok(Ok(Ok(Ok(Range(6)->Map(Registered("stops_at_one_and_fails_at_two")))->Snapshot(At("snap")))
                ->Batch(2))
             ->Skip(2));
  const Ref<Iterator> iterator = Iterate(rest);
  // It has begun to write, and nobody has asked for the row that fails.
  const CallOptions call{Deadline::Infinite(), stop.cancellation.get()};
  EXPECT_EQ(iterator->Next(call).status().code(), StatusCode::kCancelled);
  const std::string state = Saved(*iterator);
  Close(*iterator);
  stop.is_set = false;
  const Ref<Iterator> elsewhere = Iterate(rest);
  ASSERT_TRUE(elsewhere->Restore(state, CallOptions()).ok());
  EXPECT_EQ(elsewhere->Next(CallOptions()).status().code(), StatusCode::kInvalidArgument);
  Close(*elsewhere);
}

TEST_F(Snapshot, AStateOfReadingNeedsTheSnapshotItRead) {
  const Ref<Dataset> kept = Ok(Passes()->Snapshot(At("snap")));
  EXPECT_EQ(Numbers(kept).size(), 3u);
  const Ref<Iterator> reader = Iterate(kept);
  EXPECT_EQ(Next(*reader), "0");
  const std::string state = Saved(*reader);
  ASSERT_TRUE(disk().Remove(FolderAt(At("snap")) + "/index").ok());
  Status status = Iterate(kept)->Restore(state, CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("which is not there any more"));
  EXPECT_THAT(Numbers(kept), ElementsAre(10, 11, 12));
  status = Iterate(kept)->Restore(state, CallOptions());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in whose place there is another one"));
}

TEST_F(Snapshot, WalksAsAllOperationsDo) {
  const auto failing = [this] { return Ok(Range(5)->Map(Registered("fails_at_two"))); };
  ExpectAllWalks({
      {.name = "plain",
       .build = [this] { return Ok(Range(7)->Snapshot(At("plain"))); },
       .elements = {"0", "1", "2", "3", "4", "5", "6"}},
      {.name = "shards",
       .build = [this] { return Ok(Range(7)->Snapshot(At("shards"), With("modulo_3"))); },
       .elements = {"0", "1", "2", "3", "4", "5", "6"}},
      {.name = "empty", .build = [this] { return Ok(Range(0)->Snapshot(At("empty"))); },
       .elements = {}},
      {.name = "a failure",
       .build = [this, failing] { return Ok(failing()->Snapshot(At("failing"))); },
       .elements = {"0", "1", "!two is bad", "3", "4"}},
      {.name = "without end",
       .build = [this] { return Ok(Ok(Range(3)->Repeat(-1))->Snapshot(At("endless"))); },
       .elements = {"0", "1", "2", "0", "1", "2", "0", "1"},
       .endless = true},
  });
}

}  // namespace
}  // namespace tutti
