#include "core/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "core/checkpoint/checkpoint_testing.h"
#include "core/checkpoint/safetensors_reader.h"
#include "core/checkpoint/safetensors_writer.h"

namespace tutti {
namespace {

using Names = std::vector<std::string>;

// A position that can refuse to be saved or restored.
struct TestPosition {
  explicit TestPosition(std::string first) : state(std::move(first)) {
    object = MakeRef<OpaqueState>(
        [this](const CallOptions&) -> Result<std::string> {
          if (refuses_to_save) return Unavailable("the source is gone");
          return state;
        },
        [this](std::string_view saved, const CallOptions&) -> Status {
          ++restores;
          if (refuses_to_restore && restores == 1) return InvalidArgument("these are no states");
          state = saved;
          return OkStatus();
        });
  }

  std::string state;
  bool refuses_to_save = false;
  bool refuses_to_restore = false;
  int restores = 0;
  Ref<OpaqueState> object;
};

class CheckpointCoreTest : public CheckpointTest {
 protected:
  static void AddPosition(const Ref<Checkpoint>& checkpoint, TestPosition& position,
                          const std::string& name = "position") {
    const Status added = checkpoint->Add(name, position.object.get(), position.object,
                                         Checkpoint::Part::kPerWorker);
    EXPECT_TRUE(added.ok()) << added.ToString();
  }
  static Status Save(const Ref<Checkpoint>& checkpoint, const std::string& prefix = "/run/ckpt-1",
                     int64_t step = 1) {
    return checkpoint->Save(prefix, step, CallOptions()).status();
  }
  static Status Restore(const Ref<Checkpoint>& checkpoint,
                        const std::string& prefix = "/run/ckpt-1") {
    return checkpoint->Restore(prefix, CallOptions()).status();
  }
  void SetUp() override { ASSERT_TRUE(memory_->MakeDirectories("/run").ok()); }
  // Replaces one byte of a file.
  void Damage(const std::string& path, size_t at) {
    std::string bytes = memory_->ReadFile(path).value();
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    ASSERT_TRUE(memory_->WriteFile(path, bytes).ok());
  }
};

TEST_F(CheckpointCoreTest, ObjectsGetBackWhatTheyHeld) {
  TestNumber a(1);
  TestNumber b(2);
  TestPosition position("here");
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}, {"model/b", &b}});
  AddPosition(checkpoint, position);
  ASSERT_TRUE(Save(checkpoint).ok());
  EXPECT_EQ(Files("/run"), (Names{"ckpt-1.json", "ckpt-1.safetensors",
                                  "ckpt-1.worker-0-of-1.safetensors"}));
  a.Set(10);
  b.Set(20);
  position.state = "there";
  const Result<Manifest> manifest = checkpoint->Restore("/run/ckpt-1", CallOptions());
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(a.value(), 1);
  EXPECT_EQ(b.value(), 2);
  EXPECT_EQ(position.state, "here");
  EXPECT_EQ(manifest->step, 1);
  EXPECT_EQ(manifest->names, (Names{"a", "model/b"}));
}

