// What is made before its turn: elements that Next pulls many at once, and visits of interleave
// that are woven into slabs. None of it may show but in the time that it takes.
#include <gmock/gmock.h>

#include <random>

#include "core/dataset/expression/expression_function.h"
#include "core/dataset/testing/op_walks_testing.h"

namespace tutti {
namespace {

using Lines = std::vector<std::string>;

class ElementsAheadTest : public OpWalksTest {
 protected:
  // x -> 1000 // (x - hole), which fails at the hole; no function of the host.
  static Ref<Function> FailsAt(int64_t hole) {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(DType::kInt64, Shape())).value();
    const int64_t x = trace->Parameter(0).value();
    const int64_t place = trace->Constant(Tensor::Scalar(hole), false).value();
    const int64_t thousand = trace->Constant(Tensor::Scalar(int64_t{1000}), false).value();
    const int64_t less = trace->Apply("subtract", {{x, place}}, {}).value();
    const int64_t result = trace->Apply("floor_divide", {{thousand, less}}, {}).value();
    return MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()),
                                  {{result}})
        .value();
  }
  static Lines QuotientsOf(int64_t count, int64_t hole) {
    Lines texts;
    for (int64_t x = 0; x < count; ++x) {
      const int64_t d = x - hole;
      if (d == 0) {
        texts.push_back("!the divisor is zero");
        continue;
      }
      texts.push_back(std::to_string(1000 / d - (1000 % d != 0 && d < 0 ? 1 : 0)));
    }
    return texts;
  }
  static Lines NumbersFrom(int64_t start, int64_t stop, int64_t step = 1) {
    Lines texts;
    for (int64_t x = start; x < stop; x += step) texts.push_back(std::to_string(x));
    return texts;
  }
  // What a slab has: its rows, then the failure behind them.
  static void Append(const Slab& slab, Lines* texts) {
    for (int64_t i = 0; i < slab.rows; ++i) texts->push_back(slab.Row(i).value()->ToString());
    if (!slab.status.ok()) texts->push_back("!" + std::string(slab.status.message()));
  }
};

TEST_F(ElementsAheadTest, WalksAreWhatTheyAreOneByOne) {
  ExpectAllWalks({
      {"range", [&] { return Range(90); }, NumbersFrom(0, 90)},
      {"strided", [&] { return Ok(Range(200)->Shard(2, 1)); }, NumbersFrom(1, 200, 2)},
      {"a failure", [&] { return Ok(Range(70)->Map(FailsAt(41))); }, QuotientsOf(70, 41)},
      {"a failure at once", [&] { return Ok(Range(40)->Map(FailsAt(0))); }, QuotientsOf(40, 0)},
      {"unbatch", [&] { return Ok(Ok(Range(60)->Batch(7))->Unbatch()); }, NumbersFrom(0, 60)},
      {"twice", [&] { return Ok(Range(30)->Repeat(2)); },
       [] {
         Lines twice = NumbersFrom(0, 30);
         const Lines again = NumbersFrom(0, 30);
         twice.insert(twice.end(), again.begin(), again.end());
         return twice;
       }()},
  });
}

TEST_F(ElementsAheadTest, ShufflesAndBatchesGoOnFromWhereverTheyWereSaved) {
  const Ref<Dataset> dataset = Ok(Ok(Range(900)->Shuffle(50, Seed(3, false)))->Batch(4));
  // One at a time: nothing is pulled ahead of slabs of one row.
  Lines expected;
  const Ref<Iterator> alone = Iterate(dataset);
  for (bool end = false; !end;) {
    Slab slab;
    ASSERT_TRUE(alone->NextSlab(1, CallOptions(), &slab).ok());
    Append(slab, &expected);
    end = slab.end;
  }
  ASSERT_EQ(expected.size(), 225u);
  for (const size_t place : {0u, 1u, 15u, 16u, 17u, 18u, 20u, 33u, 100u, 101u, 223u, 224u}) {
    SCOPED_TRACE(place);
    const Ref<Iterator> first = Iterate(dataset);
    Lines found = Take(*first, static_cast<int64_t>(place));
    const Result<std::string> state = first->Save(CallOptions());
    ASSERT_TRUE(state.ok()) << state.status().ToString();
    const Ref<Iterator> second = Iterate(dataset);
    ASSERT_TRUE(second->Restore(*state, CallOptions()).ok());
    // And the first one goes on as if nothing had been asked.
    Lines both = found;
    for (const std::string& text : All(*first)) both.push_back(text);
    for (const std::string& text : All(*second)) found.push_back(text);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(both, expected);
  }
}

TEST_F(ElementsAheadTest, SlabsGoOnBehindWhatNextHasGiven) {
  const Ref<Iterator> iterator = Iterate(Range(300));
  Lines found = Take(*iterator, 21);  // some are there already
  while (true) {
    Slab slab;
    ASSERT_TRUE(iterator->NextSlab(40, CallOptions(), &slab).ok());
    ASSERT_LE(slab.rows, 40);
    Append(slab, &found);
    if (slab.end) break;
    found.push_back(Next(*iterator));
    if (found.back() == ".") {
      found.pop_back();
      break;
    }
  }
  EXPECT_EQ(found, NumbersFrom(0, 300));
}

