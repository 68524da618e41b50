// Both disks against one set of tests: what simulations see must be what the machine does.

#include "core/base/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "core/base/text.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::TestWithParam;

class DiskTest : public TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      const char* base = getenv("TMPDIR");
      std::string pattern = Format("{}/tutti-disk-XXXXXX", base != nullptr ? base : "/tmp");
      ASSERT_NE(mkdtemp(pattern.data()), nullptr);
      root_ = pattern;
      disk_ = &RealDisk();
    } else {
      memory_ = MakeMemoryDisk();
      root_ = "/data";
      disk_ = memory_.get();
      ASSERT_TRUE(disk_->MakeDirectories(root_).ok());
    }
  }
  void TearDown() override {
    if (GetParam()) RemoveAll(root_);
  }
  void RemoveAll(const std::string& path) {
    if (disk_->Stat(path)->is_directory) {
      for (const std::string& name : *disk_->List(path)) RemoveAll(path + "/" + name);
    }
    EXPECT_TRUE(disk_->Remove(path).ok());
  }
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  std::unique_ptr<Disk> memory_;
  std::string root_;
  Disk* disk_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Disk, DiskTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Real" : "Memory");
});

TEST_P(DiskTest, ReadsWhatWasWrittenFromAnyOffset) {
  ASSERT_TRUE(disk_->WriteFile(At("a"), "0123456789").ok());
  EXPECT_EQ(*disk_->ReadFile(At("a")), "0123456789");
  auto file = disk_->Open(At("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->bytes(), 10u);
  char buffer[8] = {};
  EXPECT_EQ(*(*file)->ReadAt(7, buffer, 8), 3u);
  EXPECT_EQ(std::string(buffer, 3), "789");
  EXPECT_EQ(*(*file)->ReadAt(10, buffer, 8), 0u);
}

TEST_P(DiskTest, ShowsAFileOnlyWhenItIsCommitted) {
  {
    auto file = disk_->Create(At("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("half").ok());
    EXPECT_FALSE(disk_->Exists(At("a")));
  }
  EXPECT_THAT(*disk_->List(root_), IsEmpty());
  auto file = disk_->Create(At("a"));
  ASSERT_TRUE((*file)->Append("who").ok());
  ASSERT_TRUE((*file)->Append("le").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ((*file)->Append("more").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*disk_->ReadFile(At("a")), "whole");
  EXPECT_THAT(*disk_->List(root_), ElementsAre("a"));
}

TEST_P(DiskTest, ReplacesAFileAtOnce) {
  ASSERT_TRUE(disk_->WriteFile(At("a"), "old").ok());
  auto reader = disk_->Open(At("a"));
  ASSERT_TRUE(disk_->WriteFile(At("a"), "new").ok());
  char buffer[3];
  EXPECT_EQ(*(*reader)->ReadAt(0, buffer, 3), 3u);
  EXPECT_EQ(std::string(buffer, 3), "old");
  EXPECT_EQ(*disk_->ReadFile(At("a")), "new");
}

TEST_P(DiskTest, NamesTheFileAndTheReasonInEveryError) {
  const Status missing = disk_->Open(At("missing")).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(),
            Format("cannot open \"{}\": No such file or directory", At("missing")));
  EXPECT_EQ(std::get<std::string>(missing.FindDetail("file")->value), At("missing"));

  const Status directory = disk_->Open(root_).status();
  EXPECT_EQ(directory.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(directory.message()), HasSubstr("Is a directory"));

  EXPECT_EQ(disk_->Create(At("no/such/directory")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(disk_->Create(root_).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(disk_->List(At("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(disk_->Stat(At("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(disk_->Remove(At("missing")).code(), StatusCode::kNotFound);
  EXPECT_EQ(disk_->Rename(At("missing"), At("b")).code(), StatusCode::kNotFound);
  ASSERT_TRUE(disk_->WriteFile(At("a"), "x").ok());
  EXPECT_EQ(disk_->List(At("a")).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(disk_->MakeDirectories(At("a/b")).code(), StatusCode::kFailedPrecondition);
}

TEST_P(DiskTest, MakesListsRenamesAndRemoves) {
  ASSERT_TRUE(disk_->MakeDirectories(At("x/y/z")).ok());
  ASSERT_TRUE(disk_->MakeDirectories(At("x/y/z")).ok());
  ASSERT_TRUE(disk_->WriteFile(At("x/b"), "2").ok());
  ASSERT_TRUE(disk_->WriteFile(At("x/a"), "1").ok());
  EXPECT_THAT(*disk_->List(At("x")), ElementsAre("a", "b", "y"));
  EXPECT_TRUE(disk_->Stat(At("x/y"))->is_directory);
  EXPECT_EQ(disk_->Stat(At("x/a"))->bytes, 1u);
  EXPECT_EQ(disk_->Remove(At("x/y")).code(), StatusCode::kFailedPrecondition);  // not empty
  ASSERT_TRUE(disk_->Rename(At("x/a"), At("x/b")).ok());
  EXPECT_EQ(*disk_->ReadFile(At("x/b")), "1");
  EXPECT_FALSE(disk_->Exists(At("x/a")));
}

TEST_P(DiskTest, FindsFilesByPatternInByteOrder) {
  ASSERT_TRUE(disk_->MakeDirectories(At("d1")).ok());
  ASSERT_TRUE(disk_->MakeDirectories(At("d2")).ok());
  for (const char* name : {"d1/b.rec", "d1/a.rec", "d2/c.rec", "d2/.hidden.rec", "d2/Z.rec"}) {
    ASSERT_TRUE(disk_->WriteFile(At(name), "").ok());
  }
  EXPECT_THAT(*disk_->Glob(At("*/*.rec")), ElementsAre(At("d1/a.rec"), At("d1/b.rec"),
                                                       At("d2/Z.rec"), At("d2/c.rec")));
  EXPECT_THAT(*disk_->Glob(At("d?/[ab].rec")), ElementsAre(At("d1/a.rec"), At("d1/b.rec")));
  EXPECT_THAT(*disk_->Glob(At("d*/c.rec")), ElementsAre(At("d2/c.rec")));
  EXPECT_THAT(*disk_->Glob(At("d1/a.rec")), ElementsAre(At("d1/a.rec")));
  EXPECT_THAT(*disk_->Glob(At("d1/\\a.rec")), ElementsAre(At("d1/a.rec")));
  EXPECT_THAT(*disk_->Glob(At("none/*")), IsEmpty());
  EXPECT_THAT(*disk_->Glob(At("d1/missing")), IsEmpty());
  EXPECT_EQ(disk_->Glob("").status().code(), StatusCode::kInvalidArgument);
}

TEST_P(DiskTest, LocksForOneHolderAtATime) {
  Result<std::unique_ptr<FileLock>> first = disk_->Lock(At("a.lock"));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(disk_->Exists(At("a.lock")));
  const Status second = disk_->Lock(At("a.lock")).status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr(At("a.lock")));
  EXPECT_TRUE(disk_->Lock(At("b.lock")).ok());
  first->reset();
  EXPECT_THAT(*disk_->List(root_), IsEmpty());
  EXPECT_TRUE(disk_->Lock(At("a.lock")).ok());
  // One that was left behind.
  ASSERT_TRUE(disk_->WriteFile(At("c.lock"), "process 1 on here").ok());
  EXPECT_TRUE(disk_->Lock(At("c.lock")).ok());
  EXPECT_EQ(disk_->Lock(At("no/such/lock")).status().code(), StatusCode::kNotFound);
}

TEST(RealDisk, SaysWhoHoldsALockUntilThatProcessDies) {
  std::string directory = "/tmp/tutti-disk-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Result<std::unique_ptr<FileLock>> lock = RealDisk().Lock(path);
    const char held = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &held, 1) == 1) pause();
    _exit(1);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_THAT(std::string(RealDisk().Lock(path).status().message()),
              HasSubstr(Format("process {} on ", child)));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(RealDisk().Lock(path).ok());
  close(ready[0]);
  close(ready[1]);
  EXPECT_TRUE(RealDisk().Remove(directory).ok());
}

// The alarm ends a test that waits for a writer.
TEST(RealDisk, RefusesWhatIsNoRegularFileWithoutWaitingForAnybody) {
  std::string directory = "/tmp/tutti-disk-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string fifo = directory + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string link = directory + "/link";
  ASSERT_EQ(symlink("fifo", link.c_str()), 0);
  const std::string socket_path = directory + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  alarm(60);
  for (const auto& [path, kind] :
       {std::pair(fifo, "a FIFO"), std::pair(link, "a FIFO"), std::pair(socket_path, "a socket"),
        std::pair(std::string("/dev/zero"), "a device")}) {
    for (const Status& status :
         {RealDisk().Open(path).status(), RealDisk().ReadFile(path).status()}) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(Format("cannot open \"{}\": expected a regular file, found {}; ", path,
                                   kind)));
    }
  }
  const Status locked = RealDisk().Lock(fifo).status();
  EXPECT_EQ(locked.code(), StatusCode::kFailedPrecondition) << locked.ToString();
  EXPECT_TRUE(RealDisk().Exists(fifo));
  alarm(0);
  close(listener);
  for (const std::string& path : {fifo, link, socket_path, directory}) {
    EXPECT_TRUE(RealDisk().Remove(path).ok()) << path;
  }
}

TEST(RealDisk, RefusesAPathThatTheSystemWouldCutOff) {
  const std::string path("/dev/null\0.txt", 14);
  for (const Status& status : {RealDisk().Open(path).status(), RealDisk().Create(path).status(),
                               RealDisk().Lock(path).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("a path has no NUL in it"));
  }
}

TEST(RealDisk, SaysPermissionDeniedWhereItIsDenied) {
  std::string directory = "/tmp/tutti-disk-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/secret";
  ASSERT_TRUE(RealDisk().WriteFile(path, "x").ok());
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root may read everything, so it becomes nobody for the attempt.
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const Status status = RealDisk().Open(path).status();
  if (user == 0) {
    ASSERT_EQ(seteuid(user), 0);
  }
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(RealDisk().Remove(path).ok());
  EXPECT_TRUE(RealDisk().Remove(directory).ok());
}

}  // namespace
}  // namespace tutti
