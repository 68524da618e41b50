#include "capi/tool/progress_line.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace tutti::tool {
namespace {

// What a line of this form has written after these steps, and its end.
std::string Written(ProgressForm form) {
  std::FILE* const file = std::tmpfile();
  {
    ProgressLine line(form, "bench", "sizes", 2, file);
    line.Tell(1);
    line.Say("a part");
    line.Tell(2);
  }
  std::rewind(file);
  std::array<char, 1000> bytes;
  const size_t size = std::fread(bytes.data(), 1, bytes.size(), file);
  (void)std::fclose(file);
  return std::string(bytes.data(), size);
}

TEST(ProgressLine, TellsHowMuchIsLeft) {
  EXPECT_EQ(ProgressText("bench", "sizes", 0, 4, 0.2), "bench: 0 of 4 sizes (0 %), 0.2 s");
  EXPECT_EQ(ProgressText("bench", "sizes", 1, 4, 2), "bench: 1 of 4 sizes (25 %), 2.0 s, about "
                                                     "6.0 s left");
  EXPECT_EQ(ProgressText("bench", "sizes", 1, 61, 2), "bench: 1 of 61 sizes (1 %), 2.0 s, about "
                                                      "2 min 00 s left");
  EXPECT_EQ(ProgressText("bench", "sizes", 4, 4, 8), "bench: 4 of 4 sizes (100 %), 8.0 s");
  EXPECT_EQ(ProgressText("bench", "sizes", 0, 0, 8), "bench: 0 of 0 sizes");
}

TEST(ProgressLine, IsOneLineThatIsTakenAway) {
  const std::string text = Written(ProgressForm::kLine);
  EXPECT_EQ(text.rfind("\rbench: 0 of 2 sizes (0 %), ", 0), 0u) << text;
  EXPECT_NE(text.find("\x1b[K\rbench: a part\x1b[K\r"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[K\rbench: 2 of 2 sizes (100 %), "), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K") << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(ProgressLine, IsALineForEachStepOrNothing) {
  const std::string text = Written(ProgressForm::kLines);
  EXPECT_EQ(text.rfind("bench: 0 of 2 sizes (0 %), ", 0), 0u) << text;
  EXPECT_NE(text.find("\nbench: a part\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos) << text;
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(Written(ProgressForm::kOff), "");
  EXPECT_EQ(ProgressFormOf("lines"), ProgressForm::kLines);
  EXPECT_EQ(ProgressFormOf("line"), ProgressForm::kLine);
  EXPECT_EQ(ProgressFormOf("off"), ProgressForm::kOff);
}

}  // namespace
}  // namespace tutti::tool
