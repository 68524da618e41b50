#include "core/tensor/element_spec.h"

#include <gmock/gmock.h>

#include "core/tensor/value.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

Ref<const ElementSpec> Images() {
  return ElementSpec::OfTensor(DType::kFloat32, PartialShape({-1, 64}));
}

Ref<const ElementSpec> Digits() {
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  return ElementSpec::Create(TreeSpec::Dict({"image", "label"}, {leaf, leaf}).value(),
                             {LeafSpec::OfTensor(DType::kFloat32, PartialShape({-1, 64})),
                              LeafSpec::OfTensor(DType::kInt64, PartialShape({-1}))})
      .value();
}

Ref<Value> Digit(int64_t width) {
  return Value::Dict(
             {{"image",
               Value::OfTensor(Tensor::Create(DType::kFloat32, Shape({3, width})).value())},
              {"label", Value::OfTensor(Tensor::Create(DType::kInt64, Shape({3})).value())}})
      .value();
}

TEST(ElementSpec, PrintsItsStructure) {
  EXPECT_EQ(Digits()->ToString(), "{'image': float32[?,64], 'label': int64[?]}");
  EXPECT_EQ(ElementSpec::Optional(Images())->ToString(), "optional(float32[?,64])");
  const Ref<const ElementSpec> parts[] = {ElementSpec::None()};
  EXPECT_EQ(ElementSpec::Tuple(parts)->ToString(), "(none,)");
}

TEST(ElementSpec, DescribesAValueExactly) {
  EXPECT_EQ(ElementSpec::OfValue(*Digit(64))->ToString(),
            "{'image': float32[3,64], 'label': int64[3]}");
  EXPECT_TRUE(*ElementSpec::OfValue(*Digit(64)) == *ElementSpec::OfValue(*Digit(64)));
  EXPECT_FALSE(*ElementSpec::OfValue(*Digit(64)) == *ElementSpec::OfValue(*Digit(63)));
}

TEST(ElementSpec, ChecksValues) {
  EXPECT_TRUE(Digits()->Check(*Digit(64), "x").ok());
  const Status misfit = Digits()->Check(*Digit(63), "the value");
  EXPECT_EQ(misfit.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(misfit.message(),
            "the value: expected float32[?,64] at [\"image\"], found float32[3,63]");
  EXPECT_FALSE(Digits()->Check(*Value::None(), "the value").ok());
  EXPECT_FALSE(Images()->Check(*Value::None(), "the value").ok());
  EXPECT_TRUE(ElementSpec::None()->Check(*Value::None(), "the value").ok());
}

TEST(ElementSpec, EmptyOptionalFitsEveryOptional) {
  const Ref<const ElementSpec> optional = ElementSpec::Optional(Images());
  EXPECT_TRUE(optional->Check(*Value::OfLeaf(Leaf::OfOptional(nullptr)), "x").ok());
  EXPECT_FALSE(
      optional->Check(*Value::OfLeaf(Leaf::OfOptional(Value::OfString("text"))), "x").ok());
}

TEST(ElementSpec, ComparesGenerality) {
  const Ref<const ElementSpec> exact = ElementSpec::OfValue(*Digit(64));
  EXPECT_TRUE(Digits()->IsMoreGeneralThan(*exact));
  EXPECT_FALSE(exact->IsMoreGeneralThan(*Digits()));
  EXPECT_FALSE(Digits()->IsMoreGeneralThan(*Images()));
}

TEST(ElementSpec, FitsAValueByConvertingItsTensors) {
  const Ref<const ElementSpec> spec = Digits();
  const Ref<Value> right = Digit(64);
  EXPECT_EQ(spec->Fit(right, "x").value().get(), right.get());
  const auto of = [](Ref<Tensor> image, Ref<Tensor> label) {
    return Value::Dict({{"image", Value::OfTensor(std::move(image))},
                        {"label", Value::OfTensor(std::move(label))}})
        .value();
  };
  const Ref<Tensor> doubles = Tensor::Create(DType::kFloat64, Shape({3, 64})).value();
  const Ref<Tensor> labels = Tensor::Create(DType::kInt8, Shape({3})).value();
  const Ref<Value> fitted = spec->Fit(of(doubles, labels), "x").value();
  EXPECT_EQ(ElementSpec::OfValue(*fitted)->ToString(),
            "{'image': float32[3,64], 'label': int64[3]}");
  EXPECT_EQ(spec->Fit(of(doubles, doubles), "x").status().message(),
            "x: expected int64[?] at [\"label\"], found float64[3,64]");
  const Ref<Tensor> thirds = Tensor::Create(DType::kFloat32, Shape({3})).value();
  EXPECT_EQ(spec->Fit(of(doubles, thirds), "x").status().message(),
            "x: expected int64[?] at [\"label\"], found float32[3]: 0 is a float, which never "
            "becomes an integer; give int64, or declare float32");
  EXPECT_EQ(spec->Fit(Value::None(), "x").status().code(), StatusCode::kInvalidArgument);
}

TEST(ElementSpec, RelaxesShapesAndNothingElse) {
  const Ref<const ElementSpec> a = ElementSpec::OfValue(*Digit(64));
  const Ref<const ElementSpec> b = ElementSpec::OfValue(*Digit(63));
  EXPECT_EQ(a->Relax(*b, "x").value()->ToString(), "{'image': float32[3,?], 'label': int64[3]}");
  const Status other =
      Images()
          ->Relax(*ElementSpec::OfTensor(DType::kInt8, PartialShape({1})), "concatenate")
          .status();
  EXPECT_EQ(other.message(), "concatenate: expected float32[?,64], found int8[1]");
}

TEST(ElementSpec, AddsAndTakesTheBatchDimension) {
  EXPECT_EQ(Digits()->Prepend(8, "batch").value()->ToString(),
            "{'image': float32[8,?,64], 'label': int64[8,?]}");
  EXPECT_EQ(Digits()->RowSpec("rows").value()->ToString(),
            "{'image': float32[64], 'label': int64[]}");
  EXPECT_THAT(std::string(ElementSpec::None()->Prepend(8, "batch").status().message()),
              HasSubstr("only tensors can be stacked"));
  EXPECT_THAT(std::string(ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar())
                              ->RowSpec("rows")
                              .status()
                              .message()),
              HasSubstr("rank 1 or more"));
}

TEST(ElementSpec, ComposesStructures) {
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const Ref<const ElementSpec> parts[] = {Digits(), Images()};
  EXPECT_EQ(ElementSpec::Compose(*TreeSpec::List({leaf, leaf}), parts).value()->ToString(),
            "[{'image': float32[?,64], 'label': int64[?]}, float32[?,64]]");
  EXPECT_EQ(ElementSpec::Compose(*leaf, parts).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ElementSpec::Create(leaf, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
