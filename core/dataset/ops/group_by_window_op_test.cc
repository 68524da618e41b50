#include <gmock/gmock.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Ref<Value> Given(Ref<Dataset> dataset) {
  return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(dataset)));
}
const Dataset& RowsIn(const Value& key_and_rows) {
  return *key_and_rows.leaf(1).object_as<Dataset>();
}
int64_t KeyIn(const Value& key_and_rows) { return NumberIn(key_and_rows); }

class GroupByWindow : public OpWalksTest {
 protected:
  // x -> x % n.
  Ref<TestFunction> Mod(int64_t n, std::string name = {}) {
    return MakeFunction(
        [](Context&, const Value& in, void* n) -> Result<Ref<Value>> {
          return Number(NumberIn(in) % *static_cast<const int64_t*>(n));
        },
        {.data = Kept(n), .spec = Int64Scalar(), .name = std::move(name)});
  }
  // Batches of `size`.
  Ref<TestFunction> Batches(int64_t size, std::string name = {}) {
    return MakeFunction(
        [](Context&, const Value& in, void* size) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made,
                                 RowsIn(in).Batch(*static_cast<const int64_t*>(size)));
          return Given(std::move(made));
        },
        {.data = Kept(size), .name = std::move(name)});
  }
  // The rows themselves.
  static Ref<TestFunction> Itself() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Value::OfLeaf(in.leaf(1));
    });
  }
  // The rows in an order that is drawn.
  static Ref<TestFunction> Shuffled() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, RowsIn(in).Shuffle(10));
      return Given(std::move(made));
    });
  }
  // The key with each row; fails for the key 1.
  static Ref<TestFunction> WithKey() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      if (KeyIn(in) == 1) return Status(StatusCode::kDataLoss, "it is 1");
      TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, RowsIn(in).Enumerate(100 * KeyIn(in)));
      return Given(std::move(made));
    });
  }
  Ref<Dataset> FailsAt(int64_t stop, int64_t bad) { return Ok(Range(stop)->Map(FailAt(bad))); }
  Ref<TestFunction> FailAt(int64_t bad) {
    return MakeFunction(
        [](Context&, const Value& in, void* bad) -> Result<Ref<Value>> {
          if (NumberIn(in) == *static_cast<const int64_t*>(bad)) {
            return Status(StatusCode::kDataLoss, "it is bad");
          }
          return Number(NumberIn(in));
        },
        {.data = Kept(bad), .spec = Int64Scalar()});
  }
  // x -> x zeros.
  static Ref<TestFunction> Zeros() {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                                 Tensor::Create(DType::kInt64, Shape({NumberIn(in)})));
          return Value::OfTensor(std::move(out));
        },
        {.spec =
             ElementSpec::OfTensor(DType::kInt64, PartialShape({PartialShape::kUnknownDim}))});
  }
  static Ref<TestFunction> SizeModTwo() {
    return MakeFunction(
        [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
          return Number(in.leaf(0).tensor().dim(0) % 2);
        });
  }
  static Ref<TestFunction> Zero() {
    return MakeFunction(
        [](Context&, const Value&, void*) -> Result<Ref<Value>> { return Number(0); });
  }
  // The keys 0, 1, 2 have windows of 1, 2, 3.
  static Ref<TestFunction> OneMore() {
    return MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
      return Number(NumberIn(in) + 1);
    });
  }
  void* Kept(int64_t number) {
    numbers_.push_back(number);
    return &numbers_.back();
  }
  Ref<Dataset> Grouped(const Ref<Dataset>& dataset, Ref<Function> key_func,
                       Ref<Function> reduce_func, int64_t size) {
    return Ok(dataset->GroupByWindow(std::move(key_func), std::move(reduce_func), size));
  }
  static std::string Refused(const Result<Ref<Dataset>>& made) {
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  }

  std::deque<int64_t> numbers_;
  Ref<TestFunction> fail_at_two_;
};

