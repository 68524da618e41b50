#include "core/dataset/exec/slab.h"

#include <gmock/gmock.h>

#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/row_store.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ref<Tensor> Counting(int64_t rows, int64_t width) {
  Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({rows, width})).value();
  int64_t next = 0;
  for (int64_t& item : tensor->mutable_span<int64_t>()) item = next++;
  return tensor;
}

Slab Dense(Ref<Tensor> rows) {
  Slab slab;
  slab.rows = rows->dim(0);
  slab.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  slab.columns.push_back(Column::Dense(std::move(rows)));
  return slab;
}

std::vector<std::string> RowsOf(const Slab& slab) {
  std::vector<std::string> rows;
  for (int64_t i = 0; i < slab.rows; ++i) rows.push_back(slab.Row(i).value()->ToString());
  return rows;
}

TEST(Slab, RowOfFewIsAView) {
  const Ref<Tensor> tensor = Counting(4, 100);
  const Slab slab = Dense(tensor);
  EXPECT_EQ(slab.Row(1).value()->AsTensor()->data(), tensor->span<int64_t>().data() + 100);
}

TEST(Slab, RowThatWouldPinManyTimesItsSizeIsCopied) {
  const Ref<Tensor> tensor = Counting(100, 100);
  const Slab slab = Dense(tensor);
  const Ref<Value> row = slab.Row(1).value();
  EXPECT_NE(row->AsTensor()->data(), tensor->span<int64_t>().data() + 100);
  EXPECT_EQ(row->AsTensor()->item<int64_t>(), 100);
  Slab borrowed = Dense(tensor);
  borrowed.columns[0] = Column::Borrowed(tensor);
  EXPECT_EQ(borrowed.Row(1).value()->AsTensor()->data(), tensor->span<int64_t>().data() + 100);
}

TEST(Slab, SlicesAreViewsWithoutWhatFollows) {
  Slab slab = Dense(Counting(4, 1));
  slab.end = true;
  const Slab middle = slab.Slice(1, 3);
  EXPECT_THAT(RowsOf(middle), ElementsAre("[1]", "[2]"));
  EXPECT_FALSE(middle.end);
}

TEST(Column, OfUnequalRowsIsNotDense) {
  const Column rows = Column::Rows({Leaf::OfTensor(Tensor::Vector<int64_t>({1, 2, 3})),
                                    Leaf::OfTensor(Tensor::Vector<int64_t>({4, 5}))});
  EXPECT_EQ(rows.ToDense(nullptr).status().message(), "element 1 has shape [2], element 0 has [3]");
  const Column mixed = Column::Rows({Leaf::OfTensor(Tensor::Scalar<int64_t>(1)), Leaf::None()});
  EXPECT_EQ(mixed.ToDense(nullptr).status().message(),
            "element 1 is none; only tensors can be stacked");
}

TEST(HeldRows, ComeInOrderWithWhatFollowsThem) {
  HeldRows held;
  Slab first = Dense(Counting(3, 1));
  first.status = Status(StatusCode::kDataLoss, "bad");
  held.Append(first);
  Slab end;
  end.end = true;
  held.Append(end);
  Slab slab;
  held.Pop(2, &slab);
  EXPECT_THAT(RowsOf(slab), ElementsAre("[0]", "[1]"));
  EXPECT_TRUE(slab.status.ok());
  held.Prepend(slab, 1);
  held.Pop(5, &slab);
  EXPECT_THAT(RowsOf(slab), ElementsAre("[1]"));
  held.Pop(5, &slab);
  EXPECT_THAT(RowsOf(slab), ElementsAre("[2]"));
  EXPECT_EQ(slab.status.code(), StatusCode::kDataLoss);
  held.Pop(5, &slab);
  EXPECT_TRUE(slab.end);
  EXPECT_TRUE(held.empty());
}

TEST(HeldRows, ComeBackFromAStateOnlyWithTheirElements) {
  const auto restored = [](const Slab& slab, HeldRows* held) {
    StateWriter writer;
    writer.Int(1);
    writer.Int(0);
    writer.Bytes("");
    writer.Int(0);
    EXPECT_TRUE(writer.Rows(slab).ok());
    StateReader reader(writer.bytes());
    held->Restore(&reader);
    EXPECT_TRUE(reader.at_end());
    return reader.status();
  };
  HeldRows held;
  Slab counted;
  counted.rows = 2;
  const Status refused = restored(counted, &held);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("rows that are held have no columns"));
  EXPECT_TRUE(held.empty());

  Slab without_leaves = counted;
  without_leaves.tree = TreeSpec::Tuple({});
  ASSERT_TRUE(restored(without_leaves, &held).ok());
  Slab slab;
  held.Pop(5, &slab);
  EXPECT_EQ(slab.rows, 2);
  EXPECT_EQ(slab.Row(1).value()->ToString(), "()");
}

