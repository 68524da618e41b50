#include "core/checkpoint/checkpoint_manager.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/checkpoint/checkpoint_testing.h"
#include "core/checkpoint/manifest.h"
#include "core/checkpoint/safetensors_writer.h"

namespace tutti {
namespace {

using Names = std::vector<std::string>;

class CheckpointManagerTest : public CheckpointTest {
 protected:
  static Ref<CheckpointManager> Manage(Ref<Checkpoint> checkpoint, int64_t max_to_keep = 5,
                                       const std::string& directory = "/run") {
    CheckpointManagerOptions options;
    options.max_to_keep = max_to_keep;
    Result<Ref<CheckpointManager>> manager =
        CheckpointManager::Create(std::move(checkpoint), directory, options);
    EXPECT_TRUE(manager.ok()) << manager.status().ToString();
    return manager.ok() ? std::move(manager).value() : nullptr;
  }
  static void Save(const Ref<CheckpointManager>& manager, int64_t step) {
    const Result<std::string> prefix = manager->Save(step, CallOptions());
    EXPECT_TRUE(prefix.ok()) << prefix.status().ToString();
  }
  static std::vector<int64_t> Steps(const Ref<CheckpointManager>& manager) {
    const auto all = manager->List();
    EXPECT_TRUE(all.ok()) << all.status().ToString();
    std::vector<int64_t> steps;
    for (const auto& one : *all) steps.push_back(one.step);
    return steps;
  }
  // The step that RestoreLatest gives; -1 for none.
  static int64_t RestoreLatest(const Ref<CheckpointManager>& manager) {
    const auto restored = manager->RestoreLatest(CallOptions());
    EXPECT_TRUE(restored.ok()) << restored.status().ToString();
    return restored.ok() && restored->has_value() ? (*restored)->step : -1;
  }
};

TEST_F(CheckpointManagerTest, TheLastFewStayAndTheLatestComesBack) {
  TestNumber a(0);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 2, "/deep/run/");
  EXPECT_EQ(RestoreLatest(manager), -1);
  EXPECT_TRUE(Steps(manager).empty());
  for (int64_t step : {10, 20, 30}) {
    a.Set(step * 100);
    const Result<std::string> prefix = manager->Save(step, CallOptions());
    ASSERT_TRUE(prefix.ok()) << prefix.status().ToString();
    EXPECT_EQ(*prefix, Format("/deep/run/ckpt-{}", step));
  }
  EXPECT_EQ(Steps(manager), (std::vector<int64_t>{20, 30}));
  EXPECT_EQ(Files("/deep/run"), (Names{"ckpt-20.json", "ckpt-20.safetensors", "ckpt-30.json",
                                       "ckpt-30.safetensors"}));
  a.Set(0);
  EXPECT_EQ(RestoreLatest(manager), 30);
  EXPECT_EQ(a.value(), 3000);
  EXPECT_EQ((*manager->Latest())->prefix, "/deep/run/ckpt-30");
}

TEST_F(CheckpointManagerTest, ZeroKeepsAll) {
  TestNumber a(0);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 0);
  for (int64_t step = 0; step < 12; ++step) Save(manager, step);
  EXPECT_EQ(Steps(manager).size(), 12u);
}

TEST_F(CheckpointManagerTest, TheLatestIsTheOneSavedLastWhateverItsStep) {
  TestNumber a(0);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 2);
  Save(manager, 100);
  Save(manager, 9);
  EXPECT_EQ(RestoreLatest(manager), 9);
  Save(manager, 50);
  EXPECT_EQ(Steps(manager), (std::vector<int64_t>{9, 50}));
  a.Set(4);
  Save(manager, 9);  // once more
  EXPECT_EQ(Steps(manager), (std::vector<int64_t>{50, 9}));
  a.Set(0);
  EXPECT_EQ(RestoreLatest(manager), 9);
  EXPECT_EQ(a.value(), 4);
}

TEST_F(CheckpointManagerTest, ANewProgramGoesOnCounting) {
  TestNumber a(0);
  Save(Manage(Of({{"a", &a}}), 1), 5);
  const Ref<CheckpointManager> next = Manage(Of({{"a", &a}}), 1);
  EXPECT_EQ(RestoreLatest(next), 5);
  Save(next, 3);
  EXPECT_EQ(Steps(next), (std::vector<int64_t>{3}));
}

TEST_F(CheckpointManagerTest, ADamagedLatestIsAnErrorThatNamesItAndNothingIsRestored) {
  TestNumber a(1);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}));
  Save(manager, 1);
  a.Set(2);
  Save(manager, 2);
  const std::string whole = memory_->ReadFile("/run/ckpt-2.safetensors").value();
  a.Set(7);
  ASSERT_TRUE(
      memory_->WriteFile("/run/ckpt-2.safetensors", whole.substr(0, whole.size() - 1)).ok());
  const Status torn = manager->RestoreLatest(CallOptions()).status();
  EXPECT_EQ(torn.code(), StatusCode::kDataLoss) << torn.ToString();
  EXPECT_NE(torn.message().find("/run/ckpt-2.safetensors"), std::string::npos) << torn.ToString();
  ASSERT_TRUE(memory_->WriteFile("/run/ckpt-2.json", "{").ok());
  const Status no_manifest = manager->RestoreLatest(CallOptions()).status();
  EXPECT_EQ(no_manifest.code(), StatusCode::kDataLoss) << no_manifest.ToString();
  EXPECT_NE(no_manifest.message().find("/run/ckpt-2.json"), std::string::npos);
  EXPECT_EQ(a.value(), 7);
}