TEST_F(GroupByWindow, WalksAsItShould) {
  const auto by = [&](const Ref<Dataset>& dataset, int64_t mod, int64_t batch, int64_t size) {
    return Grouped(dataset, Mod(mod), Batches(batch), size);
  };
  ExpectAllWalks({
      {"batches of a key", [&] { return by(Range(10), 3, 10, 2); },
       {"[0 3]", "[1 4]", "[2 5]", "[6 9]", "[7]", "[8]"}},
      {"the rest by key", [&] {
         return by(Ok(Dataset::Range(datasets_, 5, -1, -1)), 3, 10, 100);
       }, {"[3 0]", "[4 1]", "[5 2]"}},
      {"several batches of a window", [&] { return by(Range(11), 2, 2, 3); },
       {"[0 2]", "[4]", "[1 3]", "[5]", "[6 8]", "[10]", "[7 9]"}},
      {"windows of one", [&] { return by(Range(14), 2, 2, 1); },
       {"[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]", "[8]", "[9]", "[10]", "[11]",
        "[12]", "[13]"}},
      {"one window of all", [&] { return by(Range(7), 2, 100, kMost); }, {"[0 2 4 6]", "[1 3 5]"}},
      {"of nothing", [&] { return by(Range(0), 2, 2, 2); }, {}},
      {"without end", [&] { return by(Ok(Range(3)->Repeat(-1)), 2, 2, 2); },
       {"[0 2]", "[1 1]", "[0 2]", "[0 2]", "[1 1]", "[0 2]"}, true},
      {"negative keys", [&] {
         return Grouped(Range(-3, 3), Mod(100), Itself(), 2);
       }, {"-3", "-2", "-1", "0", "1", "2"}},
      {"with the key", [&] { return Grouped(Range(0, 12), Mod(4), WithKey(), 3); },
       {"(0, 0)", "(1, 4)", "(2, 8)", "!it is 1", "(200, 2)", "(201, 6)", "(202, 10)", "(300, 3)",
        "(301, 7)", "(302, 11)"}},
      {"of rows of other shapes", [&] {
         return Grouped(Ok(Range(6)->Map(Zeros())), SizeModTwo(), Itself(), 2);
       }, {"[]", "[0 0]", "[0]", "[0 0 0]", "[0 0 0 0]", "[0 0 0 0 0]"}},
      {"of pairs", [&] {
         return Grouped(Ok(Range(5, 10)->Enumerate()), Mod(2), Itself(), 2);
       }, {"(0, 5)", "(2, 7)", "(1, 6)", "(3, 8)", "(4, 9)"}},
      {"of windows", [&] {
         return Grouped(Ok(Range(9)->Window(2)), Zero(), Itself(), 2);
       }, {"<0 1>", "<2 3>", "<4 5>", "<6 7>", "<8>"}},
      {"of a size for each key", [&] {
         return Ok(Range(11)->GroupByWindow(Mod(3), Batches(10), {}, OneMore()));
       }, {"[0]", "[3]", "[1 4]", "[6]", "[2 5 8]", "[9]", "[7 10]"}},
      {"a failed element", [&] { return Grouped(FailsAt(8, 4), Mod(2), Batches(2), 2); },
       {"[0 2]", "[1 3]", "!it is bad", "[5 7]", "[6]"}},
      {"a failed last element", [&] { return Grouped(FailsAt(5, 4), Mod(2), Batches(9), 3); },
       {"!it is bad", "[0 2]", "[1 3]"}},
      {"a failed key", [&] { return Grouped(Range(8), FailAt(3), Batches(2), 1); },
       {"[0]", "[1]", "[2]", "!it is bad", "[4]", "[5]", "[6]", "[7]"}},
      {"a failed key among others", [&] {
         return Grouped(Range(9),
                        MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
                          if (NumberIn(in) == 5) return Status(StatusCode::kDataLoss, "bad key");
                          return Number(NumberIn(in) % 2);
                        }),
                        Batches(4), 4);
       }, {"!bad key", "[0 2 4 6]", "[8]", "[1 3 7]"}},
      {"a failed element of a group", [&] {
         fail_at_two_ = FailAt(2);
         const auto mapped =
             MakeFunction([](Context&, const Value& in, void* map) -> Result<Ref<Value>> {
               TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made,
                                      RowsIn(in).Map(*static_cast<const Ref<TestFunction>*>(map)));
               return Given(std::move(made));
             }, {.data = &fail_at_two_});
         return Grouped(Range(6), Mod(2), mapped, 3);
       }, {"0", "!it is bad", "4", "1", "3", "5"}},
      {"nothing of a group", [&] {
         return Grouped(Range(6), Mod(2),
                        MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
                          TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made,
                                                 RowsIn(in).Take(KeyIn(in) == 0 ? 0 : 1));
                          return Given(std::move(made));
                        }), 2);
       }, {"1", "5"}},
      {"groups of groups", [&] {
         return Grouped(by(Range(12), 3, 2, 2), Mod(2), Itself(), 2);
       }, {"[0 3]", "[2 5]", "[1 4]", "[7 10]", "[6 9]", "[8 11]"}},
  });
}

