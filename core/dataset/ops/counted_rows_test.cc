// Rows that are passed over and rows that are wanted, in turn: what was only counted must never be
// taken for data, whatever stands between who counts and who makes.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/dataset/exec/stack_rows.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0, 1, ... 9; those in *fails fail.
Ref<TestFunction> StartTen() {
  return MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
    return Value::OfTensor(Tensor::Vector<int64_t>({0}));
  });
}
Ref<TestFunction> NextOfTen(std::vector<int64_t>* fails) {
  return MakeFunction(
      [](Context&, const Value& state, void* data) -> Result<Ref<Value>> {
        auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
        if (*at == 10) return Value::None();
        const int64_t number = (*at)++;
        for (int64_t failing : *static_cast<std::vector<int64_t>*>(data)) {
          if (number == failing) return Status(StatusCode::kDataLoss, "bad");
        }
        return Number(number);
      },
      {.data = fails});
}

Ref<TestFunction> TimesTen() {
  return MakeFunction([](Context&, const Value& in,
                         void*) -> Result<Ref<Value>> { return Number(NumberIn(in) * 10); },
                      {.spec = Int64Scalar(), .name = "times_ten"});
}

// x * 10; fails for 20.
Ref<TestFunction> FailsAtTwo() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 2) return Status(StatusCode::kDataLoss, "two");
        return Number(NumberIn(in) * 10);
      },
      {.spec = Int64Scalar()});
}

// What `function` gives for 3 x, 3 x + 1 and 3 x + 2, as a dataset.
struct InnerOf {
  Ref<DatasetEnvironment> datasets;
  Ref<Function> function;
};
Ref<TestFunction> Threes(InnerOf* inner, Ref<const ElementSpec> spec = nullptr) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        const InnerOf& inner = *static_cast<const InnerOf*>(data);
        TUTTI_ASSIGN_OR_RETURN(
            const Ref<Dataset> numbers,
            Dataset::Range(inner.datasets, 3 * NumberIn(in), 3 * NumberIn(in) + 3, 1));
        TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, numbers->Map(inner.function));
        return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(made)));
      },
      {.data = inner, .spec = std::move(spec)});
}

class CountedRows : public DatasetTest {
 protected:
  Ref<Dataset> Ten() {
    return Ok(Dataset::FromGenerator(datasets_, StartTen(), NextOfTen(&fails_), Int64Scalar()));
  }
  Ref<Dataset> Zip(const Ref<Dataset>& a, const Ref<Dataset>& b) {
    return Ok(Dataset::Zip(datasets_,
                           *Value::Tuple({Value::OfLeaf(Leaf(LeafKind::kDataset, a)),
                                          Value::OfLeaf(Leaf(LeafKind::kDataset, b))})));
  }
  // "!" without the message.
  static std::vector<std::string> Outcomes(Iterator& iterator) {
    std::vector<std::string> all = All(iterator);
    for (std::string& text : all) {
      if (text.starts_with('!')) text = "!";
    }
    return all;
  }
  // Also what an iterator gives that begins at any place of the sequence.
  static std::vector<std::string> Outcomes(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<std::string> states;
    std::vector<std::string> all;
    do {
      states.push_back(iterator->Save(CallOptions()).value());
      all.push_back(Next(*iterator).substr(0, 60));
      if (all.back().starts_with('!')) all.back() = "!";
    } while (all.back() != ".");
    all.pop_back();
    for (size_t i = 0; i < states.size(); ++i) {
      const Ref<Iterator> other = Iterate(dataset);
      const Status restored = other->Restore(states[i], CallOptions());
      EXPECT_TRUE(restored.ok()) << restored.ToString();
      EXPECT_EQ(Outcomes(*other),
                std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i), all.end()));
    }
    return all;
  }

  std::vector<int64_t> fails_;
};

TEST_F(CountedRows, OfABatchAreMappedWhenTheyAreWantedAfterAll) {
  fails_ = {1, 3};
  const Ref<Dataset> batches = Ok(Ok(Ten()->Map(TimesTen()))->Batch(3));
  EXPECT_THAT(Outcomes(batches), ElementsAre("!", "!", "[0 20 40]", "[50 60 70]", "[80 90]"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 0))), ElementsAre("!", "[0 20 40]", "[80 90]"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 1))), ElementsAre("!", "[50 60 70]"));
}

