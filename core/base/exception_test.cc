#include "core/base/exception.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"

namespace tutti {
namespace {

TEST(Exception, MemoryThatRunsOutIsResourceExhausted) {
  const Status status = CatchExceptions("map", []() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "out of memory");
}

TEST(Exception, OthersAreInternalAndSayWhat) {
  const Status status =
      CatchExceptions("map", []() -> Status { throw std::runtime_error("no such row"); });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "map: an exception: no such row; catch it in the function that throws it, or, if that "
            "is none of yours, report it");
  const Status unknown = CatchExceptions("map", []() -> Status { throw 7; });
  EXPECT_EQ(unknown.code(), StatusCode::kInternal);
  EXPECT_NE(unknown.message().find("map: an exception: of an unknown type"), std::string::npos);
}

TEST(Exception, StatusesPass) {
  EXPECT_TRUE(CatchExceptions("map", [] { return OkStatus(); }).ok());
  EXPECT_EQ(CatchExceptions("map", [] { return NotFound("gone"); }).message(), "gone");
}

TEST(Exception, AThreadThatIsCancelledUnwindsThroughIt) {
  bool caught = false;
  bool unwound = false;
  std::thread thread([&] {
    const struct Unwound {
      bool* flag;
      ~Unwound() { *flag = true; }
    } at_end{&unwound};
    (void)CatchExceptions("map", []() -> Status {
      pthread_cancel(pthread_self());
      pthread_testcancel();
      return OkStatus();
    });
    caught = true;
  });
  thread.join();
  EXPECT_TRUE(unwound);
  EXPECT_FALSE(caught);
}

}  // namespace
}  // namespace tutti
