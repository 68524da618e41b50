#include "core/tensor/as_string.h"

#include <gmock/gmock.h>

#include <clocale>
#include <limits>
#include <string>

#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

std::string Text(const Ref<Tensor>& tensor, const AsStringOptions& options = {}) {
  const Result<Ref<Tensor>> texts = AsString(*tensor, options);
  return texts.ok() ? (*texts)->ContentsToString() : "!" + std::string(texts.status().message());
}

TEST(AsString, WritesEveryDType) {
  EXPECT_EQ(Text(Tensor::Vector<int32_t>({3, -2})), R"(["3" "-2"])");
  EXPECT_EQ(Text(Tensor::Scalar<int8_t>(-128)), R"("-128")");
  EXPECT_EQ(Text(Tensor::Scalar<uint8_t>(200)), R"("200")");
  EXPECT_EQ(Text(Tensor::Scalar<int16_t>(-7)), R"("-7")");
  EXPECT_EQ(Text(Tensor::Scalar<uint64_t>(std::numeric_limits<uint64_t>::max())),
            R"("18446744073709551615")");
  EXPECT_EQ(Text(Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::min())),
            R"("-9223372036854775808")");
  EXPECT_EQ(Text(Tensor::Scalar<float>(3.5f)), R"("3.500000")");
  EXPECT_EQ(Text(Tensor::Scalar<double>(-1e20)), R"("-100000000000000000000.000000")");
  EXPECT_EQ(Text(Tensor::Scalar(ToFloat16(0.5f))), R"("0.500000")");
  EXPECT_EQ(Text(Tensor::Scalar(ToBfloat16(2.0f))), R"("2.000000")");
  EXPECT_EQ(Text(Tensor::Scalar(Complex64{1.5f, -2.0f})), "\"(1.500000,-2.000000)\"");
  EXPECT_EQ(Text(Tensor::Scalar(Complex128{0, 1}), {.precision = 1}), "\"(0.0,1.0)\"");
  EXPECT_EQ(Text(Tensor::Vector<bool>({true, false})), R"(["true" "false"])");
  EXPECT_EQ(Text(Tensor::Bytes("as it is")), R"("as it is")");
  EXPECT_EQ(Text(Tensor::Scalar<double>(std::numeric_limits<double>::infinity())), R"("inf")");
}

// As the page of the function says, and C's printf does.
TEST(AsString, KnowsPrecisionFormWidthAndFill) {
  const Ref<Tensor> floats = Tensor::Vector<float>({3.1415926f, 2.71828f});
  EXPECT_EQ(Text(floats, {.precision = 2}), R"(["3.14" "2.72"])");
  EXPECT_EQ(Text(floats, {.precision = 0}), R"(["3" "3"])");
  EXPECT_EQ(Text(floats, {.precision = 1, .scientific = true}), R"(["3.1e+00" "2.7e+00"])");
  EXPECT_EQ(Text(floats, {.shortest = true}), R"(["3.14159" "2.71828"])");
  EXPECT_EQ(Text(Tensor::Scalar<double>(1e-7), {.shortest = true}), R"("1e-07")");
  EXPECT_EQ(Text(floats, {.precision = 1, .width = 6}), R"(["   3.1" "   2.7"])");
  const Ref<Tensor> number = Tensor::Scalar<int64_t>(-7);
  EXPECT_EQ(Text(number, {.width = 4}), R"("  -7")");
  EXPECT_EQ(Text(number, {.width = 4, .fill = " "}), R"("  -7")");
  EXPECT_EQ(Text(number, {.width = 4, .fill = "0"}), R"("-007")");
  EXPECT_EQ(Text(number, {.width = 4, .fill = "-"}), R"("-7  ")");
  EXPECT_EQ(Text(Tensor::Scalar<int64_t>(7), {.width = 4, .fill = "+"}), R"("  +7")");
  EXPECT_EQ(Text(number, {.fill = "0"}), R"("-7")");
  EXPECT_EQ(Text(number, {.width = 0}), R"("-7")");
}

TEST(AsString, SaysWhatItDoesNotKnow) {
  const Ref<Tensor> number = Tensor::Scalar<int64_t>(7);
  EXPECT_THAT(Text(number, {.precision = 2}), HasSubstr("precision is for floats"));
  EXPECT_THAT(Text(number, {.scientific = true}), HasSubstr("scientific is for floats"));
  EXPECT_THAT(Text(Tensor::Scalar<bool>(true), {.shortest = true}), HasSubstr("of bool"));
  EXPECT_THAT(Text(Tensor::Scalar<float>(1), {.scientific = true, .shortest = true}),
              HasSubstr("both set"));
  EXPECT_THAT(Text(number, {.width = 3, .fill = "ab"}), HasSubstr("fill is \"ab\""));
  EXPECT_THAT(Text(number, {.width = 3, .fill = "x"}), HasSubstr("fill is \"x\""));
  EXPECT_THAT(Text(number, {.width = 1'000'000'000}), HasSubstr("width is 1000000000"));
  EXPECT_THAT(Text(Tensor::Scalar<float>(1), {.precision = -2}), HasSubstr("precision is -2"));
}

}  // namespace
}  // namespace tutti
