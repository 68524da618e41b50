// flat_map and interleave, on the iterating thread and on threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/dataset/records/tf_record.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

struct Form {
  const char* name;
  bool flat_map = false;
  std::optional<int64_t> cycle_length = {};
  int64_t block_length = 1;
  int64_t num_parallel_calls = 0;
  std::optional<bool> deterministic = {};

  bool in_any_order() const { return deterministic.has_value() && !*deterministic; }
  bool parallel() const { return num_parallel_calls != 0; }
};

std::string NameOf(const ::testing::TestParamInfo<Form>& info) { return info.param.name; }

class InterleaveTest : public DatasetTest {
 protected:
  using Numbers64 = std::vector<int64_t>;
  using Give = std::function<Result<Ref<Value>>(int64_t)>;

  static Ref<Value> ValueOf(const Ref<Dataset>& dataset) {
    return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
  }
  Ref<TestFunction> Gives(Give give, Ref<const ElementSpec> spec = nullptr) {
    functions_data_.push_back(std::move(give));
    return MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          return (*static_cast<Give*>(data))(NumberIn(in));
        },
        {.data = &functions_data_.back(), .spec = std::move(spec), .name = "give"});
  }
  // x -> start(x) ... start(x) + length(x) - 1
  Ref<TestFunction> Counts(std::function<int64_t(int64_t)> length) {
    return Gives([this, length = std::move(length)](int64_t x) -> Result<Ref<Value>> {
      return ValueOf(Range(10 * x, 10 * x + length(x)));
    });
  }
  Ref<TestFunction> UpToItself() {
    return Gives([this](int64_t x) -> Result<Ref<Value>> { return ValueOf(Range(x)); });
  }
  Ref<Dataset> Slices(const Numbers64& numbers) {
    return Ok(Dataset::FromTensorSlices(
        datasets_,
        Value::OfTensor(Tensor::FromSpan<int64_t>(
                            Shape({static_cast<int64_t>(numbers.size())}), numbers)
                            .value())));
  }
  static Ref<Dataset> Apply(const Form& form, const Ref<Dataset>& input, Ref<Function> function) {
    if (form.flat_map) return Ok(input->FlatMap(std::move(function)));
    return Ok(input->Interleave(std::move(function), form.cycle_length, form.block_length,
                                form.num_parallel_calls, form.deterministic));
  }
  static std::vector<std::string> Sorted(std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    return texts;
  }
  // Closed before the functions end that their threads call ahead.
  Ref<Iterator> Iterate(const Ref<Dataset>& dataset) {
    return iterators_.emplace_back(DatasetTest::Iterate(dataset));
  }
  void TearDown() override {
    for (const Ref<Iterator>& iterator : iterators_) Close(*iterator);
  }
  void Resume(const Ref<Iterator>& iterator, Ref<Iterator>* other, const Ref<Dataset>& dataset) {
    const Result<std::string> state = iterator->Save(CallOptions());
    ASSERT_TRUE(state.ok()) << state.status().ToString();
    *other = Iterate(dataset);
    const Status restored = (*other)->Restore(*state, CallOptions());
    ASSERT_TRUE(restored.ok()) << restored.ToString();
  }

  std::deque<Give> functions_data_;
  std::vector<Ref<Iterator>> iterators_;
};

