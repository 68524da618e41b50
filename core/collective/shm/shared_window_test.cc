#include "core/collective/shm/shared_window.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/memory_account.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr size_t kPage = 4096;

Ref<SharedWindow> Window(size_t bytes = 64 * kPage, MemoryAccount* account = nullptr) {
  return SharedWindow::Create(bytes, account).value();
}

// Of memory that the system holds for the window.
int64_t HeldBytes(const SharedWindow& window) {
  struct stat status;
  return fstat(window.descriptor(), &status) == 0 ? status.st_blocks * 512 : -1;
}

bool IsZero(const Buffer& buffer, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(buffer.data());
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != std::byte{0}) return false;
  }
  return true;
}

TEST(SharedWindowTest, TakesMemoryForWhatIsAllocatedAndGivesItBack) {
  const Ref<SharedWindow> window = Window(SharedWindow::UsualBytes());
  EXPECT_EQ(HeldBytes(*window), 0);
  Ref<Buffer> large = window->Allocate(100 * kPage, true).value();
  EXPECT_EQ(HeldBytes(*window), 100 * static_cast<int64_t>(kPage));
  Ref<Buffer> small = window->Allocate(10, true).value();
  EXPECT_EQ(HeldBytes(*window), 101 * static_cast<int64_t>(kPage));
  large.reset();
  EXPECT_EQ(HeldBytes(*window), static_cast<int64_t>(kPage));
  small.reset();
  EXPECT_EQ(HeldBytes(*window), 0);
}

TEST(SharedWindowTest, MemoryIsZeroAgainWhateverLayThereBefore) {
  const Ref<SharedWindow> window = Window(4 * kPage);
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100}, kPage, kPage + 1, 3 * kPage - 7}) {
    // Neighbours on both sides keep the pages at the ends alive.
    Ref<Buffer> before = window->Allocate(100, true).value();
    Ref<Buffer> buffer = window->Allocate(bytes, true).value();
    Ref<Buffer> after = window->Allocate(100, true).value();
    std::memset(buffer->data(), 0xff, buffer->bytes());
    std::memset(after->data(), 0xff, after->bytes());
    const void* const place = buffer->data();
    buffer.reset();
    buffer = window->Allocate(bytes, true).value();
    EXPECT_EQ(buffer->data(), place);
    EXPECT_TRUE(IsZero(*buffer, bytes)) << bytes;
    EXPECT_FALSE(IsZero(*after, 100));
  }
}