TEST(IteratorState, RowsOfEveryKindComeBack) {
  Slab slab;
  slab.rows = 2;
  const Ref<const TreeSpec> leaf = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  slab.tree =
      TreeSpec::Dict({"a", "b", "c"}, {leaf, TreeSpec::Tuple({leaf}),
                                       TreeSpec::NamedTuple("Point", {"x"}, {leaf}).value()})
          .value();
  slab.columns.push_back(Column::Dense(
      Tensor::FromStrings(Shape({2}), std::vector<BytesView>{{"one", 3}, {"", 0}}).value()));
  slab.columns.push_back(Column::Rows(
      {Leaf::OfTensor(Tensor::Vector<float>({1, 2})), Leaf::OfTensor(Tensor::Scalar(3.0f))}));
  slab.columns.push_back(Column::Rows({Leaf::None(), Leaf::OfString("text")}));
  StateWriter writer;
  ASSERT_TRUE(writer.Rows(slab).ok());
  StateReader reader(writer.bytes());
  Slab again;
  reader.Rows(&again);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(RowsOf(again), RowsOf(slab));
}

TEST(IteratorState, StructuresAreSavedAsDeepAsTheyAreRead) {
  Slab slab = Dense(Counting(2, 1));
  for (int levels = 0; levels < 80; ++levels) {
    StateWriter writer;
    const Status saved = writer.Rows(slab);
    EXPECT_EQ(saved.ok(), levels <= 65) << levels;
    if (saved.ok()) {
      StateReader reader(writer.bytes());
      Slab again;
      reader.Rows(&again);
      EXPECT_TRUE(reader.ok() && reader.at_end()) << levels;
      EXPECT_EQ(*again.tree, *slab.tree);
    } else {
      EXPECT_EQ(saved.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(saved.message()), HasSubstr("nested more than 65 levels deep"));
    }
    slab.tree = TreeSpec::Tuple({slab.tree});
  }
}

TEST(IteratorState, NumbersComeBackAndForeignOnesAreRefused) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  StateWriter writer;
  writer.Section("op");
  writer.Int(kMin);
  const std::vector<int64_t> numbers = {kMax, kMin, 0, -1, 5};
  writer.Ints(numbers);
  writer.Bytes("b");
  StateReader reader(writer.bytes());
  reader.Section("op");
  EXPECT_EQ(reader.Int(), kMin);
  EXPECT_EQ(reader.Ints(), numbers);
  EXPECT_EQ(reader.Bytes(), "b");
  EXPECT_TRUE(reader.ok() && reader.at_end());
  for (size_t length = 0; length < writer.bytes().size(); ++length) {
    StateReader torn(std::string_view(writer.bytes()).substr(0, length));
    torn.Section("op");
    torn.Int();
    torn.Ints();
    torn.Bytes();
    EXPECT_EQ(torn.status().code(), StatusCode::kInvalidArgument) << length;
  }
  StateReader other(writer.bytes());
  other.Section("another");
  EXPECT_FALSE(other.ok());
  StateReader out_of_range(writer.bytes());
  out_of_range.Section("op");
  EXPECT_EQ(out_of_range.IntIn(3, 4), 3);
  EXPECT_FALSE(out_of_range.ok());
}

TEST(IteratorState, HostObjectsHaveNoSavedForm) {
  Slab slab;
  slab.rows = 1;
  slab.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  slab.columns.push_back(
      Column::Rows({Leaf::OfHostObject(MakeRef<HostData>(nullptr, nullptr, nullptr))}));
  StateWriter writer;
  EXPECT_EQ(writer.Rows(slab).code(), StatusCode::kFailedPrecondition);
}

