#include "capi/tool/error_tail.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::tool {
namespace {

std::string LastErrorOf(const std::vector<std::string>& lines) {
  ErrorTail tail;
  for (const std::string& line : lines) tail.Add(line + "\n");
  return tail.LastError();
}

TEST(ErrorTail, FindsTheErrorThatEachLanguageEndsWith) {
  EXPECT_EQ(LastErrorOf({"Traceback (most recent call last):", "  File \"a.py\", line 1",
                         "    raise ValueError('no rows')", "ValueError: no rows"}),
            "ValueError: no rows");
  EXPECT_EQ(LastErrorOf({"Exception in thread \"main\" java.lang.IllegalStateException: step",
                         "\tat Train.main(Train.java:7)",
                         "Caused by: org.tutti.UnavailableException: rank 1 is gone",
                         "\t... 2 more"}),
            "Caused by: org.tutti.UnavailableException: rank 1 is gone");
  EXPECT_EQ(LastErrorOf({"panic: no rows", "", "goroutine 1 [running]:", "main.main()",
                         "\t/src/main.go:5 +0x1d", "exit status 2"}),
            "panic: no rows");
  EXPECT_EQ(LastErrorOf({"train: reading: NOT_FOUND: there is no file a", "freed 3 tensors"}),
            "train: reading: NOT_FOUND: there is no file a");
  EXPECT_EQ(LastErrorOf({"KeyboardInterrupt"}), "KeyboardInterrupt");
}

TEST(ErrorTail, FindsNoneWhereThereIsNone) {
  EXPECT_EQ(LastErrorOf({}), "");
  EXPECT_EQ(LastErrorOf({"epoch 1: loss 0.3", "INTERNALS: fine", "  ValueError: in a stack",
                         "no Error here", "Some words of an Error: none"}),
            "");
}

TEST(ErrorTail, KeepsTheLastLinesAndNotAllOfThem) {
  ErrorTail tail;
  tail.Add("ValueError: " + std::string(1000, 'x') + "\n");
  EXPECT_EQ(tail.LastError().size(), 400u);
  for (int i = 0; i < 1000; ++i) tail.Add("frame\n");
  EXPECT_EQ(tail.LastError(), "");
}

TEST(ErrorTail, PutsThePiecesOfALineTogether) {
  ErrorTail tail;
  for (const char* piece : {"Value", "Error: ", "no rows", "\n", "bye\n"}) tail.Add(piece);
  EXPECT_EQ(tail.LastError(), "ValueError: no rows");
}

TEST(ErrorTail, TellsAnErrorAboutAPeerFromOnesOwn) {
  EXPECT_TRUE(IsAboutAPeer("tutti.errors.UnavailableError: all_reduce #3 needs rank 1"));
  EXPECT_TRUE(IsAboutAPeer("step: ABORTED: worker 2 has left"));
  EXPECT_TRUE(IsAboutAPeer("Caused by: org.tutti.AbortedException: rank 1"));
  EXPECT_FALSE(IsAboutAPeer("ValueError: the host is Unavailable"));
  EXPECT_FALSE(IsAboutAPeer("MyUnavailableErrorHandler: none"));
  EXPECT_FALSE(IsAboutAPeer(""));
}

}  // namespace
}  // namespace tutti::tool
