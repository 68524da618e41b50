#include "core/base/memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>

namespace tutti {
namespace {

TEST(MemoryFile, HasTheSizeThatIsAskedFor) {
  const Result<FileDescriptor> file = MakeMemoryFile("test", 12345, "a test");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  struct stat info {};
  ASSERT_EQ(fstat(file->get(), &info), 0);
  EXPECT_EQ(info.st_size, 12345);
}

TEST(MemoryFile, BeyondTheLimitForFilesIsAnErrorAndNoSignal) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status refused = MakeMemoryFile("test", (1 << 20) + 1, "a test").status();
  const bool fits = MakeMemoryFile("test", 1 << 20, "a test").ok();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("more than files may have here (ulimit -f): 1 MiB; raise it"));
  EXPECT_TRUE(fits);
}

}  // namespace
}  // namespace tutti
