#include "core/dataset/exec/ram_budget.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class RamBudgets : public DatasetTest {
 protected:
  static Ref<Dataset> Within(const Ref<Dataset>& dataset, int64_t bytes) {
    DatasetOptions options;
    EXPECT_TRUE(options.SetInt("autotune.ram_budget", bytes).ok());
    return Ok(dataset->WithOptions(options));
  }

  static int64_t DetailOf(const Status& status, std::string_view name) {
    const StatusDetail* detail = status.FindDetail(name);
    EXPECT_NE(detail, nullptr) << name;
    return detail != nullptr ? std::get<int64_t>(detail->value) : -1;
  }

  // Elements of 1000 bytes that are made, and how many more than were given out there ever were.
  struct Made {
    std::atomic<int64_t> made{0};
    std::atomic<int64_t> given{0};
    std::atomic<int64_t> most{0};
  };
  static Ref<TestFunction> Large(Made* made) {
    return MakeFunction(
        [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
          Made& of = *static_cast<Made*>(data);
          const int64_t ahead = ++of.made - of.given;
          int64_t most = of.most;
          while (most < ahead && !of.most.compare_exchange_weak(most, ahead)) {
          }
          TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> row, Tensor::Create(DType::kUint8, Shape({1000})));
          return Value::OfTensor(std::move(row));
        },
        {.data = made, .spec = ElementSpec::OfTensor(DType::kUint8, PartialShape({1000}))});
  }
  static void Walk(const Ref<Dataset>& dataset, int64_t elements, Made* made) {
    const Ref<Iterator> iterator = Iterate(dataset);
    for (int64_t i = 0; i < elements; ++i) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      ASSERT_TRUE(element.ok()) << element.status().ToString();
      ASSERT_TRUE(*element) << i;
      ++made->given;
    }
    EXPECT_EQ(Next(*iterator), ".");
    Close(*iterator);
  }
};

TEST_F(RamBudgets, EndAShuffleThatWouldHoldMoreAndNameIt) {
  const Ref<Dataset> shuffled = Ok(Range(1000)->Shuffle(100, Seed(7)));
  const Ref<Iterator> iterator = Iterate(Within(shuffled, 400));
  const Status status = iterator->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("shuffle: the pipeline's buffers hold 400"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("shuffle holds most, 400"));
  EXPECT_EQ(std::get<std::string>(status.FindDetail("node")->value), "shuffle");
  EXPECT_EQ(DetailOf(status, "node_bytes"), 400);
  EXPECT_EQ(DetailOf(status, "held_bytes"), 400);
  EXPECT_EQ(DetailOf(status, "budget_bytes"), 400);
  EXPECT_EQ(iterator->Next(CallOptions()).status().code(), StatusCode::kResourceExhausted);
  // Nothing is lost: what was saved goes on where there is room.
  const std::string state = iterator->Save(CallOptions()).value();
  const Ref<Iterator> larger = Iterate(Within(shuffled, 800));
  ASSERT_TRUE(larger->Restore(state, CallOptions()).ok());
  EXPECT_EQ(All(*larger), All(Ok(Range(1000)->Shuffle(100, Seed(7)))));
  EXPECT_THAT(All(Within(shuffled, 0)), SizeIs(1000));
}

TEST_F(RamBudgets, AreNotUsedTwiceByARestore) {
  const Ref<Dataset> shuffled = Within(Ok(Range(300)->Shuffle(100, Seed(7))), 800);
  const Ref<Iterator> iterator = Iterate(shuffled);
  Take(*iterator, 10);
  const std::string state = iterator->Save(CallOptions()).value();
  const std::vector<std::string> rest = All(*iterator);
  EXPECT_THAT(rest, SizeIs(290));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(iterator->Restore(state, CallOptions()).ok());
    EXPECT_EQ(Next(*iterator), rest[0]);
  }
  EXPECT_THAT(All(*iterator), SizeIs(289));
}

TEST_F(RamBudgets, NameWhatHoldsMostAndNotWhoAsks) {
  ShuffleOptions big = Seed(7);
  big.name = "big";
  const Ref<Dataset> batches = Ok(Ok(Range(1000)->Shuffle(50, big))->Batch(30));
  const Status status = Iterate(Within(batches, 500))->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch: the pipeline's buffers hold 5"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("shuffle 'big' holds most"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("or raise the budget; batch holds 1"));
  EXPECT_THAT(All(Within(batches, 1000)), SizeIs(34));
}

