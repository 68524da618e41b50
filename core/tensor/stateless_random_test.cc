// Numbers of a seed beside those that TensorFlow 2.21 gives for it, bit by bit.
#include "core/tensor/stateless_random.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSmall[] = {1, 2};
constexpr int64_t kLarge[] = {-5, int64_t{1} << 40};

template <class T>
std::vector<T> Uniform(const int64_t seed[2], int64_t n = 5) {
  std::vector<T> numbers(static_cast<size_t>(n));
  FillRandomUniform(PhiloxStream(seed), DTypeOf<T>, n, numbers.data());
  return numbers;
}

template <class T>
std::vector<T> Normal(const int64_t seed[2], int64_t n = 5) {
  std::vector<T> numbers(static_cast<size_t>(n));
  FillRandomNormal(PhiloxStream(seed), DTypeOf<T>, n, numbers.data());
  return numbers;
}

template <class T>
std::vector<T> Bits(const int64_t seed[2]) {
  std::vector<T> numbers(5);
  FillRandomBits(PhiloxStream(seed), DTypeOf<T>, 5, numbers.data());
  return numbers;
}

template <class T>
std::vector<T> Integers(const int64_t seed[2], T low, T high) {
  std::vector<T> numbers(5);
  EXPECT_TRUE(FillRandomIntegers(PhiloxStream(seed), DTypeOf<T>, &low, &high, 5, numbers.data()));
  return numbers;
}

template <class T>
std::vector<float> Widened(const std::vector<T>& numbers) {
  std::vector<float> wide;
  for (const T number : numbers) wide.push_back(ToFloat(number));
  return wide;
}

TEST(StatelessRandom, UniformNumbersAreTheReferences) {
  EXPECT_THAT(Uniform<float>(kSmall),
              ElementsAre(0x1.b028bp-1f, 0x1.894f1p-3f, 0x1.fe10f8p-1f, 0x1.48793p-3f,
                          0x1.168498p-2f));
  EXPECT_THAT(Uniform<float>(kLarge),
              ElementsAre(0x1.e163bcp-1f, 0x1.20015cp-1f, 0x1.3a018p-6f, 0x1.246eb8p-1f,
                          0x1.619eep-4f));
  EXPECT_THAT(Uniform<double>(kSmall),
              ElementsAre(0x1.81458cf3129e2p-1, 0x1.f087c2c290f26p-1, 0x1.6849f8a98ee28p-3,
                          0x1.b60b64610ae7cp-1, 0x1.07956bf15b35ep-1));
  EXPECT_THAT(Widened(Uniform<Float16>(kLarge)),
              ElementsAre(0x1.dep-3f, 0x1.5cp-4f, 0x1.8p-9f, 0x1.d7p-1f, 0x1.eep-3f));
  EXPECT_THAT(Widened(Uniform<Bfloat16>(kLarge)),
              ElementsAre(0x1.bcp-1f, 0x1.5cp-1f, 0x1.8p-6f, 0x1.7p-2f, 0x1.dcp-1f));
}

// sin, cos and log are the C library's, and may differ in the last bit.
TEST(StatelessRandom, NormalNumbersAreTheReferences) {
  const std::vector<double> expected = {-0x1.23745fceed393p-3, 0x1.7b30df7adce2ep-1,
                                        -0x1.7813821086c87p+0, 0x1.25d2c6f1a9e3ap+0,
                                        -0x1.719a6fdd9e259p-1};
  const std::vector<double> wide = Normal<double>(kSmall);
  const std::vector<float> of_float = {0x1.16959ap-1f, 0x1.a8b702p-3f, 0x1.2d51c8p-4f,
                                       0x1.7c645p-5f, -0x1.4d34fep+0f};
  const std::vector<float> narrow = Normal<float>(kSmall);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(wide[i], expected[i]);
    EXPECT_FLOAT_EQ(narrow[i], of_float[i]);
  }
  EXPECT_THAT(Widened(Normal<Float16>(kSmall)),
              ElementsAre(0x1.168p-1f, 0x1.a8cp-3f, 0x1.2d4p-4f, 0x1.7c8p-5f, -0x1.4d4p+0f));
}

template <class T>
std::vector<T> Truncated(const int64_t seed[2], int64_t n = 9) {
  std::vector<T> numbers(static_cast<size_t>(n));
  FillRandomTruncatedNormal(PhiloxStream(seed), DTypeOf<T>, n, numbers.data());
  return numbers;
}

