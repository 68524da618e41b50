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

Ref<const ElementSpec> Ints(PartialShape shape) {
  return ElementSpec::OfTensor(DType::kInt32, std::move(shape));
}

TEST(ElementSpec, WhatIsNotKnownOnEitherSideIsCompatible) {
  EXPECT_TRUE(Ints({-1})->IsCompatibleWith(*Ints({3})));
  EXPECT_TRUE(Ints({3})->IsCompatibleWith(*Ints({-1})));
  EXPECT_TRUE(Ints(PartialShape::Unknown())->IsCompatibleWith(*Ints({3})));
  EXPECT_TRUE(Ints({-1, 4})->IsCompatibleWith(*Ints({3, -1})));
  EXPECT_FALSE(Ints({3})->IsCompatibleWith(*Ints({4})));
  EXPECT_FALSE(Ints({3})->IsCompatibleWith(*Ints({3, 1})));
  EXPECT_FALSE(
      Ints({3})->IsCompatibleWith(*ElementSpec::OfTensor(DType::kInt64, PartialShape({3}))));
  EXPECT_FALSE(Digits()->IsCompatibleWith(*Images()));
  EXPECT_FALSE(Ints({3})->IsCompatibleWith(*ElementSpec::Optional(Ints({3}))));
}

TEST(ElementSpec, WhatIsHeldIsComparedLikeTheRest) {
  using Inner = Ref<const ElementSpec>;
  for (const auto make : {+[](Inner inner) { return ElementSpec::Iterator(std::move(inner)); },
                          +[](Inner inner) { return ElementSpec::Optional(std::move(inner)); },
                          +[](Inner inner) { return ElementSpec::Dataset(std::move(inner)); }}) {
    SCOPED_TRACE(make(nullptr)->ToString());
    EXPECT_TRUE(make(Ints({3}))->IsCompatibleWith(*make(Ints({-1}))));
    EXPECT_TRUE(make(nullptr)->IsCompatibleWith(*make(Ints({3}))));
    EXPECT_TRUE(make(Ints({3}))->IsCompatibleWith(*make(nullptr)));
    EXPECT_FALSE(make(Ints({3}))->IsCompatibleWith(*make(Ints({4}))));
    EXPECT_TRUE(*make(Ints({3})) == *make(Ints({3})));
    EXPECT_FALSE(*make(Ints({3})) == *make(nullptr));
    EXPECT_TRUE(*make(Ints({3}))->Relax(*make(Ints({4})), "x").value() == *make(Ints({-1})));
    EXPECT_EQ(make(Ints({3}))->Relax(*make(Images()), "x").status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(
      ElementSpec::Iterator(Ints({3}))->IsCompatibleWith(*ElementSpec::Dataset(Ints({3}))));
  EXPECT_EQ(ElementSpec::Iterator(Ints({3}))->ToString(), "iterator(int32[3])");
}

TEST(ElementSpec, TheMostSpecificOfTwoKnowsWhatTheyAgreeOn) {
  EXPECT_TRUE(*Ints({3, 5})->Relax(*Ints({4, 5}), "x").value() == *Ints({-1, 5}));
  EXPECT_TRUE(*Ints({3})->Relax(*Ints({4, 5}), "x").value() == *Ints(PartialShape::Unknown()));
  EXPECT_TRUE(*ElementSpec::Iterator(nullptr)
                   ->Relax(*ElementSpec::Iterator(Ints({3})), "x")
                   .value() == *ElementSpec::Iterator(nullptr));
}

TEST(ElementSpec, TheShapeOfADatasetIsKeptAndCompared) {
  const Ref<const ElementSpec> one = ElementSpec::Dataset(Ints({3}));
  const Ref<const ElementSpec> four = ElementSpec::Dataset(Ints({3}), PartialShape({4}));
  const Ref<const ElementSpec> any = ElementSpec::Dataset(Ints({3}), PartialShape::Unknown());
  EXPECT_EQ(one->ToString(), "dataset(int32[3])");
  EXPECT_EQ(four->ToString(), "dataset[4](int32[3])");
  EXPECT_EQ(one->leaf(0).shape, PartialShape::Scalar());
  EXPECT_FALSE(*one == *four);
  EXPECT_FALSE(one->IsCompatibleWith(*four));
  EXPECT_TRUE(any->IsCompatibleWith(*four));
  EXPECT_TRUE(any->IsMoreGeneralThan(*one));
  EXPECT_TRUE(*one->Relax(*four, "x").value() == *any);
}

TEST(ElementSpec, AnEmptyOptionalMaySayWhatItWouldHold) {
  const Ref<Value> empty = Value::OfLeaf(Leaf::OfEmptyOptional(Ints({3})));
  EXPECT_EQ(empty->leaf().optional_value(), nullptr);
  EXPECT_TRUE(*ElementSpec::OfValue(*empty) == *ElementSpec::Optional(Ints({3})));
  EXPECT_TRUE(ElementSpec::Optional(Ints({-1}))->Check(*empty, "x").ok());
  EXPECT_EQ(ElementSpec::Optional(Images())->Check(*empty, "x").message(),
            "x: expected optional(float32[?,64]), found optional(int32[3])");
  EXPECT_TRUE(empty->ContentsEqual(*Value::OfLeaf(Leaf::OfOptional(nullptr))));
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
