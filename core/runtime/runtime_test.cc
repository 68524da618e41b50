#include "core/runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/host_data.h"
#include "core/base/log.h"
#include "core/base/memory_account.h"
#include "core/base/recorder.h"
#include "core/base/simulated_environment.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/function/callback.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

Status ShutDown(Runtime& runtime) { return runtime.Shutdown(CallOptions::Default()); }

// Makes the runtime start a thread.
void UseExecutor(Runtime& runtime) {
  std::promise<void> ran;
  ASSERT_TRUE(runtime.executor().Post([&] { ran.set_value(); }));
  ran.get_future().wait();
}

TEST(Runtime, ReadsWhichAlgorithmsCollectivesTake) {
  Result<Ref<Runtime>> made = Runtime::Create(
      {.settings = {{"collective_table", "rows: all_reduce tcp any 8KiB flat_fold"}},
       .world = nullptr});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  Runtime& runtime = **made;
  EXPECT_EQ(runtime.collective_table()->num_own_rows(), 1u);

  const std::string path = testing::TempDir() + Format("table_{}", getpid());
  std::ofstream(path) << "# tuned\nall_reduce tcp any 8KiB flat_fold\n"
                         "all_reduce tcp any any slice_and_share 64KiB\n";
  ASSERT_TRUE(runtime.Set("collective_table", path).ok());
  EXPECT_EQ(runtime.collective_table()->num_own_rows(), 2u);

  // What is wrong leaves it as it is.
  std::ofstream(path) << "\nall_reduce tcp any 8KiB quickly\n";
  const Status wrong = runtime.Set("collective_table", path);
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr(path + ":2: algorithm of all_reduce"));
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_THAT(std::string(runtime.Set("collective_table", path).message()),
              HasSubstr("the file of the setting collective_table"));
  EXPECT_EQ(runtime.collective_table()->num_own_rows(), 2u);

  ASSERT_TRUE(runtime.Set("collective_table", "").ok());
  EXPECT_EQ(runtime.collective_table()->num_own_rows(), 0u);
  EXPECT_TRUE(ShutDown(runtime).ok());
}

TEST(Runtime, AppliesItsSettings) {
  Result<Ref<Runtime>> made = Runtime::Create({.settings = {{"logical_cpu_devices", "3"},
                                                            {"log_level", "error"},
                                                            {"memory_limit", "1M"},
                                                            {"compute_threads", "5"},
                                                            {"default_timeout", "2s"}},
                                               .world = nullptr});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  Runtime& runtime = **made;
  EXPECT_EQ(runtime.devices().ListDevices().size(), 3u);
  EXPECT_EQ(runtime.log().level(), LogLevel::kError);
  EXPECT_EQ(runtime.memory().limit_bytes(), uint64_t{1} << 20);
  EXPECT_EQ(runtime.compute_threads(), 5);
  EXPECT_EQ(runtime.default_timeout_ns(), 2 * kSecondNs);
  ASSERT_TRUE(runtime.Set("memory_limit", "none").ok());
  ASSERT_TRUE(runtime.Set("compute_threads", "0").ok());
  EXPECT_EQ(runtime.memory().limit_bytes(), 0u);
  EXPECT_GE(runtime.compute_threads(), 1);
  EXPECT_EQ(runtime.Set("logical_cpu_devices", "4").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*runtime.ReadSetting("default_timeout"), "2s");
  EXPECT_TRUE(ShutDown(runtime).ok());
  EXPECT_EQ(runtime.Set("log_level", "info").code(), StatusCode::kFailedPrecondition);
}

TEST(Runtime, IsNotMadeWithASettingThatNobodyKnows) {
  const Status status = Runtime::Create({.settings = {{"colour", "blue"}}, .world = {}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown setting \"colour\""));
}