TEST_F(CountedRows, OfABatchAreMadeWithoutAFunctionAbove) {
  fails_ = {1, 3};
  EXPECT_THAT(Outcomes(Ok(Ok(Ten()->Batch(3))->Shard(2, 0))), ElementsAre("!", "[0 2 4]", "[8 9]"));
}

TEST_F(CountedRows, OfABatchFailWhereTheirFunctionFails) {
  fails_ = {1, 3};
  // Places: !1; !3, behind 2, which is counted only; 2, which is wanted now; [0 40 50]; [60 70 80].
  const Ref<Dataset> batches = Ok(Ok(Ten()->Map(FailsAtTwo()))->Batch(3));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 0))), ElementsAre("!", "!", "[60 70 80]"));
}

// The 3 behind them has failed already when they are had again.
TEST_F(CountedRows, OfABatchDoNotBringTheFailureBehindThemAgain) {
  fails_ = {1, 3};
  const Ref<TestFunction> all = MakeFunction(
      [](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::OfTensor(Tensor::Scalar(true));
      });
  const Ref<Dataset> batches = Ok(Ok(Ten()->Filter(all))->Batch(3));
  EXPECT_THAT(Outcomes(batches), ElementsAre("!", "!", "[0 2 4]", "[5 6 7]", "[8 9]"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(3, 2))), ElementsAre("[0 2 4]"));
}

// 1 and 2 fail in the first map, 0, 4 and 8 in the second. Places: !0; [1 2], which is passed over
// and for which nothing fails; !4, behind 3; [3 5], passed over; [6 7].
TEST_F(CountedRows, DoNotFailInAMapBelowAnotherThatFailed) {
  const Ref<TestFunction> small = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const int64_t number = NumberIn(in);
        if (number == 1 || number == 2) return Status(StatusCode::kDataLoss, "small");
        return Number(number);
      },
      {.spec = Int64Scalar()});
  const Ref<TestFunction> fours = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) % 4 == 0) return Status(StatusCode::kDataLoss, "fours");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> batches = Ok(Ok(Ok(Range(10)->Map(small))->Map(fours))->Batch(2));
  EXPECT_THAT(Outcomes(batches),
              ElementsAre("!", "!", "!", "!", "[3 5]", "[6 7]", "!", "[9]"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 0))), ElementsAre("!", "!", "[6 7]"));
}

// 2 fails in a dataset that a function gave, 0 in the map above. Places: !0; [1 2 3], which is
// passed over; [4 5].
TEST_F(CountedRows, DoNotFailInADatasetBelowAMapThatFailed) {
  InnerOf inner{datasets_, FailsAtTwo()};
  const Ref<TestFunction> gives = Threes(&inner, ElementSpec::Dataset(Int64Scalar()));
  const Ref<TestFunction> nought = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 0) return Status(StatusCode::kDataLoss, "nought");
        return Number(NumberIn(in) / 10);
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> batches = Ok(Ok(Ok(Range(2)->FlatMap(gives))->Map(nought))->Batch(3));
  EXPECT_THAT(Outcomes(batches), ElementsAre("!", "!", "[1 3 4]", "[5]"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 0))), ElementsAre("!", "[4 5]"));
}

// Ahead or not: where a row fails in a map below, whoever passes over it hears nothing of it.
TEST_F(CountedRows, DoNotFailBelowAMapThatCallsAhead) {
  const Ref<TestFunction> odd = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) % 4 == 1) return Status(StatusCode::kDataLoss, "odd");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  for (const int64_t below : {0, 1, 4}) {
    for (const int64_t above : {0, 1, 4}) {
      const Ref<Dataset> rows =
          Ok(Ok(Range(9)->Map(odd, Parallel(below)))->Map(TimesTen(), Parallel(above)));
      const Ref<Dataset> batches = Ok(rows->Batch(2));
      EXPECT_THAT(Outcomes(batches),
                  ElementsAre("!", "[0 20]", "[30 40]", "!", "[60 70]", "[80]"));
      // Places: !1; [0 2], passed over; [3 4]; [5 6], passed over; [7 8].
      EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 0))), ElementsAre("!", "[30 40]", "[70 80]"));
      EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 1))), ElementsAre("[20 30]", "[60 70]"));
      EXPECT_THAT(Outcomes(Ok(rows->Shard(3, 0))), ElementsAre("0", "30", "60"));
      EXPECT_THAT(Outcomes(Ok(Ok(rows->Take(5))->Shard(2, 0))), ElementsAre("0", "20", "40"));
    }
  }
}

