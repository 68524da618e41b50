#include "core/debugging/assertion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/real_environment.h"
#include "core/debugging/assertion_function.h"
#include "core/function/function.h"
#include "core/tensor/cast.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string Message(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  return std::string(status.message());
}

Status Compare(Comparison comparison, Ref<Tensor> x, Ref<Tensor> y, AssertOptions options = {}) {
  return AssertCompare(comparison, {"", std::move(x)}, {"", std::move(y)}, {}, options);
}

Status Check(Condition condition, Ref<Tensor> x) {
  return AssertCondition(condition, {"", std::move(x)}, {});
}

TEST(AssertCompare, SaysWhereAndWhatStandsThere) {
  AssertOptions options;
  options.message = "after layer 1";
  options.summarize = 2;
  const std::string message =
      Message(Compare(Comparison::kLess, Tensor::Vector<int32_t>({1, 5, 3}),
                      Tensor::Vector<int32_t>({2, 4, 9}), options));
  EXPECT_EQ(message,
            "after layer 1: assert_less: x < y does not hold at [1], where x is 5 and y is 4; x "
            "int32[3]: [1 5 ...], y int32[3]: [2 4 ...]");
}

TEST(AssertCompare, BroadcastsBothSides) {
  const Ref<Tensor> column =
      Tensor::FromSpan<float>(Shape({2, 1}), std::vector<float>{1, 2}).value();
  const Ref<Tensor> row = Tensor::FromSpan<float>(Shape({3}), std::vector<float>{3, 2, 4}).value();
  EXPECT_TRUE(Compare(Comparison::kLessEqual, column, row).ok());
  const Status status = Compare(Comparison::kLess, column, row);
  EXPECT_THAT(Message(status), HasSubstr("at [1,1], where x is 2 and y is 2"));
  EXPECT_TRUE(Compare(Comparison::kEqual, Tensor::Scalar<float>(1), column->Slice(0, 1)).ok());
  EXPECT_THAT(Message(Compare(Comparison::kEqual, row, Tensor::Vector<float>({1, 2}))),
              HasSubstr("do not broadcast"));
}

TEST(AssertCompare, PassesForNoElements) {
  const Ref<Tensor> none = Tensor::Create(DType::kFloat32, Shape({0, 3})).value();
  for (int i = 1; i <= 7; ++i) {
    EXPECT_TRUE(Compare(static_cast<Comparison>(i), none, Tensor::Scalar<float>(7)).ok()) << i;
  }
  EXPECT_TRUE(Check(Condition::kPositive, none).ok());
}

// Every comparison, dtype and length, contiguous and strided, against one element at a time.
template <class T>
void CompareWithPlainLoop() {
  for (const int64_t n : {1, 255, 256, 257, 1000}) {
    Ref<Tensor> wide = Tensor::Create(DType::kInt64, Shape({n, 2})).value();
    for (int64_t i = 0; i < 2 * n; ++i) wide->mutable_span<int64_t>()[i] = 5;
    const Ref<Tensor> cast = Cast(*wide, DTypeOf<T>).value();
    const Ref<Tensor> fives = cast->SliceAxis(1, 0, 1).value();
    const Ref<Tensor> dense = fives->Copy().value();
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      const Ref<Tensor> other = dense->Copy().value();
      const Ref<Tensor> seven = Cast(*Tensor::Scalar<int8_t>(7), DTypeOf<T>).value();
      std::memcpy(static_cast<T*>(other->mutable_data()) + at, seven->data(), sizeof(T));
      for (const Ref<Tensor>& x : {dense, fives}) {
        const Shape& shape = x->shape();
        EXPECT_EQ(FirstUnlike(Comparison::kEqual, *x, *other, shape), at);
        EXPECT_EQ(FirstUnlike(Comparison::kEqual, *x, *x, shape), kNothingFails);
        EXPECT_EQ(FirstUnlike(Comparison::kNoneEqual, *x, *other, shape),
                  at > 0 ? 0 : n > 1 ? 1 : kNothingFails);
        if constexpr (!kIsComplex<T>) {
          EXPECT_EQ(FirstUnlike(Comparison::kGreaterEqual, *x, *other, shape), at);
          EXPECT_EQ(FirstUnlike(Comparison::kLessEqual, *x, *other, shape), kNothingFails);
          EXPECT_EQ(FirstUnlike(Comparison::kLessEqual, *other, *x->SliceAxis(0, 0, 1).value(),
                                shape),
                    at);
        }
      }
    }
  }
}