TEST_F(GroupByWindow, SaysWhatItKnowsOfItsElements) {
  const Ref<Dataset> infinite = Ok(Range(2)->Repeat(-1));
  EXPECT_EQ(Grouped(infinite, Mod(2), Batches(2), 2)->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Grouped(Range(4), Mod(2), Batches(2), 2)->cardinality(), kUnknownCardinality);
  // Without reading a group.
  const Ref<TestFunction> add_one = AddOne();
  EXPECT_EQ(SpecText(Grouped(Ok(infinite->Map(add_one)), Mod(2), Batches(2), kMost)), "int64[?]");
  EXPECT_EQ(add_one->calls, 1);
  // Other groups have other shapes.
  EXPECT_EQ(SpecText(Grouped(Ok(Range(6)->Map(Zeros())), SizeModTwo(), Itself(), 2)), "int64[?]");
  EXPECT_EQ(SpecText(Grouped(Ok(Range(5)->Enumerate()), Mod(2), Itself(), 2)),
            "(int64[], int64[])");
  EXPECT_THAT(SpecText(Grouped(Range(0), Mod(2), Itself(), 2)), HasSubstr("no element"));
  // What is promised needs no element.
  const auto promised = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        return Value::OfLeaf(in.leaf(1));
      },
      {.spec = ElementSpec::Dataset(Int64Scalar())});
  EXPECT_EQ(SpecText(Grouped(Range(0), Mod(2), promised, 2)), "int64[]");
}

TEST_F(GroupByWindow, TakesExactlyOneOfSizeAndSizeFunction) {
  const auto build = [&](std::optional<int64_t> size, Ref<Function> function) {
    return Range(8)->GroupByWindow(Mod(2), Batches(2), size, std::move(function));
  };
  EXPECT_THAT(Refused(build({}, nullptr)),
              HasSubstr("exactly one of window_size and window_size_func must be given, and none"));
  EXPECT_THAT(Refused(build(2, OneMore())),
              HasSubstr("exactly one of window_size and window_size_func must be given, and both"));
  EXPECT_EQ(Refused(build(0, nullptr)), "group_by_window: window_size must be positive, got 0");
  EXPECT_EQ(Refused(build(-1, nullptr)), "group_by_window: window_size must be positive, got -1");
}

TEST_F(GroupByWindow, RefusesFunctionsThatPromiseOtherThings) {
  const auto giving = [](Ref<const ElementSpec> spec, Granularity granularity = Granularity::kRow) {
    return MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
      return Number(0);
    }, {.spec = std::move(spec), .granularity = granularity});
  };
  const Ref<const ElementSpec> text = ElementSpec::OfTensor(DType::kBytes, PartialShape::Scalar());
  EXPECT_EQ(Refused(Range(8)->GroupByWindow(giving(text), Itself(), 2)),
            "group_by_window: key_func must give an integer scalar, and gives bytes[]");
  EXPECT_THAT(Refused(Range(8)->GroupByWindow(Mod(2), giving(Int64Scalar()), 2)),
              HasSubstr("must give a dataset, and gives int64[]"));
  EXPECT_EQ(Refused(Range(8)->GroupByWindow(Mod(2), Itself(), {}, giving(text))),
            "group_by_window: window_size_func must give an integer scalar, and gives bytes[]");
  EXPECT_THAT(Refused(Range(8)->GroupByWindow(Mod(2), giving(nullptr, Granularity::kSlab), 2)),
              HasSubstr("reduce_func takes many rows at once"));
}