TEST_F(CheckpointManagerTest, LeftoversOfKilledProgramsAreRemovedAndOthersFilesAreNot) {
  TestNumber a(1);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}));
  Save(manager, 1);
  const Names others = {"ckpt-1.txt",         "ckpt.safetensors",   "ckpt-x.safetensors",
                        "model.safetensors",  "other-2.safetensors", "ckpt-02.safetensors",
                        "ckpt-2.json.backup", "notes.tmp",
                        "ckpt-2.safetensors", "ckpt-2.g1.safetensors",
                        "ckpt-2.g01.safetensors", "ckpt-2.worker-1.safetensors",
                        "ckpt-2.best.safetensors", "ckpt-2.safetensors.mine.tmp",
                        "ckpt-2.0123456789abcdef.tmp"};
  const Names leftovers = {"ckpt-4.safetensors", "ckpt-4.g1.safetensors",
                           "ckpt-4.worker-1-of-2.safetensors",
                           "ckpt-2.safetensors.0123456789abcdef.tmp",
                           "ckpt-2.g2.worker-1-of-2.safetensors.0123456789abcdef.tmp",
                           "ckpt-1.json.0123456789abcdef.tmp"};
  for (const Names& names : {others, leftovers}) {
    for (const std::string& name : names) {
      SafetensorsWriter writer;
      writer.PutMetadata(kDataFileMark, name);
      const bool whole = name.starts_with("ckpt-4.");
      ASSERT_TRUE(whole ? writer.Write(*memory_, real_->clock(), "/run/" + name).ok()
                        : memory_->WriteFile("/run/" + name, "x").ok());
    }
  }
  EXPECT_EQ(RestoreLatest(manager), 1);
  Save(manager, 3);
  for (const std::string& name : others) EXPECT_TRUE(memory_->Exists("/run/" + name)) << name;
  for (const std::string& name : leftovers) EXPECT_FALSE(memory_->Exists("/run/" + name)) << name;
  EXPECT_EQ(Steps(manager), (std::vector<int64_t>{1, 3}));
}

TEST_F(CheckpointManagerTest, WhatIsWrittenBesideTheCheckpointsStays) {
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  const Ref<CheckpointManager> manager = Manage(checkpoint, 1);
  Save(manager, 1);
  ASSERT_TRUE(checkpoint->WriteFile("/run/ckpt-100.safetensors", CallOptions()).ok());
  // A copy of a data file is its owner's, too.
  ASSERT_TRUE(memory_->WriteFile("/run/ckpt-200.safetensors",
                                 memory_->ReadFile("/run/ckpt-1.safetensors").value())
                  .ok());
  for (int64_t step : {2, 3}) Save(manager, step);
  EXPECT_EQ(Files("/run"), (Names{"ckpt-100.safetensors", "ckpt-200.safetensors", "ckpt-3.json",
                                  "ckpt-3.safetensors"}));
  a.Set(0);
  ASSERT_TRUE(checkpoint->ReadFile("/run/ckpt-100.safetensors", CallOptions()).ok());
  EXPECT_EQ(a.value(), 1);
}

TEST_F(CheckpointManagerTest, AManifestHasNoFilesRemovedThatItsSaveCannotHaveMade) {
  TestNumber a(1);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 1);
  const Names others = {"train.py", "other.txt", "ckpt-3.safetensors", "ckpt-1.safetensors"};
  ASSERT_TRUE(memory_->MakeDirectories("/run").ok());
  for (const std::string& name : others) {
    ASSERT_TRUE(memory_->WriteFile("/run/" + name, "x").ok());
  }
  for (int64_t step : {1, 2}) {
    Manifest manifest;
    manifest.step = step;
    manifest.generation = 7;
    manifest.workers = 9;
    for (size_t i = 0; i < others.size(); ++i) {
      manifest.files.push_back({others[i], static_cast<int64_t>(i), 1, 1});
    }
    ASSERT_TRUE(memory_->WriteFile(Format("/run/ckpt-{}.json", step), EncodeManifest(manifest))
                    .ok());
  }
  Save(manager, 2);
  for (const std::string& name : others) EXPECT_TRUE(memory_->Exists("/run/" + name)) << name;
  EXPECT_EQ(Steps(manager), (std::vector<int64_t>{2}));
}