TEST(FirstUnlike, AgreesWithAPlainLoopForEveryDType) {
  CompareWithPlainLoop<int8_t>();
  CompareWithPlainLoop<int16_t>();
  CompareWithPlainLoop<int32_t>();
  CompareWithPlainLoop<int64_t>();
  CompareWithPlainLoop<uint8_t>();
  CompareWithPlainLoop<uint16_t>();
  CompareWithPlainLoop<uint32_t>();
  CompareWithPlainLoop<uint64_t>();
  CompareWithPlainLoop<Float16>();
  CompareWithPlainLoop<Bfloat16>();
  CompareWithPlainLoop<float>();
  CompareWithPlainLoop<double>();
  CompareWithPlainLoop<Complex64>();
  CompareWithPlainLoop<Complex128>();
}

TEST(AssertCompare, TakesBooleansAndByteStringsForEquality) {
  EXPECT_TRUE(Compare(Comparison::kEqual, Tensor::Bytes("a"), Tensor::Bytes("a")).ok());
  EXPECT_THAT(Message(Compare(Comparison::kEqual, Tensor::Bytes("a"), Tensor::Bytes("b"))),
              HasSubstr("x is \"a\" and y is \"b\""));
  EXPECT_TRUE(
      Compare(Comparison::kNoneEqual, Tensor::Scalar(true), Tensor::Scalar(false)).ok());
  EXPECT_THAT(Message(Compare(Comparison::kLess, Tensor::Scalar(true), Tensor::Scalar(false))),
              HasSubstr("expected integers or floats"));
}

TEST(AssertCompare, WantsOneDType) {
  const Status status = Compare(Comparison::kEqual, Tensor::Scalar(1.0f), Tensor::Scalar(1.0));
  EXPECT_THAT(Message(status), HasSubstr("x is float32[] and y is float64[]"));
  EXPECT_NE(status.FindDetail("found_dtype"), nullptr);
}

TEST(AssertCompare, ANanIsEqualToNothing) {
  EXPECT_FALSE(Compare(Comparison::kEqual, Tensor::Scalar(kNan), Tensor::Scalar(kNan)).ok());
  EXPECT_TRUE(Compare(Comparison::kNoneEqual, Tensor::Scalar(kNan), Tensor::Scalar(kNan)).ok());
  EXPECT_FALSE(Compare(Comparison::kNear, Tensor::Scalar(kNan), Tensor::Scalar(kNan)).ok());
}

TEST(AssertNear, HasTolerancesOfTheDType) {
  const auto near = [](Ref<Tensor> x, Ref<Tensor> y) {
    return Compare(Comparison::kNear, std::move(x), std::move(y));
  };
  EXPECT_TRUE(near(Tensor::Scalar(1.0f), Tensor::Scalar(1.0000005f)).ok());
  EXPECT_THAT(Message(near(Tensor::Scalar(1.0f), Tensor::Scalar(1.00001f))),
              HasSubstr("with rtol 1.19209"));
  EXPECT_FALSE(near(Tensor::Scalar(1.0), Tensor::Scalar(1.0000005)).ok());
  EXPECT_TRUE(near(Tensor::Scalar(ToFloat16(1.0f)), Tensor::Scalar(ToFloat16(1.01f))).ok());
  EXPECT_FALSE(near(Tensor::Scalar(ToFloat16(1.0f)), Tensor::Scalar(ToFloat16(1.1f))).ok());
  EXPECT_TRUE(near(Tensor::Scalar(ToBfloat16(1.0f)), Tensor::Scalar(ToBfloat16(1.1f))).ok());
  EXPECT_TRUE(near(Tensor::Scalar(Complex64{1, 1}), Tensor::Scalar(Complex64{1, 1.0000005f})).ok());
  EXPECT_THAT(Message(near(Tensor::Scalar(1), Tensor::Scalar(1))), HasSubstr("expected floats"));
}

TEST(AssertNear, TakesTolerancesPerElement) {
  const NamedTensor x{"", Tensor::Vector<float>({1, 1, 1})};
  const NamedTensor y{"", Tensor::Vector<float>({1.5, 1.5, 2.5})};
  const Ref<Tensor> none = Tensor::Scalar(0.0f);
  const Ref<Tensor> atol = Tensor::Vector<float>({1, 1, 2});
  EXPECT_TRUE(AssertCompare(Comparison::kNear, x, y, {none.get(), atol.get()}, {}).ok());
  const Ref<Tensor> one = Tensor::Scalar(1.0f);
  EXPECT_THAT(Message(AssertCompare(Comparison::kNear, x, y, {none.get(), one.get()}, {})),
              HasSubstr("at [2], where x is 1 and y is 2.5, with rtol 0 and atol 1"));
  const Ref<Tensor> two = Tensor::Vector<float>({1, 1});
  EXPECT_THAT(Message(AssertCompare(Comparison::kNear, x, y, {none.get(), two.get()}, {})),
              HasSubstr("does not broadcast"));
}