TEST_F(GroupByWindow, NamesTheGroupOfAFailure) {
  const Ref<Iterator> iterator = Iterate(Grouped(Range(6), Mod(3), WithKey(), 2));
  EXPECT_EQ(Next(*iterator), "(0, 0)");
  EXPECT_EQ(Next(*iterator), "(1, 3)");
  const Status failed = iterator->Next(CallOptions()).status();
  EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
  EXPECT_EQ(failed.message(), "group_by_window: the group of key 1: it is 1");
  EXPECT_EQ(std::get<int64_t>(failed.FindDetail("key")->value), 1);
  EXPECT_EQ(std::get<int64_t>(failed.FindDetail("index")->value), 1);
  Close(*iterator);

  const auto number = MakeFunction([](Context&, const Value&, void*) -> Result<Ref<Value>> {
    return Number(0);
  });
  EXPECT_THAT(All(Grouped(Range(2), Mod(2), number, 1)),
              ElementsAre(HasSubstr("the group of key 0: the function must give a dataset, and "
                                    "gave int64[]"),
                          HasSubstr("the group of key 1: the function must give a dataset")));
  // Datasets of other elements.
  const auto other = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    if (KeyIn(in) == 0) return Value::OfLeaf(in.leaf(1));
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> made, RowsIn(in).Enumerate(0));
    return Given(std::move(made));
  });
  EXPECT_THAT(All(Grouped(Range(4), Mod(2), other, 2)),
              ElementsAre("0", "2", HasSubstr("structure")));
}

TEST_F(GroupByWindow, NamesTheElementOfAKeyThatIsNone) {
  const auto half = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    return Value::OfTensor(NumberIn(in) == 1 ? Tensor::Scalar(0.5f) : Tensor::Scalar<int64_t>(0));
  });
  EXPECT_THAT(All(Grouped(Range(4), half, Batches(3), 3)),
              ElementsAre("!group_by_window: element 1: key_func must give an integer scalar, and "
                          "gave float32[]",
                          "[0 2 3]"));
}

TEST_F(GroupByWindow, AsksForTheSizeOfAKeyOnce) {
  const Ref<TestFunction> sizes = OneMore();
  const Ref<Dataset> grouped = Ok(Range(20)->GroupByWindow(Mod(3), Batches(10), {}, sizes));
  EXPECT_EQ(All(grouped).size(), 13u);
  EXPECT_EQ(sizes->calls, 3);
  // What is saved need not be asked for again.
  const Ref<Iterator> iterator = Iterate(grouped);
  for (int i = 0; i < 6; ++i) Next(*iterator);
  const std::string state = iterator->Save(CallOptions()).value();
  Close(*iterator);
  const Ref<Iterator> other = Iterate(grouped);
  ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
  sizes->calls = 0;
  EXPECT_EQ(All(*other).size(), 7u);
  EXPECT_EQ(sizes->calls, 0);
  Close(*other);
}

TEST_F(GroupByWindow, LosesTheElementWhoseWindowHasNoSize) {
  // 0 for the key 0, which is asked for each time, a text for 2.
  const auto sizes = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    if (NumberIn(in) == 2) return Value::OfString("two");
    return Number(NumberIn(in));
  });
  EXPECT_THAT(
      All(Ok(Range(6)->GroupByWindow(Mod(3), Batches(10), {}, sizes))),
      ElementsAre(HasSubstr("group_by_window: the window size of key 0: window_size_func must give "
                            "a positive number, and gave 0"),
                  "[1]",
                  HasSubstr("the window size of key 2: window_size_func must give an integer "
                            "scalar, and gave"),
                  HasSubstr("of key 0"), "[4]", HasSubstr("of key 2")));
}