TEST_F(CheckpointManagerTest, AnOldManifestThatNamesTheNewFileDoesNotHaveItRemoved) {
  TestNumber a(5);
  const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 1);
  Manifest manifest;
  manifest.step = 1;
  manifest.files.push_back({"ckpt-1.g1.safetensors", -1, 1, 1});
  ASSERT_TRUE(memory_->MakeDirectories("/run").ok());
  ASSERT_TRUE(memory_->WriteFile("/run/ckpt-1.json", EncodeManifest(manifest)).ok());
  Save(manager, 1);
  EXPECT_EQ(Files("/run"), (Names{"ckpt-1.g1.safetensors", "ckpt-1.json"}));
  a.Set(0);
  EXPECT_EQ(RestoreLatest(manager), 1);
  EXPECT_EQ(a.value(), 5);
}

TEST_F(CheckpointManagerTest, AProgramKilledAtAnyPointLeavesTheOldCheckpointOrTheNew) {
  TestNumber a(0);
  bool survived = false;
  int64_t kills = 0;
  for (int64_t changes = 0; !survived; ++changes, ++kills) {
    SCOPED_TRACE(Format("killed after {} changes of the disk", changes));
    const std::string directory = Format("/run{}", changes);
    const Ref<CheckpointManager> manager = Manage(Of({{"a", &a}}), 1, directory);
    for (int64_t step : {1, 2}) {
      a.Set(step);
      Save(manager, step);
    }
    a.Set(3);
    disk_.DieAfter(changes);
    const int64_t again = changes % 2;  // also the same step once more
    survived = manager->Save(again == 1 ? 2 : 3, CallOptions()).ok() && !disk_.dead();
    disk_.DieAfter(INT64_MAX);

    a.Set(0);
    const Ref<CheckpointManager> next = Manage(Of({{"a", &a}}), 1, directory);
    const int64_t step = RestoreLatest(next);
    EXPECT_TRUE(step == 2 || step == 3) << step;
    EXPECT_TRUE(a.value() == 2 || a.value() == 3) << a.value();
    a.Set(9);
    Save(next, 4);
    a.Set(0);
    EXPECT_EQ(RestoreLatest(next), 4);
    EXPECT_EQ(a.value(), 9);
    EXPECT_EQ(Files(directory), (Names{"ckpt-4.json", "ckpt-4.safetensors"}));
  }
  EXPECT_GT(kills, 8);
}

TEST_F(CheckpointManagerTest, WorkersSaveAndRestoreTogether) {
  ThreadTeam team(3);
  team.Run([&](int64_t worker) {
    TestNumber a(0);
    std::string position;
    const Ref<OpaqueState> state = MakeRef<OpaqueState>(
        [&](const CallOptions&) -> Result<std::string> { return position; },
        [&](std::string_view saved, const CallOptions&) {
          position = saved;
          return OkStatus();
        });
    const Ref<Checkpoint> checkpoint = Of({{"a", &a}}, team.Of(worker));
    ASSERT_TRUE(
        checkpoint->Add("position", state.get(), state, Checkpoint::Part::kPerWorker).ok());
    const Ref<CheckpointManager> manager = Manage(checkpoint, 2);
    EXPECT_EQ(RestoreLatest(manager), -1);
    for (int64_t step = 0; step < 5; ++step) {
      a.Set(step);
      position = Format("{}/{}", worker, step);
      Save(manager, step);
    }
    a.Set(0);
    position = "";
    EXPECT_EQ(RestoreLatest(manager), 4);
    EXPECT_EQ(a.value(), 4);
    EXPECT_EQ(position, Format("{}/4", worker));
  });
  EXPECT_EQ(Files("/run").size(), 2 * 5u);
}

TEST_F(CheckpointManagerTest, ImpossibleOptionsAreRefused) {
  TestNumber a(0);
  const Ref<Checkpoint> checkpoint = Of({{"a", &a}});
  const auto code = [&](std::string directory, CheckpointManagerOptions options) {
    return CheckpointManager::Create(checkpoint, std::move(directory), options).status().code();
  };
  EXPECT_EQ(code("", {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("/run", {-1, "ckpt"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("/run", {1, ""}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code("/run", {1, "a/b"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(Manage(checkpoint)->Save(-1, CallOptions()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CheckpointManagerTest, TheRealDiskKeepsWhatIsSaved) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  TestNumber a(1);
  const Ref<Checkpoint> checkpoint = Checkpoint::Create(real_, {});
  ASSERT_TRUE(checkpoint->Add("a", a.held.get(), a.held, Checkpoint::Part::kShared).ok());
  const Ref<CheckpointManager> manager = Manage(checkpoint, 2, pattern + "/new/run");
  for (int64_t step = 1; step <= 4; ++step) {
    a.Set(step);
    Save(manager, step);
  }
  a.Set(0);
  EXPECT_EQ(RestoreLatest(manager), 4);
  EXPECT_EQ(a.value(), 4);
  EXPECT_EQ(RealDisk().List(pattern + "/new/run").value(),
            (Names{"ckpt-3.json", "ckpt-3.safetensors", "ckpt-4.json", "ckpt-4.safetensors"}));
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace tutti