TEST_F(CountedRows, BelowAMapThatCallsAheadAreCalledForOnce) {
  const Ref<TestFunction> fails = FailsAtTwo();
  const Ref<Dataset> rows = Ok(Ok(Range(9)->Map(fails))->Map(AddOne(), Parallel(4)));
  // 2 has failed before anybody knows that it is wanted.
  EXPECT_THAT(Outcomes(*Iterate(Ok(rows->Shard(2, 0)))),
              ElementsAre("1", "!", "41", "61", "81"));
  EXPECT_LE(fails->calls, 9);
}

// By slab, and where a batch's rows differ in shape or a dataset's row is none like the others.
TEST_F(CountedRows, FailNowhereBelowAMapThatCallsAhead) {
  const Ref<TestFunction> slabs = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const std::span<const int64_t> numbers = in.leaf(0).tensor().span<int64_t>();
        const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                      [](int64_t number) { return number % 4 == 1; });
        if (bad == numbers.end()) return Ref<Value>::Retain(&const_cast<Value&>(in));
        return Status(StatusCode::kDataLoss, "bad").With("row", bad - numbers.begin());
      },
      {.spec = Int64Scalar(), .granularity = Granularity::kSlab});
  const Ref<TestFunction> same =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Ref<Value>::Retain(&const_cast<Value&>(in));
      });
  const Ref<TestFunction> strange =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) % 3 != 1) return Number(NumberIn(in));
        return Value::OfTensor(Tensor::Scalar(true));
      });
  InnerOf inner{datasets_, strange};
  const Ref<TestFunction> gives = Threes(&inner);
  const Ref<Dataset> pairs = Ok(Ok(Ok(Range(7)->Batch(2))->Repeat(4))->Batch(3));
  for (const Ref<Dataset>& below :
       {Ok(Range(12)->Map(slabs)), pairs, Ok(Range(4)->FlatMap(gives))}) {
    const auto places = [&](int64_t calls, int64_t index) {
      return Outcomes(
          Ok(Ok(Ok(below->Map(same, Parallel(calls)))->Batch(2))->Shard(2, index)));
    };
    for (const int64_t index : {0, 1}) {
      const std::vector<std::string> in_turn = places(0, index);
      EXPECT_GT(in_turn.size(), 1u);
      EXPECT_EQ(places(1, index), in_turn);
      EXPECT_EQ(places(4, index), in_turn);
    }
  }
}

