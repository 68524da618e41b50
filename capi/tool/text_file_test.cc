#include "capi/tool/text_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

using ::testing::HasSubstr;

class TextFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "text_file_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string In(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Contents(const std::string& path) {
    std::string text;
    EXPECT_EQ(ReadTextFile(path, &text), "");
    return text;
  }
  static mode_t TypeOf(const std::string& path) {
    struct stat info = {};
    return lstat(path.c_str(), &info) == 0 ? info.st_mode & S_IFMT : 0;
  }
  size_t NumFiles() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(TextFile, ReplacesWhatWasThere) {
  ASSERT_EQ(WriteTextFile(In("a"), "longer"), "");
  ASSERT_EQ(WriteTextFile(In("a"), "new"), "");
  EXPECT_EQ(Contents(In("a")), "new");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(TextFile, IsWrittenWhereSymbolicLinksLead) {
  ASSERT_TRUE(std::filesystem::create_directory(In("there")));
  std::filesystem::create_symlink("there/b", In("b"));
  std::filesystem::create_symlink(In("b"), In("c"));
  // The first time the links lead to a name that nothing has.
  for (const std::string text : {"first", "second"}) {
    EXPECT_EQ(CheckCanWriteTextFile(In("c")), "");
    ASSERT_EQ(WriteTextFile(In("c"), text), "");
    EXPECT_EQ(TypeOf(In("b")), static_cast<mode_t>(S_IFLNK));
    EXPECT_EQ(TypeOf(In("c")), static_cast<mode_t>(S_IFLNK));
    EXPECT_EQ(TypeOf(In("there/b")), static_cast<mode_t>(S_IFREG));
    EXPECT_EQ(Contents(In("there/b")), text);
  }
  EXPECT_EQ(NumFiles(), 3u);
}

TEST_F(TextFile, RefusesLinksInACircle) {
  std::filesystem::create_symlink("b", In("a"));
  std::filesystem::create_symlink("a", In("b"));
  EXPECT_THAT(CheckCanWriteTextFile(In("a")), HasSubstr("symbolic links"));
  EXPECT_THAT(WriteTextFile(In("a"), "text"), HasSubstr("symbolic links"));
  EXPECT_EQ(TypeOf(In("a")), static_cast<mode_t>(S_IFLNK));
  EXPECT_EQ(TypeOf(In("b")), static_cast<mode_t>(S_IFLNK));
}

TEST_F(TextFile, GoesIntoAFifoThatStaysOne) {
  const std::string path = In("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(CheckCanWriteTextFile(path), "");
  const OwnedFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  const std::string text(1 << 20, 'x');  // more than it holds at once
  std::string found;
  std::atomic<bool> done = false;
  std::thread draining([&] {
    char bytes[4096];
    while (true) {
      const bool last = done;
      const ssize_t count = read(reader.get(), bytes, sizeof(bytes));
      if (count > 0) {
        found.append(bytes, static_cast<size_t>(count));
      } else if (last) {
        return;
      } else {
        std::this_thread::yield();
      }
    }
  });
  const std::string error = WriteTextFile(path, text);
  done = true;
  draining.join();
  EXPECT_EQ(error, "");
  EXPECT_TRUE(found == text) << found.size() << " bytes";
  EXPECT_EQ(TypeOf(path), static_cast<mode_t>(S_IFIFO));
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(TextFile, IsReadFromARegularFileOnly) {
  ASSERT_EQ(mkfifo(In("fifo").c_str(), 0600), 0);
  std::string text = "before";
  // Nobody writes to it: opening it would wait for ever.
  EXPECT_EQ(ReadTextFile(In("fifo"), &text),
            "cannot read " + In("fifo") + ": it is a FIFO, and a regular file is needed; copy what "
            "it gives into one");
  EXPECT_THAT(ReadTextFile("/dev/zero", &text), HasSubstr("it is a device or a socket"));
  EXPECT_THAT(ReadTextFile(folder_, &text), HasSubstr("directory"));
  EXPECT_THAT(ReadTextFile(In("none"), &text), HasSubstr("No such file"));
  EXPECT_EQ(text, "before");
  EXPECT_EQ(Contents("/proc/self/comm").empty(), false);
}

TEST_F(TextFile, SaysThatNobodyReadsAFifo) {
  ASSERT_EQ(mkfifo(In("fifo").c_str(), 0600), 0);
  EXPECT_THAT(WriteTextFile(In("fifo"), "text"), HasSubstr("nobody has opened this FIFO"));
  EXPECT_EQ(TypeOf(In("fifo")), static_cast<mode_t>(S_IFIFO));
}

TEST_F(TextFile, SaysThatAFifosReaderHasGone) {
  const std::string path = In("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  OwnedFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  std::atomic<bool> done = false;
  std::thread leaver([&] {
    // Not before the writer has begun.
    char byte;
    while (read(reader.get(), &byte, 1) != 1 && !done) std::this_thread::yield();
    reader.Reset();
  });
  EXPECT_THAT(WriteTextFile(path, std::string(1 << 20, 'x')), HasSubstr("Broken pipe"));
  done = true;
  leaver.join();
}

// What /dev/stdout leads to when a shell has sent the output to a file, which it goes on to use.
TEST_F(TextFile, KeepsTheFileThatStandardOutputGoesTo) {
  const std::string path = In("out");
  const OwnedFd before(dup(STDOUT_FILENO));
  {
    const OwnedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_GE(dup2(file.get(), STDOUT_FILENO), 0);
  }
  std::printf("before\n");
  const std::string error = WriteTextFile(path, "text\n");
  std::printf("after\n");
  std::fflush(stdout);
  ASSERT_GE(dup2(before.get(), STDOUT_FILENO), 0);
  EXPECT_EQ(error, "");
  EXPECT_EQ(Contents(path), "before\ntext\nafter\n");
}

TEST_F(TextFile, IsRefusedWhereThereIsNoPlaceForIt) {
  EXPECT_THAT(CheckCanWriteTextFile(folder_), HasSubstr("directory"));
  EXPECT_THAT(WriteTextFile(folder_, "text"), HasSubstr("directory"));
  EXPECT_THAT(CheckCanWriteTextFile(In("no/x")), HasSubstr("No such file"));
  EXPECT_THAT(WriteTextFile(In("no/x"), "text"), HasSubstr("No such file"));
  EXPECT_EQ(NumFiles(), 0u);
}

}  // namespace
}  // namespace tutti::tool