class AllForms : public InterleaveTest, public ::testing::WithParamInterface<Form> {
 protected:
  Ref<Dataset> Apply(const Ref<Dataset>& input, Ref<Function> function) {
    return InterleaveTest::Apply(GetParam(), input, std::move(function));
  }
  // The same elements, in order where the form has one.
  void ExpectSame(const std::vector<std::string>& found, const std::vector<std::string>& expected) {
    if (GetParam().in_any_order()) {
      EXPECT_THAT(found, UnorderedElementsAreArray(expected));
    } else {
      EXPECT_EQ(found, expected);
    }
  }
  // What a walk over lists gives, as the operation is described.
  std::vector<std::string> Expected(const std::vector<std::vector<std::string>>& lists) {
    const auto cycle = static_cast<size_t>(GetParam().flat_map ? 1
                                           : GetParam().cycle_length.value_or(10));
    std::vector<std::deque<std::string>> slots(cycle);
    std::vector<bool> filled(cycle);
    std::vector<std::string> all;
    size_t next = 0;
    for (size_t i = 0, idle = 0; idle < cycle; i = (i + 1) % cycle) {
      if (!filled[i] && next < lists.size()) {
        slots[i].assign(lists[next].begin(), lists[next].end());
        ++next;
        filled[i] = true;
      }
      idle = filled[i] ? 0 : idle + 1;
      int64_t given = 0;
      for (; given < GetParam().block_length && !slots[i].empty(); ++given) {
        all.push_back(slots[i].front());
        slots[i].pop_front();
      }
      if (given < GetParam().block_length) filled[i] = false;
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Interleave, AllForms,
    ::testing::Values(Form{.name = "FlatMap", .flat_map = true}, Form{.name = "ByDefault"},
                      Form{.name = "TwoSlots", .cycle_length = 2},
                      Form{.name = "Blocks", .cycle_length = 3, .block_length = 2},
                      Form{.name = "OneThread", .cycle_length = 2, .num_parallel_calls = 1},
                      Form{.name = "Threads", .cycle_length = 3, .num_parallel_calls = 3},
                      Form{.name = "ThreadsAndBlocks",
                           .cycle_length = 3,
                           .block_length = 2,
                           .num_parallel_calls = 2},
                      Form{.name = "ChosenThreads", .cycle_length = 4, .num_parallel_calls = -1},
                      Form{.name = "AnyOrder",
                           .cycle_length = 3,
                           .num_parallel_calls = 3,
                           .deterministic = false}),
    NameOf);

TEST_P(AllForms, GivesTheElementsOfAllDatasets) {
  const Numbers64 lengths = {3, 0, 5, 1, 0, 0, 2, 4, 1, 7, 0, 1, 30};
  std::vector<std::vector<std::string>> lists;
  for (size_t x = 0; x < lengths.size(); ++x) {
    lists.emplace_back();
    for (int64_t i = 0; i < lengths[x]; ++i) {
      lists.back().push_back(Format("{}", 10 * static_cast<int64_t>(x) + i));
    }
  }
  const Ref<Dataset> dataset = Apply(
      Range(static_cast<int64_t>(lengths.size())),
      Counts([lengths](int64_t x) { return lengths[static_cast<size_t>(x)]; }));
  ExpectSame(All(dataset), Expected(lists));
  // By slabs, too.
  const Ref<Iterator> iterator = Iterate(dataset);
  std::vector<std::string> rows;
  for (bool end = false; !end;) {
    Slab slab;
    ASSERT_TRUE(iterator->NextSlab(7, CallOptions(), &slab).ok());
    ASSERT_LE(slab.rows, 7);
    for (int64_t i = 0; i < slab.rows; ++i) rows.push_back(slab.Row(i).value()->ToString());
    end = slab.end;
  }
  ExpectSame(rows, Expected(lists));
}

TEST_P(AllForms, OfNothingIsNothing) {
  EXPECT_THAT(All(Apply(Range(0), UpToItself())), IsEmpty());
  EXPECT_THAT(All(Apply(Ok(Range(0)->Repeat(4)), UpToItself())), IsEmpty());
  // Datasets without elements only.
  const Ref<Iterator> iterator = Iterate(Apply(Range(40), Counts([](int64_t) { return 0; })));
  EXPECT_EQ(Next(*iterator), ".");
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_P(AllForms, ResumesEverywhere) {
  const Ref<Dataset> dataset =
      Ok(Apply(Range(7), Counts([](int64_t x) { return x % 4; }))->Repeat(2));
  const std::vector<std::string> all = All(dataset);
  const Ref<Iterator> iterator = Iterate(dataset);
  std::vector<std::string> before;
  // Unused, at every element, and exhausted.
  for (size_t i = 0; i <= all.size(); ++i) {
    Ref<Iterator> other;
    Resume(iterator, &other, dataset);
    if (GetParam().in_any_order()) {
      std::vector<std::string> together = before;
      for (const std::string& text : All(*other)) together.push_back(text);
      EXPECT_EQ(Sorted(together), Sorted(all)) << "at " << i;
    } else {
      EXPECT_EQ(All(*other), std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i),
                                                      all.end()))
          << "at " << i;
    }
    EXPECT_EQ(Next(*other), ".");
    before.push_back(Next(*iterator));
  }
}

TEST_P(AllForms, ResumesTenTimesInOnePass) {
  const Ref<Dataset> dataset = Apply(Range(12), Counts([](int64_t x) { return x * 3 % 10; }));
  const std::vector<std::string> all = All(dataset);
  Ref<Iterator> iterator = Iterate(dataset);
  std::vector<std::string> found;
  for (int i = 0; i < 10; ++i) {
    for (std::string& text : Take(*iterator, 4)) found.push_back(std::move(text));
    Ref<Iterator> other;
    Resume(iterator, &other, dataset);
    // What was resumed is saved at once, too.
    Resume(other, &iterator, dataset);
  }
  for (std::string& text : All(*iterator)) found.push_back(std::move(text));
  ExpectSame(found, all);
}

TEST_P(AllForms, SkippedElementsAreNotMade) {
  const Ref<Dataset> dataset = Apply(Range(9), Counts([](int64_t) { return 5; }));
  const std::vector<std::string> all = All(dataset);
  std::vector<std::string> rest = All(Ok(dataset->Skip(12)));
  if (GetParam().in_any_order()) {
    EXPECT_THAT(rest, SizeIs(all.size() - 12));
    return;
  }
  EXPECT_EQ(rest, std::vector<std::string>(all.begin() + 12, all.end()));
  if (GetParam().parallel()) return;
  const Ref<TestFunction> add_one = AddOne();
  const Ref<Dataset> mapped = Apply(Range(9), Gives([&](int64_t) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(5)->Map(add_one)));
  }));
  EXPECT_THAT(All(Ok(Ok(mapped->Skip(12))->Take(3))), SizeIs(3));
  EXPECT_EQ(add_one->calls, 3);
}