TEST_F(GroupByWindow, TakesKeysOfAnyIntegerDType) {
  // The same number is the same key; the function gets it as an int64.
  const auto keys = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    switch (NumberIn(in)) {
      case 0: return Value::OfTensor(Tensor::Scalar<int8_t>(-1));
      case 1: return Value::OfTensor(Tensor::Scalar<int64_t>(-1));
      case 2: return Value::OfTensor(Tensor::Scalar<uint16_t>(7));
      case 3: return Value::OfTensor(Tensor::Scalar<int32_t>(7));
      default: return Value::OfTensor(Tensor::Scalar(~uint64_t{0}));
    }
  });
  const auto with_key = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Dataset> key,
        Dataset::FromTensors(RowsIn(in).environment(),
                             Value::OfString(ElementSpec::OfValue(in)->ToString() + " " +
                                             in.Child(0)->ToString())));
    return Given(std::move(key));
  });
  EXPECT_THAT(All(Grouped(Range(5), keys, with_key, 2)),
              ElementsAre(HasSubstr("(int64[], dataset(int64[])) -1"),
                          HasSubstr("(int64[], dataset(int64[])) 7"),
                          HasSubstr("(uint64[], dataset(int64[])) 18446744073709551615")));
  // Keys that no int64 holds are behind all others.
  const auto large = MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
    return Value::OfTensor(Tensor::Scalar(uint64_t{0} - static_cast<uint64_t>(NumberIn(in))));
  });
  EXPECT_THAT(All(Grouped(Range(4), large, Itself(), 10)), ElementsAre("0", "3", "2", "1"));
}

TEST_F(GroupByWindow, CallsNoFunctionForMoreThanAGroupNeeds) {
  const Ref<TestFunction> add_one = AddOne();
  const Ref<TestFunction> keys = Mod(2);
  const Ref<TestFunction> reduce = Batches(10);
  const Ref<Iterator> iterator =
      Iterate(Grouped(Ok(Range(1000)->Map(add_one)), keys, reduce, 5));
  Slab slab;
  ASSERT_TRUE(iterator->NextSlab(1, CallOptions(), &slab).ok());
  EXPECT_EQ(add_one->calls, 9);
  EXPECT_EQ(keys->calls, 9);
  EXPECT_EQ(reduce->calls, 1);
  Close(*iterator);
}

TEST_F(GroupByWindow, TakesKeysOfManyRowsAtOnce) {
  static std::vector<int64_t> sizes;
  sizes.clear();
  const auto keys = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        const Tensor& rows = in.leaf(0).tensor();
        sizes.push_back(rows.dim(0));
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> keys, Tensor::Create(DType::kInt64, rows.shape()));
        for (int64_t i = 0; i < rows.dim(0); ++i) {
          const int64_t number = rows.span<int64_t>()[static_cast<size_t>(i)];
          if (number == 4) return Status(StatusCode::kDataLoss, "four").With("row", i);
          keys->mutable_span<int64_t>()[static_cast<size_t>(i)] = number % 2;
        }
        return Value::OfTensor(std::move(keys));
      },
      {.granularity = Granularity::kSlab});
  EXPECT_THAT(All(Grouped(Range(12), keys, Batches(10), 3)),
              ElementsAre(HasSubstr("element 4: four"), "[1 3 5]", "[0 2 6]", "[7 9 11]",
                          "[8 10]"));
  EXPECT_THAT(sizes, ::testing::Each(::testing::Le(3)));
  EXPECT_EQ(sizes.front(), 3);
}