TEST_F(RamBudgets, EndWhatHasToKeepElements) {
  const Ref<TestFunction> key = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Number(NumberIn(in) % 10);
      });
  const Ref<TestFunction> rows =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::OfLeaf(in.leaf(1));
      });
  const struct {
    const char* label;
    Ref<Dataset> dataset;
    int64_t enough;
    int64_t elements;
  } cases[] = {
      {"batch", Ok(Range(100)->Batch(50)), 1000, 2},
      {"padded_batch", Ok(Range(100)->PaddedBatch(50)), 1000, 2},
      {"window", Ok(Ok(Range(100)->Window(50))->Skip(0)), 1000, 2},
      {"unique", Ok(Range(100)->Unique()), 100'000, 100},
      {"group_by_window", Ok(Range(100)->GroupByWindow(key, rows, 50)), 10'000, 100},
      {"bucket_by_sequence_length",
       Ok(Range(100)->BucketBySequenceLength(
           key, Value::OfTensor(Tensor::Vector<int64_t>({5})),
           Value::OfTensor(Tensor::Vector<int64_t>({50, 50})))),
       10'000, 2},
  };
  for (const auto& [label, dataset, enough, elements] : cases) {
    SCOPED_TRACE(label);
    const Ref<Iterator> iterator = Iterate(Within(dataset, 100));
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) status = iterator->Next(CallOptions()).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string(label) + " holds most, "));
    Close(*iterator);
    EXPECT_THAT(All(Within(dataset, enough)), SizeIs(elements));
  }
}

TEST_F(RamBudgets, NameACacheThatHoldsItsPart) {
  // The first pass is kept, and beside it there is no room for a shuffle of a second one.
  const Ref<Dataset> dataset = Ok(Ok(Ok(Range(40)->Cache())->Repeat(-1))->Shuffle(100, Seed(7)));
  const Status status = Iterate(Within(dataset, 700))->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shuffle holds most, 384 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("; cache holds 320 bytes"));
}

TEST_F(RamBudgets, LetPrefetchWait) {
  Made made;
  Walk(Within(Ok(Ok(Range(300)->Map(Large(&made)))->Prefetch(100)), 3000), 300, &made);
  // Three in the buffer, one that is made, one that is being given out.
  EXPECT_LE(made.most, 5);
  // One is made even if there is no room for any.
  Made one;
  Walk(Within(Ok(Ok(Range(30)->Map(Large(&one)))->Prefetch(100)), 1), 30, &one);
  EXPECT_LE(one.most, 3);
}

TEST_F(RamBudgets, LetParallelMapsWait) {
  for (const bool keeps_order : {true, false}) {
    Made made;
    MapOptions options = Parallel(64);
    options.deterministic = keeps_order;
    const Ref<Dataset> mapped = Ok(Range(300)->Map(Large(&made), options));
    Walk(Within(mapped, 3000), 300, &made);
    EXPECT_LE(made.most, 10);
    Made one;
    Walk(Within(Ok(Range(30)->Map(Large(&one), options)), 1), 30, &one);
    EXPECT_LE(one.most, 3);
  }
}

// Whether there is room for more changes under a stage that looks: others take and free some.
TEST_F(RamBudgets, AreSharedByStagesThatCallAtOnce) {
  const Ref<TestFunction> same = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> { return Number(NumberIn(in)); });
  std::vector<std::string> numbers;
  for (int64_t i = 0; i < 3000; ++i) numbers.push_back(std::to_string(i));
  for (const int64_t budget : {16, 48, 100}) {
    Ref<Dataset> dataset = Range(3000);
    for (int i = 0; i < 4; ++i) dataset = Ok(dataset->Map(same, Parallel(4)));
    EXPECT_EQ(All(Within(dataset, budget)), numbers) << budget;
  }
}

TEST_F(RamBudgets, LetParallelInterleavesWait) {
  Made made;
  struct Data {
    Ref<Dataset> inner;
  } data{Ok(Range(40)->Map(Large(&made)))};
  const Ref<TestFunction> gives = MakeFunction(
      [](Context&, const Value&, void* of) -> Result<Ref<Value>> {
        return Value::OfLeaf(Leaf(LeafKind::kDataset, static_cast<Data*>(of)->inner));
      },
      {.data = &data});
  for (const int64_t budget : {5000, 1}) {
    made.most = made.given = made.made = 0;
    Walk(Within(Ok(Range(6)->Interleave(gives, 4, 1, 2)), budget), 240, &made);
    // Of each slot one may be awaited.
    EXPECT_LE(made.most, budget / 1000 + 8) << budget;
  }
}