TEST_P(AllForms, FailuresKeepTheirPlacesAndAllElseComes) {
  // Of the input, of the function, of elements of a dataset, and a result that is no dataset.
  const Ref<TestFunction> bad_input = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 2) return Status(StatusCode::kDataLoss, "bad input");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<TestFunction> bad_element = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) == 41) return Status(StatusCode::kDataLoss, "bad element");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  const Ref<Dataset> dataset =
      Apply(Ok(Range(7)->Map(bad_input)), Gives([&](int64_t x) -> Result<Ref<Value>> {
        if (x == 3) return Status(StatusCode::kOutOfRange, "bad call");
        if (x == 5) return Number(5);
        return ValueOf(Ok(Range(10 * x, 10 * x + 3)->Map(bad_element)));
      }));
  std::vector<std::string> good;
  std::vector<std::string> bad;
  const Ref<Iterator> iterator = Iterate(dataset);
  for (const std::string& text : All(*iterator)) (text[0] == '!' ? bad : good).push_back(text);
  EXPECT_EQ(Sorted(good), Sorted({"0", "1", "2", "10", "11", "12", "40", "42", "60", "61", "62"}));
  ASSERT_THAT(bad, SizeIs(4));
  const std::string together = bad[0] + bad[1] + bad[2] + bad[3];
  EXPECT_THAT(together, HasSubstr("bad input"));
  EXPECT_THAT(together, HasSubstr("element 3: bad call"));
  EXPECT_THAT(together, HasSubstr("bad element"));
  EXPECT_THAT(together, HasSubstr("element 5: the function must give a dataset, and gave int64[]"));
  // Restored among them.
  const Ref<Iterator> again = Iterate(dataset);
  for (int i = 0; i < 9; ++i) {
    Next(*again);
    Ref<Iterator> other;
    Resume(again, &other, dataset);
    const size_t left = All(*other).size();
    if (!GetParam().in_any_order()) {
      EXPECT_EQ(left, static_cast<size_t>(15 - i - 1));
    }
  }
}