TEST_F(GroupByWindow, DrawsFromItsSeedAndTheGroupsNumber) {
  const auto build = [&] {
    environment_->SetDefaultSeed(7);
    return Grouped(Range(40), Mod(2), Shuffled(), 10);
  };
  const std::vector<int64_t> order = Numbers(build());
  EXPECT_EQ(Numbers(build()), order);
  // Each group has an order of its own.
  const auto shape = [&](size_t group) {
    std::vector<int64_t> places;
    for (size_t i = 0; i < 10; ++i) places.push_back(order[group * 10 + i] % 20 / 2);
    return places;
  };
  EXPECT_NE(shape(0), shape(1));
  EXPECT_NE(shape(0), shape(2));
  // The iterator that goes on has the rest of it, wherever it is saved.
  const Ref<Dataset> dataset = build();
  for (size_t at = 0; at <= 40; at += 7) {
    const Ref<Iterator> iterator = Iterate(build());
    for (size_t i = 0; i < at; ++i) EXPECT_EQ(Next(*iterator), Format("{}", order[i]));
    const std::string state = iterator->Save(CallOptions()).value();
    Close(*iterator);
    const Ref<Iterator> resumed = Iterate(dataset);
    ASSERT_TRUE(resumed->Restore(state, CallOptions()).ok());
    for (size_t i = at; i < 40; ++i) EXPECT_EQ(Next(*resumed), Format("{}", order[i])) << at;
    EXPECT_EQ(Next(*resumed), ".");
    Close(*resumed);
  }
  // Another pass draws anew.
  const std::vector<int64_t> twice = Numbers(Ok(build()->Repeat(2)));
  EXPECT_EQ(std::vector<int64_t>(twice.begin(), twice.begin() + 40), order);
  EXPECT_NE(std::vector<int64_t>(twice.begin() + 40, twice.end()), order);
}

TEST_F(GroupByWindow, CallsItsFunctionAgainForTheGroupThatWasRead) {
  const Ref<TestFunction> reduce = Batches(1);
  const Ref<Dataset> dataset = Grouped(Range(12), Mod(3), reduce, 3);
  const Ref<Iterator> iterator = Iterate(dataset);
  for (int i = 0; i < 4; ++i) Next(*iterator);
  EXPECT_EQ(reduce->calls, 2);
  const std::string state = iterator->Save(CallOptions()).value();
  const Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
  EXPECT_EQ(reduce->calls, 3);
  EXPECT_THAT(Take(*other, 3), ElementsAre("[4]", "[7]", "[2]"));
  EXPECT_EQ(reduce->calls, 4);
  Close(*iterator);
  Close(*other);
}

TEST_F(GroupByWindow, IsRefusedWhereItsStateIsTorn) {
  const auto build = [&] { return Grouped(Range(20), Mod(3), Batches(1), 3); };
  const Ref<Iterator> iterator = Iterate(build());
  for (int i = 0; i < 2; ++i) Next(*iterator);
  const std::string state = iterator->Save(CallOptions()).value();
  const Ref<Iterator> other = Iterate(build());
  for (size_t i = 0; i < state.size(); ++i) {
    std::string torn = state.substr(0, i);
    EXPECT_FALSE(other->Restore(torn, CallOptions()).ok());
    torn = state;
    torn[i] = static_cast<char>(torn[i] ^ 0x55);
    EXPECT_FALSE(other->Restore(torn, CallOptions()).ok());
  }
  EXPECT_TRUE(other->Restore(state, CallOptions()).ok());
  Close(*iterator);
  Close(*other);
}

TEST_F(GroupByWindow, IsWrittenDownWithNamedFunctions) {
  ASSERT_TRUE(functions_->Register("mod_three", Mod(3)).ok());
  ASSERT_TRUE(functions_->Register("batches", Batches(10)).ok());
  ASSERT_TRUE(functions_->Register("one_more", OneMore()).ok());
  const auto named = [&](const char* name) { return functions_->Find(name).value(); };
  for (const bool by_function : {false, true}) {
    const Ref<Dataset> dataset =
        by_function ? Ok(Range(10)->GroupByWindow(named("mod_three"), named("batches"), {},
                                                  named("one_more")))
                    : Ok(Range(10)->GroupByWindow(named("mod_three"), named("batches"), 2));
    const Ref<Dataset> read = Ok(Dataset::Deserialize(datasets_, dataset->Serialize().value()));
    EXPECT_EQ(All(read), All(dataset));
  }
  EXPECT_EQ(Grouped(Range(10), Mod(2), Batches(2), 2)->Serialize().status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tutti
