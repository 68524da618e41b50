// Iterators when memory runs out, in every allocation of every call: an error, nothing left out
// silently, and close returns.

#include "core/base/scarce_memory_testing.h"

#include <optional>
#include <string>
#include <vector>

#include "core/dataset/testing/dataset_testing.h"

namespace tutti {
namespace {

// A row behind whose making the thread that made it has so little memory, for good.
struct Shortage {
  int64_t row = 0;
  int allocations = 0;
};
Ref<TestFunction> SpendsMemory(Shortage* shortage) {
  return MakeFunction(
      [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
        const auto* shortage = static_cast<const Shortage*>(data);
        static thread_local std::optional<ScarceMemory> scarce;
        if (NumberIn(in) == shortage->row) scarce.emplace(shortage->allocations);
        return Number(NumberIn(in));
      },
      {.data = shortage, .spec = Int64Scalar()});
}

class ScarceMemoryTest : public DatasetTest {
 protected:
  // None gives rows without others that were lost: there are no functions.
  std::vector<Ref<Dataset>> Plain() {
    const auto in = [](const Ref<Dataset>& dataset) {
      return Value::OfLeaf(Leaf(LeafKind::kDataset, dataset));
    };
    const Ref<Dataset> shuffled = Ok(Range(40)->Shuffle(10, Seed(1)));
    return {
        Range(9),
        Ok(shuffled->Batch(4)),
        Ok(Ok(shuffled->Prefetch(3))->Batch(4)),
        Ok(Ok(shuffled->Repeat(2))->Cache()),
        Ok(Dataset::Zip(datasets_, *Value::Tuple({in(Ok(Range(20)->Batch(2))), in(shuffled)}))),
        Ok(Ok(Range(9)->Concatenate(*Range(7)))->Enumerate(3)),
        Ok(Ok(Ok(Range(30)->Shard(2, 1))->Skip(2))->Unique()),
    };
  }
  std::vector<Ref<Dataset>> WithFunctions() {
    return {
        Ok(Ok(Range(30)->Map(AddOne(nullptr), Parallel(3)))->Batch(5)),
        Ok(Ok(Range(30)->Map(AddOne(nullptr)))->Prefetch(2)),
    };
  }
  std::vector<Ref<Dataset>> AllDatasets() {
    std::vector<Ref<Dataset>> all = Plain();
    for (Ref<Dataset>& dataset : WithFunctions()) all.push_back(std::move(dataset));
    return all;
  }

  CallOptions Hang() const {
    return CallOptions::WithTimeout(environment_->clock(), 60 * kSecondNs);
  }

  // Calls `body` with so little memory; whether there was too little.
  template <typename Body>
  static bool RunsShort(int allocations, const Body& body) {
    const ScarceMemory scarce(allocations);
    try {
      body();
    } catch (const std::bad_alloc&) {
    }
    return ScarceMemory::HasRefused();
  }

