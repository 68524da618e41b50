#include <gmock/gmock.h>

#include <functional>
#include <thread>

#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/testing/dataset_testing.h"
#include "core/dataset/testing/full_disk_testing.h"
#include "core/dataset/testing/record_file_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Counts in tens: pass p gives 10p, 10p + 1, 10p + 2. Each iteration has its place in its state.
struct Tens {
  std::atomic<int64_t> starts{0};
};
Ref<TestFunction> StartTens(Tens* tens) {
  return MakeFunction(
      [](Context&, const Value&, void* data) -> Result<Ref<Value>> {
        const int64_t pass = static_cast<Tens*>(data)->starts++;
        return Value::OfTensor(Tensor::Vector<int64_t>({pass * 10, pass * 10 + 3}));
      },
      {.data = tens});
}
Ref<TestFunction> NextOfTens() {
  return MakeFunction([](Context&, const Value& state, void*) -> Result<Ref<Value>> {
    auto* at = const_cast<int64_t*>(state.leaf(0).tensor().span<int64_t>().data());
    if (at[0] == at[1]) return Value::None();
    return Number(at[0]++);
  });
}

// x; fails for 2 as long as *data says so.
Ref<TestFunction> FailsAtTwo(bool* fails) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        if (*static_cast<bool*>(data) && NumberIn(in) == 2) {
          return Status(StatusCode::kInvalidArgument, "two is bad");
        }
        return Number(NumberIn(in));
      },
      {.data = fails, .spec = Int64Scalar()});
}

// x -> x copies of x.
Ref<TestFunction> FillSelf() {
  return MakeFunction(
      [](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kInt64, Shape({NumberIn(in)})));
        for (int64_t& item : out->mutable_span<int64_t>()) item = NumberIn(in);
        return Value::OfTensor(std::move(out));
      },
      {.spec = ElementSpec::OfTensor(DType::kInt64, PartialShape({-1}))});
}

class Cache : public DatasetTest {
 protected:
  Ref<Dataset> PassesOfTens() {
    return Ok(Dataset::FromGenerator(datasets_, StartTens(&tens_), NextOfTens(), Int64Scalar()));
  }
  Ref<Dataset> Bytes(std::initializer_list<std::string_view> texts) {
    std::vector<BytesView> views;
    for (std::string_view text : texts) views.push_back(BytesView{text.data(), text.size()});
    return Ok(Dataset::FromTensorSlices(
        datasets_, Value::OfTensor(
                       Tensor::FromStrings(Shape({static_cast<int64_t>(views.size())}), views)
                           .value())));
  }
  static std::string Saved(Iterator& iterator) {
    Result<std::string> state = iterator.Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    return state.ok() ? std::move(state).value() : std::string();
  }
  static void RestoreInto(Iterator& iterator, const std::string& state) {
    const Status restored = iterator.Restore(state, CallOptions());
    ASSERT_TRUE(restored.ok()) << restored.ToString();
  }
  // Saves before each element of `build()`, restores into datasets built anew and into this one,
  // and compares what is still to come.
  void GoesOnFromEveryElement(const std::function<Ref<Dataset>()>& build) {
    const Ref<Dataset> dataset = build();
    const Ref<Iterator> iterator = Iterate(dataset);
    std::vector<std::string> states;
    std::vector<std::string> all;
    do {
      states.push_back(Saved(*iterator));
      all.push_back(Next(*iterator));
    } while (all.back() != ".");
    const Ref<Iterator> beside = Iterate(dataset);
    for (size_t i = 0; i < states.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<std::string> rest(all.begin() + static_cast<ptrdiff_t>(i), all.end() - 1);
      RestoreInto(*beside, states[i]);
      EXPECT_EQ(All(*beside), rest);
      const Ref<Iterator> elsewhere = Iterate(build());
      RestoreInto(*elsewhere, states[i]);
      EXPECT_EQ(All(*elsewhere), rest);
      ASSERT_TRUE(elsewhere->Close(CallOptions()).ok());
    }
  }

  Tens tens_;
  bool fails_ = true;
};

TEST_F(Cache, GivesTheFirstPassAgain) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache());
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2));
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2));
  EXPECT_EQ(tens_.starts, 1);
}