TEST(Runtime, ByDefaultStartsAtFirstUseAndAgainAfterShutdown) {
  EXPECT_EQ(Runtime::DefaultIfRunning(), nullptr);
  EXPECT_TRUE(Runtime::ShutdownDefault(CallOptions::Default()).ok());
  for (int round = 0; round < 3; ++round) {
    const Ref<Runtime> first = *Runtime::Default();
    EXPECT_EQ(*Runtime::Default(), first);
    EXPECT_EQ(Runtime::DefaultIfRunning(), first);
    UseExecutor(*first);
    ASSERT_TRUE(Runtime::ShutdownDefault(CallOptions::Default()).ok());
    EXPECT_EQ(first->CheckUsable("map").code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(Runtime::DefaultIfRunning(), nullptr);
    EXPECT_NE(*Runtime::Default(), first);
    // Shut down by its own handle it is replaced as well.
    EXPECT_TRUE(ShutDown(**Runtime::Default()).ok());
  }
  EXPECT_TRUE(Runtime::ShutdownDefault(CallOptions::Default()).ok());
}

TEST(Runtime, ByDefaultIsOneForAllThreads) {
  std::vector<std::thread> threads;
  std::vector<Ref<Runtime>> seen(8);
  for (Ref<Runtime>& slot : seen) {
    threads.emplace_back([&slot] { slot = *Runtime::Default(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ref<Runtime>& one : seen) EXPECT_EQ(one, seen[0]);
  EXPECT_TRUE(Runtime::ShutdownDefault(CallOptions::Default()).ok());
}

TEST(Runtime, LivesAsLongAsTheObjectsMadeWithIt) {
  Ref<Runtime> runtime = *Runtime::Create();
  Ref<DatasetEnvironment> datasets = runtime->datasets();
  Environment* const environment = &datasets->environment();
  EXPECT_EQ(&Runtime::Of(*environment), runtime.get());
  EXPECT_EQ(datasets->functions(), &runtime->functions());
  runtime.reset();
  EXPECT_TRUE(environment->CheckUsable("map").ok());
}

TEST(Runtime, ReleasedWithoutShutdownIsJoinedByTheNextShutdownOfAnyRuntime) {
  std::atomic<bool> gone{false};
  struct Flag {
    explicit Flag(std::atomic<bool>* gone) : gone(gone) {}
    Flag(Flag&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
    ~Flag() {
      if (gone != nullptr) *gone = true;
    }
    std::atomic<bool>* gone;
  };
  {
    const Ref<Runtime> forgotten = *Runtime::Create();
    UseExecutor(*forgotten);
    // A timer that is dropped when its runtime is shut down.
    forgotten->executor().PostAfter(3600 * kSecondNs, [flag = Flag(&gone)] { (void)flag; });
  }
  EXPECT_FALSE(gone);
  EXPECT_TRUE(ShutDown(**Runtime::Create()).ok());
  EXPECT_TRUE(gone);
}

TEST(Runtime, FreesRegisteredFunctionsAtShutdownOnTheCallbackThread) {
  struct Seen {
    std::atomic<int> destroyed{0};
    std::thread::id thread;
  } seen;
  const Ref<Runtime> runtime = *Runtime::Create();
  auto data = MakeRef<HostData>(
      &seen,
      [](void* data) {
        auto* seen = static_cast<Seen*>(data);
        seen->thread = std::this_thread::get_id();
        ++seen->destroyed;
      },
      Ref<CallbackExecutor>::Retain(&runtime->callback_executor()));
  const CallbackFn fn = [](Context*, const Value*, Value**, void*) -> const StatusRep* {
    return nullptr;
  };
  ASSERT_TRUE(
      runtime->functions().Register("f", *StoredCallback::Create(fn, std::move(data))).ok());
  EXPECT_TRUE(ShutDown(*runtime).ok());
  EXPECT_EQ(seen.destroyed, 1);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
}

TEST(Runtime, CanStandOnASimulatedWorld) {
  auto world = MakeRef<SimulatedEnvironment>(5);
  const Ref<Runtime> runtime = *Runtime::Create({.settings = {}, .world = world});
  runtime->SetFlightRecordDirectory("/records");
  static constexpr FlightEventType kStep{"step", {"number"}};
  runtime->recorder().Record(kStep, FlightPhase::kInstant, {7});
  const std::string path = *runtime->WriteFlightRecord();
  EXPECT_THAT(path, testing::MatchesRegex("/records/process-[0-9]+/flight-0.json"));
  EXPECT_THAT(*world->disk().ReadFile(path), HasSubstr("\"name\":\"step\""));
  EXPECT_TRUE(ShutDown(*runtime).ok());
  EXPECT_TRUE(world->is_closed());
}

template <typename Child>
int ExitCodeOf(Child child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Runtime, IsRefusedInAForkedChildWithAClearMessage) {
  const Ref<Runtime> runtime = *Runtime::Default();
  UseExecutor(*runtime);
  EXPECT_EQ(ExitCodeOf([&] {
              const Status status = Runtime::Default().status();
              if (status.code() != StatusCode::kFailedPrecondition) return 1;
              if (status.message().find("forked") == std::string_view::npos) return 2;
              if (Runtime::Create().ok()) return 3;
              if (Runtime::ShutdownDefault(CallOptions::Default()).ok()) return 4;
              if (runtime->Set("log_level", "info").ok()) return 5;
              if (Runtime::DefaultIfRunning()) return 6;
              return 0;
            }),
            0);
  EXPECT_TRUE(Runtime::ShutdownDefault(CallOptions::Default()).ok());
}

// Exit runs destructors of static objects and atexit handlers, which _exit would not.
TEST(RuntimeDeathTest, LeavesAProcessThatExitsWithoutShutdownAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Ref<Runtime> runtime = *Runtime::Default();
        UseExecutor(*runtime);
        runtime->callback_executor().Post([] {});
        runtime->executor().PostAfter(3600 * kSecondNs, [] {});
        exit(42);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST(RuntimeDeathTest, ThatHasEndedStartsNoMore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [](bool runs_before) {
    const Ref<Runtime> before = runs_before ? *Runtime::Default() : nullptr;
    if (!Runtime::EndDefault(CallOptions::Default()).ok()) return 1;
    if (before && !before->is_shut_down()) return 2;
    for (int i = 0; i < 2; ++i) {
      const Status status = Runtime::Default().status();
      if (status.code() != StatusCode::kFailedPrecondition) return 3;
      if (status.message().find("is about to exit") == std::string_view::npos) return 4;
    }
    if (Runtime::DefaultIfRunning()) return 5;
    if (!Runtime::ShutdownDefault(CallOptions::Default()).ok()) return 6;
    // Others have their own life.
    const Ref<Runtime> other = Runtime::Create().value();
    return other->Shutdown(CallOptions::Default()).ok() ? 42 : 7;
  };
  EXPECT_EXIT(exit(end(false)), ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(exit(end(true)), ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace tutti