TEST_P(AllForms, InfiniteInputsAndDatasetsAreTaken) {
  const Ref<Dataset> endless = Ok(Range(3)->Repeat(-1));
  EXPECT_THAT(All(Ok(Apply(endless, Counts([](int64_t) { return 2; }))->Take(50))), SizeIs(50));
  const Ref<Dataset> inner = Apply(Range(4), Gives([this](int64_t x) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(x, x + 1)->Repeat(-1)));
  }));
  EXPECT_THAT(All(Ok(inner->Take(50))), SizeIs(50));
}

TEST_P(AllForms, ADeadlineOrACancellationLosesNothing) {
  std::atomic<bool> open{false};
  const Ref<Dataset> dataset = Apply(Range(4), Gives([&](int64_t x) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(10 * x, 10 * x + 2)->Map(MakeFunction(
        [](Context& context, const Value& in, void* data) -> Result<Ref<Value>> {
          while (!*static_cast<std::atomic<bool>*>(data)) {
            if (context.cancelled()) return Status(StatusCode::kCancelled, "nobody waits");
          }
          return Number(NumberIn(in));
        },
        {.data = &open, .spec = Int64Scalar()}))));
  }, ElementSpec::Dataset(Int64Scalar())));
  const Ref<Iterator> iterator = Iterate(dataset);
  const auto cancellation = MakeRef<Cancellation>();
  cancellation->Cancel();
  EXPECT_EQ(iterator->Next(CallOptions{Deadline::Infinite(), cancellation.get()}).status().code(),
            StatusCode::kCancelled);
  const CallOptions soon{Deadline::After(environment_->clock(), kMillisecondNs), nullptr};
  EXPECT_TRUE(IsInterruption(iterator->Next(soon).status()));
  open = true;
  EXPECT_EQ(Sorted(All(*iterator)), Sorted({"0", "1", "10", "11", "20", "21", "30", "31"}));
}

TEST_P(AllForms, ClosesWhileItRuns) {
  const Ref<Iterator> iterator =
      Iterate(Apply(Ok(Range(3)->Repeat(-1)), Gives([this](int64_t) -> Result<Ref<Value>> {
        return ValueOf(Ok(Ok(Range(100)->Prefetch(3))->Repeat(2)));
      })));
  Take(*iterator, 20);
  EXPECT_TRUE(iterator->Close(CallOptions()).ok());
}

TEST_P(AllForms, RepeatsAndShufflesAnew) {
  const Ref<Dataset> dataset = Apply(Range(6), Gives([this](int64_t x) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(100 * x, 100 * x + 5)->Shuffle(5)));
  }));
  const std::vector<std::string> twice = All(Ok(dataset->Repeat(2)));
  const std::vector<std::string> first(twice.begin(), twice.begin() + 30);
  const std::vector<std::string> second(twice.begin() + 30, twice.end());
  EXPECT_EQ(Sorted(first), Sorted(second));
  EXPECT_NE(first, second);
  EXPECT_EQ(Sorted(first).size(), std::set<std::string>(first.begin(), first.end()).size());
  // Restored, the orders are what they were.
  if (GetParam().in_any_order()) return;
  const Ref<Iterator> iterator = Iterate(dataset);
  for (int i = 0; i < 12; ++i) {
    Ref<Iterator> other;
    Resume(iterator, &other, dataset);
    Ref<Iterator> another;
    Resume(iterator, &another, dataset);
    EXPECT_EQ(All(*other), All(*another));
    Next(*iterator);
  }
}

TEST_P(AllForms, WhatIsShuffledInAFunctionDrawsNothingWhenItIsBuilt) {
  const auto draw_after = [&](bool iterates) {
    environment_->SetDefaultSeed(7);
    const Ref<Dataset> dataset = Apply(Range(5), Gives([this](int64_t x) -> Result<Ref<Value>> {
      return ValueOf(Ok(Range(x)->Shuffle(5)));
    }));
    EXPECT_EQ(iterates ? All(dataset).size() : 10, 10u);
    return environment_->DrawSeed();
  };
  EXPECT_EQ(draw_after(true), draw_after(false));
}