TEST(AssertCondition, LooksAtTheSign) {
  const Ref<Tensor> x = Tensor::Vector<float>({1, 0});
  EXPECT_THAT(Message(Check(Condition::kPositive, x)),
              StartsWith("assert_positive: x > 0 does not hold at [1], where x is 0"));
  EXPECT_TRUE(Check(Condition::kNonNegative, x).ok());
  EXPECT_FALSE(Check(Condition::kNegative, x).ok());
  EXPECT_TRUE(Check(Condition::kNonPositive, Tensor::Vector<int64_t>({0, -3})).ok());
  EXPECT_FALSE(Check(Condition::kNegative, Tensor::Vector<uint8_t>({3})).ok());
  EXPECT_FALSE(Check(Condition::kPositive, Tensor::Scalar(true)).ok());
}

TEST(AssertCondition, FindsWhatIsNotFiniteInEveryFloatingDType) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64,
                            DType::kComplex64, DType::kComplex128}) {
    for (const int64_t n : {1, 256, 700}) {
      for (const float bad : {kNan, kInf, -kInf}) {
        Ref<Tensor> floats = Tensor::Create(DType::kFloat32, Shape({n})).value();
        EXPECT_TRUE(Check(Condition::kNumerics, Cast(*floats, dtype).value()).ok());
        floats->mutable_span<float>()[n - 1] = bad;
        const Ref<Tensor> x = Cast(*floats, dtype).value();
        EXPECT_EQ(FirstNotFinite(*x), n - 1) << DTypeName(dtype);
        const NumericsCounts counts = CountNotFinite(*x);
        EXPECT_EQ(counts.nan, std::isnan(bad));
        EXPECT_EQ(counts.positive_infinity, bad == kInf);
        EXPECT_EQ(counts.negative_infinity, bad == -kInf);
      }
    }
  }
}

TEST(AssertCondition, CountsWhatIsNotFinite) {
  const Ref<Tensor> x = Tensor::Vector<float>({0, kNan, kInf, kInf, -kInf});
  EXPECT_THAT(Message(Check(Condition::kNumerics, x)),
              HasSubstr("the first of 1 NaN, 2 +Inf and 1 -Inf among 5 elements is nan at [1]"));
  EXPECT_TRUE(Check(Condition::kAllFinite, Tensor::Scalar(3)).ok());
  EXPECT_THAT(Message(Check(Condition::kNumerics, Tensor::Scalar(3))), HasSubstr("expected float"));
}

TEST(AssertRank, NamesTheRanks) {
  const NamedTensor x{"[\"a\"] of replica 1", Tensor::Vector<float>({1})};
  const std::vector<int64_t> one = {1}, two = {2}, both = {0, 2};
  EXPECT_TRUE(AssertRank(RankRelation::kEqual, x, one, {}).ok());
  EXPECT_TRUE(AssertRank(RankRelation::kAtLeast, x, one, {}).ok());
  EXPECT_EQ(Message(AssertRank(RankRelation::kAtLeast, x, two, {})),
            "assert_rank_at_least: x[\"a\"] of replica 1 is float32[1], of rank 1; expected rank 2 "
            "or more");
  EXPECT_THAT(Message(AssertRank(RankRelation::kIn, x, both, {})), HasSubstr("one of 0, 2"));
  EXPECT_TRUE(Check(Condition::kScalar, Tensor::Scalar(1)).ok());
  EXPECT_FALSE(Check(Condition::kScalar, x.tensor).ok());
}

TEST(AssertType, NamesBothDTypes) {
  const NamedTensor x{"", Tensor::Scalar(1.0f)};
  EXPECT_TRUE(AssertType(x, DType::kFloat32, {}).ok());
  EXPECT_THAT(Message(AssertType(x, DType::kInt32, {})),
              HasSubstr("is float32[]; expected dtype int32"));
  EXPECT_FALSE(Check(Condition::kInteger, x.tensor).ok());
  EXPECT_TRUE(Check(Condition::kInteger, Tensor::Scalar<uint8_t>(1)).ok());
}