TEST_F(Cache, IsSharedWithARepeatAndWithAllThatIsBuiltOnIt) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache());
  EXPECT_THAT(Numbers(Ok(cached->Repeat(3))), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(Numbers(Ok(cached->Map(AddOne()))), ElementsAre(1, 2, 3));
  EXPECT_THAT(All(Ok(cached->Batch(2))), ElementsAre("[0 1]", "[2]"));
  EXPECT_EQ(tens_.starts, 1);
}

TEST_F(Cache, KeepsARepeatBelowItWithAllItsPasses) {
  const Ref<Dataset> cached = Ok(Ok(PassesOfTens()->Repeat(2))->Cache());
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST_F(Cache, APassThatIsGivenUpCountsForNothing) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache());
  EXPECT_THAT(Numbers(cached, 2), ElementsAre(0, 1));
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
}

TEST_F(Cache, IsCompleteWhenAllElementsHaveBeenTakenThatTheInputSaysItHas) {
  const Ref<TestFunction> add = AddOne();
  const Ref<Dataset> three = Ok(Ok(Ok(Range(3)->Map(add))->Cache())->Take(3));
  EXPECT_THAT(Numbers(three), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(three), ElementsAre(1, 2, 3));
  EXPECT_EQ(add->calls, 3);
}

TEST_F(Cache, OfNothingIsEmpty) {
  const Ref<Dataset> cached = Ok(Range(0)->Cache());
  EXPECT_THAT(Numbers(cached), IsEmpty());
  EXPECT_THAT(Numbers(cached), IsEmpty());
}

TEST_F(Cache, KeepsTuplesByteStringsAndRowsOfAnyShape) {
  const Ref<Dataset> tuples = Ok(Ok(Bytes({"a", "", "bc"})->Enumerate())->Cache());
  const std::vector<std::string> first = All(tuples);
  EXPECT_THAT(first, ElementsAre(R"((0, "a"))", R"((1, ""))", R"((2, "bc"))"));
  EXPECT_EQ(All(tuples), first);
  const Ref<Dataset> ragged = Ok(Ok(Range(1, 4)->Map(FillSelf()))->Cache());
  EXPECT_THAT(All(ragged), ElementsAre("[1]", "[2 2]", "[3 3 3]"));
  EXPECT_THAT(All(ragged), ElementsAre("[1]", "[2 2]", "[3 3 3]"));
}

TEST_F(Cache, ReadsAnyNumberOfRowsAcrossItsChunks) {
  const Ref<Dataset> cached = Ok(Range(5000)->Cache());
  const std::vector<int64_t> all = Numbers(cached);
  const Ref<Iterator> iterator = Iterate(cached);
  std::vector<int64_t> by_slab;
  Slab slab;
  for (int64_t rows = 1; !slab.end; rows = rows * 7 % 1500 + 1) {
    ASSERT_TRUE(iterator->NextSlab(rows, CallOptions(), &slab).ok());
    for (int64_t i = 0; i < slab.rows; ++i) by_slab.push_back(NumberIn(*slab.Row(i).value()));
  }
  EXPECT_EQ(by_slab, all);
  EXPECT_THAT(Numbers(Ok(cached->Skip(4998))), ElementsAre(4998, 4999));
}

TEST_F(Cache, SaysOfItsElementsWhatTheInputSays) {
  EXPECT_EQ(Ok(Range(6)->Cache())->cardinality(), 6);
  EXPECT_EQ(Ok(Ok(Range(3)->Repeat(-1))->Cache())->cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Ok(PassesOfTens()->Cache())->cardinality(), kUnknownCardinality);
  EXPECT_EQ(SpecText(Ok(Ok(Range(6)->Batch(4))->Cache())), "int64[?]");
}

TEST_F(Cache, OfTwoIteratorsTheFirstThatCompletesDecidesAndBothGiveTheirOwnPass) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache());
  const Ref<Iterator> first = Iterate(cached);
  const Ref<Iterator> second = Iterate(cached);
  EXPECT_EQ(Next(*first), "0");
  EXPECT_THAT(All(*second), ElementsAre("10", "11", "12"));
  EXPECT_THAT(All(*first), ElementsAre("1", "2"));
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
}