// ---- What is not the same for all.

class Interleave : public InterleaveTest {};

TEST_F(Interleave, SlotsAreRefilledWhenTheCycleComesBack) {
  const Ref<Dataset> dataset = Ok(Slices({0, 3, 0, 2, 0, 1})->Interleave(UpToItself(), 2));
  EXPECT_THAT(Numbers(dataset), ElementsAre(0, 1, 0, 2, 1, 0));
  EXPECT_THAT(Numbers(Ok(Slices({2, 3, 1})->Interleave(UpToItself(), 2, 5))),
              ElementsAre(0, 1, 0, 1, 2, 0));
}

TEST_F(Interleave, AFailedElementOfADatasetCountsInItsBlock) {
  const Ref<TestFunction> fails = MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        if (NumberIn(in) % 10 == 1) return Status(StatusCode::kDataLoss, "one is bad");
        return Number(NumberIn(in));
      },
      {.spec = Int64Scalar()});
  for (const int64_t threads : {0, 2}) {
    const Ref<Dataset> dataset =
        Ok(Range(2)->Interleave(Gives([&](int64_t x) -> Result<Ref<Value>> {
             return ValueOf(Ok(Range(10 * x, 10 * x + 3)->Map(fails)));
           }),
                                2, 1, threads));
    std::vector<std::string> found = All(dataset);
    for (std::string& text : found) text = text.substr(0, 1) == "!" ? "!" : text;
    EXPECT_THAT(found, ElementsAre("0", "10", "!", "!", "2", "12"));
  }
}

TEST_F(Interleave, CardinalityIsUnknownUnlessTheInputIsInfinite) {
  EXPECT_EQ(Ok(Range(3)->FlatMap(UpToItself()))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Ok(Range(3)->Repeat(-1))->FlatMap(UpToItself()))->cardinality(),
            kUnknownCardinality);
  EXPECT_EQ(Ok(Range(3)->Interleave(UpToItself()))->cardinality(), kUnknownCardinality);
  EXPECT_EQ(Ok(Ok(Range(3)->Repeat(-1))->Interleave(UpToItself()))->cardinality(),
            kInfiniteCardinality);
}

TEST_F(Interleave, ArgumentsAreChecked) {
  const auto message = [&](std::optional<int64_t> cycle, int64_t block, int64_t calls) {
    const Status status = Range(3)->Interleave(UpToItself(), cycle, block, calls).status();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(0, 1, 0), HasSubstr("cycle_length must be positive"));
  EXPECT_THAT(message(-2, 1, 0), HasSubstr("cycle_length must be positive"));
  EXPECT_THAT(message(2, 0, 0), HasSubstr("block_length must be positive, got 0"));
  EXPECT_THAT(message(2, 1, -2), HasSubstr("num_parallel_calls must be 0 or more"));
  EXPECT_THAT(message(2, 1, 3), HasSubstr("must not be more than cycle_length, got 3 and 2"));
  EXPECT_EQ(message({}, 1, 20), "");
  EXPECT_EQ(message(-1, 1, 20), "");
}

TEST_F(Interleave, TheFunctionMustGiveADataset) {
  const Status refused = Range(3)->FlatMap(AddOne()).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("flat_map: the function must give a dataset, and gives int64[]"));
  const Ref<Iterator> iterator = Iterate(Ok(Range(3)->FlatMap(AddOne(nullptr))));
  EXPECT_THAT(Next(*iterator), HasSubstr("flat_map: element 0: the function must give a dataset"));
  EXPECT_THAT(Next(*iterator), HasSubstr("flat_map: element 1: the function must give a dataset"));
}