// The first four and the last one are of groups of their own.
TEST(StatelessRandom, TruncatedNormalNumbersAreTheReferences) {
  const std::vector<float> of_float = {
      -0x1.133d6ap-3f, -0x1.4c2eccp-2f, -0x1.3745e2p+0f, -0x1.b0bb88p-1f, -0x1.4a26eep+0f,
      0x1.eb3fbcp-1f,  -0x1.8aa768p-1f, 0x1.5a50fap-1f,  -0x1.d9b594p-3f};
  const std::vector<double> of_double = {
      -0x1.23745fceed393p-3, 0x1.7b30df7adce2ep-1, -0x1.1ad29167909a9p-1,
      -0x1.7809d7af7e4adp-1, -0x1.97fb79abfff44p-2, 0x1.850c94ed98bcbp-3,
      -0x1.1b8b647d0508dp+0, -0x1.b8d42b681b709p-1, -0x1.931696fd06ee0p-1};
  const std::vector<float> narrow = Truncated<float>(kLarge);
  const std::vector<double> wide = Truncated<double>(kSmall);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_FLOAT_EQ(narrow[i], of_float[i]) << i;
    EXPECT_DOUBLE_EQ(wide[i], of_double[i]) << i;
  }
  EXPECT_THAT(Widened(Truncated<Float16>(kSmall)),
              ElementsAre(0x1.168p-1f, 0x1.a8cp-3f, 0x1.2d4p-4f, 0x1.7c8p-5f, 0x1.588p-3f,
                          -0x1.af4p+0f, 0x1.efcp-3f, 0x1.b4p+0f, 0x1.1b4p+0f));
  EXPECT_THAT(Widened(Truncated<Bfloat16>(kSmall)),
              ElementsAre(0x1.16p-1f, 0x1.a8p-3f, 0x1.2ep-4f, 0x1.7cp-5f, 0x1.58p-3f, -0x1.bp+0f,
                          0x1.fp-3f, 0x1.b4p+0f, 0x1.1cp+0f));
}

TEST(StatelessRandom, TruncatedNormalNumbersAreSmallAndTheFirstOfMore) {
  const std::vector<float> all = Truncated<float>(kSmall, 10'003);
  double squares = 0;
  for (const float number : all) {
    ASSERT_LT(std::abs(number), 2.0f);
    squares += double{number} * double{number};
  }
  EXPECT_NEAR(squares / 10'003, 0.774, 0.03);  // the variance of what is left
  for (const int64_t n : {0, 1, 3, 4, 5, 10'002}) {
    EXPECT_EQ(Truncated<float>(kSmall, n), std::vector<float>(all.begin(), all.begin() + n));
  }
}

TEST(StatelessRandom, IntegersAreTheReferences) {
  EXPECT_THAT(Bits<int32_t>(kSmall),
              ElementsAre(1105988140, 1738052849, -335576002, 370444179, 10670227));
  EXPECT_THAT(Bits<int64_t>(kLarge),
              ElementsAre(6037075676718717167, -2933783244945853437, -4370738259210597129,
                          936004750860172006, -4184279595364427131));
  EXPECT_THAT(Bits<uint64_t>(kSmall),
              ElementsAre(7464880146280614444u, 1591045637757961278u, 17389275318164050067u,
                          2524363516007002203u, 6884554327646026923u));
  EXPECT_THAT(Integers<int32_t>(kSmall, -3, 1000), ElementsAre(97, 284, 647, 168, 310));
  EXPECT_THAT(Integers<int64_t>(kLarge, -3, 1000), ElementsAre(720, 31, 353, 573, 511));
  constexpr int32_t kLowest = INT32_MIN;
  for (const int32_t number : Integers<int32_t>(kSmall, kLowest, INT32_MAX)) {
    EXPECT_LT(number, INT32_MAX);
  }
  const int32_t bounds[] = {7, 7};
  int32_t untouched = -1;
  EXPECT_FALSE(FillRandomIntegers(PhiloxStream(kSmall), DType::kInt32, &bounds[0], &bounds[1], 1,
                                  &untouched));
  EXPECT_EQ(untouched, -1);
}

TEST(StatelessRandom, FewerNumbersAreTheFirstOfMore) {
  const std::vector<float> all = Uniform<float>(kSmall, 1003);
  const std::vector<double> wide = Normal<double>(kSmall, 1003);
  for (const int64_t n : {0, 1, 2, 3, 4, 6, 1002}) {
    const auto size = static_cast<size_t>(n);
    EXPECT_EQ(Uniform<float>(kSmall, n), std::vector<float>(all.begin(), all.begin() + n)) << size;
    EXPECT_EQ(Normal<double>(kSmall, n), std::vector<double>(wide.begin(), wide.begin() + n));
  }
  double sum = 0;
  for (const float number : all) sum += double{number};
  EXPECT_NEAR(sum / 1003, 0.5, 0.05);
}

}  // namespace
}  // namespace tutti