TEST(RowStore, ExchangesRowsOfEveryWidth) {
  for (DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kComplex128,
                      DType::kBytes}) {
    const auto column = [&](int64_t first) {
      if (dtype == DType::kBytes) {
        const std::string texts[] = {std::to_string(first), std::to_string(first + 1)};
        return Tensor::FromStrings(Shape({2}),
                                   std::vector<BytesView>{{texts[0].data(), texts[0].size()},
                                                          {texts[1].data(), texts[1].size()}})
            .value();
      }
      Ref<Tensor> tensor = Tensor::Create(dtype, Shape({2})).value();
      auto* bytes = static_cast<char*>(tensor->mutable_data());
      bytes[0] = static_cast<char>(first);
      bytes[tensor->item_size()] = static_cast<char>(first + 1);
      return tensor;
    };
    RowStore store(nullptr);
    ASSERT_TRUE(store.Append(Dense(column(1)), 0).ok());
    ASSERT_TRUE(store.Append(Dense(column(3)), 2).ok());
    const std::vector<int64_t> slots = {2, 2, 0};
    Slab out;
    ASSERT_TRUE(store.Exchange(slots, Dense(column(5)), &out).ok());
    const std::vector<std::string> expected = {
        RowsOf(Dense(column(3)))[0], RowsOf(Dense(column(5)))[0], RowsOf(Dense(column(1)))[0]};
    EXPECT_EQ(RowsOf(out), expected) << DTypeName(dtype);
    Slab second;
    ASSERT_TRUE(store.Exchange(std::vector<int64_t>{2, 1}, Slab(), &second).ok());
    EXPECT_EQ(RowsOf(second)[0], RowsOf(Dense(column(5)))[1]) << DTypeName(dtype);
    EXPECT_EQ(RowsOf(second)[1], RowsOf(Dense(column(1)))[1]) << DTypeName(dtype);
  }
}

// Rows of memory of the dataset's are not copied, and go on as their own where others come.
TEST(RowStore, BorrowedRowsStayWhereTheyAreUntilOthersCome) {
  constexpr int64_t kWidth = 16;
  const auto numbers = [](int64_t rows, int64_t first) {
    Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({rows, kWidth})).value();
    std::span<int64_t> values = tensor->mutable_span<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<int64_t>(i) / kWidth;
    return tensor;
  };
  const auto slab_of = [](Column column) {
    Slab slab;
    slab.rows = column.rows();
    slab.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
    slab.columns.push_back(std::move(column));
    return slab;
  };
  const auto firsts = [](const Slab& slab) {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < slab.rows; ++i) {
      const std::span<const int64_t> row = slab.columns[0].Row(i).tensor().span<int64_t>();
      EXPECT_EQ(row.front(), row.back());
      found.push_back(row.front());
    }
    return found;
  };
  const Ref<Tensor> source = numbers(8, 0);
  const auto borrowed = [&](int64_t begin, int64_t end) {
    return slab_of(Column::Borrowed(source->Slice(begin, end)));
  };
  using Firsts = std::vector<int64_t>;
  // What comes behind the borrowed rows: rows of another tensor, borrowed or not, or none in one
  // piece.
  const std::vector<Slab> others = {
      slab_of(Column::Borrowed(numbers(2, 100))), slab_of(Column::Dense(numbers(2, 100))),
      slab_of(Column::Rows({Leaf::OfTensor(numbers(1, 100)->Row(0)),
                            Leaf::OfTensor(numbers(1, 101)->Row(0))}))};
  for (const Slab& other : others) {
    RowStore store(nullptr);
    ASSERT_TRUE(store.Append(borrowed(0, 3), 0).ok());
    ASSERT_TRUE(store.Append(borrowed(3, 5), 3).ok());
    Slab out;
    ASSERT_TRUE(store.Exchange(Firsts{4, 4, 0}, borrowed(5, 7), &out).ok());
    EXPECT_EQ(firsts(out), (Firsts{4, 5, 0}));
    Slab second;
    ASSERT_TRUE(store.Exchange(Firsts{4, 1}, other, &second).ok());
    EXPECT_EQ(firsts(second), (Firsts{6, 1}));
    Slab third;
    ASSERT_TRUE(store.Exchange(Firsts{3, 4, 1, 2}, Slab(), &third).ok());
    EXPECT_EQ(firsts(third), (Firsts{3, 100, 101, 2}));
  }
  // The memory belongs to them as long as they are there.
  RowStore store(nullptr);
  ASSERT_TRUE(store.Append(slab_of(Column::Borrowed(numbers(4, 7))), 0).ok());
  Slab out;
  ASSERT_TRUE(store.Exchange(Firsts{3, 0}, Slab(), &out).ok());
  EXPECT_EQ(firsts(out), (Firsts{10, 7}));
}

}  // namespace
}  // namespace tutti