TEST(AssertSameFloatDType, GivesTheCommonOne) {
  const std::vector<NamedTensor> halves = {{"", Tensor::Scalar(ToFloat16(1))},
                                           {"", Tensor::Scalar(ToFloat16(2))}};
  EXPECT_EQ(AssertSameFloatDType(halves, std::nullopt).value(), DType::kFloat16);
  EXPECT_EQ(AssertSameFloatDType({}, std::nullopt).value(), DType::kFloat32);
  EXPECT_FALSE(AssertSameFloatDType(halves, DType::kFloat32).ok());
  EXPECT_FALSE(AssertSameFloatDType({}, DType::kInt32).ok());
}

Status Shapes(std::vector<std::pair<Shape, std::string>> shapes) {
  std::vector<ShapeConstraint> constraints;
  for (auto& [shape, text] : shapes) {
    constraints.push_back({{"", Tensor::Create(DType::kFloat32, shape).value()}, text});
  }
  return AssertShapes(constraints, {}, {});
}

TEST(AssertShapes, BindsSymbols) {
  EXPECT_TRUE(Shapes({{Shape({10, 3}), "N,Q"}, {Shape({10, 7}), "N,D"}, {Shape({3}), "Q"},
                      {Shape(), ""}}).ok());
  EXPECT_THAT(Message(Shapes({{Shape({10, 3}), "N,D"}, {Shape({10, 7}), "N,D"}})),
              HasSubstr("tensor 1 of shape [10,7] does not fit (N,D): it has size 7 along axis 1, "
                        "\"D\"; it is 3 along axis 1 of tensor 0"));
}

TEST(AssertShapes, KnowsNumbersAnySizeAndOuterAxes) {
  EXPECT_TRUE(Shapes({{Shape({2, 5, 3}), "..., 5, 3"}, {Shape({5, 3}), "*,N,."}}).ok());
  EXPECT_FALSE(Shapes({{Shape({3}), "...,5,3"}}).ok());
  EXPECT_TRUE(Shapes({{Shape(), "1"}, {Shape({1}), ""}, {Shape({1}), "N"}, {Shape(), "N"}}).ok());
  EXPECT_FALSE(Shapes({{Shape({2}), ""}}).ok());
  EXPECT_THAT(Message(Shapes({{Shape({2}), "N,..."}})), HasSubstr("comes first"));
  EXPECT_THAT(Message(Shapes({{Shape({2, 3}), "N,-3"}})), HasSubstr("expected a size"));
}

TEST(AssertTrue, ShowsTheData) {
  const std::vector<NamedTensor> data = {{"", Tensor::Vector<int32_t>({4, 5})}};
  AssertOptions options;
  options.summarize = 1;
  EXPECT_EQ(Message(AssertTrue({"", Tensor::Scalar(false)}, data, options)),
            "Assert: the condition is false; data int32[2]: [4 ...]");
  EXPECT_TRUE(AssertTrue({"", Tensor::Scalar(true)}, data, options).ok());
  EXPECT_THAT(Message(AssertTrue({"", Tensor::Scalar(1)}, data, options)),
              HasSubstr("expected booleans"));
}

TEST(FirstElementsText, IsInRowMajorOrder) {
  const Ref<Tensor> x =
      Tensor::FromSpan<int32_t>(Shape({2, 2}), std::vector<int32_t>{1, 2, 3, 4}).value();
  EXPECT_EQ(FirstElementsText(*x, 3), "[1 2 3 ...]");
  EXPECT_EQ(FirstElementsText(*x->SliceAxis(1, 1, 2).value(), -1), "[2 4]");
}

// ---- as functions of datasets

class AssertionFunctionTest : public ::testing::Test {
 protected:
  // What a call with the leaves says of rows, "" where it passes them on; *row: which failed.
  std::string Call(const AssertionFunctionSpec& spec, const Ref<Value>& rows, int64_t* row) {
    const Ref<Function> function = MakeAssertionFunction(spec).value();
    const Ref<Function> read = ReadAssertionFunction(function->Define()->payload).value();
    std::string said;
    for (const Ref<Function>& each : {function, read}) {
      Context context(*environment_, ContextFields());
      Ref<Value> out;
      const Status status = each->Call(context, *rows, &out);
      if (status.ok()) {
        EXPECT_EQ(out->ToString(), rows->ToString());
        said.clear();
        *row = -1;
        continue;
      }
      said = Message(status);
      const StatusDetail* detail = status.FindDetail("row");
      if (detail != nullptr) *row = std::get<int64_t>(detail->value);
    }
    return said;
  }