TEST_F(Cache, ServesSeveralThreadsAtOnce) {
  const Ref<Dataset> cached = Ok(Ok(Range(3000)->Map(AddOne()))->Cache());
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(4);
  for (int64_t& sum : sums) {
    threads.emplace_back([&cached, &sum] {
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t number : Numbers(cached)) sum += number;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ElementsAre(9'003'000, 9'003'000, 9'003'000, 9'003'000));
}

TEST_F(Cache, APassWithAFailedElementGoesOnAndIsNotKept) {
  const Ref<TestFunction> function = FailsAtTwo(&fails_);
  const Ref<Dataset> cached = Ok(Ok(Range(4)->Map(function))->Cache());
  const Ref<Iterator> iterator = Iterate(cached);
  EXPECT_EQ(Next(*iterator), "0");
  EXPECT_EQ(Next(*iterator), "1");
  EXPECT_THAT(Next(*iterator), HasSubstr("two is bad"));
  EXPECT_THAT(All(*iterator), ElementsAre("3"));
  fails_ = false;
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(function->calls, 8);
  EXPECT_THAT(Numbers(cached), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(function->calls, 8);
}

TEST_F(Cache, ALookAtTheElementsKeepsNothing) {
  const Ref<Dataset> twice = Ok(Ok(Ok(PassesOfTens()->Take(3))->Cache())->Repeat(2));
  const ExecContext context{datasets_.get(), &environment_->memory(), &twice->options(), true};
  const std::unique_ptr<Stage> stage = MakeStage(twice->node(), context).value();
  int64_t passed = 0;
  Status behind;
  ASSERT_TRUE(PassOver(*stage, 100, CallOptions(), &passed, &behind).ok());
  EXPECT_EQ(passed, 6);
  EXPECT_THAT(Numbers(twice), ElementsAre(20, 21, 22, 20, 21, 22));
}

TEST_F(Cache, ADefinitionMadeFromBytesHasItsOwn) {
  const Ref<Dataset> cached = Ok(Ok(Range(50)->Shuffle(50, Seed(1)))->Cache());
  // The first order goes with a pass that is given up.
  Numbers(cached, 2);
  const std::vector<int64_t> second_order = Numbers(cached);
  const Ref<Dataset> copy = Ok(Dataset::Deserialize(datasets_, cached->Serialize().value()));
  const std::vector<int64_t> first_order = Numbers(copy);
  EXPECT_NE(first_order, second_order);
  EXPECT_EQ(Numbers(copy), first_order);
  EXPECT_EQ(Numbers(cached), second_order);
}

TEST_F(Cache, GoesOnAfterARestoreAlsoWhereNothingIsKeptYet) {
  GoesOnFromEveryElement(
      [this] { return Ok(Ok(Ok(Range(8)->Shuffle(8, Seed(3)))->Cache())->Repeat(3)); });
  GoesOnFromEveryElement([this] {
    return Ok(Ok(Ok(Ok(Ok(Range(8)->Map(FailsAtTwo(&fails_)))->Shuffle(3, Seed(5)))->Cache())
                     ->Prefetch(2))
                  ->Repeat(2));
  });
}

TEST_F(Cache, KeepsAPassThatWasRestoredInItsMiddle) {
  const Ref<TestFunction> add = AddOne();
  const auto build = [&] { return Ok(Ok(Range(6)->Map(add))->Cache()); };
  const Ref<Iterator> iterator = Iterate(build());
  Take(*iterator, 4);
  const std::string state = Saved(*iterator);
  const Ref<Dataset> again = build();
  const Ref<Iterator> other = Iterate(again);
  RestoreInto(*other, state);
  EXPECT_THAT(All(*other), ElementsAre("5", "6"));
  const int64_t calls = add->calls;
  EXPECT_THAT(Numbers(again), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(add->calls, calls);
}

TEST_F(Cache, RestoresNothingWhereAnElementCannotBeMadeAgain) {
  fails_ = false;
  const auto build = [this] { return Ok(Ok(Range(6)->Map(FailsAtTwo(&fails_)))->Cache()); };
  const Ref<Iterator> iterator = Iterate(build());
  Take(*iterator, 4);
  const std::string state = Saved(*iterator);
  fails_ = true;
  const Ref<Iterator> other = Iterate(build());
  EXPECT_EQ(Next(*other), "0");
  const Status failed = other->Restore(state, CallOptions());
  EXPECT_THAT(std::string(failed.message()), HasSubstr("two is bad"));
  EXPECT_EQ(Next(*other), "1");
}

TEST_F(Cache, ChargesWhatItKeepsToTheEnvironmentUntilTheDatasetGoes) {
  const uint64_t before = environment_->memory().used_bytes();
  {
    const Ref<Dataset> cached = Ok(Range(10'000)->Cache());
    const Ref<Iterator> iterator = Iterate(cached);
    EXPECT_EQ(All(*iterator).size(), 10'000u);
    ASSERT_TRUE(iterator->Close(CallOptions()).ok());
    EXPECT_GE(environment_->memory().used_bytes() - before, 10'000 * sizeof(int64_t));
  }
  EXPECT_EQ(environment_->memory().used_bytes(), before);
}

TEST_F(Cache, LosesNothingWhenTheElementsDoNotFitInMemory) {
  const Ref<Dataset> cached = Ok(Range(3000)->Cache());
  const Ref<Iterator> iterator = Iterate(cached);
  const std::vector<std::string> some = Take(*iterator, 1000);
  environment_->memory().set_limit_bytes(environment_->memory().used_bytes() + 100);
  std::string refusal;
  int64_t given = 1000;
  for (std::string next = Next(*iterator); next != "."; next = Next(*iterator)) {
    if (next.front() == '!') {
      EXPECT_TRUE(refusal.empty());
      refusal = next;
      continue;
    }
    EXPECT_EQ(next, std::to_string(given++));
  }
  EXPECT_EQ(given, 3000);
  EXPECT_THAT(refusal, HasSubstr("goes on without: the elements do not fit in memory"));
  EXPECT_THAT(refusal, HasSubstr("filename"));
  environment_->memory().set_limit_bytes(0);
  EXPECT_EQ(Numbers(cached).size(), 3000u);
}

class FileCache : public Cache {
 protected:
  Disk& disk() { return environment_->disk(); }
  std::string At(const std::string& name) const { return folder_.Path(name); }
  std::vector<std::string> Files() { return disk().List(folder_.path()).value(); }

  const TempFolder folder_;
};

TEST_F(FileCache, IsUsedWhateverTheInputIs) {
  EXPECT_THAT(Numbers(Ok(Range(5)->Cache(At("kept")))), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Files(), ElementsAre("kept.cache"));
  const Ref<Dataset> other = Ok(Range(10)->Cache(At("kept")));
  EXPECT_THAT(Numbers(other), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Numbers(Ok(other->Repeat(2))), ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4));
  EXPECT_THAT(Numbers(Ok(Range(3)->Cache(At("apart")))), ElementsAre(0, 1, 2));
  ASSERT_TRUE(disk().Remove(At("kept.cache")).ok());
  EXPECT_THAT(Numbers(other), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(FileCache, KeepsTuplesByteStringsAndRowsOfAnyShape) {
  const auto tuples = [this](int64_t start) {
    return All(Ok(Ok(Bytes({"a", "", "bc"})->Enumerate(start))->Cache(At("tuples"))));
  };
  EXPECT_THAT(tuples(0), ElementsAre(R"((0, "a"))", R"((1, ""))", R"((2, "bc"))"));
  EXPECT_THAT(tuples(9), ElementsAre(R"((0, "a"))", R"((1, ""))", R"((2, "bc"))"));
  const Ref<Dataset> ragged = Ok(Ok(Range(1, 4)->Map(FillSelf()))->Cache(At("ragged")));
  EXPECT_THAT(All(ragged), ElementsAre("[1]", "[2 2]", "[3 3 3]"));
  EXPECT_THAT(All(ragged), ElementsAre("[1]", "[2 2]", "[3 3 3]"));
  EXPECT_THAT(Numbers(Ok(Range(0)->Cache(At("none")))), IsEmpty());
  EXPECT_THAT(Numbers(Ok(Range(0)->Cache(At("none")))), IsEmpty());
}

TEST_F(FileCache, APassThatIsGivenUpLeavesNothingBehind) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache(At("kept")));
  {
    const Ref<Iterator> iterator = Iterate(cached);
    EXPECT_EQ(Next(*iterator), "0");
    EXPECT_EQ(Files().size(), 2u);
    ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  }
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
}

TEST_F(FileCache, ASecondDatasetPassesThroughWhileAnotherWritesItAndReadsItFromThenOn) {
  const Ref<Iterator> writer = Iterate(Ok(PassesOfTens()->Cache(At("kept"))));
  EXPECT_EQ(Next(*writer), "0");
  const std::vector<std::string> files = Files();
  EXPECT_EQ(files.size(), 2u);
  const Ref<Dataset> other = Ok(PassesOfTens()->Cache(At("kept")));
  EXPECT_THAT(Numbers(other), ElementsAre(10, 11, 12));
  const Ref<Iterator> second = Iterate(Ok(other->Repeat(2)));
  EXPECT_EQ(Next(*second), "20");
  EXPECT_EQ(Files(), files);
  EXPECT_THAT(All(*writer), ElementsAre("1", "2"));
  // A pass that has begun is not changed in its middle.
  EXPECT_THAT(All(*second), ElementsAre("21", "22", "0", "1", "2"));
  EXPECT_THAT(Numbers(other), ElementsAre(0, 1, 2));
  EXPECT_THAT(Files(), ElementsAre("kept.cache"));
  EXPECT_EQ(tens_.starts, 3);
}

TEST_F(FileCache, WhoPassedThroughWritesWhenTheWriterHasGivenUp) {
  const Ref<Iterator> writer = Iterate(Ok(PassesOfTens()->Cache(At("kept"))));
  EXPECT_EQ(Next(*writer), "0");
  const Ref<Iterator> second = Iterate(Ok(Ok(PassesOfTens()->Cache(At("kept")))->Repeat(3)));
  EXPECT_EQ(Next(*second), "10");
  ASSERT_TRUE(writer->Close(CallOptions()).ok());
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(All(*second), ElementsAre("11", "12", "20", "21", "22", "20", "21", "22"));
  EXPECT_THAT(Files(), ElementsAre("kept.cache"));
}

TEST_F(FileCache, GoesOnFromAStateThatWasSavedWhilePassingThrough) {
  const auto build = [this] {
    return Ok(Ok(Ok(Range(5)->Shuffle(5, Seed(3)))->Cache(At("kept")))->Repeat(2));
  };
  const Ref<Iterator> writer = Iterate(Ok(Range(100, 103)->Cache(At("kept"))));
  EXPECT_EQ(Next(*writer), "100");
  const Ref<Iterator> passing = Iterate(build());
  Take(*passing, 2);
  const std::string state = Saved(*passing);
  const std::vector<std::string> rest = Take(*passing, 3);
  // While the other one still writes, and when it is complete: this pass goes on as it began.
  const Ref<Iterator> early = Iterate(build());
  RestoreInto(*early, state);
  EXPECT_EQ(Take(*early, 3), rest);
  EXPECT_THAT(All(*writer), ElementsAre("101", "102"));
  const Ref<Iterator> late = Iterate(build());
  RestoreInto(*late, state);
  EXPECT_EQ(Take(*late, 3), rest);
  for (const Ref<Iterator>& iterator : {passing, early, late}) {
    EXPECT_THAT(All(*iterator), ElementsAre("100", "101", "102"));
  }
}

TEST_F(FileCache, AStateSavedWhileWritingPassesThroughWhereAnotherWritesByNow) {
  const auto build = [this] { return Ok(Range(5)->Cache(At("kept"))); };
  std::string state;
  {
    const Ref<Iterator> writer = Iterate(build());
    Take(*writer, 2);
    state = Saved(*writer);
    ASSERT_TRUE(writer->Close(CallOptions()).ok());
  }
  const Ref<Iterator> other = Iterate(build());
  EXPECT_EQ(Next(*other), "0");
  const Ref<Iterator> restored = Iterate(build());
  RestoreInto(*restored, state);
  EXPECT_EQ(Next(*restored), "2");
  const Ref<Iterator> again = Iterate(build());
  RestoreInto(*again, Saved(*restored));
  EXPECT_THAT(All(*restored), ElementsAre("3", "4"));
  EXPECT_THAT(All(*again), ElementsAre("3", "4"));
  EXPECT_FALSE(disk().Exists(At("kept.cache")));
  EXPECT_THAT(All(*other), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Files(), ElementsAre("kept.cache"));
}

TEST_F(FileCache, IteratorsOfOneDatasetMayWriteItAtOnce) {
  const Ref<Dataset> cached = Ok(PassesOfTens()->Cache(At("kept")));
  const Ref<Iterator> first = Iterate(cached);
  const Ref<Iterator> second = Iterate(cached);
  EXPECT_EQ(Next(*first), "0");
  EXPECT_THAT(All(*second), ElementsAre("10", "11", "12"));
  EXPECT_THAT(All(*first), ElementsAre("1", "2"));
  EXPECT_THAT(Numbers(cached), ElementsAre(10, 11, 12));
  EXPECT_THAT(Files(), ElementsAre("kept.cache"));
}

TEST_F(FileCache, WhatADeadWriterLeftBehindIsNoObstacle) {
  ASSERT_TRUE(disk().WriteFile(At("kept.lock"), "process 1 on a host of old").ok());
  ASSERT_TRUE(disk().WriteFile(At("kept.cache.0123456789abcdef.tmp"), "half").ok());
  ASSERT_TRUE(disk().WriteFile(At("kept.cache2"), "another's").ok());
  EXPECT_THAT(Numbers(Ok(Range(3)->Cache(At("kept")))), ElementsAre(0, 1, 2));
  EXPECT_THAT(Files(), ElementsAre("kept.cache", "kept.cache2"));
}

TEST_F(FileCache, APassWithAFailedElementIsNotKept) {
  const Ref<Dataset> cached = Ok(Ok(Range(4)->Map(FailsAtTwo(&fails_)))->Cache(At("kept")));
  const Ref<Iterator> iterator = Iterate(cached);
  Take(*iterator, 2);
  EXPECT_THAT(Next(*iterator), HasSubstr("two is bad"));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(All(*iterator), ElementsAre("3"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FileCache, NamesTheFileAndThePlaceOfDamage) {
  const Ref<Dataset> cached = Ok(Range(9)->Cache(At("kept")));
  Numbers(cached);
  const auto first_failure = [&] {
    const Ref<Iterator> iterator = Iterate(cached);
    while (true) {
      const Result<Ref<Value>> element = iterator->Next(CallOptions());
      if (element.ok() && element.value()) continue;
      EXPECT_EQ(Next(*iterator), ".");
      return element.status();
    }
  };
  const std::string whole = disk().ReadFile(At("kept.cache")).value();
  const auto expect_data_loss = [&](std::string_view what) {
    const Status status = first_failure();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove the file")) << what;
    ASSERT_NE(status.FindDetail("file"), nullptr) << what;
    EXPECT_EQ(std::get<std::string>(status.FindDetail("file")->value), At("kept.cache")) << what;
    EXPECT_NE(status.FindDetail("offset"), nullptr) << what;
  };
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  ASSERT_TRUE(disk().WriteFile(At("kept.cache"), flipped).ok());
  expect_data_loss("a flipped bit");
  const size_t last_record = TfRecordFrame("four").size();
  ASSERT_TRUE(disk().WriteFile(At("kept.cache"), whole.substr(0, whole.size() - last_record)).ok());
  expect_data_loss("no last record");
  ASSERT_TRUE(disk().WriteFile(At("kept.cache"), whole.substr(0, whole.size() - 3)).ok());
  expect_data_loss("a torn record");
}

TEST_F(FileCache, RefusesAFileThatIsNoCacheOrHasOtherElements) {
  Numbers(Ok(Range(3)->Cache(At("kept"))));
  const Status other =
      Iterate(Ok(Bytes({"a"})->Cache(At("kept"))))->Next(CallOptions()).status();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("kept.cache\" keeps elements of int64[], and this dataset has bytes[]"));
  ASSERT_TRUE(disk().WriteFile(At("kept.cache"), "").ok());
  EXPECT_EQ(Iterate(Ok(Range(3)->Cache(At("kept"))))->Next(CallOptions()).status().code(),
            StatusCode::kDataLoss);
}

TEST_F(FileCache, ChecksElementsWhereTheFileDoesNotSayEnough) {
  // The file is written where only an element shows what elements are.
  const Ref<TestFunction> ragged =
      MakeFunction([](Context&, const Value& in, void*) -> Result<Ref<Value>> {
        TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out,
                               Tensor::Create(DType::kInt64, Shape({NumberIn(in)})));
        return Value::OfTensor(std::move(out));
      });
  EXPECT_THAT(All(Ok(Ok(Range(2)->Map(ragged))->Cache(At("kept")))), ElementsAre("[]", "[0]"));
  EXPECT_THAT(All(Ok(Ok(Range(1, 3)->Map(FillSelf()))->Cache(At("kept")))),
              ElementsAre("[]", "[0]"));
  const Status other = Iterate(Ok(Range(3)->Cache(At("kept"))))->Next(CallOptions()).status();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
}

TEST_F(FileCache, SaysWhatIsWrongWithAFolderThatIsNotThere) {
  const Status status =
      Iterate(Ok(Range(3)->Cache(At("no/kept"))))->Next(CallOptions()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "cache: cannot write file \"" + At("no/kept.cache") +
                "\": its folder does not exist; make the folder first");
}

TEST_F(Cache, LosesNothingWhenTheDiskIsFullAndNamesTheFile) {
  FullDisk disk(300'000);
  const Ref<Environment> environment = MakeRef<DiskEnvironment>(environment_, &disk);
  {
    const Ref<DatasetEnvironment> datasets = DatasetEnvironment::Create(environment, functions_);
    const Ref<Iterator> iterator =
        Iterate(Ok(Ok(Dataset::Range(datasets, 0, 60'000, 1))->Cache("/kept")));
    Slab slab;
    int64_t rows = 0;
    std::vector<Status> failures;
    while (!slab.end) {
      ASSERT_TRUE(iterator->NextSlab(100, CallOptions(), &slab).ok());
      if (!slab.status.ok()) failures.push_back(slab.status);
      if (slab.rows > 0) {
        EXPECT_EQ(NumberIn(*slab.Row(0).value()), rows);
      }
      rows += slab.rows;
    }
    EXPECT_EQ(rows, 60'000);
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(failures[0].message(),
              "cache: this pass cannot be kept, and goes on without: cannot write /kept.cache: No "
              "space left on device");
    EXPECT_THAT(disk.List("/").value(), IsEmpty());
    ASSERT_TRUE(iterator->Close(CallOptions()).ok());
  }
  ASSERT_TRUE(environment->Shutdown(CallOptions()).ok());
}

TEST_F(FileCache, RefusesElementsThatAFileCannotHold) {
  const Ref<Dataset> optionals = Ok(Dataset::FromTensors(
      datasets_, Value::OfLeaf(Leaf::OfOptional(Number(1)))));
  const Status status = optionals->Cache(At("kept")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cache in memory"));
  EXPECT_EQ(All(Ok(optionals->Cache())).size(), 1u);
}

TEST_F(FileCache, GoesOnAfterARestoreWithAndWithoutItsFile) {
  GoesOnFromEveryElement(
      [this] { return Ok(Ok(Range(6)->Shuffle(6, Seed(3)))->Cache(At("kept"))); });
  // Saved while the file is being written, restored where there is none.
  const Ref<Dataset> cached = Ok(Ok(Range(6)->Shuffle(6, Seed(3)))->Cache(At("other")));
  const Ref<Iterator> iterator = Iterate(cached);
  const std::string first = Next(*iterator);
  const std::string state = Saved(*iterator);
  const std::string second = Next(*iterator);
  RestoreInto(*iterator, state);
  EXPECT_EQ(Next(*iterator), second);
  EXPECT_EQ(All(*iterator).size(), 4u);
  const Ref<Iterator> reader = Iterate(cached);
  EXPECT_EQ(Next(*reader), first);
  const std::string reading = Saved(*reader);
  RestoreInto(*reader, reading);
  EXPECT_EQ(Next(*reader), second);
  ASSERT_TRUE(disk().Remove(At("other.cache")).ok());
  EXPECT_EQ(reader->Restore(reading, CallOptions()).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tutti