TEST_F(Interleave, SpecsAreThoseOfTheDatasets) {
  EXPECT_EQ(SpecText(Ok(Range(3)->FlatMap(UpToItself()))), "int64[]");
  EXPECT_EQ(SpecText(Ok(Range(3)->Interleave(Gives([this](int64_t) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(3)->Batch(2)));
  })))),
            "int64[?]");
  // What the function promises is known without a call.
  const Ref<TestFunction> promises =
      Gives([this](int64_t x) -> Result<Ref<Value>> { return ValueOf(Range(x)); },
            ElementSpec::Dataset(Int64Scalar()));
  EXPECT_EQ(SpecText(Ok(Range(3)->FlatMap(promises))), "int64[]");
  EXPECT_EQ(promises->calls, 0);
  // Nothing is read for it.
  EXPECT_EQ(SpecText(Ok(Range(3)->FlatMap(Gives([this](int64_t) -> Result<Ref<Value>> {
    const std::string nowhere[] = {"/nowhere/file"};
    return ValueOf(MakeTfRecordDataset(datasets_, nowhere, {}).value());
  })))),
            "bytes[]");
  EXPECT_THAT(SpecText(Ok(Range(0)->FlatMap(UpToItself()))), HasSubstr("no element to learn"));
}

TEST_F(Interleave, DatasetsOfOtherElementsAreRefusedOneByOne) {
  for (const bool known : {true, false}) {
    const Ref<Dataset> dataset =
        Ok(Range(3)->FlatMap(Gives([this, known](int64_t x) -> Result<Ref<Value>> {
          if (x != 1) return ValueOf(Range(x, x + 2));
          const Ref<Dataset> flags =
              Ok(Range(2)->Map(MakeFunction(
                  [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
                    return Value::OfTensor(Tensor::Scalar(NumberIn(in) == 0));
                  },
                  {.spec = known ? ElementSpec::OfTensor(DType::kBool, PartialShape::Scalar())
                                 : nullptr})));
          return ValueOf(flags);
        })));
    const std::vector<std::string> found = All(dataset);
    ASSERT_THAT(found, SizeIs(known ? 5 : 6));
    EXPECT_THAT(found[2], HasSubstr("expected int64<unknown>, found bool"));
    EXPECT_THAT(found[0] + found[1], "01");
    EXPECT_THAT(found[found.size() - 2] + found.back(), "23");
  }
}

TEST_F(Interleave, NothingIsCalledBeyondTheDemand) {
  for (const bool flat : {true, false}) {
    const Ref<TestFunction> function = Counts([](int64_t) { return 3; });
    const Ref<Dataset> dataset =
        Ok(flat ? Range(100)->FlatMap(function) : Range(100)->Interleave(function, 2));
    EXPECT_THAT(Numbers(Ok(dataset->Take(4))), SizeIs(4));
    EXPECT_EQ(function->calls, 2);
  }
}

TEST_F(Interleave, ThreadsMakeNothingBeyondWhatCanBeWanted) {
  for (const bool deterministic : {true, false}) {
    const Ref<TestFunction> function = Counts([](int64_t) { return 30; });
    const Ref<TestFunction> add_one = AddOne();
    const Ref<Dataset> dataset = Ok(Ok(Range(100)->Interleave(
        Gives([this, function, add_one](int64_t) -> Result<Ref<Value>> {
          ++function->calls;
          return ValueOf(Ok(Range(30)->Map(add_one)));
        }, ElementSpec::Dataset(Int64Scalar())),
        4, 1, 4, deterministic))->Take(3));
    EXPECT_THAT(Numbers(dataset), SizeIs(3));
    EXPECT_LE(function->calls, 4);
    EXPECT_LE(add_one->calls, 7);
  }
}