  static AssertionFunctionSpec Of(RowAssertion assertion, Ref<Tensor> y = nullptr) {
    AssertionFunctionSpec spec;
    spec.assertion = assertion;
    spec.y = std::move(y);
    return spec;
  }

  static Ref<Value> Rows(std::vector<float> values, Shape shape) {
    return Value::OfTensor(Tensor::FromSpan<float>(shape, values).value());
  }

  const Ref<Environment> environment_ = MakeRef<RealEnvironment>();
  int64_t row_ = -1;
};

TEST_F(AssertionFunctionTest, NamesTheFirstRowAndSpeaksOfItAlone) {
  const Ref<Value> rows = Rows({1, 2, 3, 4, 5, -6, -7, 8}, Shape({4, 2}));
  EXPECT_EQ(Call(Of(RowAssertion::kPositive), rows, &row_),
            "assert_positive: x > 0 does not hold at [1], where x is -6; x float32[2]: [5 -6]");
  EXPECT_EQ(row_, 2);
  EXPECT_EQ(Call(Of(RowAssertion::kAllFinite), rows, &row_), "");
  EXPECT_THAT(Call(Of(RowAssertion::kLess, Tensor::Vector<float>({6, 4})), rows, &row_),
              StartsWith("assert_less: x < y does not hold at [1], where x is 4 and y is 4"));
  EXPECT_EQ(row_, 1);
  // A row of less axes than y is broadcast by itself, and not along the rows.
  const Ref<Value> scalars = Rows({1, 1, 2}, Shape({3}));
  EXPECT_THAT(Call(Of(RowAssertion::kEqual, Tensor::Vector<float>({1, 1, 1})), scalars, &row_),
              HasSubstr("does not hold at [0], where x is 2"));
  EXPECT_EQ(row_, 2);
  EXPECT_THAT(Call(Of(RowAssertion::kScalar), rows, &row_), HasSubstr("float32[2], of rank 1"));
  EXPECT_EQ(row_, 0);
  EXPECT_EQ(Call(Of(RowAssertion::kPositive), Rows({}, Shape({0, 2})), &row_), "");
}

TEST_F(AssertionFunctionTest, LooksAtLeavesByPath) {
  const Ref<Value> a = Rows({1, 2, 3}, Shape({3})), b = Rows({4, 2, 1}, Shape({3}));
  const Ref<Value> rows =
      Value::Dict({{"a", Value::Tuple({a, b})}, {"b", b}}).value();
  AssertionFunctionSpec less = Of(RowAssertion::kLess, Tensor::Scalar<float>(4));
  EXPECT_THAT(Call(less, rows, &row_), HasSubstr("where x[\"a\"][1] is 4"));
  less.path = "a/0";
  EXPECT_EQ(Call(less, rows, &row_), "");
  less.y = nullptr;
  less.y_path = "b";
  EXPECT_THAT(Call(less, rows, &row_), HasSubstr("where x[\"a\"][0] is 2 and y[\"b\"] is 2"));
  EXPECT_EQ(row_, 1);
  less.path = "c";
  EXPECT_EQ(Call(less, rows, &row_),
            "assert_less: the element has nothing at \"c\"; its leaves are at \"a/0, a/1, b\"");
}

TEST_F(AssertionFunctionTest, ChecksWhatIsKnownBeforeAnythingRuns) {
  const auto refused = [](const AssertionFunctionSpec& spec, DType dtype, PartialShape shape) {
    return Message(MakeAssertionFunction(spec)
                       .value()
                       ->OutputSpec(ElementSpec::OfTensor(dtype, std::move(shape)).get())
                       .status());
  };
  EXPECT_THAT(refused(Of(RowAssertion::kNumerics), DType::kInt64, Shape()), HasSubstr("int64"));
  EXPECT_THAT(refused(Of(RowAssertion::kLess, Tensor::Scalar<float>(1)), DType::kInt32, Shape()),
              HasSubstr("expected one dtype"));
  EXPECT_THAT(refused(Of(RowAssertion::kScalar), DType::kInt32, Shape({2})), HasSubstr("rank 1"));
  EXPECT_THAT(refused(Of(RowAssertion::kTrue), DType::kInt32, Shape()),
              HasSubstr("expected booleans"));
  const Ref<Function> less =
      MakeAssertionFunction(Of(RowAssertion::kLess, Tensor::Vector<float>({1, 2}))).value();
  const Ref<const ElementSpec> unknown = ElementSpec::OfTensor(DType::kFloat32, PartialShape());
  EXPECT_EQ(less->OutputSpec(unknown.get()).value()->ToString(), unknown->ToString());
  EXPECT_EQ(less->granularity(), Granularity::kSlab);
  EXPECT_FALSE(less->calls_host());
}