TEST_F(RamBudgets, GiveUpACacheThatIsTooLarge) {
  const Ref<Dataset> cached = Ok(Range(8)->Cache());
  EXPECT_THAT(All(Within(cached, 24)),
              ElementsAre("0", "1", "2",
                          HasSubstr("this pass cannot be kept, and goes on without: cache: the "
                                    "pipeline's buffers hold 24"),
                          "3", "4", "5", "6", "7"));
  EXPECT_THAT(All(Within(cached, 64)), SizeIs(8));
  // What is kept counts while it is read.
  const Ref<Dataset> batched = Ok(cached->Batch(4));
  EXPECT_EQ(Iterate(Within(batched, 64))->Next(CallOptions()).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_THAT(All(Within(batched, 100)), SizeIs(2));
}

TEST_F(RamBudgets, CountTheSameHoweverRowsLie) {
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(std::string(static_cast<size_t>(i % 7), 'x'));
  std::vector<BytesView> views;
  for (const std::string& text : texts) views.push_back({text.data(), text.size()});
  const Ref<Tensor> strings = Tensor::FromStrings(Shape({300}), views).value();
  Slab dense;
  dense.rows = 300;
  dense.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  dense.columns.push_back(Column::Dense(strings));
  std::vector<Leaf> leaves;
  for (int64_t i = 0; i < 300; ++i) leaves.push_back(dense.columns[0].Row(i));
  Slab rows = dense;
  rows.columns = {Column::Rows(std::move(leaves))};
  EXPECT_EQ(ElementBytes(rows), ElementBytes(dense));
  EXPECT_EQ(ElementBytes(dense.Slice(0, 100)) + ElementBytes(dense.Slice(100, 300)),
            ElementBytes(dense));
  // A shuffle keeps them as leaves, and still has room in the end.
  const Ref<Dataset> shuffled =
      Ok(Ok(Ok(Dataset::FromTensorSlices(datasets_, Value::OfTensor(strings)))->Repeat(20))
             ->Shuffle(10, Seed(3)));
  EXPECT_THAT(All(Within(shuffled, 10 * (16 + 6) + 1)), SizeIs(6000));
}

TEST_F(RamBudgets, CountWindowsWithTheirElements) {
  const Ref<Dataset> windows = Ok(Range(100)->Window(10));
  const Ref<Iterator> iterator = Iterate(windows);
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(1, CallOptions(), &slab).ok());
  EXPECT_EQ(ElementBytes(slab), 80);
}

TEST_F(RamBudgets, AreSharedAndGivenBack) {
  RamBudget budget(1000);
  ExecContext context{datasets_.get(), &environment_->memory(), nullptr};
  context.budget = &budget;
  const Ref<Dataset> range = Range(3);
  const Node& node = range->node();
  HeldBytes ahead(context, node, HeldBytes::Kind::kAhead);
  EXPECT_EQ(ahead.RowsThatFit(50), 1);  // nobody knows how large they are
  ahead.AddBytes(2, 600);
  EXPECT_EQ(ahead.RowsThatFit(50), 1);
  EXPECT_TRUE(ahead.HasRoom());
  {
    HeldBytes kept(context, node, HeldBytes::Kind::kKept);
    kept.AddBytes(4, 400);
    EXPECT_EQ(budget.held_bytes(), 1000);
    EXPECT_FALSE(ahead.HasRoom());
    EXPECT_TRUE(kept.CheckRoom().ok());  // who runs ahead takes nothing from it
    EXPECT_EQ(kept.RowsThatFit(50), 6);
    kept.Set(1000);
    EXPECT_FALSE(kept.CheckRoom().ok());
    EXPECT_TRUE(kept.CheckWithin().ok());
    kept.AddBytes(0, 1);
    EXPECT_FALSE(kept.CheckWithin().ok());
  }
  EXPECT_EQ(budget.held_bytes(), 600);
  ahead.Clear();
  EXPECT_EQ(budget.held_bytes(), 0);
  EXPECT_EQ(ahead.RowsThatFit(50), 3);
  ExecContext without{datasets_.get(), &environment_->memory(), nullptr};
  HeldBytes none(without, node, HeldBytes::Kind::kKept);
  none.AddBytes(1, 1 << 30);
  EXPECT_TRUE(none.CheckRoom().ok());
  EXPECT_EQ(none.RowsThatFit(50), 50);
}

TEST_F(RamBudgets, AreExplainedAsWhatActs) {
  EXPECT_THAT(Within(Range(3), 100)->Explain(),
              ::testing::AllOf(HasSubstr("autotune.ram_budget=100"),
                               Not(HasSubstr("without effect"))));
}

}  // namespace
}  // namespace tutti