TEST(SharedWindowTest, PeersSeeWhatIsWrittenAtTheSameOffsetAndCannotWrite) {
  const Ref<SharedWindow> window = Window();
  const Ref<Buffer> first = window->Allocate(kPage + 64, true).value();
  const Ref<Buffer> buffer = window->Allocate(200, true).value();
  const uint64_t offset = window->Offset(buffer->data(), 200);
  EXPECT_EQ(offset, kPage + 64);
  std::memcpy(buffer->data(), "seen", 4);
  const Ref<SharedWindowView> view =
      SharedWindowView::Open(FileDescriptor(dup(window->descriptor()))).value();
  const std::byte* const seen = view->At(offset, 200);
  ASSERT_NE(seen, nullptr);
  EXPECT_NE(seen, buffer->data());
  EXPECT_EQ(std::memcmp(seen, "seen", 4), 0);
  // The kernel says no where a store would end the process.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor out(ends[0]);
  const FileDescriptor in(ends[1]);
  ASSERT_EQ(write(in.get(), "x", 1), 1);
  EXPECT_EQ(read(out.get(), const_cast<std::byte*>(seen), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST(SharedWindowTest, OffsetsOutsideAreNowhere) {
  const Ref<SharedWindow> window = Window(2 * kPage);
  const Ref<SharedWindowView> view = SharedWindowView::Of(window);
  std::byte* const contents = window->contents();
  const int elsewhere = 0;
  EXPECT_EQ(window->Offset(contents + 1, 2 * kPage - 1), 1u);
  EXPECT_EQ(window->Offset(contents + 1, 2 * kPage), SharedWindow::kNowhere);
  EXPECT_EQ(window->Offset(contents - 1, 1), SharedWindow::kNowhere);
  EXPECT_EQ(window->Offset(&elsewhere, 1), SharedWindow::kNowhere);
  EXPECT_EQ(window->Offset(contents, SIZE_MAX), SharedWindow::kNowhere);
  EXPECT_EQ(view->At(kPage, kPage), contents + kPage);
  EXPECT_EQ(view->At(kPage, kPage + 1), nullptr);
  EXPECT_EQ(view->At(kPage, SIZE_MAX), nullptr);
  EXPECT_EQ(view->At(SharedWindow::kNowhere, 0), nullptr);
}

TEST(SharedWindowTest, NobodyCanCutItOff) {
  const Ref<SharedWindow> window = Window();
  EXPECT_NE(ftruncate(window->descriptor(), 0), 0);
  EXPECT_NE(fcntl(window->descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedWindowTest, OtherMemoryIsNoWindow) {
  EXPECT_EQ(SharedWindowView::Open(FileDescriptor()).status().code(),
            StatusCode::kInvalidArgument);
  const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, kPage), 0);
  const Status status = SharedWindowView::Open(FileDescriptor(unsealed)).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no memory whose size is sealed"));
  EXPECT_EQ(SharedWindow::Create(0, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST(SharedWindowTest, FullWindowsAndAccountsRefuse) {
  const Ref<MemoryAccount> account = MakeRef<MemoryAccount>("test", nullptr, 3 * kPage);
  const Ref<SharedWindow> window = Window(4 * kPage, account.get());
  EXPECT_EQ(window->Allocate(5 * kPage, true).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(window->Allocate(4 * kPage, true).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(account->used_bytes(), 0u);
  Ref<Buffer> buffer = window->Allocate(2 * kPage, true).value();
  EXPECT_EQ(account->used_bytes(), 2 * kPage);
  account->set_limit_bytes(0);
  const Status status = window->Allocate(3 * kPage, true).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("free in one piece"));
  EXPECT_EQ(account->used_bytes(), 2 * kPage);
  buffer.reset();
  EXPECT_EQ(account->used_bytes(), 0u);
  EXPECT_TRUE(window->Allocate(4 * kPage, true).ok());
}

TEST(SharedWindowTest, TensorsKeepItAlive) {
  Ref<SharedWindow> window = Window();
  TensorOptions options;
  options.allocator = window.get();
  const Ref<Tensor> tensor =
      Tensor::Create(DType::kFloat32, Shape({1000}), options).value();
  const Ref<Tensor> part = tensor->Slice(500, 600);
  window.reset();
  for (float& element : tensor->mutable_span<float>()) element = 3;
  EXPECT_EQ(part->span<float>()[99], 3);
}

TEST(SharedWindowTest, AForkedChildLeavesItAlone) {
  const Ref<SharedWindow> window = Window();
  Ref<Buffer> buffer = window->Allocate(2 * kPage, true).value();
  std::memset(buffer->data(), 7, 2 * kPage);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused =
        window->Allocate(64, true).status().code() == StatusCode::kResourceExhausted;
    buffer.reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(static_cast<const char*>(buffer->data())[2 * kPage - 1], 7);
  EXPECT_EQ(HeldBytes(*window), 2 * static_cast<int64_t>(kPage));
}

TEST(SharedWindowTest, ManyThreadsAllocateAndFree) {
  const Ref<SharedWindow> window = Window(1024 * kPage);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Ref<Buffer>> held;
      for (size_t i = 0; i < 100; ++i) {
        const size_t bytes = 1 + (i * 997 + static_cast<size_t>(t) * 131) % (3 * kPage);
        Ref<Buffer> buffer = window->Allocate(bytes, true).value();
        EXPECT_TRUE(IsZero(*buffer, bytes));
        std::memset(buffer->data(), t + 1, bytes);
        held.push_back(std::move(buffer));
        if (i % 3 == 2) held.erase(held.begin());
      }
      for (const Ref<Buffer>& buffer : held) {
        EXPECT_EQ(static_cast<const char*>(buffer->data())[0], t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(HeldBytes(*window), 0);
}

}  // namespace
}  // namespace tutti