TEST_F(CheckpointCoreTest, NamesAreUniqueAndNotEmpty) {
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  EXPECT_EQ(checkpoint->Add("a", a.held.get(), a.held, Checkpoint::Part::kShared).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(checkpoint->Add("", a.held.get(), a.held, Checkpoint::Part::kShared).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CheckpointCoreTest, WhatIsWrittenOnceMoreReplacesWhatWasThere) {
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  for (int64_t value = 1; value <= 3; ++value) {
    a.Set(value);
    ASSERT_TRUE(Save(checkpoint).ok());
    a.Set(0);
    ASSERT_TRUE(Restore(checkpoint).ok());
    EXPECT_EQ(a.value(), value);
    EXPECT_EQ(Files("/run").size(), 2u);
  }
}

TEST_F(CheckpointCoreTest, NamesInTheFileThatNoObjectHasArePassedOver) {
  TestNumber a(1);
  TestNumber b(2);
  ASSERT_TRUE(Save(Of({{"a", &a}, {"b", &b}})).ok());
  b.Set(0);
  ASSERT_TRUE(Restore(Of({{"b", &b}})).ok());
  EXPECT_EQ(b.value(), 2);
}

// ---- A restore that fails changes nothing. ----

TEST_F(CheckpointCoreTest, AMissingNameChangesNothing) {
  TestNumber a(1);
  TestNumber z(2);
  ASSERT_TRUE(Save(Of({{"a", &a}})).ok());
  a.Set(7);
  const Status failure = Restore(Of({{"a", &a}, {"z", &z}}));
  EXPECT_EQ(failure.code(), StatusCode::kNotFound) << failure.ToString();
  EXPECT_NE(failure.message().find("\"z\""), std::string::npos) << failure.ToString();
  EXPECT_NE(failure.message().find("/run/ckpt-1.safetensors"), std::string::npos);
  EXPECT_EQ(a.value(), 7);
}

TEST_F(CheckpointCoreTest, AnotherDTypeOrShapeChangesNothing) {
  TestNumber a(1);
  TestNumber b(2);
  ASSERT_TRUE(Save(Of({{"a", &a}, {"b", &b}})).ok());
  a.Set(7);
  for (const Ref<Tensor>& other :
       {Tensor::Vector<int64_t>({1}), Tensor::Scalar<int32_t>(1), Tensor::Scalar(1.0)}) {
    const Ref<HeldTensor> held = HeldTensor::Create(other).value();
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
    ASSERT_TRUE(checkpoint->Add("b", held.get(), held, Checkpoint::Part::kShared).ok());
    const Status failure = Restore(checkpoint);
    EXPECT_EQ(failure.code(), StatusCode::kInvalidArgument) << failure.ToString();
    EXPECT_NE(failure.message().find("the file has int64[]"), std::string::npos)
        << failure.ToString();
    EXPECT_EQ(a.value(), 7);
  }
}

TEST_F(CheckpointCoreTest, AnObjectThatRefusesMakesAllTakeBackWhatTheyHeld) {
  TestNumber a(1);
  TestPosition position("here");
  TestNumber b(2);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  AddPosition(checkpoint, position);
  ASSERT_TRUE(checkpoint->Add("b", b.held.get(), b.held, Checkpoint::Part::kShared).ok());
  ASSERT_TRUE(Save(checkpoint).ok());
  a.Set(10);
  b.Set(20);
  position.state = "there";
  position.refuses_to_restore = true;
  const Status failure = Restore(checkpoint);
  EXPECT_EQ(failure.code(), StatusCode::kInvalidArgument) << failure.ToString();
  EXPECT_NE(failure.message().find("restoring \"position\""), std::string::npos);
  EXPECT_EQ(a.value(), 10);
  EXPECT_EQ(b.value(), 20);
  EXPECT_EQ(position.state, "there");
}

TEST_F(CheckpointCoreTest, DamagedFilesAreNamedAndChangeNothing) {
  TestNumber a(1);
  TestPosition position("here");
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  AddPosition(checkpoint, position);
  for (const char* file : {"/run/ckpt-1.safetensors", "/run/ckpt-1.worker-0-of-1.safetensors"}) {
    ASSERT_TRUE(Save(checkpoint).ok());
    const std::string path =
        Files("/run").size() == 3 && memory_->Exists(file) ? file : std::string();
    const std::string used = path.empty() ? std::string(file).insert(11, ".g1") : path;
    const std::string whole = memory_->ReadFile(used).value();
    a.Set(7);
    const auto expect_loss = [&](std::string_view reason) {
      const Status failure = Restore(checkpoint);
      EXPECT_EQ(failure.code(), StatusCode::kDataLoss) << failure.ToString();
      EXPECT_NE(failure.message().find(used), std::string::npos) << failure.ToString();
      EXPECT_NE(failure.message().find(reason), std::string::npos) << failure.ToString();
      EXPECT_EQ(a.value(), 7);
      EXPECT_EQ(position.state, "here");
    };
    for (size_t at = 0; at < whole.size(); at += 5) {
      Damage(used, at);
      expect_loss("has the checksum");
      ASSERT_TRUE(memory_->WriteFile(used, whole).ok());
    }
    ASSERT_TRUE(memory_->WriteFile(used, whole.substr(0, whole.size() / 2)).ok());
    expect_loss("and should have");
    ASSERT_TRUE(memory_->Remove(used).ok());
    expect_loss("is missing");
    ASSERT_TRUE(memory_->WriteFile(used, whole).ok());
    EXPECT_TRUE(Restore(checkpoint).ok());
  }
}

TEST_F(CheckpointCoreTest, ADamagedManifestIsNamedWhateverIsDamaged) {
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  ASSERT_TRUE(Save(checkpoint).ok());
  const std::string path = "/run/ckpt-1.json";
  const std::string whole = memory_->ReadFile(path).value();
  const uint64_t seed = TestSeed(7);
  SeededRuns runs("damaged files", 2000);
  while (runs.Next()) {
    const uint64_t round = runs.number();
    SCOPED_TRACE(Format("TUTTI_TEST_SEED={} round {}", seed, round));
    SplitMix64 random(seed + round);
    std::string bytes = whole;
    const size_t at = random.Next() % bytes.size();
    if (random.Next() % 2 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(random.Next());
    }
    ASSERT_TRUE(memory_->WriteFile(path, bytes).ok());
    a.Set(7);
    const Status status = Restore(checkpoint);
    if (status.ok()) continue;
    ASSERT_EQ(a.value(), 7);
    ASSERT_NE(status.message().find("/run/"), std::string::npos) << status.ToString();
  }
}

TEST_F(CheckpointCoreTest, AManifestNamesNoFilesElsewhere) {
  for (const char* name : {"../secret", "/etc/passwd", "..", ""}) {
    Manifest manifest;
    manifest.files.push_back({name, -1, 1, 1});
    EXPECT_EQ(DecodeManifest(EncodeManifest(manifest), "x.json").status().code(),
              StatusCode::kDataLoss)
        << name;
  }
}

// Looking through all files for each would take long here.
TEST_F(CheckpointCoreTest, AManifestOfVeryManyFilesIsReadInOnePass) {
  constexpr int64_t kFiles = 100'000;
  Manifest manifest;
  manifest.workers = kFiles;
  for (int64_t worker = 0; worker < kFiles; ++worker) {
    manifest.files.push_back({Format("{}", worker), worker, 1, 1});
  }
  const Result<Manifest> read = DecodeManifest(EncodeManifest(manifest), "x.json");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->files.size(), static_cast<size_t>(kFiles));
  manifest.files.back().worker = 17;
  const Status twice = DecodeManifest(EncodeManifest(manifest), "x.json").status();
  EXPECT_EQ(twice.code(), StatusCode::kDataLoss);
  EXPECT_NE(twice.message().find("worker 17 has two files"), std::string::npos);
}

TEST_F(CheckpointCoreTest, ALongManifestIsReadForAsLongAsTheCallMayTake) {
  Manifest manifest;
  manifest.files.push_back({"x.safetensors", -1, 0, 0});
  for (int i = 0; i < 20'000; ++i) manifest.names.push_back(Format("a rather long name {}", i));
  const std::string text = EncodeManifest(manifest);
  int asked = 0;
  const auto check = [&](int most) {
    return [&asked, most] {
      return ++asked > most ? DeadlineExceeded("it took too long") : OkStatus();
    };
  };
  EXPECT_EQ(DecodeManifest(text, "x.json", check(1'000'000)).value().names, manifest.names);
  EXPECT_GT(asked, 5);
  asked = 0;
  EXPECT_EQ(DecodeManifest(text, "x.json", check(3)).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(asked, 4);
  asked = 0;
  EXPECT_EQ(DecodeManifest(text, "x.json", check(0)).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(CheckpointCoreTest, ANewerVersionIsRefusedAsSuch) {
  const std::string text = R"({"format":"tutti-checkpoint","version":2})";
  EXPECT_EQ(DecodeManifest(text, "x.json").status().code(), StatusCode::kUnimplemented);
}

TEST_F(CheckpointCoreTest, AnObjectThatCannotBeSavedLeavesTheOldCheckpointAndNoFiles) {
  TestNumber a(1);
  TestPosition position("here");
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  AddPosition(checkpoint, position);
  ASSERT_TRUE(Save(checkpoint).ok());
  const Names files = Files("/run");
  a.Set(2);
  position.refuses_to_save = true;
  const Status failure = Save(checkpoint);
  EXPECT_EQ(failure.code(), StatusCode::kUnavailable);
  EXPECT_NE(failure.message().find("saving \"position\""), std::string::npos);
  EXPECT_EQ(Files("/run"), files);
  position.refuses_to_save = false;
  ASSERT_TRUE(Restore(checkpoint).ok());
  EXPECT_EQ(a.value(), 1);
}

// ---- Single files. ----

TEST_F(CheckpointCoreTest, OneFileHoldsEverythingForOtherPrograms) {
  TestNumber a(1);
  TestPosition position("here");
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  AddPosition(checkpoint, position);
  ASSERT_TRUE(checkpoint->WriteFile("/model.safetensors", CallOptions()).ok());
  EXPECT_EQ(Files("/"), (Names{"model.safetensors", "run"}));
  a.Set(5);
  position.state = "there";
  ASSERT_TRUE(checkpoint->ReadFile("/model.safetensors", CallOptions()).ok());
  EXPECT_EQ(a.value(), 1);
  EXPECT_EQ(position.state, "here");
  const auto reader = SafetensorsReader::Open(disk_, "/model.safetensors");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->names(), (Names{"a", "position"}));
  EXPECT_EQ(checkpoint->ReadFile("/none.safetensors", CallOptions()).code(),
            StatusCode::kNotFound);
}

// ---- Several workers. ----

TEST_F(CheckpointCoreTest, WorkersShareVariablesAndKeepPositionsToThemselves) {
  constexpr int64_t kWorkers = 3;
  ThreadTeam team(kWorkers);
  team.Run([&](int64_t worker) {
    TestNumber a(5);
    TestPosition position(Format("position {}", worker));
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
    AddPosition(checkpoint, position);
    const Status saved = Save(checkpoint);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
    a.Set(0);
    position.state = "";
    const Status restored = Restore(checkpoint);
    ASSERT_TRUE(restored.ok()) << restored.ToString();
    EXPECT_EQ(a.value(), 5);
    EXPECT_EQ(position.state, Format("position {}", worker));
  });
  EXPECT_EQ(Files("/run"),
            (Names{"ckpt-1.json", "ckpt-1.safetensors", "ckpt-1.worker-0-of-3.safetensors",
                   "ckpt-1.worker-1-of-3.safetensors", "ckpt-1.worker-2-of-3.safetensors"}));


  // What the workers share fits any number of them. As to their positions, worker 0's counts, and
  // the object decides.
  ThreadTeam pair(2);
  for (const bool refuses : {true, false}) {
    pair.Run([&](int64_t worker) {
      TestNumber a(7);
      TestPosition position("mine");
      position.refuses_to_restore = refuses && worker == 1;
      const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, pair.Of(worker));
      AddPosition(checkpoint, position);
      EXPECT_EQ(Restore(checkpoint).code(),
                refuses ? StatusCode::kInvalidArgument : StatusCode::kOk);
      EXPECT_EQ(a.value(), refuses ? 7 : 5);
      EXPECT_EQ(position.state, refuses ? "mine" : "position 0");
    });
  }
}

TEST_F(CheckpointCoreTest, WorkersThatAddObjectsInOtherOrdersSaveAndRestoreThemTogether) {
  // In the order of their bytes, in which U+FFFD comes before U+1F600: in UTF-16 it does not.
  const Names names = {"B", "a", "a-b", "a/0", "\u00e9", "\uFFFD", "\U0001F600"};
  constexpr int64_t kWorkers = 3;
  ThreadTeam team(kWorkers);
  std::vector<Names> saved(kWorkers);
  std::vector<Names> restored(kWorkers);
  team.Run([&](int64_t worker) {
    const auto w = static_cast<size_t>(worker);
    Names order = names;
    if (worker == 0) std::reverse(order.begin(), order.end());
    if (worker == 1) std::rotate(order.begin(), order.begin() + 3, order.end());
    const Ref<Checkpoint> checkpoint = Of({}, team.Of(worker));
    for (const std::string& name : order) {
      const Ref<OpaqueState> object = MakeRef<OpaqueState>(
          [&saved, w, name](const CallOptions&) -> Result<std::string> {
            saved[w].push_back(name);
            return "the state of " + name;
          },
          [&restored, w, name](std::string_view state, const CallOptions&) -> Status {
            if (state != "the state of " + name) return Internal("got {}", state);
            restored[w].push_back(name);
            return OkStatus();
          });
      // Every other one is shared, as far as the checkpoint knows.
      const bool shared = (std::find(names.begin(), names.end(), name) - names.begin()) % 2 == 0;
      ASSERT_TRUE(checkpoint
                      ->Add(name, object.get(), object,
                            shared ? Checkpoint::Part::kShared : Checkpoint::Part::kPerWorker)
                      .ok());
    }
    const Status save = Save(checkpoint);
    ASSERT_TRUE(save.ok()) << save.ToString();
    EXPECT_EQ(saved[w], names) << worker;
    const Status restore = Restore(checkpoint);
    ASSERT_TRUE(restore.ok()) << restore.ToString();
    EXPECT_EQ(restored[w], names) << worker;
  });
}

TEST_F(CheckpointCoreTest, AFailureOfOneWorkerFailsTheSaveOnAllAndNothingExists) {
  ThreadTeam team(3);
  team.Run([&](int64_t worker) {
    TestNumber a(5);
    TestPosition position("here");
    position.refuses_to_save = worker == 1;
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
    AddPosition(checkpoint, position);
    const Status failure = Save(checkpoint);
    EXPECT_EQ(failure.code(), StatusCode::kUnavailable) << failure.ToString();
    if (worker != 1) {
      EXPECT_NE(failure.message().find("worker 1: "), std::string::npos) << failure.ToString();
    }
  });
  EXPECT_FALSE(memory_->Exists("/run/ckpt-1.json"));
}

TEST_F(CheckpointCoreTest, AWorkerThatDiesBeforeItReportsLeavesNoCheckpoint) {
  ThreadTeam team(2);
  team.Run([&](int64_t worker) {
    TestNumber a(5);
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
    if (worker == 1) {
      const Result<std::vector<std::string>> begun =
          checkpoint->Meet("begin", OkStatus(), "0 step 1 as \"ckpt-1\" of \"a\"", CallOptions());
      EXPECT_TRUE(begun.ok());
      return;  // and is gone
    }
    EXPECT_EQ(Save(checkpoint).code(), StatusCode::kUnavailable);
  });
  EXPECT_FALSE(memory_->Exists("/run/ckpt-1.json"));
}

TEST_F(CheckpointCoreTest, WorkersThatSaveDifferentThingsAreToldSo) {
  ThreadTeam team(2);
  team.Run([&](int64_t worker) {
    TestNumber a(5);
    const Ref<Checkpoint> checkpoint = Of({{worker == 0 ? "a" : "b", &a}}, team.Of(worker));
    const Status failure = Save(checkpoint);
    EXPECT_EQ(failure.code(), StatusCode::kFailedPrecondition) << failure.ToString();
    EXPECT_NE(failure.message().find("worker 1 saves step 1 as \"ckpt-1\" of \"b\""),
              std::string::npos)
        << failure.ToString();
  });
  EXPECT_TRUE(Files("/run").empty());
}

TEST_F(CheckpointCoreTest, ARestoreThatFailsOnOneWorkerChangesNothingOnAny) {
  ThreadTeam team(2);
  team.Run([&](int64_t worker) {
    TestNumber a(5);
    TestPosition position(Format("position {}", worker));
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
    AddPosition(checkpoint, position);
    ASSERT_TRUE(Save(checkpoint).ok());
  });
  for (const bool damaged : {true, false}) {
    if (damaged) Damage("/run/ckpt-1.worker-1-of-2.safetensors", 100);
    team.Run([&](int64_t worker) {
      TestNumber a(7);
      TestPosition position("now");
      position.refuses_to_restore = worker == 1 && !damaged;
      const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
      AddPosition(checkpoint, position);
      const Status failure = Restore(checkpoint);
      EXPECT_EQ(failure.code(), damaged ? StatusCode::kDataLoss : StatusCode::kInvalidArgument)
          << failure.ToString();
      EXPECT_EQ(a.value(), 7);
      EXPECT_EQ(position.state, "now");
    });
    if (damaged) Damage("/run/ckpt-1.worker-1-of-2.safetensors", 100);  // back to what it was
  }
}

TEST_F(CheckpointCoreTest, WorkersWithoutACommonDirectoryAreToldSo) {
  const std::unique_ptr<Disk> elsewhere = MakeMemoryDisk();
  ASSERT_TRUE(elsewhere->MakeDirectories("/run").ok());
  const Ref<DiskEnvironment> other = MakeRef<DiskEnvironment>(real_, elsewhere.get());
  ThreadTeam team(2);
  team.Run([&](int64_t worker) {
    TestPosition position("here");
    const Ref<Checkpoint> checkpoint =
        Checkpoint::Create(worker == 0 ? environment_ : other, team.Of(worker));
    AddPosition(checkpoint, position);
    const Status failure = Save(checkpoint);
    EXPECT_EQ(failure.code(), StatusCode::kFailedPrecondition) << failure.ToString();
    EXPECT_NE(failure.message().find("the same directory"), std::string::npos);
  });
  EXPECT_FALSE(memory_->Exists("/run/ckpt-1.json"));
  ASSERT_TRUE(other->Shutdown(CallOptions()).ok());
}

TEST_F(CheckpointCoreTest, TwoThreadsDoNotUseOneCheckpointAtOnce) {
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  Status inner;
  const Ref<OpaqueState> nosy = MakeRef<OpaqueState>(
      [&](const CallOptions&) -> Result<std::string> {
        inner = Save(checkpoint, "/run/other");
        return std::string();
      },
      [](std::string_view, const CallOptions&) { return OkStatus(); });
  ASSERT_TRUE(checkpoint->Add("nosy", nosy.get(), nosy, Checkpoint::Part::kPerWorker).ok());
  EXPECT_TRUE(Save(checkpoint).ok());
  EXPECT_EQ(inner.code(), StatusCode::kFailedPrecondition) << inner.ToString();
}

}  // namespace
}  // namespace tutti