// A shard that reads blocks passes over rows, too.
TEST_F(CountedRows, DoNotFailInABlockOfAShard) {
  // Of [0 1] [2 3] [4] [0 1] [2 3] [4] the second pair and the third have rows of two shapes.
  const Ref<Dataset> pairs = Ok(Ok(Ok(Range(5)->Batch(2))->Repeat(2))->Batch(2));
  const Ref<Dataset> shard = Ok(Ok(pairs->Batch(2))->Shard(2, 0));
  // The second, and then two batches of which one is passed over.
  EXPECT_THAT(Outcomes(shard), ElementsAre("!"));
  Slab slab;
  const Ref<Iterator> iterator = Iterate(shard);
  ASSERT_TRUE(iterator->NextSlab(9, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.rows, 0);
  EXPECT_FALSE(slab.status.ok());
  ASSERT_TRUE(iterator->NextSlab(9, CallOptions(), &slab).ok());
  EXPECT_EQ(slab.rows, 0);
  EXPECT_TRUE(slab.status.ok() && slab.end) << slab.status.ToString();
}

TEST_F(CountedRows, OfBatchesOfBatchesAndOfNumberedOnesAreMade) {
  fails_ = {1, 3};
  const Ref<Dataset> nested = Ok(Ok(Ok(Ten()->Map(TimesTen()))->Batch(1))->Batch(3));
  EXPECT_THAT(Outcomes(Ok(nested->Shard(2, 0))),
              ElementsAre("!", "[[0] [20] [40]]", "[[80] [90]]"));
  const Ref<Dataset> numbered = Ok(Ok(Ok(Ten()->Map(TimesTen()))->Enumerate(5))->Batch(3));
  EXPECT_THAT(Outcomes(Ok(numbered->Shard(2, 0))),
              ElementsAre("!", "([5 7 9], [0 20 40])", "([13 14], [80 90])"));
}

TEST_F(CountedRows, OfAZipBehindAFailureAreNoData) {
  fails_ = {0, 1};
  const Ref<Dataset> left = Ten();
  const Ref<Dataset> right = Ok(Ok(Ten()->Map(TimesTen()))->Batch(3));
  EXPECT_THAT(Outcomes(Zip(left, right)),
              ElementsAre("!", "!", "(2, [20 30 40])", "(3, [50 60 70])", "(4, [80 90])"));
  EXPECT_THAT(Outcomes(Ok(Zip(left, right)->Batch(2))),
              ElementsAre("!", "!", "([2 3], [[20 30 40] [50 60 70]])", "([4], [[80 90]])"));
}

TEST_F(CountedRows, AreNeverMappedWhenNobodyWantsThem) {
  const Ref<TestFunction> function = TimesTen();
  const Ref<Dataset> batches = Ok(Ok(Ten()->Map(function))->Batch(2));
  EXPECT_THAT(Outcomes(*Iterate(Ok(batches->Skip(4)))), ElementsAre("[80 90]"));
  EXPECT_EQ(function->calls, 2);
  EXPECT_THAT(Outcomes(*Iterate(Ok(batches->Shard(5, 2)))), ElementsAre("[40 50]"));
  EXPECT_EQ(function->calls, 4);
}

TEST_F(CountedRows, OfABatchThatIsDroppedAreForgotten) {
  fails_ = {7};
  const Ref<Dataset> batches = Ok(Ok(Ten()->Map(TimesTen()))->Batch(4, true));
  EXPECT_THAT(Outcomes(Ok(Ok(batches->Skip(1))->Repeat(2))),
              ElementsAre("!", "[40 50 60 80]", "!", "[40 50 60 80]"));
}

TEST_F(CountedRows, HaveNumbersBeforeElementsWithoutComponents) {
  const Ref<TestFunction> nothing =
      MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
        return Value::Tuple(std::span<const Ref<Value>>());
      });
  EXPECT_THAT(Outcomes(Ok(Ok(Range(2)->Map(nothing))->Enumerate())),
              ElementsAre("(0, ())", "(1, ())"));
}

TEST_F(CountedRows, OfDamagedFilesInAZipLoseNoGoodRecords) {
  const TempFolder folder;
  // The record `bad` of four has other bytes than were written.
  const auto records = [&](const std::string& name, size_t bad) {
    const std::string good = TfRecordFrame("0");
    std::string bytes = TfRecordFrames({"0", "1", "2", "3"});
    bytes[bad * good.size() + 12] ^= 1;
    return Ok(MakeTfRecordDataset(datasets_, std::vector{folder.Write(name, bytes)}, {}));
  };
  const Ref<Dataset> batches = Ok(records("b", 1)->Batch(3));
  EXPECT_THAT(Outcomes(Ok(Zip(records("a", 0), batches)->Batch(10))),
              ElementsAre("!", "([\"1\"], [[\"0\" \"2\" \"3\"]])"));
  EXPECT_THAT(Outcomes(Ok(batches->Shard(2, 1))), ElementsAre("[\"0\" \"2\" \"3\"]"));
}

TEST_F(CountedRows, AreRefusedWhereRowsAreStacked) {
  Slab made;
  made.rows = 1;
  made.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  made.columns.push_back(Column::Dense(Tensor::Vector<int64_t>({1})));
  Slab counted;
  counted.rows = 1;
  counted.tree = made.tree;
  const std::vector<Slab> parts = {made, counted};
  EXPECT_FALSE(RowsAreUniform(parts));
  EXPECT_THAT(StackRows(parts, 2, nullptr).status().ToString(), HasSubstr("have 0 columns"));
}

}  // namespace
}  // namespace tutti
