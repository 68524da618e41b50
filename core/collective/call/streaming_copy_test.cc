#include "core/collective/call/streaming_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

TEST(StreamingCopy, CopiesEverySizeAtEveryAlignmentAndNothingMore) {
  std::vector<char> source(1024);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + 1);
  for (size_t offset = 0; offset < 65; ++offset) {
    for (size_t bytes : {0, 1, 63, 64, 65, 127, 128, 200, 256, 776, 777}) {
      std::vector<char> destination(1024, 0);
      if (bytes % 2 == 0) {
        StreamingCopy(destination.data() + offset, source.data() + 3, bytes);
      } else {
        StreamingCopyAhead(destination.data() + offset, source.data() + 3, bytes,
                           source.data() + offset);
      }
      StreamingFence();
      for (size_t i = 0; i < destination.size(); ++i) {
        const bool inside = i >= offset && i < offset + bytes;
        ASSERT_EQ(destination[i], inside ? source[3 + i - offset] : 0)
            << bytes << " bytes at " << offset << ", byte " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
