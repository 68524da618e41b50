#include "core/base/round_guard.h"

#include <gtest/gtest.h>

#include <new>

#include "core/base/log.h"
#include "core/base/real_environment.h"

namespace tutti {
namespace {

TEST(RoundGuard, GoesOnBehindARoundThatThrowsAndSaysSoOnceInAWhile) {
  const Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  environment->log().set_level(LogLevel::kError);
  RoundGuard guard("a thread", *environment);
  int rounds = 0;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    const bool done = guard.Run([&] {
      ++rounds;
      if (i == 1 || i == 2) throw std::bad_alloc();
    });
    EXPECT_EQ(done, i == 0 || i == 3);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(rounds, 4);
  const size_t first = log.find("a thread: something was given up, and is tried again");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("a thread: something", first + 1), std::string::npos) << log;
  EXPECT_TRUE(environment->Shutdown(CallOptions::Default()).ok());
}

}  // namespace
}  // namespace tutti
