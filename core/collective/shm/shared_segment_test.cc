// Segments: what Attach refuses, and that they vanish with their users.

#include "core/collective/shm/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "core/base/memory_account.h"
#include "core/base/text.h"
#include "core/collective/shm/shared_window.h"
#include "core/collective/stream/ring_link.h"

namespace tutti {
namespace {

using testing::HasSubstr;

FileDescriptor Duplicate(const SharedSegment& segment) {
  return FileDescriptor(dup(segment.descriptor()));
}

std::string Refusal(FileDescriptor descriptor) {
  const Result<Ref<SharedSegment>> segment = SharedSegment::Attach(std::move(descriptor));
  if (segment.ok()) return "attached";
  EXPECT_EQ(segment.status().code(), StatusCode::kFailedPrecondition);
  return std::string(segment.status().message());
}

// Memory of which the first word is that of a segment, all else as given.
FileDescriptor Imitation(size_t bytes, int seals, uint64_t version, uint64_t said_bytes) {
  const Ref<SharedSegment> real = SharedSegment::Create(1).value();
  FileDescriptor descriptor(memfd_create("imitation", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
  uint64_t words[3];
  EXPECT_EQ(pread(real->descriptor(), words, sizeof(words), 0), ssize_t{sizeof(words)});
  words[1] = version;
  words[2] = said_bytes;
  EXPECT_EQ(pwrite(descriptor.get(), words, sizeof(words), 0), ssize_t{sizeof(words)});
  EXPECT_EQ(fcntl(descriptor.get(), F_ADD_SEALS, seals), 0);
  return descriptor;
}

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr uint64_t kVersion = SharedSegment::kLayoutVersion;

// The kernel would answer with a signal that ends the process.
TEST(SharedSegment, AsRingsAndWindowsIsRefusedBeyondTheLimitForFiles) {
  constexpr size_t kBytes = 2 << 20;
  const Ref<MemoryAccount> account = MakeRef<MemoryAccount>("test");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = kBytes / 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status refusals[] = {SharedSegment::Create(kBytes).status(),
                             RingLink::CreateSegment(kBytes / 2, 7).status(),
                             SharedWindow::Create(kBytes, account.get()).status()};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  for (const Status& refusal : refusals) {
    EXPECT_EQ(refusal.code(), StatusCode::kResourceExhausted) << refusal.ToString();
    EXPECT_THAT(std::string(refusal.message()), testing::HasSubstr("(ulimit -f): 1 MiB"));
  }
}

TEST(SharedSegment, IsSeenByEverybodyWhoAttaches) {
  const Ref<SharedSegment> segment = SharedSegment::Create(100'000).value();
  EXPECT_EQ(segment->bytes(), 100'000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(segment->contents()) % 4096, 0u);
  const Ref<SharedSegment> other = SharedSegment::Attach(Duplicate(*segment)).value();
  EXPECT_EQ(other->bytes(), 100'000u);
  EXPECT_EQ(static_cast<int>(other->contents()[99'999]), 0);
  std::memset(segment->contents(), 7, 100'000);
  EXPECT_EQ(static_cast<int>(other->contents()[99'999]), 7);
}

TEST(SharedSegment, ItsDescriptorIsNotInheritedByPrograms) {
  const Ref<SharedSegment> segment = SharedSegment::Create(1).value();
  EXPECT_NE(fcntl(segment->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  const Ref<SharedSegment> other = SharedSegment::Attach(Duplicate(*segment)).value();
  EXPECT_NE(fcntl(other->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedSegment, LivesOnWithoutItsDescriptor) {
  const Ref<SharedSegment> segment = SharedSegment::Create(10).value();
  segment->CloseDescriptor();
  segment->contents()[9] = std::byte{3};
  EXPECT_EQ(static_cast<int>(segment->contents()[9]), 3);
}

TEST(SharedSegment, CannotBeCutOffUnderAPeer) {
  const Ref<SharedSegment> segment = SharedSegment::Create(100'000).value();
  EXPECT_NE(ftruncate(segment->descriptor(), 10), 0);
}

TEST(SharedSegment, RefusesImpossibleSizes) {
  EXPECT_EQ(SharedSegment::Create(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SharedSegment::Create(~size_t{0}).status().code(), StatusCode::kInvalidArgument);
}

TEST(SharedSegment, AttachesToNothingElse) {
  EXPECT_FALSE(SharedSegment::Attach(FileDescriptor()).ok());
  EXPECT_THAT(Refusal(FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC))),
              HasSubstr("no memory whose size is sealed"));
  EXPECT_THAT(Refusal(Imitation(8192, 0, kVersion, 8192)),
              HasSubstr("no memory whose size is sealed"));
  EXPECT_THAT(Refusal(Imitation(100, kSizeSeals, kVersion, 100)), HasSubstr("too few"));
  EXPECT_THAT(Refusal(Imitation(8192, kSizeSeals, kVersion + 1, 8192)),
              HasSubstr(Format("layout is version {}, this process knows version {}", kVersion + 1,
                               kVersion)));
  EXPECT_THAT(Refusal(Imitation(8192, kSizeSeals, kVersion, 9000)),
              HasSubstr("8192 bytes long and says 9000"));
  EXPECT_EQ(Refusal(Imitation(8192, kSizeSeals, kVersion, 8192)), "attached");

  FileDescriptor zeros(memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(zeros.get(), 8192), 0);
  ASSERT_EQ(fcntl(zeros.get(), F_ADD_SEALS, kSizeSeals), 0);
  EXPECT_THAT(Refusal(std::move(zeros)), HasSubstr("does not begin like a segment"));
}

}  // namespace
}  // namespace tutti