TEST_F(AssertionFunctionTest, WrongSpecsAndBytesAreRefused) {
  const auto refused = [](const AssertionFunctionSpec& spec) {
    return Message(MakeAssertionFunction(spec).status());
  };
  EXPECT_THAT(refused(Of(RowAssertion::kLess)), HasSubstr("expected one of the two"));
  EXPECT_THAT(refused(Of(RowAssertion::kPositive, Tensor::Scalar<float>(1))),
              HasSubstr("expected neither"));
  EXPECT_THAT(refused(Of(static_cast<RowAssertion>(8))), HasSubstr("none of number 8"));
  EXPECT_THAT(refused(Of(RowAssertion::kRank)), HasSubstr("expected one rank, found 0"));
  EXPECT_THAT(refused(Of(RowAssertion::kType)), HasSubstr("found no dtype"));
  AssertionFunctionSpec spec = Of(RowAssertion::kLess, Tensor::Scalar<float>(1));
  spec.ranks = {1};
  EXPECT_THAT(refused(spec), HasSubstr("found 1 ranks"));
  spec.ranks.clear();
  spec.rtol = Tensor::Scalar<float>(1);
  EXPECT_THAT(refused(spec), HasSubstr("assert_near's"));
  spec = Of(RowAssertion::kLess);
  spec.y_path = "b";
  EXPECT_THAT(refused(spec), HasSubstr("say which leaf"));
  spec = Of(RowAssertion::kRankIn);
  spec.ranks = {-1};
  EXPECT_THAT(refused(spec), HasSubstr("a rank is -1"));

  const std::string whole =
      MakeAssertionFunction(Of(RowAssertion::kNear, Tensor::Scalar<float>(1)))
          .value()
          ->Define()
          ->payload;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadAssertionFunction(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_THAT(Message(ReadAssertionFunction(whole + "x").status()), HasSubstr("behind its end"));
}

TEST_F(AssertionFunctionTest, LooksAtTheLeavesOfAnElementTogether) {
  const Ref<Value> rows = Value::Dict(
      {{"image", Value::OfTensor(Tensor::Create(DType::kFloat32, Shape({2, 5, 3})).value())},
       {"mask", Value::OfTensor(Tensor::Create(DType::kFloat64, Shape({2, 5})).value())}}).value();
  AssertionFunctionSpec spec;
  spec.assertion = RowAssertion::kShapes;
  spec.shapes = "image=N,3;mask=N";
  EXPECT_EQ(Call(spec, rows, &row_), "");
  spec.shapes = "image=N,3;mask=N,N";
  EXPECT_THAT(Call(spec, rows, &row_), HasSubstr("assert_shapes"));
  spec.shapes = "image=N,3;sound=N";
  EXPECT_THAT(Call(spec, rows, &row_), HasSubstr("nothing at \"sound\""));
  // What is known of the elements is enough.
  const Ref<const ElementSpec> element =
      ElementSpec::Create(rows->spec_ref(), {LeafSpec::OfTensor(DType::kFloat32, {5, 3}),
                                             LeafSpec::OfTensor(DType::kFloat64, {4})})
          .value();
  spec.shapes = "image=N,3;mask=N";
  EXPECT_THAT(MakeAssertionFunction(spec).value()->OutputSpec(element.get()).status().message(),
              HasSubstr("\"N\""));
  spec.shapes = "image";
  EXPECT_THAT(MakeAssertionFunction(spec).status().message(), HasSubstr("expected a path, '='"));
  spec.shapes.clear();
  EXPECT_THAT(MakeAssertionFunction(spec).status().message(), HasSubstr("paths of their own"));

  spec = Of(RowAssertion::kSameFloatDType);
  EXPECT_THAT(Call(spec, rows, &row_), HasSubstr("float64"));
  EXPECT_FALSE(MakeAssertionFunction(spec).value()->OutputSpec(element.get()).ok());
  spec.path = "mask";
  EXPECT_EQ(Call(spec, rows, &row_), "");
  spec.dtype = DType::kFloat32;
  EXPECT_THAT(Call(spec, rows, &row_), HasSubstr("float32"));
}

}  // namespace
}  // namespace tutti