TEST_F(ElementsAheadTest, FunctionsOfTheHostAreCalledForWhatIsAskedForOnly) {
  const Ref<TestFunction> function = AddOne();
  const Ref<Iterator> iterator = Iterate(Ok(Range(1000)->Map(function)));
  EXPECT_EQ(Take(*iterator, 100), NumbersFrom(1, 101));
  EXPECT_EQ(function->calls, 100);
}

TEST_F(ElementsAheadTest, LargeElementsAreNot) {
  const Ref<Dataset> large = Ok(Range(1 << 20)->Batch(8192));
  const Ref<Iterator> iterator = Iterate(large);
  ASSERT_EQ(Take(*iterator, 64).size(), 64u);
  const Result<std::string> state = iterator->Save(CallOptions());
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  EXPECT_LT(state->size(), 8192u * sizeof(int64_t));
}

// ---- interleave


class WovenVisits : public ElementsAheadTest {
 protected:
  // Datasets of lengths that differ, some empty, some with a failure.
  Ref<Dataset> Interleaved(int64_t count, int64_t cycle, int64_t block) {
    const Ref<Function> function = MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          auto* const self = static_cast<WovenVisits*>(data);
          const int64_t x = NumberIn(in);
          const int64_t length = x * 37 % 23;
          Ref<Dataset> dataset = self->Range(100 * x, 100 * x + length);
          if (x % 3 == 1) dataset = Ok(dataset->Map(FailsAt(100 * x + 5)));
          if (x % 5 == 4) dataset = Ok(dataset->Map(AddOne()));  // not before its turn
          return Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(dataset)));
        },
        {.data = this, .name = "give"});
    return Ok(Range(count)->Interleave(function, cycle, block));
  }
  // Of batches of two and of three, in turn.
  Ref<Dataset> Batches() {
    const Ref<Function> function = MakeFunction(
        [](Context&, const Value& in, void* data) -> Result<Ref<Value>> {
          auto* const self = static_cast<WovenVisits*>(data);
          return Value::OfLeaf(Leaf(LeafKind::kDataset,
                                    Ok(self->Range(12)->Batch(2 + NumberIn(in) % 2))));
        },
        {.data = this, .name = "give"});
    return Ok(Range(6)->Interleave(function, 3, 1));
  }
  static Lines OneByOne(const Ref<Dataset>& dataset) {
    const Ref<Iterator> iterator = Iterate(dataset);
    Lines texts;
    for (bool end = false; !end;) {
      Slab slab;
      EXPECT_TRUE(iterator->NextSlab(1, CallOptions(), &slab).ok());
      Append(slab, &texts);
      end = slab.end;
    }
    return texts;
  }
};

TEST_F(WovenVisits, SlabsOfAnySizeHaveTheSameRowsAndFailures) {
  for (const int64_t cycle : {1, 2, 3, 10}) {
    for (const int64_t block : {1, 2, 5, 16}) {
      const Ref<Dataset> dataset = Interleaved(40, cycle, block);
      const Lines expected = OneByOne(dataset);
      for (const int64_t most : {2, 7, 64, 4096}) {
        SCOPED_TRACE(Format("cycle {}, block {}, slabs of {}", cycle, block, most));
        const Ref<Iterator> iterator = Iterate(dataset);
        Lines found;
        for (bool end = false; !end;) {
          Slab slab;
          ASSERT_TRUE(iterator->NextSlab(most, CallOptions(), &slab).ok());
          ASSERT_LE(slab.rows, most);
          ASSERT_TRUE(slab.rows > 0 || !slab.status.ok() || slab.end);
          Append(slab, &found);
          end = slab.end;
        }
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST_F(WovenVisits, PositionsHoldWhatWasReadBeforeItsTurn) {
  const uint32_t seed = 20;
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const int64_t cycle = 1 + static_cast<int64_t>(random() % 6);
    const int64_t block = 1 + static_cast<int64_t>(random() % 6);
    SCOPED_TRACE(Format("seed {}, round {}: cycle {}, block {}", seed, round, cycle, block));
    const Ref<Dataset> dataset = Interleaved(25, cycle, block);
    const Lines expected = OneByOne(dataset);
    Ref<Iterator> iterator = Iterate(dataset);
    Lines found;
    for (bool end = false; !end;) {
      Slab slab;
      const auto most = static_cast<int64_t>(1 + random() % 40);
      ASSERT_TRUE(iterator->NextSlab(most, CallOptions(), &slab).ok());
      Append(slab, &found);
      end = slab.end;
      if (random() % 3 != 0) continue;
      const Result<std::string> state = iterator->Save(CallOptions());
      ASSERT_TRUE(state.ok()) << state.status().ToString();
      Ref<Iterator> next = Iterate(dataset);
      ASSERT_TRUE(next->Restore(*state, CallOptions()).ok());
      Close(*iterator);
      iterator = std::move(next);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST_F(WovenVisits, RowsOfDifferentShapesStayApart) {
  const Ref<Dataset> dataset = Batches();
  const Lines expected = OneByOne(dataset);
  const Ref<Iterator> iterator = Iterate(dataset);
  Slab slab;
  Lines found;
  for (bool end = false; !end;) {
    slab.Clear();
    ASSERT_TRUE(iterator->NextSlab(100, CallOptions(), &slab).ok());
    Append(slab, &found);
    end = slab.end;
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace tutti