TEST_F(Interleave, ThreadsOpenDatasetsAtTheSameTime) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    int inside = 0;
  } gate;
  const Ref<Dataset> dataset =
      Ok(Range(8)->Interleave(Gives([&](int64_t x) -> Result<Ref<Value>> {
           std::unique_lock lock(gate.mutex);
           ++gate.inside;
           gate.changed.notify_all();
           // Nobody goes on before four have been called.
           gate.changed.wait(lock, [&] { return gate.inside >= 4; });
           return ValueOf(Range(x, x + 1));
         }, ElementSpec::Dataset(Int64Scalar())),
                              4, 1, 4));
  EXPECT_THAT(Numbers(dataset), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(Interleave, InAnyOrderNobodyWaitsForASlowDataset) {
  std::atomic<bool> open{false};
  const Ref<Dataset> dataset =
      Ok(Range(6)->Interleave(Gives([&](int64_t x) -> Result<Ref<Value>> {
           while (x == 0 && !open) std::this_thread::yield();
           return ValueOf(Range(x, x + 1));
         }, ElementSpec::Dataset(Int64Scalar())),
                              2, 1, 2, false));
  const Ref<Iterator> iterator = Iterate(dataset);
  std::vector<std::string> found = Take(*iterator, 5);
  open = true;
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Sorted(found), Sorted({"1", "2", "3", "4", "5"}));
  EXPECT_EQ(Next(*iterator), ".");
}

TEST_F(Interleave, ElementsOfAFunctionHaveOrdersOfTheirOwnAndOthersOne) {
  // Built in the function: an order for each element.
  const Ref<Dataset> own = Ok(Range(20)->FlatMap(Gives([this](int64_t) -> Result<Ref<Value>> {
    ShuffleOptions options;
    options.reshuffle_each_iteration = false;
    return ValueOf(Ok(Ok(Range(8)->Shuffle(8, std::move(options)))->Batch(8)));
  })));
  const std::vector<std::string> orders = All(own);
  EXPECT_GT(std::set<std::string>(orders.begin(), orders.end()).size(), 15u);
  EXPECT_EQ(All(own), orders);
  // Built outside, and never to be shuffled anew: one for all.
  ShuffleOptions options;
  options.reshuffle_each_iteration = false;
  const Ref<Dataset> outside = Ok(Ok(Range(8)->Shuffle(8, std::move(options)))->Batch(8));
  const Ref<Dataset> shared = Ok(Range(20)->FlatMap(
      Gives([&](int64_t) -> Result<Ref<Value>> { return ValueOf(outside); })));
  const std::vector<std::string> same = All(shared);
  EXPECT_THAT(same, SizeIs(20));
  EXPECT_THAT(same, Each(same[0]));
}

TEST_F(Interleave, OneInsideTheOther) {
  const auto twice = [this](int64_t x) -> Result<Ref<Value>> {
    return ValueOf(Ok(Range(x, x + 1)->Repeat(2)));
  };
  const Ref<Dataset> dataset = Ok(Range(4)->FlatMap(Gives([&](int64_t x) -> Result<Ref<Value>> {
    return ValueOf(Ok(Ok(Range(x)->Shuffle(4))->Interleave(Gives(twice), 2)));
  })));
  EXPECT_THAT(Numbers(dataset), SizeIs(12));
  const Ref<Iterator> iterator = Iterate(dataset);
  for (int i = 0; i < 12; ++i) {
    Ref<Iterator> other;
    Resume(iterator, &other, dataset);
    Ref<Iterator> another;
    Resume(iterator, &another, dataset);
    EXPECT_EQ(All(*other), All(*another));
    Next(*iterator);
  }
}

TEST_F(Interleave, DatasetsInsideOfOneAnotherHaveALimitOfDepth) {
  const Ref<Dataset> dataset = Ok(Range(1)->FlatMap(Gives([this](int64_t) -> Result<Ref<Value>> {
    Ref<Dataset> deep = Range(1);
    while (deep->node().depth() < kMaxDepth) deep = Ok(deep->Take(1));
    return ValueOf(deep);
  })));
  EXPECT_THAT(Next(*Iterate(dataset)), HasSubstr("more than 1000 operations deep together"));
}

TEST_F(Interleave, StatesOfOthersAreRefused) {
  const Ref<Dataset> dataset = Ok(Range(3)->Interleave(UpToItself(), 2));
  const Ref<Dataset> other = Ok(Range(3)->Interleave(UpToItself(), 3));
  const std::string state = Iterate(dataset)->Save(CallOptions()).value();
  EXPECT_EQ(Iterate(other)->Restore(state, CallOptions()).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
