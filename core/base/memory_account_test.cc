#include "core/base/memory_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryAccount, CountsInEveryAncestor) {
  auto root = MakeRef<MemoryAccount>("root");
  auto child = MakeRef<MemoryAccount>("child", root);
  ASSERT_TRUE(child->Reserve(100).ok());
  ASSERT_TRUE(root->Reserve(10).ok());
  EXPECT_EQ(child->used_bytes(), 100u);
  EXPECT_EQ(root->used_bytes(), 110u);
  child->Unreserve(100);
  EXPECT_EQ(root->used_bytes(), 10u);
  EXPECT_EQ(root->peak_bytes(), 110u);
}

TEST(MemoryAccount, SaysNoAtTheLimitAndCountsNothing) {
  auto root = MakeRef<MemoryAccount>("runtime", nullptr, 1024);
  auto child = MakeRef<MemoryAccount>("iterator", root);
  ASSERT_TRUE(child->Reserve(1000).ok());
  const Status status = child->Reserve(25);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"runtime\""), HasSubstr("25 bytes"), HasSubstr("1000 bytes"),
                    HasSubstr("1 KiB")));
  EXPECT_EQ(child->used_bytes(), 1000u);
  EXPECT_TRUE(child->Reserve(24).ok());
  EXPECT_FALSE(child->Reserve(UINT64_MAX).ok());
  root->set_limit_bytes(0);
  EXPECT_TRUE(child->Reserve(1 << 20).ok());
}

}  // namespace
}  // namespace tutti
