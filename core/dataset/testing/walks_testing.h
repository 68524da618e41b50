// What every operation owes whoever iterates, as one table: positions that are saved and gone on
// from, elements that are passed over, calls that are cancelled.
#ifndef TUTTI_CORE_DATASET_TESTING_WALKS_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_WALKS_TESTING_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/base/call_options.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {

class WalksTest : public DatasetTest {
 protected:
  using Outcomes = std::vector<std::string>;

  // Elements, failures and, last, the end; of a dataset without an end the first `most`.
  static Outcomes OutcomesOf(Iterator& iterator, size_t most) {
    Outcomes all;
    while (all.size() < most && (all.empty() || all.back() != ".")) all.push_back(Next(iterator));
    return all;
  }

  // Walks that are broken off behind so many outcomes each, saved, and gone on with by another
  // iterator over a dataset that was built again, give what one walk gives.
  static void ExpectGoesOnFromWhereverItWasSaved(const std::function<Ref<Dataset>()>& build,
                                                 const Outcomes& expected) {
    const size_t all = expected.size();
    struct Walk {
      const char* name;
      std::vector<size_t> breaks;
    };
    std::vector<Walk> walks = {{"unused", {0}},
                               {"middle", {all / 2}},
                               {"exhausted", {all}},
                               {"ten breaks", {}},
                               {"second resume", {all / 2, 0}}};
    for (size_t i = 0; i < 10; ++i) walks[3].breaks.push_back(i % 3 == 2 ? 2 : i % 3);
    for (const Walk& walk : walks) {
      SCOPED_TRACE(walk.name);
      Ref<Iterator> iterator = Iterate(build());
      Outcomes found;
      for (const size_t more : walk.breaks) {
        const size_t wanted = std::min(found.size() + more, all);
        while (found.size() < wanted) found.push_back(Next(*iterator));
        const Result<std::string> state = iterator->Save(CallOptions());
        ASSERT_TRUE(state.ok()) << state.status().ToString();
        Close(*iterator);
        iterator = Iterate(build());
        const Status restored = iterator->Restore(*state, CallOptions());
        ASSERT_TRUE(restored.ok()) << restored.ToString();
      }
      while (found.size() < all) found.push_back(Next(*iterator));
      EXPECT_EQ(found, expected);
      if (expected.back() == ".") {
        EXPECT_EQ(Next(*iterator), ".");
      }
      Close(*iterator);
    }
    // One state twice, by an iterator that is somewhere else.
    Ref<Iterator> iterator = Iterate(build());
    Outcomes rest(expected.begin() + static_cast<std::ptrdiff_t>(all / 2), expected.end());
    for (size_t i = 0; i < all / 2; ++i) Next(*iterator);
    const std::string state = iterator->Save(CallOptions()).value();
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(OutcomesOf(*iterator, rest.size()), rest);
      const Status restored = iterator->Restore(state, CallOptions());
      ASSERT_TRUE(restored.ok()) << restored.ToString();
    }
    Close(*iterator);
  }

  // Where nothing fails: what is left behind elements that are passed over.
  static void ExpectSkips(const Ref<Dataset>& dataset, const Outcomes& expected) {
    const bool ends = expected.back() == ".";
    for (size_t count = 0; count < expected.size() + (ends ? 1 : 0); ++count) {
      SCOPED_TRACE(count);
      const Ref<Iterator> iterator = Iterate(Ok(dataset->Skip(static_cast<int64_t>(count))));
      const auto passed = static_cast<std::ptrdiff_t>(std::min(count, expected.size()));
      Outcomes rest(expected.begin() + passed, expected.end());
      if (rest.empty()) rest = {"."};
      EXPECT_EQ(OutcomesOf(*iterator, rest.size()), rest);
      Close(*iterator);
    }
  }

  // Of a dataset whose elements a function makes, which looks at whether its call was cancelled:
  // calls that are cancelled and calls that are not, by turns, give the same.
  static void ExpectCancelledCallsLoseNothing(const Ref<Dataset>& dataset,
                                              const Outcomes& expected) {
    const Ref<Iterator> iterator = Iterate(dataset);
    const Ref<Cancellation> cancellation = MakeRef<Cancellation>();
    cancellation->Cancel();
    Outcomes found;
    while (found.size() < expected.size()) {
      // That there are no more may be known without another call of the function.
      if (expected[found.size()] == ".") {
        found.push_back(Next(*iterator));
        continue;
      }
      const Status ended =
          iterator->Next(CallOptions{Deadline::Infinite(), cancellation.get()}).status();
      EXPECT_EQ(ended.code(), StatusCode::kCancelled) << ended.ToString();
      found.push_back(Next(*iterator));
    }
    EXPECT_EQ(found, expected);
    Close(*iterator);
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_WALKS_TESTING_H_
