#include "core/tensor/join_strings.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

using ::testing::HasSubstr;

Ref<Tensor> Texts(const Shape& shape, const std::vector<std::string>& texts) {
  std::vector<BytesView> views;
  for (const std::string& text : texts) views.push_back(BytesView{text.data(), text.size()});
  return Tensor::FromStrings(shape, views).value();
}

std::string Joined(const std::vector<Ref<Tensor>>& inputs, std::string_view separator = "") {
  std::vector<const Tensor*> all;
  for (const Ref<Tensor>& input : inputs) all.push_back(input.get());
  const Result<Ref<Tensor>> joined = JoinStrings(all, separator);
  return joined.ok() ? (*joined)->ToString() : "!" + std::string(joined.status().message());
}

TEST(JoinStrings, PutsScalarsInEveryPlace) {
  EXPECT_EQ(Joined({Tensor::Bytes("part"), Tensor::Bytes("7")}, "-"), "bytes[] \"part-7\"");
  EXPECT_EQ(Joined({Tensor::Bytes("one")}, "-"), "bytes[] \"one\"");
  const Ref<Tensor> matrix = Texts(Shape({2, 2}), {"a", "", "c", "d"});
  EXPECT_EQ(Joined({matrix, Tensor::Bytes("x"), matrix}),
            "bytes[2,2] [[\"axa\" \"x\"] [\"cxc\" \"dxd\"]]");
  // Not in row-major order.
  const int64_t begin[] = {1};
  const int64_t size[] = {2};
  const int64_t step[] = {2};
  const Ref<Tensor> row = Texts(Shape({4}), {"0", "1", "2", "3"});
  EXPECT_EQ(Joined({Tensor::Bytes("r"), row->SliceGeneral(begin, size, step).value()}),
            "bytes[2] [\"r1\" \"r3\"]");
  EXPECT_EQ(Joined({Texts(Shape({0}), {}), Tensor::Bytes("x")}), "bytes[0] []");
}

TEST(JoinStrings, SaysWhatDoesNotFit) {
  EXPECT_THAT(Joined({}), HasSubstr("there are no inputs"));
  EXPECT_THAT(Joined({Tensor::Bytes("a"), Tensor::Scalar<int64_t>(3)}),
              HasSubstr("input 1 is int64[]; expected byte strings"));
  EXPECT_THAT(Joined({Texts(Shape({2}), {"a", "b"}), Tensor::Bytes("x"), Texts(Shape({1}), {"c"})}),
              HasSubstr("input 2 has shape [1], and input 0 has [2]"));
}

}  // namespace
}  // namespace tutti
