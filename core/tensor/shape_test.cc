#include "core/tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({3, 4}).num_elements(), 12);
  EXPECT_EQ(Shape({3, 0, 4}).num_elements(), 0);
  EXPECT_EQ(Shape({3, 4}).ToString(), "[3,4]");
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(Shape, MakesRowMajorStrides) {
  EXPECT_THAT(Shape({2, 3, 4}).RowMajorStrides().span(), ElementsAre(12, 4, 1));
  EXPECT_THAT(Shape({2, 0, 4}).RowMajorStrides().span(), ElementsAre(4, 4, 1));
}

TEST(Shape, KeepsManyDimensionsThroughCopiesAndMoves) {
  const Shape eight({1, 2, 3, 4, 5, 6, 7, 8});
  Shape copy = eight;
  Shape moved = std::move(copy);
  copy = Shape({5});
  EXPECT_EQ(moved, eight);
  EXPECT_EQ(copy, Shape({5}));
  moved = copy;
  EXPECT_EQ(moved, Shape({5}));
  copy = eight;
  const Shape& alias = copy;
  copy = alias;
  EXPECT_EQ(copy, eight);
}

TEST(Shape, RefusesNegativeSizesAndTooManyElements) {
  const int64_t negative[] = {2, -3};
  EXPECT_THAT(std::string(Shape::Create(negative, 2).status().message()),
              HasSubstr("dimension 1 is -3"));
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(Shape::Create(huge, 2).status().code(), StatusCode::kInvalidArgument);
  const int64_t huge_and_empty[] = {int64_t{1} << 40, 0, int64_t{1} << 40};
  EXPECT_EQ(Shape::Create(huge_and_empty, 3).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int64_t> many(65, 1);
  EXPECT_EQ(Shape::Create(many.data(), many.size()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Shape, ChangesOneDimension) {
  const Shape shape({2, 3, 4});
  EXPECT_EQ(shape.WithDim(1, 7), Shape({2, 7, 4}));
  EXPECT_EQ(shape.RowShape(), Shape({3, 4}));
  EXPECT_EQ(shape.WithoutAxis(1), Shape({2, 4}));
  EXPECT_EQ(shape.WithoutAxis(2), Shape({2, 3}));
  EXPECT_EQ(shape.Prepend(9), Shape({9, 2, 3, 4}));
}

TEST(PartialShape, IsCompatibleWhereKnownSizesAreEqual) {
  const PartialShape batch({-1, 4});
  EXPECT_TRUE(batch.IsCompatibleWith(Shape({7, 4})));
  EXPECT_FALSE(batch.IsCompatibleWith(Shape({7, 5})));
  EXPECT_FALSE(batch.IsCompatibleWith(Shape({4})));
  EXPECT_TRUE(PartialShape().IsCompatibleWith(batch));
  EXPECT_TRUE(batch.IsMoreGeneralThan(Shape({7, 4})));
  EXPECT_FALSE(PartialShape({7, 4}).IsMoreGeneralThan(batch));
  EXPECT_FALSE(batch.IsMoreGeneralThan(PartialShape()));
}

TEST(PartialShape, MergesWhatIsKnownAndRelaxesWhatDiffers) {
  const PartialShape a({-1, 4});
  const PartialShape b({3, -1});
  EXPECT_EQ(a.MergeWith(b).value(), PartialShape({3, 4}));
  EXPECT_EQ(PartialShape().MergeWith(b).value(), b);
  EXPECT_EQ(b.MergeWith(PartialShape()).value(), b);
  EXPECT_EQ(a.MergeWith(PartialShape({3, 5})).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PartialShape({3, 4}).Relax(PartialShape({3, 5})), PartialShape({3, -1}));
  EXPECT_EQ(PartialShape({3}).Relax(PartialShape({3, 5})), PartialShape());
}

TEST(PartialShape, PrintsUnknownsAndBecomesAShapeWhenKnown) {
  EXPECT_EQ(PartialShape({-1, 4}).ToString(), "[?,4]");
  EXPECT_EQ(PartialShape().ToString(), "<unknown>");
  EXPECT_EQ((TensorSpec{DType::kFloat32, PartialShape({-1, 4})}).ToString(), "float32[?,4]");
  EXPECT_EQ(PartialShape({3, 4}).ToShape().value(), Shape({3, 4}));
  EXPECT_EQ(PartialShape({-1, 4}).ToShape().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(PartialShape().ToShape().status().code(), StatusCode::kFailedPrecondition);
}

TEST(PartialShape, GrowsAndShrinksAtTheFront) {
  const PartialShape row({-1, 4});
  EXPECT_EQ(row.Prepend(8), PartialShape({8, -1, 4}));
  EXPECT_EQ(row.RowShape(), PartialShape({4}));
  EXPECT_EQ(row.WithDim(0, 2), PartialShape({2, 4}));
  EXPECT_EQ(row.Concatenate(PartialShape({5})), PartialShape({-1, 4, 5}));
  EXPECT_EQ(PartialShape().Prepend(8), PartialShape());
  EXPECT_EQ(row.Concatenate(PartialShape()), PartialShape());
}

}  // namespace
}  // namespace tutti