  // To the end, or to where it goes on no more.
  std::vector<std::string> Rest(Iterator& iterator) {
    std::vector<std::string> rest;
    for (int failures = 0; failures < 3;) {
      const Result<Ref<Value>> element = iterator.Next(Hang());
      if (!element.ok()) {
        EXPECT_EQ(element.status().code(), StatusCode::kResourceExhausted)
            << element.status().ToString();
        ++failures;
      } else if (element.value()) {
        rest.push_back(element.value()->ToString());
      } else {
        break;
      }
    }
    return rest;
  }
};

// Whether `rest` is how `all` goes on behind the first `passed`, as far as it goes.
bool GoesOn(const std::vector<std::string>& all, size_t passed,
            const std::vector<std::string>& rest) {
  return passed + rest.size() <= all.size() &&
         std::equal(rest.begin(), rest.end(), all.begin() + static_cast<std::ptrdiff_t>(passed));
}

TEST_F(ScarceMemoryTest, NextFailsAndLeavesNothingOut) {
  for (const Ref<Dataset>& dataset : Plain()) {
    SCOPED_TRACE(dataset->Explain());
    std::vector<std::string> all;
    std::string start;
    {
      const Ref<Iterator> iterator = Iterate(dataset);
      start = iterator->Save(Hang()).value();
      all = All(*iterator);
    }
    ForEachShortage([&](int allocations) {
      const Ref<Iterator> iterator = Iterate(dataset);
      // The order of the iterator that was saved.
      EXPECT_TRUE(iterator->Restore(start, Hang()).ok());
      EXPECT_EQ(Next(*iterator), all[0]);
      Ref<Value> element;
      const bool was_short = RunsShort(allocations, [&] {
        Result<Ref<Value>> next = iterator->Next(Hang());
        if (next.ok()) element = std::move(next).value();
      });
      if (element) {
        EXPECT_EQ(element->ToString(), all[1]) << allocations;
      }
      EXPECT_TRUE(GoesOn(all, element ? 2 : 1, Rest(*iterator))) << allocations;
      EXPECT_TRUE(iterator->Close(Hang()).ok());
      return was_short && !HasFailure();
    });
  }
}

TEST_F(ScarceMemoryTest, NextOfSlabsFailsAndLeavesNothingOut) {
  for (const Ref<Dataset>& dataset : {Range(9), Ok(Range(40)->Shuffle(10, Seed(1, false)))}) {
    const std::vector<std::string> all = All(dataset);
    ForEachShortage([&](int allocations) {
      const Ref<Iterator> iterator = Iterate(dataset);
      Slab slab;
      int64_t passed = 0;
      const bool was_short = RunsShort(allocations, [&] {
        if (iterator->NextSlab(7, Hang(), &slab).ok()) passed = slab.rows;
      });
      EXPECT_TRUE(GoesOn(all, static_cast<size_t>(passed), Rest(*iterator))) << allocations;
      EXPECT_TRUE(iterator->Close(Hang()).ok());
      return was_short && !HasFailure();
    });
  }
}

TEST_F(ScarceMemoryTest, WithFunctionsNextFailsAndIteratorsClose) {
  for (const Ref<Dataset>& dataset : WithFunctions()) {
    ForEachShortage([&](int allocations) {
      const Ref<Iterator> iterator = Iterate(dataset);
      Next(*iterator);
      const bool was_short =
          RunsShort(allocations, [&] { (void)iterator->Next(Hang()); });
      Rest(*iterator);
      EXPECT_TRUE(iterator->Close(Hang()).ok());
      return was_short && !HasFailure();
    });
  }
}

TEST_F(ScarceMemoryTest, SaveAndRestoreFailAndLeaveTheIteratorWhereItIs) {
  for (const Ref<Dataset>& dataset : AllDatasets()) {
    SCOPED_TRACE(dataset->Explain());
    ForEachShortage([&](int allocations) {
      const Ref<Iterator> iterator = Iterate(dataset);
      const Ref<Iterator> other = Iterate(dataset);
      Take(*iterator, 2);
      const std::string state = iterator->Save(Hang()).value();
      const bool saving = RunsShort(allocations, [&] { (void)iterator->Save(Hang()); });
      bool restored = false;
      const bool restoring = RunsShort(
          allocations, [&] { restored = other->Restore(state, Hang()).ok(); });
      const std::vector<std::string> rest = Rest(*iterator);
      if (!restored) {
        EXPECT_TRUE(other->Restore(state, Hang()).ok()) << allocations;
      }
      EXPECT_EQ(Rest(*other), rest) << allocations;
      EXPECT_TRUE(iterator->Close(Hang()).ok());
      EXPECT_TRUE(other->Close(Hang()).ok());
      return (saving || restoring) && !HasFailure();
    });
  }
}

TEST_F(ScarceMemoryTest, MakingFailsAndLeavesNothingBehind) {
  for (const Ref<Dataset>& dataset : AllDatasets()) {
    ForEachShortage([&](int allocations) {
      return RunsShort(allocations,
                       [&] { (void)Iterator::Create(dataset, {}, Hang()); }) &&
             !HasFailure();
    });
  }
  EXPECT_TRUE(environment_->Shutdown(Hang()).ok());
}

TEST_F(ScarceMemoryTest, CloseThatFailsIsCalledAgain) {
  for (const Ref<Dataset>& dataset : AllDatasets()) {
    ForEachShortage([&](int allocations) {
      const Ref<Iterator> iterator = Iterate(dataset);
      Take(*iterator, 2);
      const bool was_short =
          RunsShort(allocations, [&] { (void)iterator->Close(Hang()); });
      EXPECT_TRUE(iterator->Close(Hang()).ok());
      return was_short && !HasFailure();
    });
  }
}

TEST_F(ScarceMemoryTest, ReleasedIteratorsAreClosedAllTheSame) {
  const Ref<Dataset> dataset = Ok(Range(30)->Prefetch(2));
  ForEachShortage([&](int allocations) {
    Ref<Iterator> iterator = Iterate(dataset);
    Next(*iterator);
    return RunsShort(allocations, [&] { iterator.reset(); }) && !HasFailure();
  });
  EXPECT_TRUE(environment_->Shutdown(Hang()).ok());
}

TEST_F(ScarceMemoryTest, AThreadOfPrefetchHandsItOn) {
  if (!kMemoryCanBeScarce) GTEST_SKIP() << "ThreadSanitizer keeps its own operator new";
  Shortage shortage{3, 0};
  for (; shortage.allocations < 60; ++shortage.allocations) {
    const Ref<Iterator> iterator =
        Iterate(Ok(Ok(Range(30)->Map(SpendsMemory(&shortage)))->Prefetch(2)));
    std::vector<std::string> elements = Rest(*iterator);
    EXPECT_GE(elements.size(), 3u);
    EXPECT_LT(elements.size(), 30u);
    EXPECT_TRUE(iterator->Close(Hang()).ok());
  }
}

TEST_F(ScarceMemoryTest, AThreadOfAParallelMapHandsItOn) {
  if (!kMemoryCanBeScarce) GTEST_SKIP() << "ThreadSanitizer keeps its own operator new";
  Shortage shortage{3, 0};
  for (; shortage.allocations < 20; ++shortage.allocations) {
    // On the thread of a prefetch, so that this one keeps its memory.
    const Ref<Iterator> iterator = Iterate(Ok(
        Ok(Ok(Range(30)->Map(SpendsMemory(&shortage), Parallel(3)))->Batch(6))->Prefetch(1)));
    Rest(*iterator);
    EXPECT_TRUE(iterator->Close(Hang()).ok());
  }
}

}  // namespace
}  // namespace tutti
